// The flows that only a GPU has: graphs and streams.
#include <charconv>

#include "tests/conformance/harness.h"

namespace tilewright::conformance {
namespace {

Result<std::unique_ptr<CudaStream>> makeStream(const Options& options) {
  const std::string_view digits = std::string_view(options.device).substr(options.device.find(':') + 1);
  int ordinal = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  return createCudaStream(ordinal);
}

}  // namespace

Outcome Harness::withDefaultPlan(const Template& kernelTemplate, const Case& each,
                                 const std::function<Result<std::string>(Plan&)>& body) {
  if (!fault_.empty()) return {.excluded = fault_};
  if (info().kind != DeviceKind::kCuda) return {.excluded = "the CPU has neither graphs nor streams"};
  const Problem problem = problemOf(each);
  if (const auto refusal = kernelTemplate.refuses(problem, info())) {
    return {.excluded = fmt::format("{}: {}", refusal->constraint, refusal->reason)};
  }
  const Configuration configuration = kernelTemplate.defaultConfiguration(problem, info());
  Outcome outcome{.configurations = 1};
  Result<Plan> plan = prepare(kernelTemplate, problem, configuration);
  const Result<std::string> wrong = plan ? body(*plan) : std::unexpected(plan.error());
  const std::string name = fmt::format("{} {{{}}}", kernelTemplate.id(), configuration.text());
  if (!wrong) {
    outcome.failures.push_back(fmt::format("{}: {}", name, wrong.error().message));
    if (wrong.error().code == ErrorCode::kDevice) fault_ = fmt::format("the device faulted in {} {}", name, each.name);
  } else if (!wrong->empty()) {
    outcome.failures.push_back(fmt::format("{}: {}", name, *wrong));
  }
  return outcome;
}

Result<std::string> Harness::replayGraph(Plan& plan, const Case& each) {
  const std::unique_ptr<CudaStream> stream = TW_TRY(makeStream(options_));
  Data first = TW_TRY(makeData(each));
  TW_TRY(stream->capture([&](StreamHandle handle) { return enqueue(plan, first.operands, handle, false); }));

  // Replays of the same values give the same bits.
  TW_TRY(stream->replay());
  TW_TRY(stream->synchronize());
  if (std::string wrong = TW_TRY(judge(plan, first)); !wrong.empty()) return "first replay: " + wrong;
  const std::vector<std::byte> bits = TW_TRY(first.operands.download(device_, reference::Role::kOut));
  for (int i = 0; i < options_.repeats; ++i) {
    TW_TRY(stream->replay());
    TW_TRY(stream->synchronize());
    if (TW_TRY(first.operands.download(device_, reference::Role::kOut)) != bits) {
      return fmt::format("replay {} differs from the first one", i + 2);
    }
  }
  if (each.problem.isLinear()) return "";

  // Other kv lengths, with keys and values that fit them, in the addresses that the graph holds.
  for (const std::int32_t offset : {1, 2, 3}) {
    Case other = each;
    const auto capacity = static_cast<std::int32_t>(*each.operands.capacity);
    for (std::int32_t& length : other.operands.kvLens) length = (length * 7 + offset * 61) % (capacity + 2) - 1;
    const reference::HostOperands host = TW_TRY(reference::makeOperands(other.problem, other.operands));
    TW_TRY(first.operands.rewrite(device_, host));
    first.expected = reference::Expectation::compute(host, {.budget = options_.budget});
    TW_TRY(first.operands.poison(device_));
    TW_TRY(stream->replay());
    TW_TRY(stream->synchronize());
    if (std::string wrong = TW_TRY(judge(plan, first)); !wrong.empty()) {
      return fmt::format("replay with kv lengths {}: {}", fmt::join(other.operands.kvLens, ", "), wrong);
    }
  }
  return "";
}

Outcome Harness::runGraph(const Template& kernelTemplate, const Case& each) {
  return withDefaultPlan(kernelTemplate, each, [&](Plan& plan) { return replayGraph(plan, each); });
}

Result<std::string> Harness::overlapStreams(Plan& plan, const Case& each) {
  // Two plans: each stream has its own scratch memory, as the interface asks of callers.
  constexpr int kRounds = 20;
  Plan second = TW_TRY(prepare(*plan.kernelTemplate, plan.problem, plan.configuration));
  Case otherCase = each;
  otherCase.operands.seed += 1000;
  Data data = TW_TRY(makeData(each)), otherData = TW_TRY(makeData(otherCase));
  const std::unique_ptr<CudaStream> stream = TW_TRY(makeStream(options_)), other = TW_TRY(makeStream(options_));
  for (int round = 0; round < kRounds; ++round) {
    TW_TRY(enqueue(plan, data.operands, stream->handle(), false));
    TW_TRY(enqueue(second, otherData.operands, other->handle(), false));
  }
  TW_TRY(stream->synchronize());
  TW_TRY(other->synchronize());
  if (std::string wrong = TW_TRY(judge(plan, data)); !wrong.empty()) return "first stream: " + wrong;
  if (std::string wrong = TW_TRY(judge(second, otherData)); !wrong.empty()) return "second stream: " + wrong;
  return "";
}

Outcome Harness::runStreams(const Template& kernelTemplate, const Case& each) {
  return withDefaultPlan(kernelTemplate, each, [&](Plan& plan) { return overlapStreams(plan, each); });
}

}  // namespace tilewright::conformance
