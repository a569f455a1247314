#include "tools/tune_report.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "format/configuration_json.h"
#include "format/listing.h"
#include "tools/problem_text.h"
#include "tools/table.h"

namespace tilewright {
namespace {

using autotune::ProblemOutcome;
using autotune::ProblemStatus;
using autotune::Statistics;
using autotune::SweepReport;
using autotune::WinnerReport;

std::string_view statusName(ProblemStatus status) {
  switch (status) {
    case ProblemStatus::kTuned:
      return "tuned";
    case ProblemStatus::kCompiled:
      return "compiled";
    case ProblemStatus::kAlreadyDone:
      return "done before";
    case ProblemStatus::kRemains:
      return "left";
    case ProblemStatus::kUnsupported:
      return "unsupported";
    case ProblemStatus::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string speedUpText(const WinnerReport& winner) {
  if (!winner.defaultStatistics) return "-";
  return winner.isDefault ? "default" : fmt::format("{:.2f}x", winner.speedUp());
}

std::string errorText(const WinnerReport& winner) {
  std::string text = fmt::format("{:.2g}", winner.error);
  if (winner.outlierError) text += fmt::format(" ({:.2g})", *winner.outlierError);
  return text;
}

std::string tableOfWinners(const SweepReport& report) {
  using Side = Table::Side;
  Table table({{"problem"},
               {"template"},
               {"configuration"},
               {"time", Side::kRight},
               {"speed-up", Side::kRight},
               {"error", Side::kRight}});
  for (const ProblemOutcome& outcome : report.outcomes) {
    if (!outcome.winner) continue;
    const WinnerReport& winner = *outcome.winner;
    table.add({problemText(outcome.listed.problem), winner.templateId, winner.configuration.text(),
               timeText(winner.statistics), speedUpText(winner), errorText(winner)});
  }
  return table.empty() ? std::string() : table.text();
}

// Problems of one status, a paragraph for each reason.
std::string reasonsText(const SweepReport& report, ProblemStatus status) {
  std::map<std::string, std::vector<Problem>> byReason;
  for (const ProblemOutcome& outcome : report.outcomes) {
    if (outcome.status == status) byReason[outcome.reason].push_back(outcome.listed.problem);
  }
  std::string text;
  for (const auto& [reason, problems] : byReason) {
    text += fmt::format("{} {}: {}\n", problems.size(), statusName(status), reason);
    for (const std::string& line : ladderTexts(problems)) text += "  " + line + "\n";
  }
  return text;
}

// "refused: 12 build, 3 no_spills, 1 crashed (attention.tma_sm90 tile_m=128: ...)": counts by constraint, and the ones
// that point to a broken kernel one by one.
std::string refusalsText(const SweepReport& report) {
  std::map<std::string, int> counts;
  std::string details;
  for (const ProblemOutcome& outcome : report.outcomes) {
    for (const autotune::RefusedPlan& each : outcome.refused) {
      ++counts[each.refusal.constraint];
      const bool isBroken = each.refusal.constraint == "wrong_result" || each.refusal.constraint == "crashed" ||
                            each.refusal.constraint == "timeout";
      if (!isBroken || each.remembered) continue;
      details += fmt::format("  {} {} on {}: {}: {}\n", each.templateId, each.configuration.text(),
                             problemText(outcome.listed.problem), each.refusal.constraint, each.refusal.reason);
    }
  }
  if (counts.empty()) return "";
  std::string text = "refused configurations:";
  std::string_view separator = " ";
  for (const auto& [constraint, count] : counts) {
    text += fmt::format("{}{} {}", separator, count, constraint);
    separator = ", ";
  }
  return text + "\n" + details;
}

void addStatistics(JsonValue& value, const std::string& prefix, const Statistics& statistics) {
  value.add(prefix + "median_us", statistics.median);
  value.add(prefix + "low_us", statistics.low);
  value.add(prefix + "high_us", statistics.high);
  value.add(prefix + "mad_us", statistics.mad);
  value.add(prefix + "samples", statistics.count);
}

JsonValue outcomeToJson(const ProblemOutcome& outcome) {
  JsonValue value =
      JsonValue::object({{"problem", problemToJson(outcome.listed.problem)}, {"status", statusName(outcome.status)}});
  if (!outcome.reason.empty()) value.add("reason", outcome.reason);
  if (outcome.winner) {
    const WinnerReport& winner = *outcome.winner;
    value.add("template", winner.templateId);
    value.add("configuration", configurationToJson(winner.configuration.entries()));
    addStatistics(value, "", winner.statistics);
    if (winner.defaultStatistics) addStatistics(value, "default_", *winner.defaultStatistics);
    value.add("speed_up", winner.speedUp());
    value.add("error", winner.error);
    if (winner.outlierError) value.add("outlier_error", *winner.outlierError);
    if (winner.preparation) {
      value.add("prepared_bytes", winner.preparation->bytes);
      value.add("preparation_us", winner.preparation->microseconds);
    }
    value.add("measured", winner.measured);
    value.add("tied", winner.tied);
    value.add("complete", winner.complete);
  }
  if (!outcome.refused.empty()) {
    JsonValue::Array refused;
    for (const autotune::RefusedPlan& each : outcome.refused) {
      refused.push_back(JsonValue::object({{"template", each.templateId},
                                           {"configuration", configurationToJson(each.configuration.entries())},
                                           {"constraint", each.refusal.constraint},
                                           {"reason", each.refusal.reason},
                                           {"remembered", each.remembered}}));
    }
    value.add("refused", std::move(refused));
  }
  value.add("seconds", outcome.seconds);
  return value;
}

}  // namespace

std::string timeText(const Statistics& statistics) {
  const double half = statistics.median > 0 ? (statistics.high - statistics.low) / 2 / statistics.median : 0;
  return fmt::format("{} +-{:.1f}%", formatMicroseconds(statistics.median), 100 * half);
}

std::string sweepText(const SweepReport& report) {
  std::string text = tableOfWinners(report);
  if (!text.empty()) text += "\n";
  text += refusalsText(report);
  text += reasonsText(report, ProblemStatus::kFailed);
  text += reasonsText(report, ProblemStatus::kUnsupported);
  text += reasonsText(report, ProblemStatus::kRemains);
  std::string_view separator = "";
  for (const ProblemStatus status : {ProblemStatus::kTuned, ProblemStatus::kCompiled, ProblemStatus::kAlreadyDone,
                                     ProblemStatus::kRemains, ProblemStatus::kFailed, ProblemStatus::kUnsupported}) {
    if (report.count(status) == 0) continue;
    text += fmt::format("{}{} {}", separator, report.count(status), statusName(status));
    separator = ", ";
  }
  text +=
      fmt::format("{}{} builds in {}\n", separator.empty() ? "" : "; ", report.builds, durationText(report.seconds));
  return text;
}

std::string sweepListing(const SweepReport& report) {
  JsonValue::Array entries;
  for (const ProblemOutcome& outcome : report.outcomes) entries.push_back(outcomeToJson(outcome));
  return listingText("outcomes", entries,
                     *JsonValue::object({{"stopped", report.wasStopped},
                                         {"seconds", report.seconds},
                                         {"builds", report.builds},
                                         {"worker_starts", report.workerStarts}})
                          .asObject());
}

std::string outcomeText(const ProblemOutcome& outcome) {
  std::string text = fmt::format("{}: {}", problemText(outcome.listed.problem), statusName(outcome.status));
  if (!outcome.winner) {
    if (outcome.builds > 0) text += fmt::format(", {} builds", outcome.builds);
    return outcome.reason.empty() ? text : fmt::format("{}: {}", text, outcome.reason);
  }
  const WinnerReport& winner = *outcome.winner;
  return fmt::format("{}, {} {}, {}, {}", text, winner.templateId, winner.configuration.text(),
                     timeText(winner.statistics), speedUpText(winner));
}

std::string progressText(const autotune::SweepProgress& progress, std::size_t width) {
  std::string text = fmt::format("[{}/{}] ", progress.finished, progress.total);
  if (progress.current != nullptr) text += problemText(*progress.current) + ": ";
  text += progress.stage;
  if (progress.stageOf > 1)
    text += fmt::format(" {}/{}", std::min(progress.stageDone, progress.stageOf), progress.stageOf);
  text += fmt::format(", {} winners, {}", progress.winners, durationText(progress.elapsedSeconds));
  if (std::isfinite(progress.etaSeconds) && progress.etaSeconds > 0) {
    text += fmt::format(", about {} left", durationText(progress.etaSeconds));
  }
  return text.substr(0, width);
}

std::string durationText(double seconds) {
  const auto whole = static_cast<long>(std::max(0.0, std::round(seconds)));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace tilewright
