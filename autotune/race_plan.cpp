#include "autotune/race_plan.h"

#include <algorithm>
#include <array>

namespace tilewright::autotune {
namespace {

struct Level {
  int cap, entrants, probeWarmups, probeRepeats, leaders, rounds, extraRounds, roundWarmups, roundRepeats, refinements;
};

// From the most thorough to the least that still compares: a few candidates run once, and the best one beside the
// default.
constexpr std::array<Level, 7> kLevels{{
    {64, 64, 2, 5, 8, 6, 6, 2, 15, 3},
    {24, 24, 1, 5, 6, 4, 4, 1, 10, 1},
    {16, 16, 1, 3, 4, 3, 2, 1, 7, 0},
    {16, 6, 1, 2, 4, 3, 1, 1, 3, 0},
    {12, 4, 0, 2, 3, 2, 1, 0, 3, 0},
    {8, 3, 0, 1, 2, 2, 0, 0, 3, 0},
    {4, 2, 0, 1, 1, 2, 0, 0, 2, 0},
}};

constexpr double kSlowerCandidates = 1.5;  // a candidate's mean time over the default's, before the hopeless are out

constexpr double targetSeconds(Effort effort) {
  switch (effort) {
    case Effort::kQuick:
      return 2;
    case Effort::kNormal:
      return 5;
    case Effort::kFull:
      return 20;
  }
  return 5;
}

constexpr std::size_t firstLevel(Effort effort) {
  switch (effort) {
    case Effort::kQuick:
      return 2;
    case Effort::kNormal:
      return 1;
    case Effort::kFull:
      return 0;
  }
  return 1;
}

// A GPU that has just worked hard clocks lower than one that has rested: every block in the finals starts after the
// same rest, long enough to forget its predecessor. Kernels that wait for memory do not heat the card, and a probe's
// verdict is far coarser than the effect.
void setRests(const Problem& problem, const DeviceInfo& device, RacePlan& plan) {
  if (device.kind == DeviceKind::kCpu) return;
  const double mathSeconds = flops(problem) / device.bf16FlopPerSecond;
  const double memorySeconds = bytes(problem) / device.memoryBytesPerSecond;
  plan.probeRestMilliseconds = 20;
  plan.finalRestMilliseconds = mathSeconds > memorySeconds ? 300 : 50;
}

RacePlan planOf(const Level& level, const Problem& problem, const DeviceInfo& device) {
  RacePlan plan;
  plan.cap = level.cap;
  plan.refinements = level.refinements;
  plan.race.probeWarmups = level.probeWarmups, plan.race.probeRepeats = level.probeRepeats;
  plan.race.leaders = level.leaders, plan.race.rounds = level.rounds, plan.race.extraRounds = level.extraRounds;
  plan.race.roundWarmups = level.roundWarmups, plan.race.roundRepeats = level.roundRepeats;
  setRests(problem, device, plan);

  plan.entrants = level.entrants;
  const int finalists = std::min(level.entrants, level.leaders + 1);
  plan.runs = kSlowerCandidates * level.cap + level.entrants * (level.probeWarmups + level.probeRepeats) +
              finalists * level.rounds * (level.roundWarmups + level.roundRepeats);
  plan.blocks = level.entrants + finalists * level.rounds;
  return plan;
}

}  // namespace

std::optional<Effort> effortFromName(std::string_view name) {
  for (const Effort effort : {Effort::kQuick, Effort::kNormal, Effort::kFull}) {
    if (name == effortName(effort)) return effort;
  }
  return std::nullopt;
}

std::string_view effortName(Effort effort) {
  switch (effort) {
    case Effort::kQuick:
      return "quick";
    case Effort::kNormal:
      return "normal";
    case Effort::kFull:
      return "full";
  }
  return "unknown";
}

double RacePlan::seconds(double runSeconds, double overheadSeconds) const {
  const double finals = blocks - entrants;
  return runs * (runSeconds + overheadSeconds) +
         (entrants * probeRestMilliseconds + finals * finalRestMilliseconds) * 1e-3;
}

RacePlan planRace(const Problem& problem, const DeviceInfo& device, Effort effort, double runSeconds,
                  double overheadSeconds, double available) {
  const double limit = std::min(targetSeconds(effort), available);
  for (std::size_t level = firstLevel(effort); level < kLevels.size(); ++level) {
    RacePlan plan = planOf(kLevels[level], problem, device);
    // Rests are the price of a fair comparison on a GPU, not a reason to compare less.
    const double restless = plan.runs * (runSeconds + overheadSeconds);
    if (restless <= limit || level + 1 == kLevels.size()) return plan;
  }
  return planOf(kLevels.back(), problem, device);
}

}  // namespace tilewright::autotune
