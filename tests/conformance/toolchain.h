// The compilers behind a conformance run: NVRTC and a folder of builds for GPUs, the tile compiler for the CPU.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tests/conformance/harness.h"

namespace tilewright::conformance {

/// The tile compiler and its loader. Two files define openTileTools: tile_tools.cpp for programs that link the tile
/// compiler, no_tile_tools.cpp for one that must run where LLVM is not.
struct TileTools {
  std::unique_ptr<Compiler> compiler;
  std::unique_ptr<HostLoader> loader;
};
Result<TileTools> openTileTools();

/// A template to be run on a case.
struct Job {
  const Template* kernelTemplate = nullptr;
  const Case* each = nullptr;
  int units = 0;  ///< SMs for which its plans are made; 0: the device's
};

class Toolchain {
 public:
  explicit Toolchain(const Options& options);
  ~Toolchain();
  Toolchain(const Toolchain&) = delete;

  /// Null without a tile compiler.
  const HostLoader* hostLoader() const;
  /// Finds what `prebuild` or an earlier run built, else compiles. The toolchain must outlive the function.
  Build build();
  /// Compiles what the jobs need on `device`, on all cores, and keeps it. A source that does not compile is reported on
  /// stderr; the error is that of storing.
  Result<void> prebuild(std::span<const Job> jobs, const DeviceInfo& device);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilewright::conformance
