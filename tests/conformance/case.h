// A conformance case: a problem with its operands, under a name that says which edge it is.
#pragma once

#include <string>
#include <vector>

#include "base/problem.h"
#include "reference/operands.h"

namespace tilewright::conformance {

struct Case {
  std::string name;
  Problem problem;  ///< its alignment is derived from the operands
  reference::OperandOptions operands{};
  bool huge = false;  ///< tensors beyond 2^31 elements: run on request only
  /// On a GPU, runs in configurations that cover every pair of parameter values, and repeats each of them.
  bool everyPair = false;
};

/// The cases of an operation, in the order in which they run.
std::vector<Case> linearCases(Operation operation);
std::vector<Case> attentionCases();
std::vector<Case> casesOf(Operation operation);

/// Whether the case also runs as a graph, on two streams, many times over and on fewer SMs.
bool hasFlows(const Case& each);

/// A linear case for fewer columns, about half of them, or for more where there are too few. What is left of n by 8
/// stays, so that alignment and builds do. It does not ask for every pair.
Case withOtherColumns(Case each);

/// A linear case for four times as many rows and 16 more: builds of plans that prepare weights stay, and so do their
/// configurations, unless they depend on what is left over of tiles. It does not ask for every pair.
Case withMoreRows(Case each);

/// k16 if all bases, leading strides and inner strides keep that promise for the case's operands on a device that
/// allocates at multiples of 256 bytes, else kAny.
Alignment alignmentOf(const Case& each);

}  // namespace tilewright::conformance
