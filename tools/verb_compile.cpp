// `tilewright compile`: the code of a plan at any stage, for any target, without a device.
//
//   CUDA templates:  request, source -> ptx -> cubin, resources          (NVRTC)
//   tile programs:   request -> tile -> llvm -> assembly, object, resources   (the tile compiler)
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>

#include "compiler/nvrtc/nvrtc_compiler.h"
#include "compiler/tile/tile_compiler.h"
#include "format/configuration_json.h"
#include "format/listing.h"
#include "runtime/dispatcher.h"
#include "templates/sources.h"
#include "templates/template.h"
#include "tools/setup.h"
#include "tools/table.h"
#include "tools/verbs.h"

namespace tilewright {
namespace {

struct ChosenPlan {
  const Template* kernelTemplate;
  Configuration configuration;
};

// The given configuration over the default one, so that one parameter can be tried by itself.
Result<Configuration> configurationOf(const Template& kernelTemplate, const Configuration& standard,
                                      const Configuration& given) {
  Configuration configuration = standard;
  for (const auto& [name, value] : given.entries()) {
    if (standard.find(name) == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "--config: {} has no parameter '{}'; it has {}", kernelTemplate.id(),
                  name, standard.text());
    }
    configuration.set(name, value);
  }
  return configuration;
}

Result<ChosenPlan> choosePlan(const Options& options, const DeviceInfo& device) {
  const Problem& problem = *options.problem;
  if (options.templateId.empty()) {
    std::vector<RefusedCandidate> refused;
    auto candidates = defaultCandidates(problem, device, allTemplates(), &refused);
    if (!candidates.empty())
      return ChosenPlan{candidates.front().kernelTemplate, std::move(candidates.front().configuration)};
    std::string reasons;
    for (const RefusedCandidate& each : refused)
      reasons += fmt::format("; {}: {}", each.templateId, each.refusal.reason);
    return fail(ErrorCode::kUnsupported, "no template computes this problem for {}{}", device.target, reasons);
  }
  const Template* kernelTemplate = findTemplate(options.templateId);
  if (kernelTemplate == nullptr) {
    std::vector<std::string_view> names;
    for (const Template* each : allTemplates()) names.push_back(each->id());
    return fail(ErrorCode::kNotFound, "unknown template '{}'; known are {}", options.templateId,
                fmt::join(names, ", "));
  }
  if (kernelTemplate->operation() != problem.operation) {
    return fail(ErrorCode::kInvalidArgument, "{} computes {}, the problem is {}", kernelTemplate->id(),
                operationName(kernelTemplate->operation()), operationName(problem.operation));
  }
  if (const auto refusal = kernelTemplate->refuses(problem, device)) {
    return fail(ErrorCode::kUnsupported, "{} refuses the problem: {}: {}", kernelTemplate->id(), refusal->constraint,
                refusal->reason);
  }
  Configuration configuration = kernelTemplate->defaultConfiguration(problem, device);
  if (options.configuration) {
    configuration = TW_TRY(configurationOf(*kernelTemplate, configuration, *options.configuration));
  }
  if (const auto refusal = kernelTemplate->refusesConfiguration(problem, device, configuration)) {
    return fail(ErrorCode::kInvalidArgument, "cannot build {} {{{}}}: {}: {}", kernelTemplate->id(),
                configuration.text(), refusal->constraint, refusal->reason);
  }
  return ChosenPlan{kernelTemplate, std::move(configuration)};
}

Result<void> writeBytes(const std::filesystem::path& file, std::string_view bytes) {
  errno = 0;
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  if (!stream) return fail(ErrorCode::kIo, "cannot write {}: {}", file.string(), std::strerror(errno));
  return {};
}

// The file of build `index` of `count`: several builds get their number before the extension.
std::filesystem::path numbered(const std::filesystem::path& file, std::size_t index, std::size_t count) {
  if (count == 1) return file;
  auto name = file.stem();
  name += fmt::format(".{}", index);
  name += file.extension();
  return file.parent_path() / name;
}

Result<void> emit(const CompileFlags& flags, const std::vector<std::string>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (flags.output) {
      TW_TRY(writeBytes(numbered(*flags.output, i, outputs.size()), outputs[i]));
    } else {
      std::fwrite(outputs[i].data(), 1, outputs[i].size(), stdout);
    }
  }
  return {};
}

JsonValue requestToJson(const BuildRequest& request, const Compiler* compiler) {
  JsonValue parameters{JsonValue::Object{}};
  for (const auto& [name, value] : request.parameters) parameters.add(name, value);
  JsonValue::Array includes;
  for (const SourceFile& file : request.includes) includes.push_back(file.name);
  JsonValue value = JsonValue::object({{"template", request.templateId},
                                       {"kind", request.kind == SourceKind::kCuda ? "cuda" : "tile"},
                                       {"target", request.target},
                                       {"parameters", std::move(parameters)},
                                       {"options", JsonValue::Array(request.options.begin(), request.options.end())},
                                       {"entries", JsonValue::Array(request.entries.begin(), request.entries.end())},
                                       {"includes", std::move(includes)},
                                       {"request_key", buildKey(request, "")}});
  if (compiler != nullptr) {
    value.add("compiler", compiler->identity());
    value.add("build_key", buildKey(request, compiler->identity()));
  }
  return value;
}

Result<std::string> sourceOf(const BuildRequest& request) {
  if (request.kind != SourceKind::kCuda) {
    return fail(ErrorCode::kUnsupported, "{} is a tile program: its first stage is tile", request.templateId);
  }
  std::string text;
  for (const SourceFile& file : request.includes) text += fmt::format("// ==== {}\n{}\n", file.name, file.text);
  return text + fmt::format("// ==== {}\n{}", request.templateId, request.source);
}

// A stage between source and machine code, as text.
Result<std::string> textOf(std::string_view stage, const BuildRequest& request, const Environment& environment) {
  if (stage == "source") return sourceOf(request);
  if (request.kind == SourceKind::kCuda && stage == "ptx") {
    return TW_TRY(NvrtcCompiler::open({.directories = environment.cudaDirectories}))->emitPtx(request);
  }
  if (request.kind == SourceKind::kTile) {
    if (stage == "tile") return emitTileStage(request, TileStage::kTile);
    if (stage == "llvm") return emitTileStage(request, TileStage::kLlvm);
    if (stage == "assembly") return emitTileStage(request, TileStage::kAssembly);
  }
  return fail(ErrorCode::kUnsupported, "{} for {} has no stage {}", request.templateId, request.target, stage);
}

std::string kernelsTable(const std::vector<Binary>& binaries) {
  using Side = Table::Side;
  Table table({{"kernel"},
               {"registers", Side::kRight},
               {"spills", Side::kRight},
               {"stack", Side::kRight},
               {"shared", Side::kRight},
               {"binary", Side::kRight},
               {"compiler"}});
  for (const Binary& binary : binaries) {
    for (const KernelResources& kernel : binary.kernels) {
      // Host code has no such counts.
      const bool counted = binary.target.starts_with("sm_");
      const auto count = [&](int value, const char* unit) { return counted ? fmt::format("{}{}", value, unit) : "-"; };
      table.add({kernel.entry, count(kernel.registers, ""), count(kernel.spillBytes, " B"),
                 count(kernel.stackBytes, " B"), count(kernel.sharedBytes, " B"),
                 formatBytes(static_cast<double>(binary.bytes.size())), binary.compiler});
    }
  }
  return table.text();
}

std::string kernelsListing(const ChosenPlan& plan, const std::vector<Binary>& binaries) {
  JsonValue::Array entries;
  for (const Binary& binary : binaries) {
    for (const KernelResources& kernel : binary.kernels) {
      entries.push_back(
          JsonValue::object({{"kernel", kernel.entry},
                             {"registers", kernel.registers},
                             {"spill_bytes", kernel.spillBytes},
                             {"stack_bytes", kernel.stackBytes},
                             {"shared_bytes", kernel.sharedBytes},
                             {"binary_bytes", static_cast<std::int64_t>(binary.bytes.size())},
                             {"hash", binary.hash},
                             {"build_key", binary.buildKey},
                             {"target", binary.target},
                             {"compiler", binary.compiler},
                             {"warnings", JsonValue::Array(binary.warnings.begin(), binary.warnings.end())}}));
    }
  }
  return listingText(
      "kernels", entries,
      {{"template", plan.kernelTemplate->id()}, {"configuration", configurationToJson(plan.configuration.entries())}});
}

Result<ExitCode> emitBinaries(const Options& options, const ChosenPlan& plan, const std::vector<BuildRequest>& requests,
                              const CompilerSet& compilers) {
  const std::string& stage = options.compile.stage;
  std::vector<Binary> binaries;
  for (const BuildRequest& request : requests) {
    const bool cuda = request.kind == SourceKind::kCuda;
    if (stage != "resources" && stage != (cuda ? "cubin" : "object")) {
      return fail(ErrorCode::kUnsupported, "{} for {} has no stage {}", request.templateId, request.target, stage);
    }
    const Compiler* compiler = compilers.find(request.kind, request.target);
    if (compiler == nullptr) {
      return fail(ErrorCode::kUnavailable, "no compiler for {} on {}{}{}", request.templateId, request.target,
                  compilers.missing().empty() ? "" : ": ", fmt::join(compilers.missing(), "; "));
    }
    binaries.push_back(TW_TRY(compiler->build(request)));
    printNotes(binaries.back().warnings);
    if (const auto refusal = refusesBinary(*plan.kernelTemplate, binaries.back())) {
      printNotes({fmt::format("{} would not run this build: {}: {}", request.templateId, refusal->constraint,
                              refusal->reason)});
    }
  }
  if (stage == "resources") {
    TW_TRY(emit(options.compile, {options.json ? kernelsListing(plan, binaries) : kernelsTable(binaries)}));
    return kExitSuccess;
  }
  std::vector<std::string> outputs;
  for (const Binary& binary : binaries) {
    outputs.emplace_back(reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size());
  }
  TW_TRY(emit(options.compile, outputs));
  return kExitSuccess;
}

}  // namespace

Result<ExitCode> runCompile(const Options& options) {
  const PickedDevice device = TW_TRY(pickDevice(options.device));
  const ChosenPlan plan = TW_TRY(choosePlan(options, device.info));
  const SourceCatalog sources;
  const std::vector<BuildRequest> requests =
      plan.kernelTemplate->buildRequests(*options.problem, device.info, plan.configuration, sources);
  const std::string& stage = options.compile.stage;
  if (options.json && stage != "resources" && stage != "request") {
    return fail(ErrorCode::kInvalidArgument, "--json is for --emit request and resources, not for {}", stage);
  }

  if (stage == "source" || stage == "tile" || stage == "llvm" || stage == "assembly" || stage == "ptx") {
    std::vector<std::string> outputs;
    for (const BuildRequest& request : requests) outputs.push_back(TW_TRY(textOf(stage, request, options.environment)));
    TW_TRY(emit(options.compile, outputs));
    return kExitSuccess;
  }
  const CompilerSet compilers = CompilerSet::open(options.environment);
  if (stage != "request") return emitBinaries(options, plan, requests, compilers);
  JsonValue::Array entries;
  for (const BuildRequest& request : requests) {
    entries.push_back(requestToJson(request, compilers.find(request.kind, request.target)));
  }
  TW_TRY(emit(options.compile, {listingText("requests", entries)}));
  return kExitSuccess;
}

}  // namespace tilewright
