// What the tuning database holds, as plain values.
//
// Problems and configurations are canonical JSON texts here (toJson(problem), Configuration::json()): the database
// compares and stores them, and leaves their meaning to its callers. Devices are named by deviceKey(). Times are
// microseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/build_request.h"

namespace tilewright {

/// How the measurement of a plan ended. Only `kOk` has statistics, and only such a record may win.
enum class RecordStatus : std::uint8_t {
  kOk,
  kWrong,    ///< verification failed; `error` says by how much
  kRefused,  ///< a constraint of the template or of its build refused it; `reason` names it
  kTimeout,
  kCrashed,
};

std::string_view recordStatusName(RecordStatus status);
std::optional<RecordStatus> recordStatusFromName(std::string_view name);

/// One measured plan.
struct Record {
  std::int64_t id = 0;        ///< given by the database that holds it; 0 before
  std::string problem;        ///< canonical JSON
  std::string device;         ///< deviceKey()
  std::string templateId;     ///< "attention.tma_sm90"
  std::string configuration;  ///< JSON
  RecordStatus status = RecordStatus::kOk;
  std::string reason;  ///< why the status is not kOk; empty otherwise

  double medianMicroseconds = 0;
  double madMicroseconds = 0;  ///< median absolute deviation of the samples
  int samples = 0;
  double defaultMicroseconds = 0;   ///< median of the default plan in the same race; 0 if it was not measured
  double runnerUpMicroseconds = 0;  ///< median of the next best configuration in the same race; 0 if there was none
  double error = 0;                 ///< normalized RMS against double precision; NaN if not finite or not measured

  std::string resources;  ///< JSON: registers, spills, shared memory as the tuner knows them; "{}" if nothing
  std::string toolchain;  ///< identities of the compilers that made the plan's binaries
  int driverVersion = 0;  ///< as cuDriverGetVersion gives it; 0 on the CPU
  int powerLimitWatts = 0;
  std::string date;  ///< UTC, "2026-11-30T01:30:00Z"; the database fills in the present if empty

  bool operator==(const Record&) const = default;
};

/// A record that the dispatcher uses, with the key of every build of its plan, in the order of its build requests.
struct Winner {
  Record record;
  std::vector<std::string> buildKeys;
};

/// A compiled binary as it is stored: `binary.bytes` content-addressed by `binary.hash`, found by either key.
struct StoredBuild {
  Binary binary;           ///< buildKey, target, compiler, bytes, kernels and warnings are kept, the log is not
  std::string requestKey;  ///< buildKey(request, ""): names the request whatever compiler answered it
  std::string templateId;
  std::string date;  ///< UTC; the database fills in the present if empty
};

/// The shape-generic binary that runs problems nobody tuned: one for each template, target and class of
/// baked-in parameters, such as "head_dim=128 causal=1"; the class is empty when nothing but tile sizes
/// is baked in.
struct DefaultBuild {
  StoredBuild build;
  std::string parameterClass;
};

/// A problem whose sweep ended, and under which tuner policy (the text that a change of search or measurement changes).
struct DoneProblem {
  std::string problem;
  std::string device;
  std::string policy;
  std::string date;  ///< UTC; the database fills in the present if empty
};

/// The present as "2026-11-30T01:30:00Z".
std::string utcNow();

}  // namespace tilewright
