#include "tests/gpu/probe_run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

#include "compiler/build_all.h"
#include "compiler/nvrtc/nvrtc_compiler.h"
#include "format/configuration_json.h"
#include "format/problem_json.h"
#include "runtime/operands.h"

namespace tilewright::probe {
namespace {

// A workspace is followed by a guard that no kernel may touch.
constexpr std::size_t kGuardBytes = 4096;
constexpr std::uint8_t kGuardValue = 0xa5;
// Outputs up to this size are checked byte by byte, larger ones at samples.
constexpr std::int64_t kWholeOutputBytes = std::int64_t{64} << 20;

/// "templates/x.cu: ..." of an Error, with its log on stderr.
void printError(const Error& error) {
  std::fprintf(stderr, "%s\n%s%s", error.message.c_str(), error.log.c_str(), error.log.empty() ? "" : "\n");
}

void addResources(const std::vector<Binary>& binaries, JsonValue& line) {
  JsonValue::Array kernels, warnings;
  for (const Binary& binary : binaries) {
    for (const KernelResources& kernel : binary.kernels) {
      kernels.push_back(JsonValue::object({{"entry", kernel.entry},
                                           {"registers", kernel.registers},
                                           {"spill_bytes", kernel.spillBytes},
                                           {"stack_bytes", kernel.stackBytes},
                                           {"shared_bytes", kernel.sharedBytes}}));
    }
    for (const std::string& warning : binary.warnings) warnings.emplace_back(warning);
  }
  line.add("kernels", std::move(kernels));
  if (!warnings.empty()) line.add("warnings", std::move(warnings));
}

double medianOf(std::vector<double> times) {
  if (times.empty()) return 0;
  std::ranges::sort(times);
  return times[times.size() / 2];
}

std::string refusalText(const Refusal& refusal) {
  return fmt::format("{}: {}", refusal.constraint, refusal.reason);
}

}  // namespace

Result<void> buildMissing(const Options& options, const SourceCatalog& sources, CubinCache& cache) {
  const std::unique_ptr<NvrtcCompiler> compiler = TW_TRY(NvrtcCompiler::open({.library = options.nvrtc}));
  cache.prefer(compiler->identity());
  std::vector<BuildRequest> missing;
  std::set<std::string> seen;
  for (const Job& job : options.jobs) {
    for (BuildRequest& request :
         job.kernelTemplate->buildRequests(job.problem, options.planned, job.configuration, sources)) {
      if (!seen.insert(buildKey(request, compiler->identity())).second) continue;
      if (TW_TRY(cache.find(request))) continue;
      missing.push_back(std::move(request));
    }
  }
  Result<void> stored;
  std::size_t done = 0;
  buildAll(*compiler, missing, 0, [&](std::size_t index, const Result<Binary>& binary) {
    std::fprintf(stderr, "[%zu/%zu] %s {%s}\n", ++done, missing.size(), missing[index].templateId.c_str(),
                 describeParameters(missing[index]).c_str());
    if (binary) {
      if (stored) stored = cache.store(*binary);
    } else {
      printError(binary.error());
    }
    return stored.has_value();
  });
  return stored;
}

JobEnd Runner::run(int index) {
  const Job& job = options_.jobs[static_cast<std::size_t>(index)];
  JsonValue line = JsonValue::object({{"template", job.kernelTemplate->id()},
                                      {"problem", problemToJson(job.problem)},
                                      {"config", configurationToJson(job.configuration.entries())}});
  const Result<void> result = runJob(job, line);
  if (!result) {
    line.add("error", fmt::format("{}: {}", errorCodeName(result.error().code), result.error().message));
    if (!result.error().log.empty()) printError(result.error());
  }
  std::printf("%s\n", line.text().c_str());
  // After a fault every further call of this process fails.
  if (!result) return result.error().code == ErrorCode::kDevice ? JobEnd::kSpoilt : JobEnd::kFailed;
  const JsonValue* ok = line.find("ok");
  const bool passed = line.find("refused") == nullptr && (ok == nullptr || *ok->asBoolean());
  return passed ? JobEnd::kPassed : JobEnd::kFailed;
}

Result<std::vector<Binary>> Runner::findBinaries(const Job& job, const DeviceInfo& device) const {
  std::vector<Binary> binaries;
  for (const BuildRequest& request :
       job.kernelTemplate->buildRequests(job.problem, device, job.configuration, sources_)) {
    std::optional<Binary> binary = TW_TRY(cache_.find(request));
    if (!binary) return fail(ErrorCode::kNotFound, "the cache has no build of this kernel for {}", request.target);
    binaries.push_back(std::move(*binary));
  }
  return binaries;
}

Result<void> Runner::prepareOperands(const Job& job) {
  if (problem_ && *problem_ == job.problem) return {};
  problem_.reset(), operands_.reset(), expected_.reset(), host_.reset();
  host_ = TW_TRY(reference::makeOperands(job.problem, options_.operands));
  if (options_.check) expected_ = reference::Expectation::compute(*host_, {.budget = options_.budget});
  operands_ = TW_TRY(reference::DeviceOperands::upload(*device_, *host_));
  if (!hasEmptyOutput(job.problem)) {
    Operands addresses = operands_->operands();
    const Alignment real = TW_TRY(checkOperands(job.problem, device_->info(), addresses));
    if (job.problem.alignment == Alignment::k16 && real == Alignment::kAny) {
      return fail(ErrorCode::kInvalidArgument,
                  "the operands are not aligned to 16 bytes as the problem promises: say alignment=any, or pad rows "
                  "(--operands out_padding=...)");
    }
  }
  problem_ = job.problem;
  return {};
}

Result<void> Runner::checkJob(const Job& job, const std::function<Result<void>(StreamHandle)>& enqueue,
                              const DeviceBuffer& workspace, std::size_t workspaceBytes, JsonValue& line) {
  std::vector<std::byte> first;
  bool identical = true;
  for (int run = 0; run < std::max(options_.identicalRuns, 1); ++run) {
    // Whatever an earlier run left must not help.
    TW_TRY(operands_->poison(*device_));
    TW_TRY(device_->fill(workspace.data(), 0xff, workspaceBytes));
    TW_TRY(enqueue(nullptr));
    TW_TRY(device_->synchronize());
    if (options_.identicalRuns < 2) break;
    std::vector<std::byte> out = TW_TRY(operands_->download(*device_, reference::Role::kOut));
    if (run == 0) {
      first = std::move(out);
    } else {
      identical = identical && out == first;
    }
  }

  const Precision precision = job.kernelTemplate->precision(job.problem, job.configuration);
  const bool whole = expected_->outExtent().bytes <= kWholeOutputBytes;
  const reference::ReadOutput read = operands_->reader(*device_);
  const reference::Verdict verdict = TW_TRY(whole ? reference::checkWhole(*expected_, precision, read)
                                                  : reference::checkSamples(*expected_, precision, read));
  std::vector<std::uint8_t> guard(kGuardBytes);
  TW_TRY(device_->copyToHost(guard.data(), static_cast<std::byte*>(workspace.data()) + workspaceBytes, kGuardBytes));
  const bool guarded = std::ranges::all_of(guard, [](std::uint8_t byte) { return byte == kGuardValue; });

  line.add("ok", verdict.ok && identical && guarded);
  line.add("nrmse", verdict.nrmse);
  line.add("max_error", verdict.maxError);
  if (!verdict.ok) line.add("what", verdict.what);
  if (options_.identicalRuns > 1) line.add("identical", identical);
  if (!guarded) line.add("workspace", "written beyond its end");
  return {};
}

Result<void> Runner::timeJob(const Job& job, const std::function<Result<void>(StreamHandle)>& enqueue,
                             JsonValue& line) {
  std::vector<double> times = TW_TRY(device_->measure(enqueue, options_.measure));
  if (times.empty()) return {};
  std::ranges::sort(times);
  const double median = times[times.size() / 2];
  const DeviceInfo& info = device_->info();
  line.add("us", median);
  line.add("us_min", times.front());
  line.add("us_max", times.back());
  line.add("tflops", flops(job.problem) / median / 1e6);
  line.add("gbps", bytes(job.problem) / median / 1e3);
  line.add("roofline",
           std::max(flops(job.problem) / info.bf16FlopPerSecond, bytes(job.problem) / info.memoryBytesPerSecond) * 1e6 /
               median);
  return {};
}

Result<void> Runner::runJob(const Job& job, JsonValue& line) {
  if (!options_.compileOnly && device_ == nullptr) device_ = TW_TRY(openDevice(options_.device, nullptr));
  const DeviceInfo& info = options_.compileOnly ? options_.planned : device_->info();

  // What refuses the job, before anything runs.
  if (const auto refusal = job.kernelTemplate->refuses(job.problem, info)) {
    line.add("refused", refusalText(*refusal));
    return {};
  }
  if (const auto refusal = job.kernelTemplate->refusesConfiguration(job.problem, info, job.configuration)) {
    line.add("refused", refusalText(*refusal));
    return {};
  }
  const std::vector<Binary> binaries = TW_TRY(findBinaries(job, info));
  addResources(binaries, line);
  for (const Binary& binary : binaries) {
    const auto refusal = refusesBinary(*job.kernelTemplate, binary);
    if (!refusal) continue;
    line.add("refused", refusalText(*refusal));
    if (!options_.force) return {};
    break;
  }
  if (options_.compileOnly) return {};

  // Load the plan's kernels, numbered over all builds.
  std::vector<std::unique_ptr<LoadedBinary>> loaded;
  std::vector<KernelHandle> kernels;
  for (const Binary& binary : binaries) {
    loaded.push_back(TW_TRY(device_->load(binary)));
    for (const KernelResources& kernel : binary.kernels) {
      kernels.push_back(TW_TRY(device_->find(*loaded.back(), kernel.entry)));
    }
  }
  TW_TRY(prepareOperands(job));

  const Template& kernelTemplate = *job.kernelTemplate;
  const auto workspaceBytes =
      static_cast<std::size_t>(kernelTemplate.workspaceBytes(job.problem, info, job.configuration));
  const DeviceBuffer workspace = TW_TRY(device_->allocate(workspaceBytes + kGuardBytes));
  TW_TRY(device_->fill(workspace.data(), kGuardValue, workspaceBytes + kGuardBytes));
  line.add("workspace_bytes", static_cast<std::int64_t>(workspaceBytes));

  DeviceBuffer prepared, activations;
  const std::int64_t preparedBytes = kernelTemplate.preparedBytes(job.problem, info, job.configuration);
  const bool isPrepared = options_.prepared || job.problem.linear.prepared;
  if (isPrepared && preparedBytes > 0) {
    prepared = TW_TRY(device_->allocate(static_cast<std::size_t>(preparedBytes)));
    LaunchList launches;
    kernelTemplate.encodePreparation(job.problem, info, job.configuration, operands_->operands(), prepared.data(),
                                     launches);
    TW_TRY(device_->launch(launches, kernels, nullptr));
    TW_TRY(device_->synchronize());
    line.add("prepared_bytes", preparedBytes);
  }

  const std::function<Result<void>(StreamHandle)> quantize = [&](StreamHandle stream) -> Result<void> {
    LaunchList launches;
    kernelTemplate.encodeActivations(job.problem, info, job.configuration, operands_->operands(), activations.data(),
                                     launches);
    return device_->launch(launches, kernels, stream);
  };
  const std::string_view format = kernelTemplate.activationFormat(job.problem, info, job.configuration);
  if (options_.quantized) line.add("activation_format", format);
  if (options_.quantized && !format.empty()) {
    const std::int64_t activationBytes = kernelTemplate.activationBytes(job.problem, info, job.configuration);
    activations = TW_TRY(device_->allocate(static_cast<std::size_t>(activationBytes)));
    TW_TRY(quantize(nullptr));
    TW_TRY(device_->synchronize());
    line.add("activation_bytes", activationBytes);
    if (options_.time) line.add("quantize_us", medianOf(TW_TRY(device_->measure(quantize, options_.measure))));
  }

  const std::function<Result<void>(StreamHandle)> enqueue = [&](StreamHandle stream) -> Result<void> {
    LaunchList launches;
    if (activations.data() != nullptr) {
      kernelTemplate.encodeQuantized(job.problem, info, job.configuration, operands_->operands(), activations.data(),
                                     workspace.data(), prepared.data(), launches);
    } else {
      kernelTemplate.encode(job.problem, info, job.configuration, operands_->operands(), workspace.data(),
                            prepared.data(), launches);
    }
    return device_->launch(launches, kernels, stream);
  };
  if (options_.check) TW_TRY(checkJob(job, enqueue, workspace, workspaceBytes, line));
  if (options_.time) TW_TRY(timeJob(job, enqueue, line));
  if (!options_.check && !options_.time) {
    TW_TRY(enqueue(nullptr));
    TW_TRY(device_->synchronize());
  }
  return {};
}

}  // namespace tilewright::probe
