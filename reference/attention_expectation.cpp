// softmax(scale Q K^T + mask) V by a plain loop over the visible keys of one row, in double precision, and once more
// the way a BF16 framework computes it, for FA3's rule.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/expectation.h"
#include "reference/random.h"

namespace tilewright::reference {
namespace {

float loadBf16(const void* base, std::int64_t index) {
  std::uint16_t half = 0;
  std::memcpy(&half, static_cast<const std::byte*>(base) + index * 2, 2);
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

float roundBf16(double value) {
  return toFloat(toBf16(static_cast<float>(value)));
}

/// Gathers a row of head_dim elements.
void loadRow(const void* base, std::int64_t first, std::int64_t stride, std::vector<double>& to) {
  for (std::size_t c = 0; c < to.size(); ++c) to[c] = loadBf16(base, first + static_cast<std::int64_t>(c) * stride);
}

class RowComputation {
 public:
  RowComputation(const AttentionShape& shape, const AttentionOperands& inputs)
      : shape_(shape), inputs_(inputs), q_(dim()), k_(dim()), v_(dim()) {}

  void run(AttentionSamples::Row& row, std::span<AttentionSamples::Value> values) {
    const std::int64_t kvHead = row.head / (shape_.qHeads / shape_.kvHeads);
    loadRow(inputs_.q, offset(inputs_.qStride, row.batch, row.head, row.row), inputs_.qStride.column, q_);
    computeScores(row, kvHead);
    std::ranges::fill(values, AttentionSamples::Value{});
    if (row.visible == 0) return;

    // Softmax in double, and with BF16 scores and probabilities.
    const double largest = *std::ranges::max_element(scores_);
    const float plainLargest = *std::ranges::max_element(plainScores_);
    double sum = 0;
    float plainSum = 0;
    for (std::size_t n = 0; n < scores_.size(); ++n) {
      sum += std::exp(scores_[n] - largest), plainSum += std::exp(plainScores_[n] - plainLargest);
    }
    row.logSumExp = largest + std::log(sum);
    for (std::size_t n = 0; n < scores_.size(); ++n) {
      const double p = std::exp(scores_[n] - largest) / sum;
      const double plainP = roundBf16(std::exp(plainScores_[n] - plainLargest) / plainSum);
      loadRow(inputs_.v, offset(inputs_.vStride, row.batch, kvHead, static_cast<std::int64_t>(n)),
              inputs_.vStride.column, v_);
      for (std::size_t c = 0; c < dim(); ++c) {
        AttentionSamples::Value& value = values[c];
        const double product = p * v_[c];
        value.value += product, value.magnitude += std::fabs(product), value.energy += product * product;
        value.plain += plainP * v_[c];
      }
    }
    for (AttentionSamples::Value& value : values) {
      value.energy = std::sqrt(value.energy), value.plain = roundBf16(value.plain);
    }
  }

 private:
  std::size_t dim() const { return static_cast<std::size_t>(shape_.headDim); }

  static std::int64_t offset(const Strides& strides, std::int64_t batch, std::int64_t head, std::int64_t row) {
    return batch * strides.batch + head * strides.head + row * strides.row;
  }

  void computeScores(AttentionSamples::Row& row, std::int64_t kvHead) {
    scores_.resize(static_cast<std::size_t>(row.visible)), plainScores_.resize(scores_.size());
    const auto terms = static_cast<double>(std::ranges::count_if(q_, [](double q) { return q != 0; }));
    const double scale = inputs_.scale;
    double largestMagnitude = 0;
    for (std::size_t n = 0; n < scores_.size(); ++n) {
      loadRow(inputs_.k, offset(inputs_.kStride, row.batch, kvHead, static_cast<std::int64_t>(n)),
              inputs_.kStride.column, k_);
      double dot = 0, magnitude = 0;
      for (std::size_t c = 0; c < dim(); ++c) dot += q_[c] * k_[c], magnitude += std::fabs(q_[c] * k_[c]);
      scores_[n] = dot * scale, plainScores_[n] = roundBf16(roundBf16(dot) * inputs_.scale);
      largestMagnitude = std::max(largestMagnitude, magnitude * std::fabs(scale));
    }
    // A sum of one product is exact in FP32; each further addition errs by at most 2^-23 of the magnitudes so far,
    // 2^-23 rather than 2^-24 because tensor cores truncate.
    row.scoreError = std::max(0.0, terms - 1) * 0x1p-23 * largestMagnitude;
    row.logSumExp = -std::numeric_limits<double>::infinity();
  }

  AttentionShape shape_;
  AttentionOperands inputs_;
  std::vector<double> q_, k_, v_;
  std::vector<double> scores_;
  std::vector<float> plainScores_;
};

/// Keys that a query row sees under the bottom-right aligned causal mask.
std::int64_t visibleKeys(const AttentionShape& shape, std::int64_t kvLength, std::int64_t row) {
  if (!shape.causal) return kvLength;
  return std::clamp<std::int64_t>(kvLength - shape.qLen + row + 1, 0, kvLength);
}

}  // namespace

AttentionSamples expectAttention(const HostOperands& operands, const SampleOptions& options) {
  const AttentionShape& shape = operands.problem().attention;
  const AttentionOperands inputs = operands.inputs().attention;

  // Rows by budget: a row costs two multiply-adds per key and channel, in each of two computations.
  const double rowCost = 4.0 * static_cast<double>(std::max<std::int64_t>(1, inputs.capacity) * shape.headDim);
  const std::int64_t total = shape.batch * shape.qHeads * shape.qLen;
  const std::int64_t wanted = std::max<std::int64_t>(24, static_cast<std::int64_t>(options.budget / rowCost));
  std::vector<std::int64_t> flat;
  if (total <= wanted) {
    flat = pickIndices(total, total, options.seed);
  } else {
    // Spread over batch entries and heads, edges of the query rows first, then what else fits.
    const std::vector<std::int64_t> rows = pickIndices(shape.qLen, std::max<std::int64_t>(8, wanted / 3), options.seed);
    Random random(options.seed + 2);
    for (std::int64_t i = 0; i < wanted; ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i) % rows.size()];
      // The first and last head of the first and last batch entry are always among them.
      const std::int64_t pairs = shape.batch * shape.qHeads;
      const std::int64_t pair = i == 0 ? 0 : i == 1 ? pairs - 1 : random.below(pairs);
      flat.push_back(pair * shape.qLen + row);
    }
    std::ranges::sort(flat);
    flat.erase(std::ranges::unique(flat).begin(), flat.end());
  }

  AttentionSamples samples;
  samples.values.resize(flat.size() * static_cast<std::size_t>(shape.headDim));
  RowComputation computation(shape, inputs);
  for (std::size_t i = 0; i < flat.size(); ++i) {
    AttentionSamples::Row row{.batch = flat[i] / (shape.qHeads * shape.qLen),
                              .head = flat[i] / shape.qLen % shape.qHeads,
                              .row = flat[i] % shape.qLen};
    row.visible = visibleKeys(shape, operands.kvLength(row.batch), row.row);
    computation.run(row,
                    std::span(samples.values)
                        .subspan(i * static_cast<std::size_t>(shape.headDim), static_cast<std::size_t>(shape.headDim)));
    samples.rows.push_back(row);
  }
  return samples;
}

}  // namespace tilewright::reference
