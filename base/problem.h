// A problem: an operation with its shapes, dtypes and flags. The key of everything that is tuned.
//
// Linear operations compute out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) with BF16 x, bias and out. `q4k_linear` takes W
// as GGUF Q4_K super-blocks (256 weights in 144 bytes, row pitch k / 256 * 144), `linear` as BF16 [n, k]. Attention
// computes softmax(scale . Q K^T + mask) V with q [b, hq, lq, d] and k, v [b, hkv, capacity, d].
//
// The canonical text of a problem is one line of JSON with a fixed order of keys; flags at their default are left out:
//   {"op": "q4k_linear", "n": 14336, "k": 4096, "m": 512, "precision": "fp8"}
//   {"op": "attention", "dtype": "bf16", "batch": 1, "q_heads": 32, "kv_heads": 8, "head_dim": 128, "q_len": 512,
//    "kv_len": 16384, "causal": true}
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"

namespace tilewright {

enum class Operation : std::uint8_t { kQ4kLinear, kLinear, kAttention };

/// The loosest arithmetic that a caller of `q4k_linear` allows; a more exact plan may run.
enum class Precision : std::uint8_t {
  kExact,  ///< BF16 or better
  kFp8,    ///< activations and weights rounded to E4M3
  kInt8,   ///< activations and weights rounded to 8-bit integers
  kFast,   ///< whichever wins
};

/// What the caller promises about operands.
enum class Alignment : std::uint8_t {
  k16,   ///< bases and leading strides are multiples of 16 bytes, inner strides are 1, attention's scale is above 0
  kAny,  ///< element alignment only, any strides, any scale
};

struct LinearShape {
  std::int64_t n = 0;  ///< rows of W, columns of out
  std::int64_t k = 0;  ///< columns of W; a multiple of 256 for q4k_linear
  std::int64_t m = 0;  ///< rows of x and out; may be 0
  Precision precision = Precision::kExact;
  bool bias = false;
  bool prepared = false;  ///< q4k_linear: every call is given weights that were prepared once

  bool operator==(const LinearShape&) const = default;
};

struct AttentionShape {
  DType dtype = DType::kBf16;
  std::int64_t batch = 1;
  std::int64_t qHeads = 0;
  std::int64_t kvHeads = 0;  ///< divides qHeads
  std::int64_t headDim = 0;  ///< a multiple of 8 from 8 to 256
  std::int64_t qLen = 0;
  std::int64_t kvLen = 0;  ///< the host's hint for look-up and grid; the truth is read on the device
  bool causal = false;
  bool logSumExp = false;

  bool operator==(const AttentionShape&) const = default;
};

/// A tagged union with value semantics: `linear` counts for the two linear operations, `attention` for attention.
struct Problem {
  Operation operation = Operation::kLinear;
  Alignment alignment = Alignment::k16;
  LinearShape linear;
  AttentionShape attention;

  bool isLinear() const { return operation != Operation::kAttention; }
  bool operator==(const Problem&) const = default;
};

/// A problem as fixed-width words, for hashing and comparison on the dispatch path.
using PackedProblem = std::array<std::uint64_t, 7>;

std::string_view operationName(Operation operation);
std::string_view precisionName(Precision precision);
std::optional<Operation> operationFromName(std::string_view name);
std::optional<Precision> precisionFromName(std::string_view name);

/// kInvalidArgument naming the value and the rule when a problem breaks one: sizes negative or zero where they must not
/// be, k not a multiple of 256, q_heads not a multiple of kv_heads, head_dim out of range, a size beyond 2^40, a
/// precision or prepared weights of an operation that has none.
Result<void> validate(const Problem& problem);

/// The canonical one-line JSON text.
std::string toJson(const Problem& problem);

/// The same problem always packs to the same words, different problems to different words. The problem must be valid.
PackedProblem pack(const Problem& problem);

/// Useful floating-point operations: 2 m n k, or 4 d times the visible area of attention (kv_len as hinted).
double flops(const Problem& problem);

/// Fewest bytes that must cross device memory: every input read once, every output written once.
double bytes(const Problem& problem);

}  // namespace tilewright
