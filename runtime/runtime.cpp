#include "runtime/runtime.h"

#include <algorithm>
#include <future>
#include <thread>

#include "runtime/operands.h"

namespace tilewright {
namespace {

constexpr std::uintptr_t kBufferAlignment = 256;

Result<void> checkBuffer(std::string_view name, const void* buffer, std::int64_t bytes, std::int64_t needed) {
  if (needed == 0) return {};
  if (bytes < needed) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: {} has {} bytes, must have {}", name, bytes, needed);
  }
  if (buffer == nullptr) return fail(ErrorCode::kInvalidArgument, "cannot launch: {} is null", name);
  if (reinterpret_cast<std::uintptr_t>(buffer) % kBufferAlignment != 0) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: {} is {}, must be a multiple of {} bytes", name, buffer,
                kBufferAlignment);
  }
  return {};
}

/// Whether a plan with a preparation can run on the prepared weights that a launch is given, or without.
Result<void> checkPrepared(const Plan& plan, const LaunchBuffers& buffers) {
  const auto describe = [](const Plan& each) {
    return fmt::format("{} [{}, {}] of {} {{{}}}", each.preparedFormat(), each.problem().linear.n,
                       each.problem().linear.k, each.choice().kernelTemplate->id(), each.configurationText());
  };
  if (buffers.prepared == nullptr) {
    if (!plan.problem().linear.prepared) return {};
    // It has no workspace to make them in.
    return fail(ErrorCode::kInvalidArgument,
                "cannot launch: prepared is null, must be the weights that were prepared for {} {{{}}}: the problem "
                "says that every call is given them",
                plan.choice().kernelTemplate->id(), plan.configurationText());
  }
  const Plan& source = buffers.preparedBy == nullptr ? plan : *buffers.preparedBy;
  if (!servesPrepared(source.preparedFormat(), plan.preparedFormat()) ||
      source.problem().linear.n != plan.problem().linear.n || source.problem().linear.k != plan.problem().linear.k) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: prepared weights are {}, must begin as {}",
                source.preparedFormat().empty() ? "of a plan that prepares none" : describe(source), describe(plan));
  }
  return checkBuffer("prepared", buffers.prepared, plan.preparedBytes(), plan.preparedBytes());
}

/// Whether a plan can run on the activations that a launch is given.
Result<void> checkActivations(const Plan& plan, const LaunchBuffers& buffers) {
  const auto describe = [](const Plan& each) {
    return fmt::format("{} [{}, {}] of {} {{{}}}", each.activationFormat(), each.problem().linear.m,
                       each.problem().linear.k, each.choice().kernelTemplate->id(), each.configurationText());
  };
  if (plan.activationFormat().empty()) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: activations are given, {} {{{}}} takes none",
                plan.choice().kernelTemplate->id(), plan.configurationText());
  }
  if (buffers.quantizedBy == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: activations are given without the plan that filled them");
  }
  const Plan& source = *buffers.quantizedBy;
  if (source.activationFormat() != plan.activationFormat() || source.problem().linear.m != plan.problem().linear.m ||
      source.problem().linear.k != plan.problem().linear.k) {
    return fail(ErrorCode::kInvalidArgument, "cannot launch: activations are {}, must be as {}",
                source.activationFormat().empty() ? "of a plan that fills none" : describe(source), describe(plan));
  }
  return checkBuffer("activations", buffers.activations, plan.activationBytes(), plan.activationBytes());
}

/// What the caller of an unsupported problem must know: who refused, and what could not be loaded.
Error nothingRuns(const Selection& selection, const std::vector<std::string>& failures, ErrorCode code,
                  std::string log) {
  std::string message = fmt::format("nothing runs {}", toJson(selection.problem));
  if (selection.candidates.empty() && selection.refused.empty()) message += ": this program has no template for it";
  for (const RefusedCandidate& refused : selection.refused) {
    message += fmt::format("; {} refuses: {}", refused.templateId, refused.refusal.reason);
  }
  for (const std::string& failure : failures) message += "; " + failure;
  return {code, std::move(message), std::move(log)};
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::create(RuntimeOptions options) {
  if (options.device == nullptr) return fail(ErrorCode::kInvalidArgument, "cannot make a runtime: it needs a device");
  return std::unique_ptr<Runtime>(new Runtime(std::move(options)));
}

Runtime::Runtime(RuntimeOptions options)
    : device_(std::move(options.device)),
      layers_(std::move(options.layers)),
      templates_(options.templates),
      embedded_(options.sources == nullptr ? std::make_unique<SourceCatalog>() : nullptr),
      dispatcher_(device_->info(), layers_, templates_),
      loader_(*device_, layers_, std::move(options.buildCache), std::move(options.compilers),
              std::move(options.missingCompilers), embedded_ ? *embedded_ : *options.sources) {}

Result<const Plan*> Runtime::bind(const Problem& problem) {
  TW_TRY(validate(problem));
  const PackedProblem key = pack(problem);
  if (const Plan* known = find(key)) return known;
  std::unique_ptr<Plan> plan = TW_TRY(makePlan(problem));

  // Two threads may have made it; the first one's stays.
  const std::scoped_lock lock(mutex_);
  const Plan* kept = table_.insert(key, plan.get());
  if (kept == plan.get()) plans_.push_back(std::move(plan));
  return kept;
}

Result<void> Runtime::prepare(std::span<const Problem> problems) {
  std::vector<Result<void>> status(problems.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < problems.size();) {
      const auto plan = bind(problems[i]);
      if (!plan) status[i] = std::unexpected(plan.error());
    }
  };
  // Futures hand an exception (memory that ran out) of another thread on to this one.
  std::vector<std::future<void>> threads;
  const std::size_t count = std::min<std::size_t>(problems.size(), std::max(1U, std::thread::hardware_concurrency()));
  for (std::size_t i = 1; i < count; ++i) threads.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& thread : threads) thread.get();
  for (const Result<void>& each : status) TW_TRY(each);
  return {};
}

Result<std::unique_ptr<Plan>> Runtime::makePlan(const Problem& problem) {
  const Selection selection = dispatcher_.select(problem);
  auto plan = std::make_unique<Plan>();
  plan->runtime_ = this;
  plan->problem_ = problem;

  // The best candidate that can be loaded.
  std::vector<std::string> failures;
  ErrorCode code = ErrorCode::kUnsupported;
  std::string log;
  for (const Candidate& candidate : selection.candidates) {
    auto kernels = loader_.load(candidate, plan->warnings_);
    if (!kernels) {
      failures.push_back(std::move(kernels.error().message));
      // The first failure that is not just a missing binary says most.
      if (code == ErrorCode::kUnsupported) code = kernels.error().code, log = std::move(kernels.error().log);
      continue;
    }
    plan->choice_ = candidate;
    plan->kernels_ = std::move(*kernels);
    break;
  }
  if (plan->choice_.kernelTemplate == nullptr) {
    return std::unexpected(nothingRuns(selection, failures, code, std::move(log)));
  }
  plan->warnings_.insert(plan->warnings_.end(), failures.begin(), failures.end());

  plan->configurationText_ = plan->choice_.configuration.text();
  const Candidate& choice = plan->choice_;
  const DeviceInfo& device = device_->info();
  plan->ownWorkspaceBytes_ = choice.kernelTemplate->workspaceBytes(choice.problem, device, choice.configuration);
  plan->workspaceBytes_ = plan->ownWorkspaceBytes_;
  plan->preparedFormat_ = choice.kernelTemplate->preparedFormat(choice.problem, device, choice.configuration);
  plan->preparedBytes_ = choice.kernelTemplate->preparedBytes(choice.problem, device, choice.configuration);
  plan->activationFormat_ = choice.kernelTemplate->activationFormat(choice.problem, device, choice.configuration);
  plan->activationBytes_ = choice.kernelTemplate->activationBytes(choice.problem, device, choice.configuration);

  // What takes over when the operands of a call turn out to be misaligned.
  if (choice.problem.alignment == Alignment::k16) {
    // It is given no prepared weights, for its template is another one: what it needs of them, it makes in the call.
    Problem anyAlignment = problem;
    anyAlignment.alignment = Alignment::kAny;
    anyAlignment.linear.prepared = false;
    auto other = bind(anyAlignment);
    if (other) {
      plan->anyAlignment_ = *other;
      plan->workspaceBytes_ = std::max(plan->workspaceBytes_, (*other)->workspaceBytes_);
    } else {
      plan->warnings_.push_back("no path for misaligned operands: " + other.error().message);
    }
  }
  return plan;
}

Result<void> Runtime::checkAddress(std::string_view name, const void* pointer) const {
  if (pointer == nullptr) return {};
  const auto status = device_->checkAddress(pointer);
  if (!status) return fail(status.error().code, "cannot launch: {}: {}", name, status.error().message);
  return {};
}

Result<void> Runtime::checkAddresses(const Plan& plan, const Operands& operands, const LaunchBuffers& buffers) const {
  const LinearOperands& linear = operands.linear;
  const AttentionOperands& attention = operands.attention;
  const auto check = [&](std::initializer_list<std::pair<std::string_view, const void*>> pointers) -> Result<void> {
    for (const auto& [name, pointer] : pointers) TW_TRY(checkAddress(name, pointer));
    return {};
  };
  TW_TRY(check({{"workspace", buffers.workspace}}));
  if (plan.problem_.isLinear()) {
    TW_TRY(check({{"x", linear.x}, {"w", linear.w}, {"bias", linear.bias}, {"out", linear.out}}));
  } else {
    TW_TRY(check({{"q", attention.q}, {"k", attention.k}, {"v", attention.v}, {"out", attention.out}}));
    TW_TRY(check({{"lse", attention.lse}, {"kv_len", attention.kvLen}}));
  }
  return {};
}

Result<void> Runtime::launch(const Plan& plan, const Operands& given, const LaunchBuffers& buffers,
                             StreamHandle stream) const {
  if (hasEmptyOutput(plan.problem_)) return {};
  Operands operands = given;
  const Alignment alignment = TW_TRY(checkOperands(plan.problem_, device_->info(), operands));
  const Plan* run = &plan;
  if (alignment == Alignment::kAny && plan.choice_.problem.alignment == Alignment::k16) {
    run = plan.anyAlignment_;
    if (run == nullptr) {
      return fail(
          ErrorCode::kUnsupported,
          "cannot launch {} on misaligned operands: a base or leading stride is not a multiple of 16 bytes, an inner "
          "stride is not 1 or the scale is not positive, and no plan for any alignment was found",
          toJson(plan.problem_));
    }
  }
  TW_TRY(checkBuffer("workspace", buffers.workspace, buffers.workspaceBytes, run->ownWorkspaceBytes_));
  if (!plan.preparedFormat_.empty()) TW_TRY(checkPrepared(plan, buffers));
  const void* prepared = run == &plan && !plan.preparedFormat_.empty() ? buffers.prepared : nullptr;
  if (buffers.activations != nullptr) TW_TRY(checkActivations(plan, buffers));
  const void* activations = run == &plan ? buffers.activations : nullptr;
  if (!run->addressesChecked_.load(std::memory_order_relaxed)) {
    TW_TRY(checkAddresses(*run, operands, buffers));
    run->addressesChecked_.store(true, std::memory_order_relaxed);
  }
  if (prepared != nullptr && !run->givenPreparedChecked_.load(std::memory_order_relaxed)) {
    TW_TRY(checkAddress("prepared", prepared));
    run->givenPreparedChecked_.store(true, std::memory_order_relaxed);
  }
  if (activations != nullptr && !run->givenActivationsChecked_.load(std::memory_order_relaxed)) {
    TW_TRY(checkAddress("activations", activations));
    run->givenActivationsChecked_.store(true, std::memory_order_relaxed);
  }

  const Candidate& choice = run->choice_;
  LaunchList launches;
  if (activations != nullptr) {
    choice.kernelTemplate->encodeQuantized(choice.problem, device_->info(), choice.configuration, operands, activations,
                                           buffers.workspace, prepared, launches);
  } else {
    choice.kernelTemplate->encode(choice.problem, device_->info(), choice.configuration, operands, buffers.workspace,
                                  prepared, launches);
  }
  return device_->launch(launches, run->kernels_.handles, stream);
}

Result<void> Runtime::launch(const Problem& problem, const Operands& operands, const LaunchBuffers& buffers,
                             StreamHandle stream) {
  const Plan* plan = find(pack(problem));
  if (plan == nullptr) plan = TW_TRY(bind(problem));
  return launch(*plan, operands, buffers, stream);
}

Result<void> Runtime::prepareWeights(const Plan& plan, const Operands& operands, void* prepared,
                                     std::int64_t preparedBytes, StreamHandle stream) const {
  if (plan.preparedFormat_.empty()) {
    return fail(ErrorCode::kInvalidArgument, "cannot prepare weights: {} {{{}}} has no preparation",
                plan.choice_.kernelTemplate->id(), plan.choice_.configuration.text());
  }
  TW_TRY(checkWeights(plan.problem_, operands));
  TW_TRY(checkBuffer("prepared", prepared, preparedBytes, plan.preparedBytes_));
  const Candidate& choice = plan.choice_;
  LaunchList launches;
  choice.kernelTemplate->encodePreparation(choice.problem, device_->info(), choice.configuration, operands, prepared,
                                           launches);
  return device_->launch(launches, plan.kernels_.handles, stream);
}

Result<void> Runtime::quantizeActivations(const Plan& plan, const Operands& given, void* activations,
                                          std::int64_t activationBytes, StreamHandle stream) const {
  if (plan.activationFormat_.empty()) {
    return fail(ErrorCode::kInvalidArgument, "cannot quantize activations: {} {{{}}} takes none",
                plan.choice_.kernelTemplate->id(), plan.configurationText_);
  }
  if (hasEmptyOutput(plan.problem_)) return {};
  Operands operands = given;
  TW_TRY(checkActivationOperand(plan.problem_, device_->info(), operands));
  TW_TRY(checkBuffer("activations", activations, activationBytes, plan.activationBytes_));
  if (!plan.activationsChecked_.load(std::memory_order_relaxed)) {
    TW_TRY(checkAddress("x", operands.linear.x));
    TW_TRY(checkAddress("activations", activations));
    plan.activationsChecked_.store(true, std::memory_order_relaxed);
  }
  const Candidate& choice = plan.choice_;
  LaunchList launches;
  choice.kernelTemplate->encodeActivations(choice.problem, device_->info(), choice.configuration, operands, activations,
                                           launches);
  return device_->launch(launches, plan.kernels_.handles, stream);
}

}  // namespace tilewright
