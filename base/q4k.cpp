// The quantizer fits each sub-block alone first (a grid of ranges, each improved by least squares), quantizes the eight
// fits to 6 bits under common steps, then alternates between the best codes for given steps and the best steps for
// given codes.
#include "base/q4k.h"

#include <algorithm>
#include <cmath>

namespace tilewright {
namespace {

constexpr int kLength = Q4kBlock::kSubBlockWeights;
using SubBlock = std::span<const float, kLength>;
using Codes = std::array<std::uint8_t, kLength>;

/// weight = scale * q - offset.
struct Fit {
  float scale = 0, offset = 0;
  float error = 0;  ///< sum of squares
};

/// The nearest codes under `fit`; sets fit.error.
Codes encode(SubBlock weights, Fit& fit) {
  Codes codes{};
  const float inverse = fit.scale > 0 ? 1 / fit.scale : 0;
  fit.error = 0;
  for (int l = 0; l < kLength; ++l) {
    // NOTE: min and max in this order turn the NaN of an overflowed sum into 0.
    const float position = std::min(15.0F, std::max(0.0F, (weights[l] + fit.offset) * inverse));
    const int code = static_cast<int>(position + 0.5F);
    const float error = fit.scale * static_cast<float>(code) - fit.offset - weights[l];
    codes[l] = static_cast<std::uint8_t>(code);
    fit.error += error * error;
  }
  return codes;
}

/// Least squares for scale and offset under given codes, neither negative.
Fit solve(SubBlock weights, const Codes& codes) {
  double sumQ = 0, sumQq = 0, sumW = 0, sumQw = 0;
  for (int l = 0; l < kLength; ++l) {
    const double q = codes[l], w = weights[l];
    sumQ += q, sumQq += q * q, sumW += w, sumQw += q * w;
  }
  const double determinant = kLength * sumQq - sumQ * sumQ;
  if (determinant <= 0) return {.scale = 0, .offset = static_cast<float>(std::max(0.0, -sumW / kLength))};
  const double scale = (kLength * sumQw - sumQ * sumW) / determinant;
  const double offset = (sumQ * sumQw - sumQq * sumW) / determinant;
  if (offset < 0) return {.scale = static_cast<float>(sumQq > 0 ? std::max(0.0, sumQw / sumQq) : 0)};
  return {.scale = static_cast<float>(std::max(0.0, scale)), .offset = static_cast<float>(offset)};
}

/// The best unquantized scale and offset of one sub-block.
Fit fitSubBlock(SubBlock weights) {
  const float low = std::min(0.0F, *std::ranges::min_element(weights));
  const float high = std::max(low, *std::ranges::max_element(weights));
  Fit best{.scale = 0, .offset = -low};
  encode(weights, best);
  if (high == low) return best;

  // Try ranges from a little beyond the extremes to well inside them (outer weights then saturate).
  for (int step = -4; step <= 24; ++step) {
    const float shrink = static_cast<float>(step) * 0.0125F;
    const float from = low + shrink * (high - low) / 2, to = high - shrink * (high - low) / 2;
    Fit fit{.scale = (to - from) / 15, .offset = std::max(0.0F, -from)};
    for (int round = 0; round < 3; ++round) {
      const Codes codes = encode(weights, fit);
      if (fit.error < best.error) best = fit;
      fit = solve(weights, codes);
    }
    encode(weights, fit);
    if (fit.error < best.error) best = fit;
  }
  return best;
}

/// A super-block under construction: everything but the packing.
struct Draft {
  float d = 0, dmin = 0;  ///< representable in half precision
  Q4kScales scales;
  std::array<Codes, Q4kBlock::kSubBlocks> codes{};
  double error = 0;
};

/// The 6-bit code of a value under a step, saturating.
int nearestCode(float value, float step) {
  return step > 0 ? static_cast<int>(std::nearbyint(std::min(63.0F, value / step))) : 0;
}

/// Picks the 6-bit scale and min of every sub-block around the wished fit, with their codes, under the draft's steps.
void quantizeScales(std::span<const float, Q4kBlock::kWeights> weights,
                    const std::array<Fit, Q4kBlock::kSubBlocks>& wishes, Draft& draft) {
  draft.error = 0;
  for (int j = 0; j < Q4kBlock::kSubBlocks; ++j) {
    const SubBlock subBlock = weights.subspan(static_cast<std::size_t>(j) * kLength).first<kLength>();
    const int scale = nearestCode(wishes[j].scale, draft.d), min = nearestCode(wishes[j].offset, draft.dmin);
    bool first = true;
    float best = 0;
    for (int ds = -2; ds <= 2; ++ds) {
      for (int dm = -2; dm <= 2; ++dm) {
        const int trialScale = std::clamp(scale + ds, 0, 63), trialMin = std::clamp(min + dm, 0, 63);
        Fit fit{.scale = draft.d * static_cast<float>(trialScale), .offset = draft.dmin * static_cast<float>(trialMin)};
        const Codes codes = encode(subBlock, fit);
        if (!first && !(fit.error < best)) continue;
        first = false, best = fit.error;
        draft.scales.scale[j] = static_cast<std::uint8_t>(trialScale);
        draft.scales.min[j] = static_cast<std::uint8_t>(trialMin);
        draft.codes[j] = codes;
      }
    }
    draft.error += best;
  }
}

/// Half precision, finite and not negative.
float roundStep(double step) {
  return toFloat(toF16(static_cast<float>(std::clamp(step, 0.0, 65504.0))));
}

/// Least squares for d and dmin under given scales, mins and codes.
void solveSteps(std::span<const float, Q4kBlock::kWeights> weights, Draft& draft) {
  double aa = 0, ab = 0, bb = 0, aw = 0, bw = 0;
  for (int i = 0; i < Q4kBlock::kWeights; ++i) {
    const int j = i / kLength;
    const double a = draft.scales.scale[j] * draft.codes[j][i % kLength], b = -draft.scales.min[j], w = weights[i];
    aa += a * a, ab += a * b, bb += b * b, aw += a * w, bw += b * w;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant > 0) {
    draft.d = roundStep((aw * bb - bw * ab) / determinant), draft.dmin = roundStep((bw * aa - aw * ab) / determinant);
  } else if (aa > 0) {
    draft.d = roundStep(aw / aa);
  } else if (bb > 0) {
    draft.dmin = roundStep(bw / bb);
  }
}

}  // namespace

Q4kScales unpackScales(const std::array<std::uint8_t, 12>& packed) {
  Q4kScales scales;
  for (int j = 0; j < 4; ++j) {
    const unsigned scaleByte = packed[j], minByte = packed[j + 4], low = packed[j + 8];
    scales.scale[j] = scaleByte & 63;
    scales.min[j] = minByte & 63;
    scales.scale[j + 4] = static_cast<std::uint8_t>((low & 15) | ((scaleByte >> 6) << 4));
    scales.min[j + 4] = static_cast<std::uint8_t>((low >> 4) | ((minByte >> 6) << 4));
  }
  return scales;
}

std::array<std::uint8_t, 12> packScales(const Q4kScales& scales) {
  std::array<std::uint8_t, 12> packed{};
  for (int j = 0; j < 4; ++j) {
    const unsigned scale = scales.scale[j + 4], min = scales.min[j + 4];
    packed[j] = static_cast<std::uint8_t>(scales.scale[j] | ((scale >> 4) << 6));
    packed[j + 4] = static_cast<std::uint8_t>(scales.min[j] | ((min >> 4) << 6));
    packed[j + 8] = static_cast<std::uint8_t>((scale & 15) | ((min & 15) << 4));
  }
  return packed;
}

void dequantize(const Q4kBlock& block, std::span<float, Q4kBlock::kWeights> weights) {
  const float d = toFloat(block.d), dmin = toFloat(block.dmin);
  const Q4kScales scales = unpackScales(block.scales);
  for (int i = 0; i < Q4kBlock::kWeights; ++i) {
    const int j = i / kLength;
    const int byte = block.quants[j / 2 * kLength + i % kLength];
    const int q = j % 2 == 0 ? byte & 15 : byte >> 4;
    // NOTE: this file is compiled without contraction: a fused multiply-add would round once less and break
    // bit-exactness.
    weights[i] =
        d * static_cast<float>(scales.scale[j]) * static_cast<float>(q) - dmin * static_cast<float>(scales.min[j]);
  }
}

Q4kBlock quantize(std::span<const float, Q4kBlock::kWeights> weights) {
  std::array<Fit, Q4kBlock::kSubBlocks> wishes;
  float maxScale = 0, maxOffset = 0;
  for (int j = 0; j < Q4kBlock::kSubBlocks; ++j) {
    wishes[j] = fitSubBlock(weights.subspan(static_cast<std::size_t>(j) * kLength).first<kLength>());
    maxScale = std::max(maxScale, wishes[j].scale), maxOffset = std::max(maxOffset, wishes[j].offset);
  }

  Draft draft{.d = roundStep(maxScale / 63), .dmin = roundStep(maxOffset / 63)};
  quantizeScales(weights, wishes, draft);
  Draft best = draft;
  for (int round = 0; round < 3; ++round) {
    solveSteps(weights, draft);
    quantizeScales(weights, wishes, draft);
    if (!(draft.error < best.error)) break;
    best = draft;
  }

  Q4kBlock block{.d = toF16(best.d), .dmin = toF16(best.dmin), .scales = packScales(best.scales), .quants = {}};
  for (int c = 0; c < Q4kBlock::kSubBlocks / 2; ++c) {
    for (int l = 0; l < kLength; ++l) {
      block.quants[c * kLength + l] = static_cast<std::uint8_t>(best.codes[2 * c][l] | (best.codes[2 * c + 1][l] << 4));
    }
  }
  return block;
}

}  // namespace tilewright
