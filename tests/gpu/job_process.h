// Runs a list of jobs in child processes, so that a kernel that faults or hangs costs itself only.
//
// A child takes the jobs one after the other and reports each as done. When it dies, or reports nothing for the time
// limit, it is killed and the next child goes on behind the job that did it. The calling process must not have threads,
// nor have touched the driver: a CUDA context does not survive fork().
#pragma once

#include <functional>
#include <string>

namespace tilewright::probe {

/// How a job ended. After kSpoilt (a kernel faulted) the next job needs a new process.
enum class JobEnd : char { kPassed = 1, kFailed, kSpoilt };

/// Runs jobs 0 to count - 1 through `run` in children. `lost` is called here for each job whose child died or was
/// killed, with the reason. Returns how many jobs did not pass.
int runIsolated(int count, double timeoutSeconds, const std::function<JobEnd(int job)>& run,
                const std::function<void(int job, const std::string& reason)>& lost);

}  // namespace tilewright::probe
