// The compilers behind a conformance run: NVRTC and a folder of builds for GPUs, the tile compiler for the CPU.
#pragma once

#include <memory>
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

class Toolchain {
 public:
  explicit Toolchain(const Options& options);
  ~Toolchain();
  Toolchain(const Toolchain&) = delete;

  /// Null without a tile compiler.
  const HostLoader* hostLoader() const;
  /// The toolchain must outlive the function.
  Build build();
  /// Compiles what the folder of builds lacks for these cases on options.target. Messages go to stderr.
  Result<void> fill(std::span<const Case> cases);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tilewright::conformance
