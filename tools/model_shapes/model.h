// A model as the readers of model files describe it, before row counts, lengths and tensor parallelism are applied.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/problem.h"

namespace tilewright {

/// How tensor parallelism divides a weight matrix W[n, k].
enum class Split : std::uint8_t {
  kColumns,        ///< n: projections into heads, the first half of a feed-forward network
  kPaddedColumns,  ///< n, rounded up: the output head
  kRows,           ///< k: projections back to the hidden size
};

/// Rows of W that belong together: a plain linear has one part, a fused one a part per matrix.
struct LinearPart {
  std::int64_t rows = 0;
  std::int64_t unit = 1;    ///< rows that stay together, such as a head's
  bool replicates = false;  ///< with fewer units than devices every device keeps a whole unit (key and value heads)
};

struct LinearLayer {
  std::string use;  ///< "q", "qkv", "gate_up", "down", "output"
  Operation operation = Operation::kQ4kLinear;
  std::vector<LinearPart> parts;
  std::int64_t k = 0;
  bool bias = false;
  Split split = Split::kColumns;
  std::int64_t count = 1;  ///< calls per forward pass
};

struct AttentionLayer {
  std::int64_t qHeads = 0;
  std::int64_t kvHeads = 0;
  std::int64_t headDim = 0;
  bool causal = true;
  std::int64_t count = 1;  ///< calls per forward pass
};

/// Kinds of layers and tensors that no operation covers, with how many there are: {"Q6_K weights": 29}.
using NotCovered = std::map<std::string, std::int64_t>;

struct Model {
  std::vector<LinearLayer> linears;
  std::vector<AttentionLayer> attentions;
  NotCovered notCovered;
  std::int64_t contextLength = 0;  ///< 0: unknown
};

}  // namespace tilewright
