// How thoroughly to race: many candidates and runs for a problem of microseconds, few for one of seconds.
#pragma once

#include <optional>
#include <string_view>

#include "autotune/race.h"
#include "base/device_info.h"
#include "base/problem.h"

namespace tilewright::autotune {

enum class Effort { kQuick, kNormal, kFull };

std::optional<Effort> effortFromName(std::string_view name);
std::string_view effortName(Effort effort);

struct RacePlan {
  int cap = 0;          ///< candidates that are built and run once
  int entrants = 0;     ///< of these, how many enter the race: fewer than `cap` when one run tells enough
  int refinements = 0;  ///< rounds of trying the winner's neighbours
  RaceOptions race;
  double probeRestMilliseconds = 0;  ///< idle time before a block, the same for every candidate
  double finalRestMilliseconds = 0;
  double runs = 0;    ///< of all candidates, in runs of a typical one
  double blocks = 0;  ///< of runs, each preceded by a rest

  /// Expected duration when a run takes `runSeconds` and `overheadSeconds` more for the flush of the cache.
  double seconds(double runSeconds, double overheadSeconds) const;
};

/// The most thorough plan of the effort whose expected duration stays below the effort's target (2, 5, 20 s for a
/// problem) and below `available`; the least plan if none does.
RacePlan planRace(const Problem& problem, const DeviceInfo& device, Effort effort, double runSeconds,
                  double overheadSeconds, double available);

}  // namespace tilewright::autotune
