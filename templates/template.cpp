#include "templates/template.h"

#include <algorithm>

namespace tilewright {

const Template* findTemplate(std::string_view id) {
  const auto all = allTemplates();
  const auto found = std::ranges::find(all, id, [](const Template* each) { return each->id(); });
  return found == all.end() ? nullptr : *found;
}

bool servesPrepared(std::string_view given, std::string_view wanted) {
  return given.starts_with(wanted) && (given.size() == wanted.size() || given[wanted.size()] == '+');
}

std::vector<Configuration> enumerateConfigurations(const Template& kernelTemplate, const Problem& problem,
                                                   const DeviceInfo& device) {
  const std::vector<Parameter> parameters = kernelTemplate.parameters(problem, device);
  std::vector<Configuration> accepted;

  // Count through the product like an odometer, last parameter fastest.
  std::vector<std::size_t> digit(parameters.size(), 0);
  while (true) {
    Configuration configuration;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      configuration.set(parameters[i].name, parameters[i].values[digit[i]]);
    if (!kernelTemplate.refusesConfiguration(problem, device, configuration))
      accepted.push_back(std::move(configuration));

    std::size_t i = parameters.size();
    while (i > 0 && ++digit[i - 1] == parameters[i - 1].values.size()) digit[--i] = 0;
    if (i == 0) return accepted;
  }
}

std::optional<Refusal> refusesValues(std::span<const Parameter> parameters, const Configuration& configuration) {
  for (const auto& [name, value] : configuration.entries()) {
    if (std::ranges::find(parameters, name, &Parameter::name) == parameters.end()) {
      return Refusal{"parameters", fmt::format("{} is not a parameter of this template", name)};
    }
  }
  for (const Parameter& parameter : parameters) {
    const std::int64_t* value = configuration.find(parameter.name);
    if (value != nullptr && std::ranges::find(parameter.values, *value) != parameter.values.end()) continue;
    return Refusal{parameter.name, fmt::format("{} is {}, must be one of {}", parameter.name,
                                               value == nullptr ? "missing" : fmt::to_string(*value),
                                               fmt::join(parameter.values, ", "))};
  }
  return std::nullopt;
}

std::optional<Refusal> refusesBinary(const Template& kernelTemplate, const Binary& binary) {
  if (!kernelTemplate.demandsCleanBuild()) return std::nullopt;
  for (const KernelResources& kernel : binary.kernels) {
    if (kernel.spillBytes > 0) {
      return Refusal{"no_spills",
                     fmt::format("{} spills {} bytes per thread, must not spill", kernel.entry, kernel.spillBytes)};
    }
    if (kernel.stackBytes > 0) {
      return Refusal{"no_stack_frame",
                     fmt::format("{} has a stack frame of {} bytes, must have none", kernel.entry, kernel.stackBytes)};
    }
  }
  if (binary.wgmmaSerialized()) {
    return Refusal{"no_serialized_wgmma", "the assembler serialized wgmma, must overlap it"};
  }
  return std::nullopt;
}

std::optional<Refusal> refusesOperation(const Template& kernelTemplate, const Problem& problem) {
  if (problem.operation == kernelTemplate.operation()) return std::nullopt;
  return Refusal{"operation", fmt::format("the operation is {}, {} computes {}", operationName(problem.operation),
                                          kernelTemplate.id(), operationName(kernelTemplate.operation()))};
}

}  // namespace tilewright
