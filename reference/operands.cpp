#include "reference/operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/q4k.h"
#include "reference/random.h"

namespace tilewright::reference {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kGuardBytes = 256;
constexpr std::int64_t kQ4kBlockBytes = sizeof(Q4kBlock);

// Distinct streams per tensor, so that equal seeds do not make equal tensors.
enum Stream : std::uint64_t { kStreamX = 1, kStreamW, kStreamBias, kStreamQ, kStreamK, kStreamV, kStreamChannels };

std::uint64_t streamSeed(const OperandOptions& options, Stream stream) {
  return options.seed * 16 + stream;
}

struct Axis {
  std::int64_t size, stride;
};

/// The buffer of a tensor with these axes, whose element 0 comes `offset` elements after a 256-byte boundary.
Extent extentOf(std::initializer_list<Axis> axes, std::int64_t elementBytes, std::int64_t offset) {
  std::int64_t low = 0, high = 0;
  for (const auto& [size, stride] : axes) {
    if (size == 0) return {.bytes = 2 * kGuardBytes, .origin = kGuardBytes + offset * elementBytes};
    (stride < 0 ? low : high) += (size - 1) * stride;
  }
  const std::int64_t below = (-low * elementBytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::int64_t origin = kGuardBytes + below + offset * elementBytes;
  return {.bytes = origin + (high + 1) * elementBytes + kGuardBytes, .origin = origin};
}

/// The axes of a [batch, heads, length, headDim] tensor.
Extent extentOf(const Strides& strides, std::int64_t batch, std::int64_t heads, std::int64_t length,
                std::int64_t headDim, std::int64_t offset) {
  return extentOf({{batch, strides.batch}, {heads, strides.head}, {length, strides.row}, {headDim, strides.column}}, 2,
                  offset);
}

std::vector<double> channelFactors(const OperandOptions& options, std::int64_t k) {
  std::vector<double> factors(static_cast<std::size_t>(k), 1);
  if (options.activations != Activations::kOutliers) return factors;
  Random random(streamSeed(options, kStreamChannels));
  const std::int64_t count = std::max<std::int64_t>(1, k / 200);
  for (std::int64_t i = 0; i < count; ++i) factors[static_cast<std::size_t>(random.below(k))] = 30;
  return factors;
}

void fillActivations(const OperandOptions& options, const LinearShape& shape, std::int64_t stride, std::byte* at) {
  GaussianPicks gaussian(streamSeed(options, kStreamX));
  Random random(streamSeed(options, kStreamX) ^ 0xabcdef);
  const std::vector<double> factors = channelFactors(options, shape.k);
  for (std::int64_t i = 0; i < shape.m; ++i) {
    auto* row = reinterpret_cast<Bf16*>(at) + i * stride;
    switch (options.activations) {
      case Activations::kGaussian:
        std::generate_n(row, shape.k, [&] { return gaussian.next(); });
        break;
      case Activations::kOutliers:
        for (std::int64_t j = 0; j < shape.k; ++j) {
          row[j] = toBf16(toFloat(gaussian.next()) * static_cast<float>(factors[static_cast<std::size_t>(j)]));
        }
        break;
      case Activations::kZeroRows:
        std::generate_n(row, shape.k, [&] { return i % 2 == 0 ? Bf16{0} : gaussian.next(); });
        break;
      case Activations::kConstantRows:
        std::fill_n(row, shape.k, gaussian.next());
        break;
      case Activations::kExtremes:
        std::generate_n(row, shape.k, [&] { return toBf16(static_cast<float>(random.below(254) - 126)); });
        row[random.below(shape.k)] = toBf16(127);
        break;
      case Activations::kLarge:
        std::generate_n(row, shape.k, [&] { return toBf16(static_cast<float>((random.uniform() * 2 - 1) * 6e4)); });
        break;
    }
  }
}

constexpr double kWeightDeviation = 0.02;

/// A super-block with any codes, scales and mins whose weights have about the usual deviation.
Q4kBlock anyBlock(Random& random, double scale) {
  Q4kBlock block{};
  Q4kScales scales;
  for (std::uint8_t& value : scales.scale) value = static_cast<std::uint8_t>(random.below(64));
  for (std::uint8_t& value : scales.min) value = static_cast<std::uint8_t>(random.below(64));
  for (std::uint8_t& byte : block.quants) byte = static_cast<std::uint8_t>(random.bits());
  block.scales = packScales(scales);
  const double step = scale * kWeightDeviation * (0.5 + random.uniform()) / 300;
  block.d = toF16(static_cast<float>(step)), block.dmin = toF16(static_cast<float>(step * 8));
  return block;
}

/// Different super-blocks to draw a matrix from: enough that rows do not repeat, few enough to quantize quickly.
std::vector<Q4kBlock> blockPool(const OperandOptions& options, std::int64_t count) {
  Random random(streamSeed(options, kStreamW));
  std::vector<Q4kBlock> pool(static_cast<std::size_t>(std::min<std::int64_t>(count, 256)));
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (options.weights == Weights::kAnyBits) {
      pool[i] = anyBlock(random, options.weightScale);
      continue;
    }
    std::array<float, Q4kBlock::kWeights> weights;
    for (float& weight : weights) {
      weight = static_cast<float>(random.gaussian() * kWeightDeviation * options.weightScale);
    }
    pool[i] = quantize(weights);
    if (options.weights == Weights::kOnlyMins && i % 2 == 0) pool[i].d = {0};
    if (options.weights == Weights::kNegativeSteps) {
      if ((random.bits() & 1) != 0) pool[i].d.bits ^= 0x8000;
      if ((random.bits() & 1) != 0) pool[i].dmin.bits ^= 0x8000;
    }
  }
  return pool;
}

void fillQ4kWeights(const OperandOptions& options, const LinearShape& shape, std::byte* at) {
  const std::int64_t blocks = shape.n * (shape.k / Q4kBlock::kWeights);
  const std::vector<Q4kBlock> pool = blockPool(options, blocks);
  Random random(streamSeed(options, kStreamW) ^ 0x55aa);
  for (std::int64_t i = 0; i < blocks; ++i) {
    const auto pick = random.below(static_cast<std::int64_t>(pool.size()));
    std::memcpy(at + i * kQ4kBlockBytes, &pool[static_cast<std::size_t>(pick)], kQ4kBlockBytes);
  }
}

void fillGaussian(std::uint64_t seed, double deviation, std::int64_t count, std::byte* at) {
  GaussianPicks gaussian(seed);
  auto* values = reinterpret_cast<Bf16*>(at);
  for (std::int64_t i = 0; i < count; ++i) {
    const Bf16 value = gaussian.next();
    values[i] = deviation == 1 ? value : toBf16(toFloat(value) * static_cast<float>(deviation));
  }
}

/// Fills rows [0, length(b)) of a [batch, heads, length, headDim] tensor; the rest keeps its poison.
template <typename Length, typename Value>
void fillRows(const Strides& strides, std::int64_t batch, std::int64_t heads, std::int64_t headDim, std::byte* at,
              Length length, Value value) {
  auto* base = reinterpret_cast<Bf16*>(at);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t l = 0; l < length(b); ++l) {
        Bf16* row = base + b * strides.batch + h * strides.head + l * strides.row;
        for (std::int64_t c = 0; c < headDim; ++c) row[c * strides.column] = value(c);
      }
    }
  }
}

}  // namespace

bool isStructured(const OperandOptions& options) {
  return (options.activations != Activations::kGaussian && options.activations != Activations::kOutliers &&
          options.activations != Activations::kLarge) ||
         options.weights == Weights::kOnlyMins || options.scores != Scores::kGaussian;
}

Strides headMajorStrides(std::int64_t heads, std::int64_t length, std::int64_t headDim, std::int64_t padding) {
  const std::int64_t row = headDim + padding;
  return {.batch = heads * length * row, .head = length * row, .row = row};
}

Strides rowMajorStrides(std::int64_t heads, std::int64_t length, std::int64_t headDim, std::int64_t padding) {
  const std::int64_t head = headDim + padding;
  return {.batch = length * heads * head, .head = head, .row = heads * head};
}

void HostBuffer::Free::operator()(std::byte* data) const {
  std::free(data);
}

Result<HostBuffer> HostBuffer::create(std::int64_t bytes) {
  HostBuffer buffer;
  const std::int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  buffer.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<std::size_t>(rounded))));
  if (buffer.data_ == nullptr) return fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes of host memory", bytes);
  buffer.bytes_ = bytes;
  std::memset(buffer.data_.get(), 0xff, static_cast<std::size_t>(rounded));
  return buffer;
}

Operands HostOperands::at(const std::array<void*, kRoles.size()>& base) const {
  const auto address = [&](Role role) -> std::byte* {
    const auto index = static_cast<std::size_t>(role);
    if (extents_[index].bytes == 0 || base[index] == nullptr) return nullptr;
    return static_cast<std::byte*>(base[index]) + extents_[index].origin;
  };
  Operands operands = layout_;
  LinearOperands& linear = operands.linear;
  AttentionOperands& attention = operands.attention;
  if (problem_.isLinear()) {
    linear.x = address(Role::kX), linear.w = address(Role::kW), linear.bias = address(Role::kBias);
    linear.out = address(Role::kOut);
  } else {
    attention.q = address(Role::kQ), attention.k = address(Role::kK), attention.v = address(Role::kV);
    attention.kvLen = reinterpret_cast<const std::int32_t*>(address(Role::kKvLen));
    attention.out = address(Role::kOut), attention.lse = reinterpret_cast<float*>(address(Role::kLse));
  }
  return operands;
}

Operands HostOperands::inputs() const {
  std::array<void*, kRoles.size()> base{};
  for (std::size_t i = 0; i < base.size(); ++i) base[i] = buffers_[i].data();
  return at(base);
}

std::int64_t HostOperands::kvLength(std::int64_t batch) const {
  const std::int64_t capacity = layout_.attention.capacity;
  if (options_.kvLens.empty()) return capacity;
  return std::clamp<std::int64_t>(options_.kvLens[static_cast<std::size_t>(batch)], 0, capacity);
}

std::int64_t HostOperands::totalBytes() const {
  std::int64_t bytes = 0;
  for (const Extent& extent : extents_) bytes += extent.bytes;
  return bytes;
}

Result<HostOperands> makeOperands(const Problem& problem, const OperandOptions& options) {
  TW_TRY(validate(problem));
  HostOperands operands;
  operands.problem_ = problem, operands.options_ = options;
  const auto extent = [&](Role role) -> Extent& { return operands.extents_[static_cast<std::size_t>(role)]; };
  const std::int64_t offset = options.baseOffset;

  // Lay the tensors out.
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    LinearOperands& linear = operands.layout_.linear;
    linear.xStride = shape.k + options.xPadding, linear.outStride = shape.n + options.outPadding;
    if (options.xPadding < 0 || options.outPadding < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "invalid operands: padding of x is {} and of out {}, must not be negative", options.xPadding,
                  options.outPadding);
    }
    extent(Role::kX) = extentOf({{shape.m, linear.xStride}, {shape.k, 1}}, 2, offset);
    extent(Role::kW) = problem.operation == Operation::kQ4kLinear
                           ? extentOf({{shape.n * (shape.k / Q4kBlock::kWeights) * kQ4kBlockBytes / 2, 1}}, 2, offset)
                           : extentOf({{shape.n * shape.k, 1}}, 2, offset);
    if (shape.bias) extent(Role::kBias) = extentOf({{shape.n, 1}}, 2, offset);
    extent(Role::kOut) = extentOf({{shape.m, linear.outStride}, {shape.n, 1}}, 2, offset);
  } else {
    const AttentionShape& shape = problem.attention;
    AttentionOperands& attention = operands.layout_.attention;
    const std::int64_t capacity = options.capacity.value_or(shape.kvLen);
    const auto d = shape.headDim;
    if (!options.kvLens.empty() && static_cast<std::int64_t>(options.kvLens.size()) != shape.batch) {
      return fail(ErrorCode::kInvalidArgument, "invalid operands: {} kv lengths for a batch of {}",
                  options.kvLens.size(), shape.batch);
    }
    attention.capacity = capacity;
    attention.scale = options.scores == Scores::kDeeplyNegative ? 1
                      : options.scale != 0                      ? options.scale
                                                                : 1 / std::sqrt(static_cast<float>(d));
    attention.qStride = options.qStrides.value_or(headMajorStrides(shape.qHeads, shape.qLen, d));
    attention.kStride = options.kStrides.value_or(headMajorStrides(shape.kvHeads, capacity, d));
    attention.vStride = options.vStrides.value_or(headMajorStrides(shape.kvHeads, capacity, d));
    attention.outStride = options.outStrides.value_or(headMajorStrides(shape.qHeads, shape.qLen, d));
    extent(Role::kQ) = extentOf(attention.qStride, shape.batch, shape.qHeads, shape.qLen, d, offset);
    extent(Role::kK) = extentOf(attention.kStride, shape.batch, shape.kvHeads, capacity, d, offset);
    extent(Role::kV) = extentOf(attention.vStride, shape.batch, shape.kvHeads, capacity, d, offset);
    extent(Role::kOut) = extentOf(attention.outStride, shape.batch, shape.qHeads, shape.qLen, d, offset);
    if (!options.kvLens.empty()) extent(Role::kKvLen) = extentOf({{shape.batch, 1}}, 4, offset);
    if (shape.logSumExp) {
      extent(Role::kLse) = extentOf({{shape.batch * shape.qHeads * shape.qLen, 1}}, 4, offset);
    }
  }

  // Allocate the inputs, poisoned, and write their elements.
  for (const Role role : kRoles) {
    if (role == Role::kOut || role == Role::kLse || extent(role).bytes == 0) continue;
    operands.buffers_[static_cast<std::size_t>(role)] = TW_TRY(HostBuffer::create(extent(role).bytes));
  }
  const auto at = [&](Role role) { return operands.buffer(role).data() + extent(role).origin; };
  if (problem.isLinear()) {
    const LinearShape& shape = problem.linear;
    fillActivations(options, shape, operands.layout_.linear.xStride, at(Role::kX));
    if (problem.operation == Operation::kQ4kLinear) {
      fillQ4kWeights(options, shape, at(Role::kW));
    } else {
      fillGaussian(streamSeed(options, kStreamW), kWeightDeviation * options.weightScale, shape.n * shape.k,
                   at(Role::kW));
    }
    if (shape.bias) fillGaussian(streamSeed(options, kStreamBias), options.weightScale, shape.n, at(Role::kBias));
  } else {
    const AttentionShape& shape = problem.attention;
    const AttentionOperands& attention = operands.layout_.attention;
    const auto queries = [&](std::int64_t) { return shape.qLen; };
    const auto keys = [&](std::int64_t b) { return operands.kvLength(b); };
    GaussianPicks q(streamSeed(options, kStreamQ)), k(streamSeed(options, kStreamK)), v(streamSeed(options, kStreamV));
    const bool deep = options.scores == Scores::kDeeplyNegative;
    // 1024 * -512 = -524288 in one channel, nothing in the others: exact in every arithmetic.
    const auto qValue = [&](std::int64_t c) { return deep ? toBf16(c == 0 ? 1024.0F : 0.0F) : q.next(); };
    const auto kValue = [&](std::int64_t c) { return deep ? toBf16(c == 0 ? -512.0F : 0.0F) : k.next(); };
    fillRows(attention.qStride, shape.batch, shape.qHeads, shape.headDim, at(Role::kQ), queries, qValue);
    fillRows(attention.kStride, shape.batch, shape.kvHeads, shape.headDim, at(Role::kK), keys, kValue);
    fillRows(attention.vStride, shape.batch, shape.kvHeads, shape.headDim, at(Role::kV), keys,
             [&](std::int64_t) { return v.next(); });
    if (!options.kvLens.empty()) {
      std::memcpy(at(Role::kKvLen), options.kvLens.data(), options.kvLens.size() * sizeof(std::int32_t));
    }
  }
  return operands;
}

}  // namespace tilewright::reference
