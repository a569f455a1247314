// Builds, runs, checks and times one job; the outcome is one JSON object.
#pragma once

#include <memory>
#include <optional>

#include "format/json_value.h"
#include "reference/check.h"
#include "reference/device_operands.h"
#include "runtime/device.h"
#include "templates/sources.h"
#include "tests/gpu/cubin_cache.h"
#include "tests/gpu/job_process.h"
#include "tests/gpu/probe_options.h"

namespace tilewright::probe {

/// Compiles what the cache lacks of all jobs, on all cores. A source that does not compile is reported on stderr, with
/// the log, and its jobs then find no build.
Result<void> buildMissing(const Options& options, const SourceCatalog& sources, CubinCache& cache);

class Runner {
 public:
  Runner(const Options& options, const SourceCatalog& sources, const CubinCache& cache)
      : options_(options), sources_(sources), cache_(cache) {}

  /// Prints the job's line.
  JobEnd run(int job);

 private:
  Result<void> runJob(const Job& job, JsonValue& line);
  Result<std::vector<Binary>> findBinaries(const Job& job, const DeviceInfo& device) const;
  Result<void> prepareOperands(const Job& job);
  Result<void> checkJob(const Job& job, const std::function<Result<void>(StreamHandle)>& enqueue,
                        const DeviceBuffer& workspace, std::size_t workspaceBytes, JsonValue& line);
  Result<void> timeJob(const Job& job, const std::function<Result<void>(StreamHandle)>& enqueue, JsonValue& line);

  const Options& options_;
  const SourceCatalog& sources_;
  const CubinCache& cache_;
  std::unique_ptr<Device> device_;

  // Of the last job's problem; jobs of one problem in a row share them.
  std::optional<Problem> problem_;
  std::optional<reference::HostOperands> host_;
  std::optional<reference::Expectation> expected_;
  std::optional<reference::DeviceOperands> operands_;
};

}  // namespace tilewright::probe
