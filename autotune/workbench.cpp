#include "autotune/workbench.h"

#include <algorithm>
#include <chrono>

namespace tilewright::autotune {
namespace {

// Outputs up to this size are checked for unwritten elements as a whole, larger ones at the samples.
constexpr std::int64_t kWholeCheckBytes = std::int64_t{32} << 20;

/// Microseconds of what `work` puts on the default stream, from launch to end.
template <typename Work>
Result<double> timed(Device& device, Work&& work) {
  TW_TRY(device.synchronize());
  const auto start = std::chrono::steady_clock::now();
  TW_TRY(work());
  TW_TRY(device.synchronize());
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Result<void> Workbench::open(const Problem& problem, const OpenOptions& options) {
  plans_.clear();
  outliers_.reset();
  gaussian_.reset();
  workspace_ = DeviceBuffer();
  prepared_ = DeviceBuffer();
  problem_ = problem;
  options_ = options;
  gaussian_ = TW_TRY(makeCase(options, reference::Activations::kGaussian));
  return {};
}

Result<Workbench::Case> Workbench::makeCase(const OpenOptions& options, reference::Activations activations) {
  const reference::HostOperands host =
      TW_TRY(reference::makeOperands(problem_, {.seed = options.seed, .activations = activations}));
  auto expected = reference::Expectation::compute(host, {.budget = options.sampleBudget, .seed = options.seed});
  reference::DeviceOperands operands = TW_TRY(reference::DeviceOperands::upload(device_, host));
  return Case{std::move(operands), std::move(expected)};
}

Result<const Workbench::Case*> Workbench::outlierCase() {
  if (!outliers_) outliers_ = TW_TRY(makeCase(options_, reference::Activations::kOutliers));
  return &*outliers_;
}

Result<Verification> Workbench::prepare(int plan, const Template& kernelTemplate, const Configuration& configuration,
                                        std::span<const PlanBinary> binaries) {
  if (!gaussian_) return fail(ErrorCode::kInternal, "cannot prepare plan {}: no problem is open", plan);
  Plan made{.kernelTemplate = &kernelTemplate, .configuration = configuration};
  for (const auto& [binary, entries] : binaries) {
    LoadedBinary* loaded = TW_TRY(load(*binary));
    for (const std::string& entry : entries) made.kernels.push_back(TW_TRY(device_.find(*loaded, entry)));
  }
  made.workspaceBytes =
      static_cast<std::size_t>(kernelTemplate.workspaceBytes(problem_, device_.info(), configuration));
  if (problem_.isLinear() && problem_.linear.prepared) {
    made.preparedBytes =
        static_cast<std::size_t>(kernelTemplate.preparedBytes(problem_, device_.info(), configuration));
  }
  TW_TRY(grow(workspace_, made.workspaceBytes));
  TW_TRY(grow(prepared_, made.preparedBytes));
  plans_.insert_or_assign(plan, std::move(made));
  return verify(plan);
}

Result<Verification> Workbench::verify(int plan) {
  const Plan& found = *TW_TRY(find(plan));
  Verification verification;

  reference::Verdict verdict = TW_TRY(check(found, *gaussian_, verification));
  verification.ok = verdict.ok;
  verification.what = std::move(verdict.what);
  verification.error = verdict.nrmse;
  if (!verification.ok || found.kernelTemplate->precision(problem_, found.configuration) == Precision::kExact) {
    return verification;
  }

  Verification ignored;
  verdict = TW_TRY(check(found, *TW_TRY(outlierCase()), ignored));
  verification.ok = verdict.ok;
  if (!verdict.ok) verification.what = fmt::format("with outlier channels: {}", verdict.what);
  verification.outlierError = verdict.nrmse;
  return verification;
}

Result<std::vector<double>> Workbench::measure(int plan, const MeasureOptions& options) {
  const Plan& found = *TW_TRY(find(plan));
  const Operands& operands = gaussian_->operands.operands();
  TW_TRY(prepareWeights(found, operands));
  TW_TRY(device_.synchronize());
  return device_.measure([&](StreamHandle stream) { return run(found, operands, stream); }, options);
}

Result<void> Workbench::grow(DeviceBuffer& buffer, std::size_t bytes) {
  if (bytes <= buffer.bytes()) return {};
  TW_TRY(device_.synchronize());
  buffer = DeviceBuffer();
  buffer = TW_TRY(device_.allocate(bytes));
  return {};
}

void Workbench::release(int plan) {
  plans_.erase(plan);
}

Result<Workbench::Plan*> Workbench::find(int plan) {
  const auto found = plans_.find(plan);
  if (found == plans_.end()) return fail(ErrorCode::kInternal, "plan {} is not prepared", plan);
  return &found->second;
}

Result<void> Workbench::run(const Plan& plan, const Operands& operands, StreamHandle stream) {
  LaunchList launches;
  const void* const prepared = plan.preparedBytes > 0 ? prepared_.data() : nullptr;
  plan.kernelTemplate->encode(problem_, device_.info(), plan.configuration, operands, workspace_.data(), prepared,
                              launches);
  return device_.launch(launches, plan.kernels, stream);
}

Result<void> Workbench::prepareWeights(const Plan& plan, const Operands& operands) {
  if (plan.preparedBytes == 0) return {};
  LaunchList launches;
  plan.kernelTemplate->encodePreparation(problem_, device_.info(), plan.configuration, operands, prepared_.data(),
                                         launches);
  return device_.launch(launches, plan.kernels, nullptr);
}

Result<reference::Verdict> Workbench::check(const Plan& plan, const Case& of, Verification& verification) {
  const Operands& operands = of.operands.operands();
  TW_TRY(of.operands.poison(device_));
  // A plan that reads its workspace before it writes it, or what its preparation left out, must not find last run's
  // results there.
  if (plan.workspaceBytes > 0) TW_TRY(device_.fill(workspace_.data(), 0xff, plan.workspaceBytes));
  if (plan.preparedBytes > 0) {
    TW_TRY(device_.fill(prepared_.data(), 0xff, plan.preparedBytes));
    verification.preparation = {.bytes = static_cast<std::int64_t>(plan.preparedBytes),
                                .microseconds = TW_TRY(timed(device_, [&] { return prepareWeights(plan, operands); }))};
  }
  verification.microseconds = TW_TRY(timed(device_, [&] { return run(plan, operands, nullptr); }));

  const Precision precision = plan.kernelTemplate->precision(problem_, plan.configuration);
  const reference::ReadOutput read = of.operands.reader(device_);
  return of.expected.outExtent().bytes <= kWholeCheckBytes ? reference::checkWhole(of.expected, precision, read)
                                                           : reference::checkSamples(of.expected, precision, read);
}

Result<LoadedBinary*> Workbench::load(const Binary& binary) {
  auto found = loaded_.find(binary.hash);
  if (found == loaded_.end()) found = loaded_.emplace(binary.hash, TW_TRY(device_.load(binary))).first;
  return found->second.get();
}

}  // namespace tilewright::autotune
