// CUDA C++ to cubin through NVRTC. Needs neither a GPU nor a driver, and compiles for every SM that the library knows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/build_request.h"
#include "compiler/nvrtc/nvrtc_library.h"

namespace tilewright {

class NvrtcCompiler final : public Compiler {
 public:
  /// kUnavailable when no libnvrtc is found.
  static Result<std::unique_ptr<NvrtcCompiler>> open(const NvrtcOptions& options = {});

  /// CUDA sources for any "sm_<capability>" target; whether this NVRTC knows the capability shows in `build`.
  bool handles(SourceKind kind, std::string_view target) const override;
  /// "nvrtc 13.0.88".
  std::string identity() const override { return identity_; }
  /// Capabilities that this NVRTC compiles for, ascending: 75, 80, 86, ...
  const std::vector<int>& capabilities() const { return capabilities_; }

  /// A cubin whose kernels are the request's entries, in order, with the resources that the assembler reported.
  /// kCompile with the whole log in `Error::log` when the source is refused or lacks an entry; kUnsupported for a
  /// capability that this NVRTC does not know; kInvalidArgument for an option that would change the target or read
  /// files that are not in the request's key.
  Result<Binary> build(const BuildRequest& request) const override;

  /// The PTX text of the same source, for reading.
  Result<std::string> emitPtx(const BuildRequest& request) const;

 private:
  NvrtcCompiler(NvrtcLibrary library) : library_(std::move(library)) {}

  Result<void> readVersion();
  Result<std::vector<std::string>> optionsFor(const BuildRequest& request, std::string_view architecture) const;

  NvrtcLibrary library_;
  std::string identity_;
  std::vector<int> capabilities_;
  std::vector<std::string> commonOptions_;
};

}  // namespace tilewright
