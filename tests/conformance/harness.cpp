#include "tests/conformance/harness.h"

#include <algorithm>
#include <utility>

namespace tilewright::conformance {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr std::uint8_t kGuardValue = 0xa5;
constexpr std::int64_t kWholeBytes = std::int64_t{1} << 30;
constexpr int kManyRepeats = 1000;

/// Values of two parameters.
using Pair = std::pair<std::pair<std::size_t, std::int64_t>, std::pair<std::size_t, std::int64_t>>;

std::vector<Pair> pairsOf(const Configuration& configuration) {
  std::vector<Pair> pairs;
  const auto& entries = configuration.entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) pairs.push_back({{i, entries[i].second}, {j, entries[j].second}});
  }
  return pairs;
}

/// Adds to `chosen` the configurations of `space` that have the most pairs of values that none before had, until there
/// is none left.
void coverPairs(const std::vector<Configuration>& space, std::vector<Configuration>& chosen) {
  std::map<Pair, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> pairs;
  for (const Configuration& each : space) {
    std::vector<std::size_t>& own = pairs.emplace_back();
    for (const Pair& pair : pairsOf(each)) own.push_back(numbers.try_emplace(pair, numbers.size()).first->second);
  }
  std::vector<bool> covered(numbers.size());
  const auto cover = [&](const Configuration& configuration) {
    for (const Pair& pair : pairsOf(configuration)) {
      if (const auto found = numbers.find(pair); found != numbers.end()) covered[found->second] = true;
    }
  };
  for (const Configuration& each : chosen) cover(each);
  while (true) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < space.size(); ++i) {
      const auto gain =
          static_cast<std::size_t>(std::ranges::count_if(pairs[i], [&](std::size_t pair) { return !covered[pair]; }));
      if (gain > most) best = i, most = gain;
    }
    if (most == 0) return;
    chosen.push_back(space[best]);
    cover(space[best]);
  }
}

}  // namespace

Problem problemOf(const Case& each) {
  Problem problem = each.problem;
  problem.alignment = alignmentOf(each);
  return problem;
}

std::vector<Configuration> configurationsOf(const Template& kernelTemplate, const Case& each, const DeviceInfo& device,
                                            int spread) {
  const Problem problem = problemOf(each);
  const Configuration standard = kernelTemplate.defaultConfiguration(problem, device);
  std::vector<Configuration> chosen{standard};
  if (each.everyPair && device.kind == DeviceKind::kCuda) {
    coverPairs(enumerateConfigurations(kernelTemplate, problem, device), chosen);
    return chosen;
  }
  if (spread == 0) return chosen;
  std::vector<Configuration> others = enumerateConfigurations(kernelTemplate, problem, device);
  std::erase(others, standard);
  const auto count = std::min<std::size_t>(others.size(), static_cast<std::size_t>(spread));
  std::size_t start = 0;
  for (const char c : each.name) start = start * 31 + static_cast<unsigned char>(c);
  for (std::size_t i = 0; i < count; ++i) {
    chosen.push_back(others[(start + i * others.size() / count) % others.size()]);
  }
  return chosen;
}

DeviceInfo withUnits(DeviceInfo device, int units) {
  if (units > 0) device.unitCount = units;
  return device;
}

Harness::Harness(Device& device, Build build, Options options)
    : device_(device), build_(std::move(build)), options_(std::move(options)) {
  if (options_.sources.empty()) return;
  if (auto sources = SourceCatalog::withOverrides(options_.sources)) sources_ = std::move(*sources);
}

Result<Harness::Data> Harness::makeData(const Case& each) {
  Data data{.name = fmt::format("{} {}", operationName(each.problem.operation), each.name)};
  data.host = TW_TRY(reference::makeOperands(each.problem, each.operands));
  data.expected = reference::Expectation::compute(data.host, {.budget = options_.budget});
  data.operands = TW_TRY(reference::DeviceOperands::upload(device_, data.host));
  return data;
}

Result<Harness::Data*> Harness::dataOf(const Case& each) {
  if (!data_ || data_->name != fmt::format("{} {}", operationName(each.problem.operation), each.name)) {
    data_.reset();
    data_ = TW_TRY(makeData(each));
  }
  return &*data_;
}

Result<Harness::Loaded*> Harness::load(const Template& kernelTemplate, const Problem& problem, const DeviceInfo& device,
                                       const Configuration& configuration) {
  const std::vector<BuildRequest> requests = kernelTemplate.buildRequests(problem, device, configuration, sources_);
  std::string key;
  for (const BuildRequest& request : requests) key += buildKey(request, "");
  if (const auto found = loaded_.find(key); found != loaded_.end()) return &found->second;
  Loaded loaded;
  for (const BuildRequest& request : requests) {
    const Binary binary = TW_TRY(build_(request));
    if (const auto refusal = refusesBinary(kernelTemplate, binary)) {
      return fail(ErrorCode::kUnsupported, "{}: {}", refusal->constraint, refusal->reason);
    }
    loaded.binaries.push_back(TW_TRY(device_.load(binary)));
    for (const std::string& entry : request.entries) {
      loaded.kernels.push_back(TW_TRY(device_.find(*loaded.binaries.back(), entry)));
    }
  }
  return &loaded_.emplace(key, std::move(loaded)).first->second;
}

Result<Harness::Plan> Harness::prepare(const Template& kernelTemplate, const Problem& problem, const DeviceInfo& device,
                                       const Configuration& configuration) {
  Plan plan{.kernelTemplate = &kernelTemplate, .problem = problem, .device = device, .configuration = configuration};
  plan.loaded = TW_TRY(load(kernelTemplate, problem, device, configuration));
  const auto guarded = [&](std::int64_t bytes) -> Result<DeviceBuffer> {
    DeviceBuffer buffer = TW_TRY(device_.allocate(static_cast<std::size_t>(bytes) + kGuardBytes));
    TW_TRY(device_.fill(buffer.data(), 0xff, static_cast<std::size_t>(bytes)));
    TW_TRY(device_.fill(static_cast<std::byte*>(buffer.data()) + bytes, kGuardValue, kGuardBytes));
    return buffer;
  };
  const std::int64_t workspaceBytes = kernelTemplate.workspaceBytes(problem, device, configuration);
  const std::int64_t preparedBytes = kernelTemplate.preparedBytes(problem, device, configuration);
  plan.workspaceBytes = static_cast<std::size_t>(workspaceBytes), plan.workspace = TW_TRY(guarded(workspaceBytes));
  plan.preparedBytes = static_cast<std::size_t>(preparedBytes), plan.prepared = TW_TRY(guarded(preparedBytes));
  if (!plan.activationFormat().empty()) {
    const std::int64_t activationBytes = kernelTemplate.activationBytes(problem, device, configuration);
    plan.activationBytes = static_cast<std::size_t>(activationBytes);
    plan.activations = TW_TRY(guarded(activationBytes));
  }
  return plan;
}

Result<void> Harness::enqueueOn(Plan& plan, const Operands& operands, StreamHandle stream, const void* weights,
                                const void* activations) {
  LaunchList launches;
  void* const workspace = plan.workspaceBytes > 0 ? plan.workspace.data() : nullptr;
  if (activations == nullptr) {
    plan.kernelTemplate->encode(plan.problem, plan.device, plan.configuration, operands, workspace, weights, launches);
  } else {
    plan.kernelTemplate->encodeQuantized(plan.problem, plan.device, plan.configuration, operands, activations,
                                         workspace, weights, launches);
  }
  return device_.launch(launches, plan.loaded->kernels, stream);
}

Result<void> Harness::enqueueWhole(Plan& plan, const reference::DeviceOperands& operands, StreamHandle stream) {
  if (plan.mustBePrepared()) TW_TRY(enqueuePreparation(plan, operands.operands(), stream));
  return enqueue(plan, operands, stream, plan.mustBePrepared());
}

Result<void> Harness::enqueuePreparation(Plan& plan, const Operands& operands, StreamHandle stream) {
  LaunchList launches;
  plan.kernelTemplate->encodePreparation(plan.problem, plan.device, plan.configuration, operands, plan.prepared.data(),
                                         launches);
  return device_.launch(launches, plan.loaded->kernels, stream);
}

Result<void> Harness::enqueueQuantization(Plan& plan, const Operands& operands, StreamHandle stream) {
  LaunchList launches;
  plan.kernelTemplate->encodeActivations(plan.problem, plan.device, plan.configuration, operands,
                                         plan.activations.data(), launches);
  return device_.launch(launches, plan.loaded->kernels, stream);
}

Result<std::string> Harness::judge(Plan& plan, const Data& data) {
  const Precision precision = plan.kernelTemplate->precision(plan.problem, plan.configuration);
  const reference::ReadOutput read = data.operands.reader(device_);
  const reference::Verdict verdict =
      TW_TRY(data.expected.outExtent().bytes <= kWholeBytes ? reference::checkWhole(data.expected, precision, read)
                                                            : reference::checkSamples(data.expected, precision, read));
  if (!verdict.ok) return verdict.what;
  return checkGuards(plan);
}

Result<std::string> Harness::checkGuards(const Plan& plan) {
  for (const auto& [name, buffer, bytes] : {std::tuple("the workspace", &plan.workspace, plan.workspaceBytes),
                                            std::tuple("the prepared weights", &plan.prepared, plan.preparedBytes),
                                            std::tuple("activations", &plan.activations, plan.activationBytes)}) {
    if (buffer->data() == nullptr) continue;
    std::vector<std::uint8_t> guard(kGuardBytes);
    TW_TRY(device_.copyToHost(guard.data(), static_cast<const std::byte*>(buffer->data()) + bytes, kGuardBytes));
    if (std::ranges::any_of(guard, [](std::uint8_t byte) { return byte != kGuardValue; })) {
      return fmt::format("{} of {} bytes was written beyond its end", name, bytes);
    }
  }
  return "";
}

Result<std::string> Harness::runConfiguration(Plan& plan, Data& data, int repeats) {
  for (const bool prepared : {false, true}) {
    if (prepared ? plan.preparedBytes == 0 : plan.mustBePrepared()) continue;
    if (prepared) TW_TRY(enqueuePreparation(plan, data.operands.operands(), nullptr));
    TW_TRY(data.operands.poison(device_));
    TW_TRY(enqueue(plan, data.operands, nullptr, prepared));
    TW_TRY(device_.synchronize());
    if (std::string wrong = TW_TRY(judge(plan, data)); !wrong.empty()) {
      return prepared ? "with prepared weights: " + wrong : wrong;
    }
  }
  if (std::string wrong = TW_TRY(runQuantized(plan, data, plan.preparedBytes > 0)); !wrong.empty()) return wrong;
  if (repeats == 0) return "";
  // The same plan gives the same bits, and writes all of them each time.
  const OutputBits first = TW_TRY(outputBits(data.operands));
  for (int i = 0; i < repeats; ++i) {
    const std::string difference =
        TW_TRY(runAgain(data, first, [&] { return enqueue(plan, data.operands, nullptr, plan.preparedBytes > 0); }));
    if (!difference.empty()) return fmt::format("run {} differs from the first one {}", i + 2, difference);
  }
  return "";
}

Result<std::string> Harness::runQuantized(Plan& plan, const Data& data, bool prepared) {
  if (plan.activationFormat().empty() || data.expected.outExtent().bytes > kWholeBytes) return "";
  const OutputBits first = TW_TRY(outputBits(data.operands));
  // Nothing of the run before must help.
  TW_TRY(device_.fill(plan.workspace.data(), 0xff, plan.workspaceBytes));
  const Operands& operands = data.operands.operands();
  const std::string difference = TW_TRY(runAgain(data, first, [&]() -> Result<void> {
    TW_TRY(enqueueQuantization(plan, operands, nullptr));
    return enqueue(plan, operands, nullptr, prepared, plan.activations.data());
  }));
  if (!difference.empty()) return "on x quantized ahead, it differs from the run on x " + difference;
  const std::string wrong = TW_TRY(judge(plan, data));
  return wrong.empty() ? "" : "on x quantized ahead: " + wrong;
}

Result<OutputBits> Harness::outputBits(const reference::DeviceOperands& operands) {
  return OutputBits{TW_TRY(operands.download(device_, reference::Role::kOut)),
                    TW_TRY(operands.download(device_, reference::Role::kLse))};
}

Result<std::string> Harness::runAgain(const Data& data, const OutputBits& first,
                                      const std::function<Result<void>()>& enqueue) {
  TW_TRY(data.operands.poison(device_));
  TW_TRY(enqueue());
  TW_TRY(device_.synchronize());
  return differenceOf(first, TW_TRY(outputBits(data.operands)),
                      {data.expected.outExtent().origin, data.expected.lseExtent().origin});
}

Outcome Harness::runConfigurations(const Template& kernelTemplate, const Case& each, const DeviceInfo& device,
                                   const std::function<int(bool isDefault)>& repeats) {
  Outcome outcome;
  if (!fault_.empty()) return {.excluded = fault_};
  const Problem problem = problemOf(each);
  if (const auto refusal = kernelTemplate.refuses(problem, device)) {
    return {.excluded = fmt::format("{}: {}", refusal->constraint, refusal->reason)};
  }
  bool standard = true;
  for (const Configuration& configuration : configurationsOf(kernelTemplate, each, device, options_.spread)) {
    const std::string name = fmt::format("{} {{{}}}", kernelTemplate.id(), configuration.text());
    const auto note = [&](const Error& error) {
      outcome.failures.push_back(fmt::format("{}: {}: {}{}{}", name, errorCodeName(error.code), error.message,
                                             error.log.empty() ? "" : "\n", error.log));
      if (error.code == ErrorCode::kDevice) fault_ = fmt::format("the device faulted in {} {}", name, each.name);
    };
    if (const auto refusal = kernelTemplate.refusesConfiguration(problem, device, configuration)) {
      outcome.failures.push_back(fmt::format("{}: refused its default: {}", name, refusal->reason));
      continue;
    }
    Result<Plan> plan = prepare(kernelTemplate, problem, device, configuration);
    const bool refusedBuild = !plan && plan.error().code == ErrorCode::kUnsupported && !standard;
    const bool isDefault = std::exchange(standard, false);
    // A build that the template refuses is no candidate; of the default configuration it is an error.
    if (refusedBuild) continue;
    if (!plan) {
      note(plan.error());
      continue;
    }
    const Result<Data*> data = dataOf(each);
    if (!data) {
      note(data.error());
      break;
    }
    ++outcome.configurations;
    const Result<std::string> wrong = runConfiguration(*plan, **data, repeats(isDefault));
    if (!wrong) {
      note(wrong.error());
    } else if (!wrong->empty()) {
      outcome.failures.push_back(fmt::format("{}: {}", name, *wrong));
    }
    if (!fault_.empty()) break;
  }
  return outcome;
}

Outcome Harness::run(const Template& kernelTemplate, const Case& each, int units) {
  const bool all = each.everyPair && info().kind == DeviceKind::kCuda;
  return runConfigurations(kernelTemplate, each, withUnits(info(), units),
                           [&](bool isDefault) { return isDefault || all ? options_.repeats : 0; });
}

Outcome Harness::runRepeatedly(const Template& kernelTemplate, const Case& each) {
  return runConfigurations(kernelTemplate, each, info(), [](bool) { return kManyRepeats; });
}

}  // namespace tilewright::conformance
