#include "compiler/build_all.h"

#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for_each.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>

namespace tilewright {

std::vector<Result<Binary>> buildAll(const Compiler& compiler, std::span<const BuildRequest> requests, int jobs,
                                     const std::function<bool(std::size_t, const Result<Binary>&)>& onBuilt) {
  std::vector<Result<Binary>> results;
  for (const BuildRequest& request : requests) {
    results.push_back(fail(ErrorCode::kUnavailable, "building {} was cancelled", request.templateId));
  }
  std::vector<std::size_t> indices(requests.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  std::atomic<bool> cancelled = false;
  std::mutex reporting;

  // One task per request: builds take from milliseconds to a minute, so nothing may be chunked.
  const int cores = oneapi::tbb::info::default_concurrency();
  oneapi::tbb::task_arena arena(jobs > 0 ? std::min(jobs, cores) : cores);
  arena.execute([&] {
    oneapi::tbb::parallel_for_each(indices, [&](std::size_t index) {
      if (cancelled) return;
      results[index] = compiler.build(requests[index]);
      if (!onBuilt) return;
      const std::scoped_lock lock(reporting);
      if (!onBuilt(index, results[index])) cancelled = true;
    });
  });
  return results;
}

}  // namespace tilewright
