#include "tests/conformance/toolchain.h"

#include <cstdio>
#include <map>
#include <set>

#include "compiler/build_all.h"
#include "compiler/nvrtc/nvrtc_compiler.h"
#include "tests/gpu/cubin_cache.h"

namespace tilewright::conformance {
namespace {

/// A request's identity within one run.
std::string keyOf(const BuildRequest& request) {
  return buildKey(request, "");
}

}  // namespace

struct Toolchain::State {
  Options options;
  Result<TileTools> tile = std::unexpected(Error{ErrorCode::kUnsupported, "not opened"});
  Result<std::unique_ptr<NvrtcCompiler>> nvrtc = std::unexpected(Error{ErrorCode::kUnavailable, "not opened"});
  std::optional<probe::CubinCache> cache;
  std::map<std::string, Binary> built;

  Result<const Compiler*> compilerFor(SourceKind kind) const {
    if (kind == SourceKind::kCuda) {
      if (!nvrtc) return std::unexpected(nvrtc.error());
      return nvrtc->get();
    }
    if (!tile) return std::unexpected(tile.error());
    return tile->compiler.get();
  }

  /// What was built before, in this run or into the folder.
  Result<const Binary*> find(const BuildRequest& request) {
    const std::string key = keyOf(request);
    if (const auto found = built.find(key); found != built.end()) return &found->second;
    if (request.kind == SourceKind::kCuda && cache) {
      if (std::optional<Binary> binary = TW_TRY(cache->find(request))) return &(built[key] = *std::move(binary));
    }
    return nullptr;
  }

  Result<void> keep(const BuildRequest& request, const Binary& binary) {
    built[keyOf(request)] = binary;
    if (request.kind == SourceKind::kCuda && cache) return cache->store(binary);
    return {};
  }

  Result<Binary> build(const BuildRequest& request) {
    if (const Binary* binary = TW_TRY(find(request))) return *binary;
    if (!options.build && request.kind == SourceKind::kCuda) {
      return fail(ErrorCode::kNotFound, "no build of {} {{{}}} in {}", request.templateId, describeParameters(request),
                  options.cubins.string());
    }
    Binary binary = TW_TRY(TW_TRY(compilerFor(request.kind))->build(request));
    TW_TRY(keep(request, binary));
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
  return [state = state_.get()](const BuildRequest& request) { return state->build(request); };
}

Result<void> Toolchain::prebuild(std::span<const Job> jobs, const DeviceInfo& device) {
  const Options& options = state_->options;
  if (!options.build) return {};
  const SourceCatalog sources =
      options.sources.empty() ? SourceCatalog() : TW_TRY(SourceCatalog::withOverrides(options.sources));
  std::map<SourceKind, std::vector<BuildRequest>> missing;
  std::set<std::string> seen;
  for (const auto& [kernelTemplate, each, units] : jobs) {
    const Problem problem = problemOf(*each);
    const DeviceInfo planned = withUnits(device, units);
    if (kernelTemplate->refuses(problem, planned)) continue;
    for (const Configuration& configuration : configurationsOf(*kernelTemplate, *each, planned, options.spread)) {
      for (BuildRequest& request : kernelTemplate->buildRequests(problem, planned, configuration, sources)) {
        if (!seen.insert(keyOf(request)).second || TW_TRY(state_->find(request)) != nullptr) continue;
        missing[request.kind].push_back(std::move(request));
      }
    }
  }
  Result<void> stored;
  for (const auto& [kind, requests] : missing) {
    const Result<const Compiler*> compiler = state_->compilerFor(kind);
    if (!compiler) return std::unexpected(compiler.error());
    std::fprintf(stderr, "compiling %zu kernels\n", requests.size());
    std::size_t done = 0;
    buildAll(**compiler, requests, 0, [&](std::size_t index, const Result<Binary>& binary) {
      constexpr std::size_t kLine = 50;
      if (++done % kLine == 0) std::fprintf(stderr, "%zu of %zu\n", done, requests.size());
      if (!binary) {
        std::fprintf(stderr, "%s {%s}: %s\n%s\n", requests[index].templateId.c_str(),
                     describeParameters(requests[index]).c_str(), binary.error().message.c_str(),
                     binary.error().log.c_str());
      } else if (stored) {
        stored = state_->keep(requests[index], *binary);
      }
      return stored.has_value();
    });
  }
  return stored;
}

}  // namespace tilewright::conformance
