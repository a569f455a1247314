// The flows of several plans at once: graphs and streams, which only a GPU has, and plans that share activations or
// prepared weights.
#include <algorithm>
#include <charconv>

#include "tests/conformance/harness.h"

namespace tilewright::conformance {
namespace {

constexpr const char* kNoStreams = "the CPU has neither graphs nor streams";

Result<std::unique_ptr<CudaStream>> makeStream(const Options& options) {
  const std::string_view digits = std::string_view(options.device).substr(options.device.find(':') + 1);
  int ordinal = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  return createCudaStream(ordinal);
}

}  // namespace

Outcome Harness::withPlans(const Template& kernelTemplate, const Case& each,
                           const std::function<Result<void>(std::vector<FlowPlan>&)>& body) {
  if (!fault_.empty()) return {.excluded = fault_};
  const Problem problem = problemOf(each);
  if (const auto refusal = kernelTemplate.refuses(problem, info())) {
    return {.excluded = fmt::format("{}: {}", refusal->constraint, refusal->reason)};
  }
  Outcome outcome;
  std::vector<FlowPlan> plans;
  const std::string place = fmt::format("{} {}", kernelTemplate.id(), each.name);
  for (const Configuration& configuration : configurationsOf(kernelTemplate, each, info(), 0)) {
    Result<Plan> plan = prepare(kernelTemplate, problem, info(), configuration);
    if (plan) {
      plans.push_back({.plan = *std::move(plan)});
    } else if (plan.error().code != ErrorCode::kUnsupported || outcome.configurations == 0) {
      // A build that the template refuses is no candidate; of the default configuration, the first, it is an error.
      outcome.failures.push_back(fmt::format("{} {{{}}}: {}", place, configuration.text(), plan.error().message));
      return outcome;
    }
    outcome.configurations = static_cast<int>(plans.size());
  }
  if (const Result<void> ran = body(plans); !ran) {
    outcome.failures.push_back(fmt::format("{}: {}", place, ran.error().message));
    if (ran.error().code == ErrorCode::kDevice) fault_ = fmt::format("the device faulted in {}", place);
  }
  for (const FlowPlan& each : plans) {
    if (each.wrong.empty()) continue;
    outcome.failures.push_back(fmt::format("{} {{{}}}: {}", place, each.plan.configuration.text(), each.wrong));
  }
  return outcome;
}

Result<void> Harness::replayGraphs(std::vector<FlowPlan>& plans, const Case& each) {
  Data data = TW_TRY(makeData(each));
  for (FlowPlan& flow : plans) {
    flow.stream = TW_TRY(makeStream(options_));
    TW_TRY(flow.stream->capture([&](StreamHandle handle) { return enqueueWhole(flow.plan, data.operands, handle); }));
  }
  const auto replay = [&](FlowPlan& flow) -> Result<void> {
    TW_TRY(flow.stream->replay());
    return flow.stream->synchronize();
  };
  const auto replayAndJudge = [&](std::string_view what) -> Result<void> {
    for (FlowPlan& flow : plans) {
      TW_TRY(data.operands.poison(device_));
      TW_TRY(replay(flow));
      if (flow.wrong.empty()) flow.wrong = TW_TRY(judge(flow.plan, data));
      if (!flow.wrong.empty() && !flow.wrong.starts_with("replay"))
        flow.wrong = fmt::format("{}: {}", what, flow.wrong);
    }
    return {};
  };
  TW_TRY(replayAndJudge("replay of the captured lengths"));

  // Replays of the same values give the same bits.
  for (FlowPlan& flow : plans) {
    TW_TRY(replay(flow));
    const OutputBits bits = TW_TRY(outputBits(data.operands));
    for (int i = 0; i < options_.repeats && flow.wrong.empty(); ++i) {
      const std::string difference = TW_TRY(runAgain(data, bits, [&] { return replay(flow); }));
      if (!difference.empty()) flow.wrong = fmt::format("replay {} differs from the first one {}", i + 2, difference);
    }
  }

  // Other values in the addresses that the graphs hold.
  if (each.problem.isLinear()) {
    Case other = each;
    ++other.operands.seed;
    data.host = TW_TRY(reference::makeOperands(other.problem, other.operands));
    TW_TRY(data.operands.rewrite(device_, data.host));
    data.expected = reference::Expectation::compute(data.host, {.budget = options_.budget});
    return replayAndJudge("replay with other values");
  }

  // Other kv lengths, with keys and values that fit them, in the addresses that the graphs hold: from -1 to beyond the
  // capacity, then the whole buffer, then one key of it.
  const std::int64_t capacity = *each.operands.capacity;
  for (const int change : {1, 2, 3, 4, 5}) {
    Case other = each;
    for (std::int32_t& length : other.operands.kvLens) {
      const std::int64_t moved = (std::abs(std::int64_t{length}) * 7 + change * 61) % (capacity + 3) - 1;
      length = static_cast<std::int32_t>(change == 4 ? capacity : change == 5 ? 1 : moved);
    }
    data.host = TW_TRY(reference::makeOperands(other.problem, other.operands));
    TW_TRY(data.operands.rewrite(device_, data.host));
    data.expected = reference::Expectation::compute(data.host, {.budget = options_.budget});
    TW_TRY(replayAndJudge(fmt::format("replay with kv lengths {}", fmt::join(other.operands.kvLens, ", "))));
  }
  return {};
}

Outcome Harness::runGraph(const Template& kernelTemplate, const Case& each) {
  if (info().kind != DeviceKind::kCuda) return {.excluded = kNoStreams};
  return withPlans(kernelTemplate, each, [&](std::vector<FlowPlan>& plans) { return replayGraphs(plans, each); });
}

Result<void> Harness::overlapStreams(std::vector<FlowPlan>& plans, const Case& each) {
  // Two plans of a configuration: each stream has its own scratch memory, as the interface asks of callers. On one
  // stream runs a configuration, on the other the same one, then its successor: kernels that fill the device meet each
  // other.
  constexpr int kRounds = 20;
  Case otherCase = each;
  otherCase.operands.seed += 1000;
  Data data = TW_TRY(makeData(each)), otherData = TW_TRY(makeData(otherCase));
  const std::unique_ptr<CudaStream> stream = TW_TRY(makeStream(options_)), other = TW_TRY(makeStream(options_));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    FlowPlan& flow = plans[i];
    TW_TRY(enqueueWhole(flow.plan, data.operands, stream->handle()));
    TW_TRY(stream->synchronize());
    const OutputBits alone = TW_TRY(outputBits(data.operands));
    for (const std::size_t beside : {i, (i + 1) % plans.size()}) {
      Plan& neighbour = plans[beside].plan;
      Plan second =
          TW_TRY(prepare(*neighbour.kernelTemplate, neighbour.problem, neighbour.device, neighbour.configuration));
      TW_TRY(data.operands.poison(device_));
      TW_TRY(otherData.operands.poison(device_));
      for (int round = 0; round < kRounds; ++round) {
        TW_TRY(enqueueWhole(flow.plan, data.operands, stream->handle()));
        TW_TRY(enqueueWhole(second, otherData.operands, other->handle()));
      }
      TW_TRY(stream->synchronize());
      TW_TRY(other->synchronize());
      if (!flow.wrong.empty()) continue;
      const std::string own = TW_TRY(judge(flow.plan, data)), others = TW_TRY(judge(second, otherData));
      if (!own.empty()) flow.wrong = fmt::format("beside {{{}}}: {}", second.configuration.text(), own);
      if (own.empty() && TW_TRY(outputBits(data.operands)) != alone) {
        flow.wrong =
            fmt::format("beside {{{}}}: the bits differ from those of a run alone", second.configuration.text());
      }
      if (!others.empty()) flow.wrong = fmt::format("{{{}}} beside it: {}", second.configuration.text(), others);
    }
  }
  return {};
}

Outcome Harness::runStreams(const Template& kernelTemplate, const Case& each) {
  if (info().kind != DeviceKind::kCuda) return {.excluded = kNoStreams};
  return withPlans(kernelTemplate, each, [&](std::vector<FlowPlan>& plans) { return overlapStreams(plans, each); });
}

Result<int> Harness::shareActivations(std::vector<FlowPlan>& plans, const Case& each) {
  int count = 0;
  const Case other = withOtherColumns(each);
  const Problem problem = problemOf(other);
  const Data data = TW_TRY(makeData(each));
  const reference::DeviceOperands& operands = data.operands;
  const reference::DeviceOperands others = TW_TRY(
      reference::DeviceOperands::upload(device_, TW_TRY(reference::makeOperands(other.problem, other.operands))));
  Operands second = others.operands();
  second.linear.x = operands.operands().linear.x, second.linear.xStride = operands.operands().linear.xStride;

  for (std::size_t i = 0; i < plans.size(); ++i) {
    // The next plan of the same format, which has other tiles, or the same one; else the default for the other n.
    Plan& plan = plans[i].plan;
    const Template& kernelTemplate = *plan.kernelTemplate;
    if (plan.activationFormat().empty()) continue;
    const auto shares = [&](const Configuration& configuration) {
      return !kernelTemplate.refusesConfiguration(problem, info(), configuration) &&
             kernelTemplate.activationFormat(problem, info(), configuration) == plan.activationFormat();
    };
    Configuration partner = kernelTemplate.defaultConfiguration(problem, info());
    for (std::size_t step = 1; step <= plans.size(); ++step) {
      const Configuration& next = plans[(i + step) % plans.size()].plan.configuration;
      if (!shares(next)) continue;
      partner = next;
      break;
    }
    if (!shares(partner)) continue;
    Plan beside = TW_TRY(prepare(kernelTemplate, problem, info(), partner));
    ++count;
    if (beside.activationBytes != plan.activationBytes) {
      plans[i].wrong = fmt::format("activations have {} bytes, for n = {} {}", plan.activationBytes, problem.linear.n,
                                   beside.activationBytes);
      continue;
    }

    const auto run = [&](StreamHandle stream, bool shared) -> Result<void> {
      const void* activations = shared ? plan.activations.data() : nullptr;
      if (shared) TW_TRY(enqueueQuantization(plan, operands.operands(), stream));
      for (const auto& [one, its] : {std::pair(&plan, &operands.operands()), {&beside, &second}}) {
        const bool prepared = one->preparedBytes > 0;
        if (prepared) TW_TRY(enqueuePreparation(*one, *its, stream));
        TW_TRY(enqueue(*one, *its, stream, prepared, activations));
      }
      return {};
    };
    const auto spoil = [&]() -> Result<void> {
      for (Plan* one : {&plan, &beside}) {
        TW_TRY(device_.fill(one->workspace.data(), 0xff, one->workspaceBytes));
        TW_TRY(device_.fill(one->prepared.data(), 0xff, one->preparedBytes));
        TW_TRY(device_.fill(one->activations.data(), 0xff, one->activationBytes));
      }
      TW_TRY(operands.poison(device_));
      return others.poison(device_);
    };
    TW_TRY(spoil());
    TW_TRY(run(nullptr, false));
    TW_TRY(device_.synchronize());
    if (plans[i].wrong = TW_TRY(judge(plan, data)); !plans[i].wrong.empty()) continue;
    const OutputBits first = TW_TRY(outputBits(operands)), firstOther = TW_TRY(outputBits(others));
    const auto compare = [&](std::string_view what) -> Result<void> {
      const std::string own = differenceOf(first, TW_TRY(outputBits(operands)), {});
      const std::string its = differenceOf(firstOther, TW_TRY(outputBits(others)), {});
      if (!plans[i].wrong.empty()) return {};
      if (!own.empty()) plans[i].wrong = fmt::format("{} differs {}", what, own);
      if (!its.empty()) {
        plans[i].wrong =
            fmt::format("{}, {{{}}} for n = {} differs {}", what, beside.configuration.text(), problem.linear.n, its);
      }
      return {};
    };

    TW_TRY(spoil());
    TW_TRY(run(nullptr, true));
    TW_TRY(device_.synchronize());
    TW_TRY(compare("on shared activations"));
    if (info().kind != DeviceKind::kCuda) continue;
    const std::unique_ptr<CudaStream> stream = TW_TRY(makeStream(options_));
    TW_TRY(stream->capture([&](StreamHandle handle) { return run(handle, true); }));
    for (int replay = 0; replay < 2; ++replay) {
      TW_TRY(spoil());
      TW_TRY(stream->replay());
      TW_TRY(stream->synchronize());
      TW_TRY(compare("a graph on shared activations"));
    }
  }
  return count;
}

Outcome Harness::runShared(const Template& kernelTemplate, const Case& each) {
  int pairs = 0;
  Outcome outcome = withPlans(kernelTemplate, each, [&](std::vector<FlowPlan>& plans) -> Result<void> {
    pairs = TW_TRY(shareActivations(plans, each));
    return {};
  });
  if (pairs == 0 && outcome.excluded.empty() && outcome.failures.empty()) {
    outcome.excluded = "no plan takes activations that another one shares";
  }
  return outcome;
}

Result<std::vector<Harness::Plan>> Harness::preparersOf(const std::vector<FlowPlan>& plans, std::size_t index,
                                                        const Case& each, std::span<const Template* const> others) {
  const Plan& plan = plans[index].plan;
  const Template& kernelTemplate = *plan.kernelTemplate;
  std::vector<Plan> preparers;
  // A build that its template refuses prepares nothing.
  const auto add = [&](const Template& other, const Problem& problem, const Configuration& configuration) {
    const auto serves = [&] {
      return servesPrepared(other.preparedFormat(problem, info(), configuration), plan.preparedFormat());
    };
    if (other.refusesConfiguration(problem, info(), configuration) || !serves()) return Result<bool>(false);
    Result<Plan> made = prepare(other, problem, info(), configuration);
    if (!made && made.error().code == ErrorCode::kUnsupported) return Result<bool>(false);
    if (!made) return Result<bool>(std::unexpected(std::move(made).error()));
    preparers.push_back(*std::move(made));
    return Result<bool>(true);
  };
  // The next plan, which has other tiles.
  for (std::size_t step = 1; step < plans.size(); ++step) {
    const Configuration& next = plans[(index + step) % plans.size()].plan.configuration;
    if (TW_TRY(add(kernelTemplate, plan.problem, next))) break;
  }
  const Problem longer = problemOf(withMoreRows(each));
  if (!kernelTemplate.refuses(longer, info())) TW_TRY(add(kernelTemplate, longer, plan.configuration));
  for (const Template* other : others) {
    if (other == &kernelTemplate || other->refuses(plan.problem, info())) continue;
    TW_TRY(add(*other, plan.problem, other->defaultConfiguration(plan.problem, info())));
  }
  return preparers;
}

Result<int> Harness::sharePreparation(std::vector<FlowPlan>& plans, const Case& each,
                                      std::span<const Template* const> others) {
  int count = 0;
  const Data data = TW_TRY(makeData(each));
  const Operands& operands = data.operands.operands();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    Plan& plan = plans[i].plan;
    if (plan.preparedFormat().empty()) continue;
    std::vector<Plan> preparers = TW_TRY(preparersOf(plans, i, each, others));
    if (preparers.empty()) continue;
    TW_TRY(data.operands.poison(device_));
    TW_TRY(enqueuePreparation(plan, operands, nullptr));
    TW_TRY(enqueue(plan, data.operands, nullptr, true));
    TW_TRY(device_.synchronize());
    if (plans[i].wrong = TW_TRY(judge(plan, data)); !plans[i].wrong.empty()) continue;
    const OutputBits first = TW_TRY(outputBits(data.operands));

    for (Plan& preparer : preparers) {
      ++count;
      // Nothing of the run before must help.
      TW_TRY(device_.fill(plan.workspace.data(), 0xff, plan.workspaceBytes));
      TW_TRY(device_.fill(plan.prepared.data(), 0xff, plan.preparedBytes));
      const std::string difference = TW_TRY(runAgain(data, first, [&]() -> Result<void> {
        TW_TRY(enqueuePreparation(preparer, operands, nullptr));
        return enqueueOn(plan, operands, nullptr, preparer.prepared.data(), nullptr);
      }));
      std::string wrong = TW_TRY(checkGuards(preparer));
      if (!difference.empty()) wrong = "differs " + difference;
      if (wrong.empty() || !plans[i].wrong.empty()) continue;
      plans[i].wrong =
          fmt::format("on {} of {} {{{}}} for m = {}: {}", preparer.preparedFormat(), preparer.kernelTemplate->id(),
                      preparer.configuration.text(), preparer.problem.linear.m, wrong);
    }
  }
  return count;
}

Outcome Harness::runPrepared(const Template& kernelTemplate, const Case& each,
                             std::span<const Template* const> others) {
  int pairs = 0;
  Outcome outcome = withPlans(kernelTemplate, each, [&](std::vector<FlowPlan>& plans) -> Result<void> {
    pairs = TW_TRY(sharePreparation(plans, each, others));
    return {};
  });
  if (pairs == 0 && outcome.excluded.empty() && outcome.failures.empty()) {
    outcome.excluded = "no plan takes weights that another one prepared";
  }
  return outcome;
}

}  // namespace tilewright::conformance
