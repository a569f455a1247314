// kernel_probe: builds, runs, checks and times single kernels, without the tuner, the dispatcher or a database.
//
// It is for whoever writes a kernel: one JSON line per job, with resources, verdict and times. Builds are kept in a
// folder, so that they can be made where there is no GPU and run where there is one:
//
//   kernel_probe attention.tma_sm90 -p
//   op=attention,q_heads=16,kv_heads=2,head_dim=128,q_len=512,kv_len=16384,causal=true
//       -c default -c tile_m=192,tile_n=80 --cubin-cache cubins --compile-only
//   kernel_probe --jobs jobs.txt --cubin-cache cubins --no-build --time --rest 300 --timeout 20
//
// Each job runs in a child process with a time limit: one that faults or hangs is reported and costs itself only.
// `cmake --build ... --target kernel_probe_bundle` gathers the program and the shared libraries it needs in one folder
// (build/.../gpu_bundle) that can be copied to a machine without them. Exit status: 0 if every job passed.
#include <cstdio>

#include "tests/gpu/probe_run.h"

namespace tilewright::probe {
namespace {

int runProbe(int argc, char** argv) {
  const Result<Options> options = parseOptions(argc, argv);
  if (!options) return std::fprintf(stderr, "%s\n", options.error().message.c_str()), 2;
  if (options->jobs.empty()) return 0;
  const Result<SourceCatalog> sources = options->sources.empty() ? Result<SourceCatalog>(SourceCatalog())
                                                                 : SourceCatalog::withOverrides(options->sources);
  if (!sources) return std::fprintf(stderr, "%s\n", sources.error().message.c_str()), 2;

  const auto lost = [&](int job, const std::string& reason) {
    const Job& each = options->jobs[static_cast<std::size_t>(job)];
    std::printf("%s\n", JsonValue::object({{"template", each.kernelTemplate->id()},
                                           {"job", job},
                                           {"config", each.configuration.text()},
                                           {"error", reason}})
                            .text()
                            .c_str());
  };

  // Builds use threads, which this process must not have: they too run in a child.
  if (!options->noBuild) {
    constexpr double kBuildSeconds = 3600;
    const auto build = [&](int) {
      Result<CubinCache> cache = CubinCache::open(options->cubinCache);
      const Result<void> built = cache ? buildMissing(*options, *sources, *cache) : std::unexpected(cache.error());
      if (!built) std::fprintf(stderr, "%s\n", built.error().message.c_str());
      return built ? JobEnd::kPassed : JobEnd::kFailed;
    };
    runIsolated(1, kBuildSeconds, build, lost);
  }
  const Result<CubinCache> cache = CubinCache::open(options->cubinCache);
  if (!cache) return std::fprintf(stderr, "%s\n", cache.error().message.c_str()), 2;
  Runner runner(*options, *sources, *cache);
  const int failed = runIsolated(
      static_cast<int>(options->jobs.size()), options->timeoutSeconds, [&](int job) { return runner.run(job); }, lost);
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tilewright::probe

int main(int argc, char** argv) {
  return tilewright::probe::runProbe(argc, argv);
}
