// The C interface over Runtime: converts structures, keeps the calling thread's last error, and lets nothing escape.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/code_generators.h"
#include "runtime/explain.h"
#include "runtime/runtime.h"
#include "tilewright/tilewright.h"

using namespace tilewright;

struct tw_databases {
  DatabaseLayers layers;
};

struct tw_runtime {
  std::unique_ptr<Runtime> runtime;
};

namespace {

// The one mutable variable of the library: a C caller asks for the words after the status, each thread for its own.
struct LastError {
  std::string message, log;
};
LastError& lastError() {
  static thread_local LastError error;
  return error;
}

constexpr tw_status statusOf(ErrorCode code) {
  return static_cast<tw_status>(static_cast<int>(code) + 1);
}
static_assert(statusOf(ErrorCode::kInvalidArgument) == TW_INVALID_ARGUMENT);
static_assert(statusOf(ErrorCode::kVersion) == TW_VERSION_MISMATCH);
static_assert(statusOf(ErrorCode::kInternal) == TW_INTERNAL);

tw_status keep(Error error) {
  lastError() = {std::move(error.message), std::move(error.log)};
  return statusOf(error.code);
}

/// The last error of a call that an exception ended. `words` are short enough to be stored without allocating.
tw_status keepException(tw_status status, const char* words) noexcept {
  lastError().message = words;
  lastError().log.clear();
  return status;
}

/// Runs `body`, which returns Result<void>; memory that ran out is an error like others.
template <typename Body>
tw_status call(Body&& body) noexcept {
  try {
    Result<void> result = body();
    return result ? TW_OK : keep(std::move(result).error());
  } catch (const std::bad_alloc&) {
    return keepException(TW_OUT_OF_MEMORY, "out of memory");
  } catch (...) {
    return keepException(TW_INTERNAL, "internal error");
  }
}

template <typename Pointer>
Result<void> notNull(Pointer* pointer, std::string_view name) {
  if (pointer == nullptr) return fail(ErrorCode::kInvalidArgument, "{} is null", name);
  return {};
}

template <typename Enum>
Result<Enum> toEnum(int value, int count, std::string_view name) {
  if (value < 0 || value >= count) {
    return fail(ErrorCode::kInvalidArgument, "{} is {}, must be from 0 to {}", name, value, count - 1);
  }
  return static_cast<Enum>(value);
}
static_assert(static_cast<int>(Operation::kAttention) == TW_ATTENTION &&
              static_cast<int>(Operation::kLinear) == TW_LINEAR);
static_assert(static_cast<int>(Precision::kFp8) == TW_FP8 && static_cast<int>(Precision::kFast) == TW_FAST);
static_assert(static_cast<int>(Alignment::kAny) == TW_ALIGNED_ANY);
static_assert(static_cast<int>(Provenance::kExact) == TW_MEASURED &&
              static_cast<int>(Provenance::kNearest) == TW_NEAREST &&
              static_cast<int>(Provenance::kDefault) == TW_DEFAULT);

// A number that is neither is memory that nobody initialized.
Result<bool> toFlag(int value, std::string_view name) {
  if (value == 0 || value == 1) return value == 1;
  return fail(ErrorCode::kInvalidArgument, "{} is {}, must be 0 or 1", name, value);
}

Result<Problem> toProblem(const tw_problem* given) {
  TW_TRY(notNull(given, "problem"));
  Problem problem;
  problem.operation = TW_TRY(toEnum<Operation>(given->operation, 3, "operation"));
  problem.alignment = TW_TRY(toEnum<Alignment>(given->alignment, 2, "alignment"));
  if (problem.isLinear()) {
    problem.linear = {.n = given->n,
                      .k = given->k,
                      .m = given->m,
                      .precision = TW_TRY(toEnum<Precision>(given->precision, 4, "precision")),
                      .bias = TW_TRY(toFlag(given->bias, "bias")),
                      .prepared = TW_TRY(toFlag(given->prepared, "prepared"))};
  } else {
    problem.attention = {.batch = given->batch,
                         .qHeads = given->q_heads,
                         .kvHeads = given->kv_heads,
                         .headDim = given->head_dim,
                         .qLen = given->q_len,
                         .kvLen = given->kv_len,
                         .causal = TW_TRY(toFlag(given->causal, "causal")),
                         .logSumExp = TW_TRY(toFlag(given->log_sum_exp, "log_sum_exp"))};
  }
  return problem;
}

const Plan& planOf(const tw_plan* plan) {
  return *reinterpret_cast<const Plan*>(plan);
}

Result<Operands> toOperands(const tw_linear_operands* given) {
  TW_TRY(notNull(given, "operands"));
  return Operands{.linear = {given->x, given->x_stride, given->w, given->bias, given->out, given->out_stride}};
}

Strides toStrides(const tw_strides& given) {
  return {given.batch, given.head, given.row, given.column};
}

Result<Operands> toOperands(const tw_attention_operands* given) {
  TW_TRY(notNull(given, "operands"));
  return Operands{.attention = {.q = given->q,
                                .k = given->k,
                                .v = given->v,
                                .out = given->out,
                                .lse = given->lse,
                                .kvLen = given->kv_len,
                                .capacity = given->capacity,
                                .scale = given->scale,
                                .qStride = toStrides(given->q_stride),
                                .kStride = toStrides(given->k_stride),
                                .vStride = toStrides(given->v_stride),
                                .outStride = toStrides(given->out_stride)}};
}

LaunchBuffers toBuffers(const tw_buffers* given) {
  if (given == nullptr) return {};
  return {.workspace = given->workspace,
          .workspaceBytes = given->workspace_bytes,
          .prepared = given->prepared,
          .preparedBy = reinterpret_cast<const Plan*>(given->prepared_by),
          .activations = given->activations,
          .quantizedBy = reinterpret_cast<const Plan*>(given->quantized_by)};
}

/// The operands' kind must be the problem's.
template <typename Given>
Result<void> sameKind(const Problem& problem, const Given*) {
  constexpr bool kLinear = std::is_same_v<Given, tw_linear_operands>;
  if (problem.isLinear() == kLinear) return {};
  return fail(ErrorCode::kInvalidArgument, "cannot launch {} with the operands of {}", operationName(problem.operation),
              kLinear ? "a linear operation" : "attention");
}

template <typename Given>
tw_status launchPlan(const tw_plan* plan, const Given* operands, const tw_buffers* buffers, void* stream) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(plan, "plan"));
    TW_TRY(sameKind(planOf(plan).problem(), operands));
    return planOf(plan).runtime().launch(planOf(plan), TW_TRY(toOperands(operands)), toBuffers(buffers), stream);
  });
}

template <typename Given>
tw_status launchProblem(tw_runtime* runtime, const tw_problem* given, const Given* operands, const tw_buffers* buffers,
                        void* stream) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(runtime, "runtime"));
    const Problem problem = TW_TRY(toProblem(given));
    TW_TRY(sameKind(problem, operands));
    return runtime->runtime->launch(problem, TW_TRY(toOperands(operands)), toBuffers(buffers), stream);
  });
}

/// The compilers of a libtilewright_jit that fits this library.
Result<const CodeGenerators*> generatorsOf(const tw_jit* jit) {
  const std::string_view version(jit->version.data(), ::strnlen(jit->version.data(), jit->version.size()));
  if (version != kCodeGeneratorsVersion || jit->bytes != sizeof(CodeGenerators)) {
    return fail(ErrorCode::kVersion, "libtilewright_jit is '{}', libtilewright needs '{}': install both from one build",
                version, kCodeGeneratorsVersion);
  }
  return &jit->generators;
}

}  // namespace

extern "C" {

const char* tw_version(void) {
  return TILEWRIGHT_VERSION;
}

const char* tw_status_name(int status) {
  if (status == TW_OK) return "ok";
  const int code = status - 1;
  return code >= 0 && code <= static_cast<int>(ErrorCode::kInternal)
             ? errorCodeName(static_cast<ErrorCode>(code)).data()
             : "unknown";
}

const char* tw_error_message(void) {
  return lastError().message.c_str();
}
const char* tw_error_log(void) {
  return lastError().log.c_str();
}

tw_status tw_databases_open(const char* const* paths, size_t count, tw_databases** databases) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(databases, "databases"));
    if (count > 0) TW_TRY(notNull(paths, "paths"));
    std::vector<std::shared_ptr<const Database>> layers;
    for (std::size_t i = 0; i < count; ++i) {
      TW_TRY(notNull(paths[i], fmt::format("paths[{}]", i)));
      layers.push_back(TW_TRY(Database::open(paths[i])));
    }
    *databases = new tw_databases{DatabaseLayers(std::move(layers))};
    return {};
  });
}

void tw_databases_close(tw_databases* databases) {
  delete databases;
}

void tw_jit_close(tw_jit* jit) {
  if (jit != nullptr) jit->close(jit);
}

tw_status tw_runtime_open(const tw_runtime_options* options, tw_runtime** runtime) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(options, "options"));
    TW_TRY(notNull(runtime, "runtime"));
    if (options->struct_bytes != sizeof(tw_runtime_options)) {
      return fail(ErrorCode::kInvalidArgument, "struct_bytes of tw_runtime_options is {}, must be {}",
                  options->struct_bytes, sizeof(tw_runtime_options));
    }
    TW_TRY(notNull(options->device, "device"));
    RuntimeOptions made;
    const HostLoader* hostLoader = nullptr;
    if (options->jit != nullptr) {
      const CodeGenerators& generators = *TW_TRY(generatorsOf(options->jit));
      for (const auto& compiler : generators.compilers) made.compilers.push_back(compiler.get());
      made.missingCompilers = generators.missing;
      hostLoader = generators.hostLoader.get();
    }
    if (options->databases != nullptr) made.layers = options->databases->layers;
    if (options->build_cache != nullptr) {
      // Nobody who waits for a kernel waits long for another process' lock: the binary is then not kept.
      constexpr int kBusyMilliseconds = 1000;
      made.buildCache = TW_TRY(Database::open(
          options->build_cache, {.access = DatabaseAccess::kCreate, .busyTimeoutMilliseconds = kBusyMilliseconds}));
    }
    made.device = TW_TRY(openDevice(options->device, hostLoader));
    auto created = TW_TRY(Runtime::create(std::move(made)));
    *runtime = new tw_runtime{std::move(created)};
    return {};
  });
}

void tw_runtime_close(tw_runtime* runtime) {
  delete runtime;
}

const char* tw_runtime_warning(const tw_runtime* runtime, size_t index) {
  if (runtime == nullptr) return nullptr;
  const std::vector<std::string>& warnings = runtime->runtime->dispatcher().warnings();
  return index < warnings.size() ? warnings[index].c_str() : nullptr;
}

tw_status tw_bind(tw_runtime* runtime, const tw_problem* problem, const tw_plan** plan) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(runtime, "runtime"));
    TW_TRY(notNull(plan, "plan"));
    const Plan* bound = TW_TRY(runtime->runtime->bind(TW_TRY(toProblem(problem))));
    *plan = reinterpret_cast<const tw_plan*>(bound);
    return {};
  });
}

tw_status tw_prepare(tw_runtime* runtime, const tw_problem* problems, size_t count) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(runtime, "runtime"));
    if (count > 0) TW_TRY(notNull(problems, "problems"));
    std::vector<Problem> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(TW_TRY(toProblem(&problems[i])));
    return runtime->runtime->prepare(all);
  });
}

tw_status tw_describe(const tw_plan* plan, tw_plan_info* info) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(plan, "plan"));
    TW_TRY(notNull(info, "info"));
    if (info->struct_bytes != sizeof(tw_plan_info)) {
      return fail(ErrorCode::kInvalidArgument, "struct_bytes of tw_plan_info is {}, must be {}", info->struct_bytes,
                  sizeof(tw_plan_info));
    }
    const Plan& described = planOf(plan);
    const Candidate& choice = described.choice();
    *info = {.struct_bytes = sizeof(tw_plan_info),
             .provenance = static_cast<tw_provenance>(choice.provenance),
             .template_id = choice.kernelTemplate->id().data(),
             .configuration = described.configurationText().c_str(),
             .reason = choice.reason.c_str(),
             .binary = described.origins().empty() ? "" : described.origins().front().c_str(),
             .median_microseconds = choice.margin.medianMicroseconds,
             .default_microseconds = choice.margin.defaultMicroseconds,
             .runner_up_microseconds = choice.margin.runnerUpMicroseconds,
             .error = choice.margin.error,
             .workspace_bytes = described.workspaceBytes(),
             .prepared_format = described.preparedFormat().c_str(),
             .prepared_bytes = described.preparedBytes(),
             .activation_format = described.activationFormat().c_str(),
             .activation_bytes = described.activationBytes()};
    return {};
  });
}

int64_t tw_workspace_bytes(const tw_plan* plan) {
  return plan == nullptr ? 0 : planOf(plan).workspaceBytes();
}
const char* tw_prepared_format(const tw_plan* plan) {
  return plan == nullptr ? "" : planOf(plan).preparedFormat().c_str();
}
int64_t tw_prepared_bytes(const tw_plan* plan) {
  return plan == nullptr ? 0 : planOf(plan).preparedBytes();
}
const char* tw_activation_format(const tw_plan* plan) {
  return plan == nullptr ? "" : planOf(plan).activationFormat().c_str();
}
int64_t tw_activation_bytes(const tw_plan* plan) {
  return plan == nullptr ? 0 : planOf(plan).activationBytes();
}

tw_status tw_explain(tw_runtime* runtime, const tw_problem* given, char* text, size_t capacity, size_t* length) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(runtime, "runtime"));
    const Problem problem = TW_TRY(toProblem(given));
    TW_TRY(validate(problem));
    const Runtime& inner = *runtime->runtime;
    const std::string json = explainJson(inner.dispatcher().select(problem), inner.device().info(), inner.layers(),
                                         inner.dispatcher().warnings())
                                 .text();
    if (length != nullptr) *length = json.size();
    if (text == nullptr && capacity == 0) return {};
    TW_TRY(notNull(text, "text"));
    if (json.size() >= capacity) {
      return fail(ErrorCode::kInvalidArgument, "cannot explain: capacity is {} bytes, must be {}", capacity,
                  json.size() + 1);
    }
    std::memcpy(text, json.c_str(), json.size() + 1);
    return {};
  });
}

tw_status tw_launch_linear(const tw_plan* plan, const tw_linear_operands* operands, const tw_buffers* buffers,
                           void* stream) {
  return launchPlan(plan, operands, buffers, stream);
}

tw_status tw_launch_attention(const tw_plan* plan, const tw_attention_operands* operands, const tw_buffers* buffers,
                              void* stream) {
  return launchPlan(plan, operands, buffers, stream);
}

tw_status tw_linear(tw_runtime* runtime, const tw_problem* problem, const tw_linear_operands* operands,
                    const tw_buffers* buffers, void* stream) {
  return launchProblem(runtime, problem, operands, buffers, stream);
}

tw_status tw_attention(tw_runtime* runtime, const tw_problem* problem, const tw_attention_operands* operands,
                       const tw_buffers* buffers, void* stream) {
  return launchProblem(runtime, problem, operands, buffers, stream);
}

tw_status tw_prepare_weights(const tw_plan* plan, const void* w, void* prepared, int64_t prepared_bytes, void* stream) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(plan, "plan"));
    return planOf(plan).runtime().prepareWeights(planOf(plan), {.linear = {.w = w}}, prepared, prepared_bytes, stream);
  });
}

tw_status tw_quantize_activations(const tw_plan* plan, const void* x, int64_t x_stride, void* activations,
                                  int64_t activation_bytes, void* stream) {
  return call([&]() -> Result<void> {
    TW_TRY(notNull(plan, "plan"));
    return planOf(plan).runtime().quantizeActivations(planOf(plan), {.linear = {.x = x, .xStride = x_stride}},
                                                      activations, activation_bytes, stream);
  });
}

}  // extern "C"
