#include "autotune/protocol.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "format/configuration_json.h"
#include "format/json_fields.h"
#include "format/json_parse.h"
#include "format/problem_json.h"

namespace tilewright::autotune {
namespace {

constexpr std::array<std::string_view, 7> kRequestNames = {"start",  "open",    "binary", "prepare",
                                                           "verify", "measure", "release"};

// A real that JSON can carry; what is not finite travels as null.
JsonValue number(double value) {
  return std::isfinite(value) ? JsonValue(value) : JsonValue();
}

double numberOf(const JsonValue& value) {
  if (const double* real = value.asReal()) return *real;
  if (const std::int64_t* integer = value.asInteger()) return static_cast<double>(*integer);
  return std::numeric_limits<double>::quiet_NaN();
}

ErrorCode errorCodeOf(std::string_view name) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    if (errorCodeName(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  }
  return ErrorCode::kInternal;
}

JsonValue::Array textsOf(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

Result<std::vector<std::string>> textsOf(const JsonValue::Array& values) {
  std::vector<std::string> texts;
  for (const JsonValue& each : values) {
    const std::string* text = each.asString();
    if (text == nullptr) return fail(ErrorCode::kInternal, "expected a text in a worker message");
    texts.push_back(*text);
  }
  return texts;
}

JsonValue binaryToJson(const Binary& binary) {
  JsonValue::Array kernels;
  for (const KernelResources& kernel : binary.kernels) {
    kernels.push_back(JsonValue::object({{"entry", kernel.entry},
                                         {"registers", kernel.registers},
                                         {"spill", kernel.spillBytes},
                                         {"stack", kernel.stackBytes},
                                         {"shared", kernel.sharedBytes}}));
  }
  return JsonValue::object({{"do", "binary"},
                            {"hash", binary.hash},
                            {"build_key", binary.buildKey},
                            {"target", binary.target},
                            {"compiler", binary.compiler},
                            {"kernels", std::move(kernels)},
                            {"bytes", static_cast<std::int64_t>(binary.bytes.size())}});
}

Result<void> binaryFromJson(const JsonFields& fields, WorkerRequest& request) {
  Binary& binary = request.binary;
  binary.hash = TW_TRY(fields.string("hash"));
  binary.buildKey = TW_TRY(fields.string("build_key"));
  binary.target = TW_TRY(fields.string("target"));
  binary.compiler = TW_TRY(fields.string("compiler"));
  request.byteCount = static_cast<std::size_t>(TW_TRY(fields.integer("bytes")));
  for (const JsonValue& each : *TW_TRY(fields.array("kernels"))) {
    const JsonFields kernel = TW_TRY(JsonFields::of(each, "kernels"));
    binary.kernels.push_back({.entry = TW_TRY(kernel.string("entry")),
                              .registers = static_cast<int>(TW_TRY(kernel.integer("registers"))),
                              .spillBytes = static_cast<int>(TW_TRY(kernel.integer("spill"))),
                              .stackBytes = static_cast<int>(TW_TRY(kernel.integer("stack"))),
                              .sharedBytes = static_cast<int>(TW_TRY(kernel.integer("shared")))});
  }
  return {};
}

JsonValue requestToJson(const WorkerRequest& request) {
  using Kind = WorkerRequest::Kind;
  if (request.kind == Kind::kBinary) return binaryToJson(request.binary);
  JsonValue value = JsonValue::object({{"do", kRequestNames[static_cast<std::size_t>(request.kind)]}});
  switch (request.kind) {
    case Kind::kStart:
      value.add("device", request.device);
      break;
    case Kind::kOpen:
      value.add("problem", problemToJson(request.problem));
      value.add("seed", static_cast<std::int64_t>(request.open.seed));
      value.add("sample_budget", request.open.sampleBudget);
      break;
    case Kind::kPrepare: {
      JsonValue::Array parts;
      for (const WorkerRequest::PlanPart& part : request.parts) {
        parts.push_back(JsonValue::object({{"hash", part.hash}, {"entries", textsOf(part.entries)}}));
      }
      value.add("plan", request.plan);
      value.add("template", request.templateId);
      value.add("configuration", configurationToJson(request.configuration.entries()));
      value.add("binaries", std::move(parts));
      break;
    }
    case Kind::kMeasure:
      value.add("plan", request.plan);
      value.add("warmups", request.measure.warmups);
      value.add("repeats", request.measure.repeats);
      value.add("flush", request.measure.flushCache);
      value.add("rest", request.measure.restMilliseconds);
      break;
    default:
      value.add("plan", request.plan);
      break;
  }
  return value;
}

Result<void> prepareFromJson(const JsonFields& fields, WorkerRequest& request) {
  request.templateId = TW_TRY(fields.string("template"));
  if (const JsonValue* configuration = fields.find("configuration")) {
    request.configuration = Configuration(TW_TRY(configurationFromJson(*configuration)));
  }
  for (const JsonValue& each : *TW_TRY(fields.array("binaries"))) {
    const JsonFields part = TW_TRY(JsonFields::of(each, "binaries"));
    request.parts.push_back({TW_TRY(part.string("hash")), TW_TRY(textsOf(*TW_TRY(part.array("entries"))))});
  }
  return {};
}

}  // namespace

std::string encodeRequest(const WorkerRequest& request) {
  return requestToJson(request).text() + "\n";
}

Result<WorkerRequest> decodeRequest(std::string_view line) {
  using Kind = WorkerRequest::Kind;
  const JsonValue value = TW_TRY(parseJson(line));
  const JsonFields fields = TW_TRY(JsonFields::of(value, "request"));
  const std::string name = TW_TRY(fields.string("do"));
  WorkerRequest request;
  std::size_t kind = 0;
  while (kind < kRequestNames.size() && kRequestNames[kind] != name) ++kind;
  if (kind == kRequestNames.size()) return fail(ErrorCode::kInternal, "unknown worker request '{}'", name);
  request.kind = static_cast<Kind>(kind);
  request.plan = static_cast<int>(TW_TRY(fields.integerOr("plan", 0)));

  switch (request.kind) {
    case Kind::kStart:
      request.device = TW_TRY(fields.string("device"));
      break;
    case Kind::kOpen:
      if (const JsonValue* problem = fields.find("problem")) request.problem = TW_TRY(problemFromJson(*problem));
      request.open.seed = static_cast<std::uint64_t>(TW_TRY(fields.integerOr("seed", 1)));
      request.open.sampleBudget = TW_TRY(fields.numberOr("sample_budget", request.open.sampleBudget));
      break;
    case Kind::kBinary:
      TW_TRY(binaryFromJson(fields, request));
      break;
    case Kind::kPrepare:
      TW_TRY(prepareFromJson(fields, request));
      break;
    case Kind::kMeasure:
      request.measure.warmups = static_cast<int>(TW_TRY(fields.integer("warmups")));
      request.measure.repeats = static_cast<int>(TW_TRY(fields.integer("repeats")));
      request.measure.flushCache = TW_TRY(fields.booleanOr("flush", true));
      request.measure.restMilliseconds = TW_TRY(fields.numberOr("rest", 0));
      break;
    default:
      break;
  }
  return request;
}

std::string encodeReply(const Result<WorkerReply>& reply) {
  if (!reply) {
    return JsonValue::object(
               {{"ok", false}, {"code", errorCodeName(reply.error().code)}, {"message", reply.error().message}})
               .text() +
           "\n";
  }
  JsonValue::Array times;
  for (const double each : reply->microseconds) times.push_back(number(each));
  const Verification& verification = reply->verification;
  JsonValue value = JsonValue::object({{"ok", true},
                                       {"verified", verification.ok},
                                       {"what", verification.what},
                                       {"error", number(verification.error)},
                                       {"run", number(verification.microseconds)},
                                       {"microseconds", std::move(times)}});
  if (verification.outlierError) value.add("outlier_error", number(*verification.outlierError));
  if (verification.preparation) {
    value.add("prepared_bytes", verification.preparation->bytes);
    value.add("preparation", number(verification.preparation->microseconds));
  }
  return value.text() + "\n";
}

Result<WorkerReply> decodeReply(std::string_view line) {
  Result<JsonValue> value = parseJson(line);
  if (!value) return fail(ErrorCode::kInternal, "cannot read the worker's answer: {}", value.error().message);
  const JsonFields fields = TW_TRY(JsonFields::of(*value, "reply"));
  if (!TW_TRY(fields.booleanOr("ok", false))) {
    return std::unexpected(
        Error{errorCodeOf(TW_TRY(fields.stringOr("code", ""))), TW_TRY(fields.stringOr("message", "no reason given"))});
  }
  WorkerReply reply;
  Verification& verification = reply.verification;
  verification.ok = TW_TRY(fields.booleanOr("verified", true));
  verification.what = TW_TRY(fields.stringOr("what", ""));
  if (const JsonValue* error = fields.find("error")) verification.error = numberOf(*error);
  if (const JsonValue* run = fields.find("run")) verification.microseconds = numberOf(*run);
  if (const JsonValue* error = fields.find("outlier_error")) verification.outlierError = numberOf(*error);
  if (const JsonValue* preparation = fields.find("preparation")) {
    verification.preparation = {.bytes = TW_TRY(fields.integer("prepared_bytes")),
                                .microseconds = numberOf(*preparation)};
  }
  if (fields.find("microseconds") != nullptr) {
    for (const JsonValue& each : *TW_TRY(fields.array("microseconds"))) reply.microseconds.push_back(numberOf(each));
  }
  return reply;
}

}  // namespace tilewright::autotune
