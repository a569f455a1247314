// From a problem to the candidates that are worth compiling.
//
// Every template is asked; those that refuse the problem are named with their reason. The configurations that a
// template's constraints accept are ordered by its cost model and pruned to a cap. Cost models are wrong in places, so
// a quarter of the cap is drawn at random (from a seed) among the rest, and every template that computes the problem
// keeps at least its default and a fair share of the cap. The default plan, which runs when nothing was tuned, is
// always a candidate.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "templates/template.h"

namespace tilewright::autotune {

struct Candidate {
  const Template* kernelTemplate = nullptr;
  Configuration configuration;
  double predictedMicroseconds = 0;
};

struct TemplateRefusal {
  const Template* kernelTemplate = nullptr;
  Refusal refusal;
};

/// How many configurations a constraint of a template refused.
struct ConstraintCount {
  const Template* kernelTemplate = nullptr;
  std::string constraint;
  std::int64_t count = 0;
};

struct SearchSpace {
  std::vector<Candidate> candidates;  ///< in the fixed order: templates as registered, then parameters' values in order
  int defaultCandidate = 0;           ///< index of the plan that runs when nothing was tuned
  std::vector<TemplateRefusal> refusedTemplates;
  std::vector<ConstraintCount> refusedConfigurations;
  std::int64_t accepted = 0;  ///< configurations that the constraints accept, over all templates
};

struct SearchOptions {
  int cap = 24;  ///< candidates at most, defaults included; at least one per template
  std::uint64_t seed = 1;
};

/// kUnsupported, with every template's reason, if none computes the problem on this device.
Result<SearchSpace> buildSearchSpace(const Problem& problem, const DeviceInfo& device,
                                     std::span<const Template* const> templates, const SearchOptions& options);

/// "linear.a: n is 7, must be 8; linear.b: ...": why each template of the operation refuses the problem.
std::string refusalReasons(const Problem& problem, const DeviceInfo& device,
                           std::span<const Template* const> templates);

/// The accepted configurations that differ from `candidate` in one parameter by one step of its values.
std::vector<Candidate> neighbours(const Candidate& candidate, const Problem& problem, const DeviceInfo& device);

/// The template whose default is predicted to be fastest, the earlier among equals; null if all refuse.
const Template* defaultTemplate(const Problem& problem, const DeviceInfo& device,
                                std::span<const Template* const> templates);

/// The order in which to probe: fastest predicted first, fixed order among equals.
std::vector<int> probeOrder(const std::vector<Candidate>& candidates);

}  // namespace tilewright::autotune
