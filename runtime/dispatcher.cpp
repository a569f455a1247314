#include "runtime/dispatcher.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "format/configuration_json.h"
#include "format/problem_json.h"

namespace tilewright {
namespace {

/// The dimensions between whose measured values a winner may be used. Linear: m alone.
using Free = std::array<std::int64_t, 2>;

Free freeDimensions(const Problem& problem) {
  if (problem.isLinear()) return {problem.linear.m, 0};
  return {problem.attention.qLen, problem.attention.kvLen};
}

std::string freeText(const Problem& problem) {
  if (problem.isLinear()) return fmt::format("m={}", problem.linear.m);
  return fmt::format("q_len={} kv_len={}", problem.attention.qLen, problem.attention.kvLen);
}

PackedProblem groupKey(Problem problem) {
  problem.linear.m = 0;
  problem.attention.qLen = problem.attention.kvLen = 0;
  return pack(problem);
}

bool below(const Free& a, const Free& b) {
  return a[0] <= b[0] && a[1] <= b[1];
}

bool sameChoice(const TunedPlan& a, const TunedPlan& b) {
  return a.kernelTemplate == b.kernelTemplate && a.configuration == b.configuration;
}

/// Problems whose plans compute the asked one too, for they promise less or are more exact.
std::vector<Problem> relaxed(const Problem& problem) {
  std::vector<Precision> precisions = {problem.linear.precision};
  if (problem.operation == Operation::kQ4kLinear) {
    switch (problem.linear.precision) {
      case Precision::kExact:
        break;
      case Precision::kFp8:
      case Precision::kInt8:
        precisions.push_back(Precision::kExact);
        break;
      case Precision::kFast:
        precisions.insert(precisions.end(), {Precision::kFp8, Precision::kInt8, Precision::kExact});
    }
  }
  std::vector<Problem> problems;
  for (const Alignment alignment : {Alignment::k16, Alignment::kAny}) {
    if (alignment < problem.alignment) continue;
    for (const Precision precision : precisions) {
      Problem other = problem;
      other.alignment = alignment;
      other.linear.precision = precision;
      if (other != problem) problems.push_back(other);
    }
  }
  return problems;
}

/// The problem without prepared weights, and those that relax it: what was measured for them prepared in the call.
std::vector<Problem> unprepared(Problem problem) {
  problem.linear.prepared = false;
  std::vector<Problem> problems = relaxed(problem);
  problems.insert(problems.begin(), problem);
  return problems;
}

bool hasPreparedWeights(const Problem& problem) {
  return problem.operation == Operation::kQ4kLinear && problem.linear.prepared;
}

std::string relaxation(const Problem& asked, const Problem& other) {
  std::vector<std::string> parts;
  if (asked.linear.precision != other.linear.precision)
    parts.push_back(fmt::format("precision {}", precisionName(other.linear.precision)));
  if (asked.alignment != other.alignment) parts.emplace_back("any alignment");
  if (asked.linear.prepared != other.linear.prepared) parts.emplace_back("weights prepared in the call");
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// What the cost model says. A problem that does not fit the device takes no time that would mean anything.
std::string predictionText(const Problem& problem, double microseconds, const DeviceInfo& device) {
  constexpr double kGiB = 1 << 30;
  const double needed = bytes(problem);
  if (device.memoryBytes > 0 && needed > static_cast<double>(device.memoryBytes)) {
    return fmt::format("its operands need {:.4g} GiB, the device has {:.4g} GiB", needed / kGiB,
                       static_cast<double>(device.memoryBytes) / kGiB);
  }
  if (microseconds >= 1e6) return fmt::format("predicted to take {:.1f} s", microseconds / 1e6);
  return fmt::format("predicted to take {:.2f} us", microseconds);
}

std::string speedText(const Margin& margin) {
  if (margin.defaultMicroseconds <= 0) return fmt::format("{:.2f} us measured", margin.medianMicroseconds);
  return fmt::format("{:.2f} us measured, the default {:.2f} us", margin.medianMicroseconds,
                     margin.defaultMicroseconds);
}

}  // namespace

std::string_view provenanceName(Provenance provenance) {
  switch (provenance) {
    case Provenance::kExact:
      return "exact";
    case Provenance::kNearest:
      return "nearest";
    case Provenance::kDefault:
      return "default";
    case Provenance::kNone:
      return "none";
  }
  return "unknown";
}

std::vector<Candidate> defaultCandidates(const Problem& problem, const DeviceInfo& device,
                                         std::span<const Template* const> templates,
                                         std::vector<RefusedCandidate>* refused) {
  std::vector<Candidate> candidates;
  for (const Template* each : templates) {
    if (each->operation() != problem.operation) continue;
    if (auto refusal = each->refuses(problem, device)) {
      if (refused != nullptr) refused->push_back({std::string(each->id()), {}, -1, std::move(*refusal)});
      continue;
    }
    Candidate candidate;
    candidate.kernelTemplate = each;
    candidate.configuration = each->defaultConfiguration(problem, device);
    candidate.problem = problem;
    candidate.predictedMicroseconds = each->predictMicroseconds(problem, device, candidate.configuration);
    candidate.reason = "not measured; " + predictionText(problem, candidate.predictedMicroseconds, device);
    candidates.push_back(std::move(candidate));
  }
  // Stable: among equals the order of the templates decides, simplest first.
  std::ranges::stable_sort(candidates, {}, &Candidate::predictedMicroseconds);
  return candidates;
}

Dispatcher::Dispatcher(const DeviceInfo& device, const DatabaseLayers& layers,
                       std::span<const Template* const> templates)
    : device_(device), templates_(templates) {
  // What was recorded of the machine is no part of the key, but who reads a time should know that it was another's.
  std::map<std::pair<int, int>, int> elsewhere;  // By driver and power limit.
  const auto winners = layers.winners(deviceKey(device), warnings_);
  for (const DatabaseLayers::LayeredWinner& winner : winners) {
    add(winner);
    const Record& record = winner.winner.record;
    // A target that is only named has no driver to compare with.
    const bool same =
        (device.kind == DeviceKind::kCuda && device.driverVersion == 0) ||
        (record.driverVersion == device.driverVersion && record.powerLimitWatts == device.powerLimitWatts);
    if (!same) ++elsewhere[{record.driverVersion, record.powerLimitWatts}];
  }
  for (const auto& [machine, count] : elsewhere) {
    warnings_.push_back(fmt::format(
        "{} of {} winners were measured with driver {} and a power limit of {} W; here it is "
        "driver {} and {} W",
        count, winners.size(), machine.first, machine.second, device.driverVersion, device.powerLimitWatts));
  }
}

void Dispatcher::add(const DatabaseLayers::LayeredWinner& layered) {
  const Record& record = layered.winner.record;
  const auto skip = [&](std::string_view reason) {
    warnings_.push_back(fmt::format("passed over the winner {} {} for {}: {}", record.templateId, record.configuration,
                                    record.problem, reason));
  };
  const auto problem = parseProblem(record.problem);
  if (!problem) return skip(problem.error().message);
  const auto entries = parseConfiguration(record.configuration);
  if (!entries) return skip(entries.error().message);

  TunedPlan plan{
      .problem = *problem,
      .configuration = Configuration(*entries),
      .layer = static_cast<int>(layered.layer),
      .margin = {record.medianMicroseconds, record.defaultMicroseconds, record.runnerUpMicroseconds, record.error}};
  const PackedProblem key = pack(*problem);
  const auto refuse = [&](Refusal refusal) {
    skip(refusal.reason);
    skipped_.push_back({key, {record.templateId, plan.configuration.text(), plan.layer, std::move(refusal)}});
  };
  const auto found = std::ranges::find(templates_, std::string_view(record.templateId), &Template::id);
  if (found == templates_.end()) {
    return refuse({"known_template", fmt::format("this program has no template {}", record.templateId)});
  }
  plan.kernelTemplate = *found;
  if (auto refusal = plan.kernelTemplate->refuses(*problem, device_)) return refuse(std::move(*refusal));
  if (auto refusal = plan.kernelTemplate->refusesConfiguration(*problem, device_, plan.configuration)) {
    return refuse(std::move(*refusal));
  }
  if (plan.margin.defaultMicroseconds > 0 && plan.margin.medianMicroseconds > plan.margin.defaultMicroseconds) {
    return refuse({"beats_default", fmt::format("it took {:.2f} us, the default {:.2f} us",
                                                plan.margin.medianMicroseconds, plan.margin.defaultMicroseconds)});
  }
  if (table_.find(key) != nullptr) return;  // An upper layer has it.
  plans_.push_back(std::move(plan));
  table_.insert(key, &plans_.back());
  groups_[groupKey(*problem)].push_back(&plans_.back());
}

bool Dispatcher::accepts(const Candidate& candidate) const {
  return !candidate.kernelTemplate->refuses(candidate.problem, device_) &&
         !candidate.kernelTemplate->refusesConfiguration(candidate.problem, device_, candidate.configuration);
}

/// Of the measured problems of the group, the largest below the asked one and the smallest above it (those with no
/// other measured problem between them and the asked one; for attention there may be several of each) must agree.
std::optional<Candidate> Dispatcher::nearest(const Problem& problem, std::vector<std::string>& notes) const {
  const auto group = groups_.find(groupKey(problem));
  if (group == groups_.end()) {
    notes.push_back("no problem with these fixed dimensions was measured on this device");
    return std::nullopt;
  }
  const Free asked = freeDimensions(problem);
  std::vector<const TunedPlan*> neighbours;
  const auto collect = [&](const auto& isBelow) {
    const std::size_t before = neighbours.size();
    for (const TunedPlan* plan : group->second) {
      const Free here = freeDimensions(plan->problem);
      if (!isBelow(here, asked)) continue;
      const bool shadowed = std::ranges::any_of(group->second, [&](const TunedPlan* other) {
        const Free there = freeDimensions(other->problem);
        return there != here && isBelow(here, there) && isBelow(there, asked);
      });
      if (!shadowed) neighbours.push_back(plan);
    }
    return neighbours.size() > before;
  };
  const bool hasBelow = collect(below);
  const bool hasAbove = collect([](const Free& a, const Free& b) { return below(b, a); });
  if (!hasBelow || !hasAbove) {
    notes.push_back(fmt::format("{} lies {} all measured problems", freeText(problem),
                                hasBelow   ? "above"
                                : hasAbove ? "below"
                                           : "beside"));
    return std::nullopt;
  }

  const TunedPlan& first = *neighbours.front();
  const TunedPlan* slowest = &first;
  std::string names;
  for (const TunedPlan* plan : neighbours) {
    names += fmt::format("{}{}", names.empty() ? "" : " and ", freeText(plan->problem));
    if (!sameChoice(*plan, first)) {
      notes.push_back(fmt::format("the neighbours {} and {} have different winners", freeText(first.problem),
                                  freeText(plan->problem)));
      return std::nullopt;
    }
    if (!plan->beatsDefault()) {
      notes.push_back(fmt::format("at the neighbour {} the winner does not beat the default", freeText(plan->problem)));
      return std::nullopt;
    }
    if (plan->margin.medianMicroseconds > slowest->margin.medianMicroseconds) slowest = plan;
  }
  Candidate candidate{.kernelTemplate = first.kernelTemplate,
                      .configuration = first.configuration,
                      .problem = problem,
                      .provenance = Provenance::kNearest,
                      .layer = first.layer,
                      .margin = slowest->margin,
                      .reason = fmt::format("wins and beats the default at the neighbours {}", names)};
  if (!accepts(candidate)) {
    notes.push_back(fmt::format("the winner at the neighbours {} is refused here", names));
    return std::nullopt;
  }
  return candidate;
}

std::optional<Candidate> Dispatcher::bestOf(const std::vector<Problem>& problems, bool exactly,
                                            std::vector<std::string>& notes) const {
  std::optional<Candidate> best;
  for (const Problem& problem : problems) {
    std::optional<Candidate> candidate;
    if (exactly) {
      if (const TunedPlan* plan = exact(problem)) {
        candidate = Candidate{.kernelTemplate = plan->kernelTemplate,
                              .configuration = plan->configuration,
                              .problem = plan->problem,
                              .provenance = Provenance::kExact,
                              .layer = plan->layer,
                              .margin = plan->margin,
                              .reason = "measured for this problem: " + speedText(plan->margin)};
      }
    } else {
      candidate = nearest(problem, notes);
    }
    if (candidate && (!best || candidate->margin.medianMicroseconds < best->margin.medianMicroseconds)) {
      best = std::move(candidate);
    }
  }
  return best;
}

/// What the default of a problem takes: measured where a sweep of a related problem raced the same plan, else
/// predicted.
double Dispatcher::defaultMicroseconds(std::span<const Problem> related, const Candidate& standard) const {
  for (const Problem& other : related) {
    const TunedPlan* plan = exact(other);
    if (plan == nullptr || plan->margin.defaultMicroseconds <= 0) continue;
    const auto candidates = defaultCandidates(other, device_, templates_);
    if (candidates.empty()) continue;
    const Candidate& raced = candidates.front();
    const auto arithmetic = [](const Candidate& each) {
      return each.kernelTemplate->precision(each.problem, each.configuration);
    };
    if (raced.kernelTemplate == standard.kernelTemplate && raced.configuration == standard.configuration &&
        arithmetic(raced) == arithmetic(standard)) {
      return plan->margin.defaultMicroseconds;
    }
  }
  return standard.predictedMicroseconds;
}

/// The best winner of related problems, exact ones first: only where it beats `standard`, what the asked problem would
/// run untuned.
void Dispatcher::addRelated(const std::vector<Problem>& related, const Candidate* standard,
                            Selection& selection) const {
  const double limit = standard == nullptr ? INFINITY : defaultMicroseconds(related, *standard);
  std::vector<std::string> ignored;
  for (const bool exactly : {true, false}) {
    auto candidate = bestOf(related, exactly, ignored);
    if (!candidate) continue;
    const double time = candidate->margin.medianMicroseconds;
    const std::string what = relaxation(selection.problem, candidate->problem);
    if (time >= limit) {
      selection.notes.push_back(
          fmt::format("the winner for {} takes {:.2f} us, the default {:.2f} us", what, time, limit));
      continue;
    }
    candidate->reason = fmt::format("with {}: {}", what, candidate->reason);
    selection.candidates.push_back(std::move(*candidate));
    return;
  }
}

/// Last resort, for a program without a compiler: what was measured for other sizes has a binary, even where it may be
/// slow.
void Dispatcher::addMeasuredElsewhere(Selection& selection) const {
  constexpr std::size_t kMaximumTried = 8;
  std::vector<PackedProblem> groups = {groupKey(selection.problem)};
  if (selection.problem.operation == Operation::kQ4kLinear) {
    // Prepared weights take the same binaries.
    Problem twin = selection.problem;
    twin.linear.prepared = !twin.linear.prepared;
    groups.push_back(groupKey(twin));
  }
  std::vector<const TunedPlan*> plans;
  for (const PackedProblem& key : groups) {
    const auto group = groups_.find(key);
    if (group != groups_.end()) plans.insert(plans.end(), group->second.begin(), group->second.end());
  }
  const Free asked = freeDimensions(selection.problem);
  const auto distance = [&](const TunedPlan* plan) {
    const Free here = freeDimensions(plan->problem);
    return std::abs(std::log2((here[0] + 1.0) / (asked[0] + 1.0))) +
           std::abs(std::log2((here[1] + 1.0) / (asked[1] + 1.0)));
  };
  std::ranges::stable_sort(plans, {}, distance);
  std::size_t tried = 0;
  for (const TunedPlan* plan : plans) {
    Candidate candidate{.kernelTemplate = plan->kernelTemplate,
                        .configuration = plan->configuration,
                        .problem = selection.problem,
                        .layer = plan->layer,
                        .reason = fmt::format("not measured here; won at {}{}", freeText(plan->problem),
                                              hasPreparedWeights(plan->problem) ? " on prepared weights" : "")};
    const bool known = std::ranges::any_of(selection.candidates, [&](const Candidate& other) {
      return other.kernelTemplate == candidate.kernelTemplate && other.configuration == candidate.configuration &&
             other.problem == candidate.problem;
    });
    if (known || !accepts(candidate)) continue;
    candidate.predictedMicroseconds =
        candidate.kernelTemplate->predictMicroseconds(candidate.problem, device_, candidate.configuration);
    selection.candidates.push_back(std::move(candidate));
    if (++tried == kMaximumTried) return;
  }
}

Selection Dispatcher::select(const Problem& problem) const {
  Selection selection{.problem = problem};
  std::vector<Candidate> defaults = defaultCandidates(problem, device_, templates_, &selection.refused);
  const PackedProblem key = pack(problem);
  for (const Skipped& skipped : skipped_) {
    if (skipped.problem == key) selection.refused.push_back(skipped.candidate);
  }

  // Measured for this problem, or between its neighbours.
  auto& candidates = selection.candidates;
  if (auto candidate = bestOf({problem}, true, selection.notes)) {
    candidates.push_back(std::move(*candidate));
  } else {
    selection.notes.push_back("this problem was not measured on this device");
    if (auto between = bestOf({problem}, false, selection.notes)) candidates.push_back(std::move(*between));
  }

  // Measured for a problem that promises less; last for one whose calls prepare the weights.
  const Candidate* standard = defaults.empty() ? nullptr : &defaults.front();
  if (candidates.empty()) addRelated(relaxed(problem), standard, selection);
  if (candidates.empty() && hasPreparedWeights(problem)) addRelated(unprepared(problem), standard, selection);

  candidates.insert(candidates.end(), std::make_move_iterator(defaults.begin()),
                    std::make_move_iterator(defaults.end()));
  if (!candidates.empty()) addMeasuredElsewhere(selection);
  for (Candidate& candidate : candidates) {
    candidate.predictedMicroseconds =
        candidate.kernelTemplate->predictMicroseconds(candidate.problem, device_, candidate.configuration);
  }
  return selection;
}

}  // namespace tilewright
