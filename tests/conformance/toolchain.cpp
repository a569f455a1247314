#include "tests/conformance/toolchain.h"

#include <cstdio>
#include <set>

#include "compiler/build_all.h"
#include "compiler/nvrtc/nvrtc_compiler.h"
#include "tests/gpu/cubin_cache.h"

namespace tilewright::conformance {

struct Toolchain::State {
  Options options;
  Result<TileTools> tile = std::unexpected(Error{ErrorCode::kUnsupported, "not opened"});
  Result<std::unique_ptr<NvrtcCompiler>> nvrtc = std::unexpected(Error{ErrorCode::kUnavailable, "not opened"});
  std::optional<probe::CubinCache> cache;

  Result<Binary> buildCuda(const BuildRequest& request) {
    if (cache) {
      if (std::optional<Binary> binary = TW_TRY(cache->find(request))) return *std::move(binary);
    }
    if (!options.build) {
      return fail(ErrorCode::kNotFound, "no build of {} {{{}}} in {}", request.templateId, describeParameters(request),
                  options.cubins.string());
    }
    if (!nvrtc) return std::unexpected(nvrtc.error());
    Binary binary = TW_TRY((*nvrtc)->build(request));
    if (cache) TW_TRY(cache->store(binary));
    return binary;
  }
};

Toolchain::Toolchain(const Options& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->tile = openTileTools();
  if (options.build) state_->nvrtc = NvrtcCompiler::open({.library = options.nvrtc});
  if (options.cubins.empty()) return;
  if (auto cache = probe::CubinCache::open(options.cubins)) state_->cache = std::move(*cache);
  if (state_->cache && state_->nvrtc) state_->cache->prefer((*state_->nvrtc)->identity());
}

Toolchain::~Toolchain() = default;

const HostLoader* Toolchain::hostLoader() const {
  return state_->tile ? state_->tile->loader.get() : nullptr;
}

Build Toolchain::build() {
  return [state = state_.get()](const BuildRequest& request) -> Result<Binary> {
    if (request.kind == SourceKind::kCuda) return state->buildCuda(request);
    if (!state->tile) return std::unexpected(state->tile.error());
    return state->tile->compiler->build(request);
  };
}

Result<void> Toolchain::fill(std::span<const Case> cases) {
  if (!state_->nvrtc) return std::unexpected(state_->nvrtc.error());
  if (!state_->cache) return fail(ErrorCode::kIo, "cannot open the folder of builds");
  const NvrtcCompiler& compiler = **state_->nvrtc;
  const DeviceInfo device = TW_TRY(nominalDevice(state_->options.target));
  const SourceCatalog sources =
      state_->options.sources.empty() ? SourceCatalog() : TW_TRY(SourceCatalog::withOverrides(state_->options.sources));
  std::vector<BuildRequest> missing;
  std::set<std::string> seen;
  for (const Case& each : cases) {
    for (const Template* kernelTemplate : allTemplates()) {
      if (kernelTemplate->operation() != each.problem.operation) continue;
      const Problem problem = problemOf(each);
      if (kernelTemplate->refuses(problem, device)) continue;
      for (const Configuration& configuration :
           configurationsOf(*kernelTemplate, each, device, state_->options.spread)) {
        for (BuildRequest& request : kernelTemplate->buildRequests(problem, device, configuration, sources)) {
          if (request.kind != SourceKind::kCuda || !seen.insert(buildKey(request, "")).second) continue;
          if (!TW_TRY(state_->cache->find(request))) missing.push_back(std::move(request));
        }
      }
    }
  }
  Result<void> stored;
  std::size_t done = 0;
  buildAll(compiler, missing, 0, [&](std::size_t index, const Result<Binary>& binary) {
    std::fprintf(stderr, "[%zu/%zu] %s {%s}%s\n", ++done, missing.size(), missing[index].templateId.c_str(),
                 describeParameters(missing[index]).c_str(), binary ? "" : " FAILED");
    if (!binary) {
      std::fprintf(stderr, "%s\n%s\n", binary.error().message.c_str(), binary.error().log.c_str());
    } else if (stored) {
      stored = state_->cache->store(*binary);
    }
    return stored.has_value();
  });
  return stored;
}

}  // namespace tilewright::conformance
