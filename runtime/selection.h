// What the dispatcher decided for a problem, and everything that `explain` tells about it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "templates/configuration.h"
#include "templates/template.h"

namespace tilewright {

/// How a plan was found.
enum class Provenance : std::uint8_t {
  kExact,    ///< measured for this problem on this device
  kNearest,  ///< wins, and beats the default, at the nearest measured problems below and above
  kDefault,  ///< not measured: the template's own default
  kNone,     ///< nothing computes the problem
};

std::string_view provenanceName(Provenance provenance);

/// Measured times behind a choice, microseconds; 0 where there is none.
struct Margin {
  double medianMicroseconds = 0;
  double defaultMicroseconds = 0;
  double runnerUpMicroseconds = 0;
  double error = std::numeric_limits<double>::quiet_NaN();  ///< normalized RMS; NaN if not recorded
};

/// A plan that could run.
struct Candidate {
  const Template* kernelTemplate = nullptr;
  Configuration configuration;
  Problem problem;  ///< as the template is given it: the asked one, or one that promises less and computes more exactly
  Provenance provenance = Provenance::kDefault;
  int layer = -1;                    ///< the database layer that holds the winner; -1 without one
  Margin margin;                     ///< of the winner, or of the slower neighbour
  double predictedMicroseconds = 0;  ///< the template's cost model
  std::string reason;                ///< a sentence
};

/// A template, or a winner of a database, that does not run the problem.
struct RefusedCandidate {
  std::string templateId;
  std::string configuration;  ///< text; empty where the template refuses the problem as such
  int layer = -1;
  Refusal refusal;
};

struct Selection {
  Problem problem;
  std::vector<Candidate> candidates;  ///< best first; a candidate that cannot be loaded yields to the next
  std::vector<RefusedCandidate> refused;
  std::vector<std::string> notes;  ///< why no better provenance was reached

  Provenance provenance() const { return candidates.empty() ? Provenance::kNone : candidates.front().provenance; }
};

}  // namespace tilewright
