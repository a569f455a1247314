// The arithmetic of every operation with every planted mistake. One long file: a mistake is a branch in the right code.
#include "tests/conformance/native_template.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "base/q4k.h"

namespace tilewright::conformance {
namespace {

/// The arguments, in the order of the slots.
struct LinearArguments {
  const Bf16* x;
  std::int64_t xStride;
  const std::byte* w;
  const Bf16* bias;
  Bf16* out;
  std::int64_t outStride, n, k, m, isQ4k, units;
  std::byte* workspaceEnd;
  Bf16* activations;    ///< [m, k]: what a quantization ahead fills and a call then reads, or null
  std::byte* prepared;  ///< a copy of w that the preparation fills; calls are given it as w
  std::int64_t isPrepared;
};
struct AttentionArguments {
  const Bf16 *q, *k, *v;
  Bf16* out;
  float* lse;
  const std::int32_t* kvLen;
  std::int64_t capacity, hint, batch, qHeads, kvHeads, headDim, qLen, causal;
  Strides qStride, kStride, vStride, outStride;
  double scale;
};
static_assert(sizeof(LinearArguments) % 8 == 0 && sizeof(AttentionArguments) % 8 == 0);

template <typename Arguments>
void append(KernelArguments& to, const Arguments& arguments) {
  std::array<std::uint64_t, sizeof(Arguments) / 8> slots;
  std::memcpy(slots.data(), &arguments, sizeof(Arguments));
  for (const std::uint64_t slot : slots) to.value(slot);
}
template <typename Arguments>
Arguments read(const std::uint64_t* slots) {
  Arguments arguments;
  std::memcpy(static_cast<void*>(&arguments), slots, sizeof(Arguments));
  return arguments;
}

const void* roundedDown(const void* address) {
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(address) / 16 * 16);
}

/// The super-blocks of W in bytes.
std::int64_t blockBytes(std::int64_t n, std::int64_t k) {
  return n * k / Q4kBlock::kWeights * static_cast<std::int64_t>(sizeof(Q4kBlock));
}

/// A row's place in prepared weights.
std::int64_t preparedPlace(const LinearArguments& a, std::int64_t row, Mistake mistake) {
  return mistake == Mistake::kLaysRowsOutByM ? (row + a.m) % a.n : row;
}

void decode(const LinearArguments& a, std::int64_t row, Mistake mistake, std::vector<float>& w) {
  w.resize(static_cast<std::size_t>(a.k));
  if (a.isQ4k == 0) {
    for (std::int64_t c = 0; c < a.k; ++c) {
      w[static_cast<std::size_t>(c)] = toFloat(reinterpret_cast<const Bf16*>(a.w)[row * a.k + c]);
    }
    return;
  }
  const std::int64_t place = a.isPrepared != 0 ? preparedPlace(a, row, mistake) : row;
  for (std::int64_t c = 0; c < a.k; c += Q4kBlock::kWeights) {
    Q4kBlock block;
    std::memcpy(&block, a.w + blockBytes(place, a.k) + blockBytes(1, c), sizeof(block));
    if (mistake == Mistake::kDropsMinOfZeroStep && toFloat(block.d) == 0) block.dmin = {0};
    if (mistake == Mistake::kDropsSignOfStep) block.d.bits &= 0x7fff;
    dequantize(block, std::span(w).subspan(static_cast<std::size_t>(c)).first<Q4kBlock::kWeights>());
  }
}

float activation(float x, Mistake mistake) {
  if (mistake == Mistake::kWrapsExtreme && x == 127) return -128;
  if (mistake == Mistake::kSaturatesHalf) return std::clamp(x, -448.0F, 448.0F);
  return x;
}

/// A row's place in activations.
Bf16* activationsOf(const LinearArguments& a, std::int64_t row, Mistake mistake) {
  return a.activations + (mistake == Mistake::kLaysRowsOutByN ? (row + a.n) % a.m : row) * a.k;
}

/// Plain C++ multiplies BF16 as it is: its activations are a copy without gaps.
void copyActivations(const LinearArguments& a, Mistake mistake) {
  for (std::int64_t i = 0; i < a.m; ++i) std::copy_n(a.x + i * a.xStride, a.k, activationsOf(a, i, mistake));
  if (mistake == Mistake::kOverrunsActivations) a.activations[a.m * a.k].bits = 0;
}

void prepareWeights(const LinearArguments& a, Mistake mistake) {
  const std::int64_t rowBytes = blockBytes(1, a.k);
  for (std::int64_t i = 0; i < (mistake == Mistake::kPreparesHalf ? a.n / 2 : a.n); ++i) {
    std::copy_n(a.w + i * rowBytes, rowBytes, a.prepared + preparedPlace(a, i, mistake) * rowBytes);
  }
}

void computeLinear(LinearArguments a, Mistake mistake) {
  if (a.w == nullptr) return;  // of a problem with prepared weights, without them
  static std::atomic<int> runs = 0;
  const std::int64_t denseX = mistake == Mistake::kAssumesDenseX ? a.k : a.xStride;
  const std::int64_t denseOut = mistake == Mistake::kAssumesDenseOut ? a.n : a.outStride;
  if (mistake == Mistake::kTakesBitsOfNextBase) a.x = static_cast<const Bf16*>(roundedDown(a.x));
  if (mistake == Mistake::kOverrunsWorkspace) a.workspaceEnd[1] = std::byte{0};
  const std::int64_t rows = mistake == Mistake::kSkipsRowTail     ? a.m / 8 * 8
                            : mistake == Mistake::kMostRowsAtOnce ? std::min<std::int64_t>(a.m, 4096)
                                                                  : a.m;
  const std::int64_t columns = mistake == Mistake::kSkipsColumnTail ? a.n / 8 * 8 : a.n;
  const std::int64_t depth = mistake == Mistake::kSkipsLastSubBlock ? std::max<std::int64_t>(0, a.k - 32) : a.k;
  std::vector<float> w;
  for (std::int64_t j = 0; j < columns; ++j) {
    decode(a, j, mistake, w);
    for (std::int64_t i = 0; i < rows; ++i) {
      if (mistake == Mistake::kTakesEightBlocks && i % 8 >= a.units) continue;
      const Bf16* x = a.activations != nullptr ? activationsOf(a, i, mistake) : a.x + i * denseX;
      float sum = 0, largest = 0;
      for (std::int64_t c = 0; c < depth; ++c) {
        const float value = activation(toFloat(x[c]), mistake);
        sum += value * w[static_cast<std::size_t>(c)], largest = std::max(largest, std::fabs(value));
      }
      if (mistake == Mistake::kNanForZeroRow) sum = sum / largest * largest;
      if (mistake == Mistake::kReadsGap) sum += 0 * toFloat(x[a.k]);
      if (a.bias != nullptr && mistake != Mistake::kForgetsBias) sum += toFloat(a.bias[j]);
      a.out[i * denseOut + j] = toBf16(sum);
    }
  }
  if (mistake == Mistake::kWritesGap) {
    for (std::int64_t i = 0; i < rows; ++i) a.out[i * a.outStride + a.n] = toBf16(0);
  }
  if (mistake == Mistake::kDiffersByRun && rows > 0 && runs++ % 2 == 1) a.out[0].bits ^= 1;
  if (mistake == Mistake::kDiffersRarely && rows > 0 && runs++ % 512 == 511) a.out[0].bits ^= 1;
}

Bf16 at(const Bf16* base, const Strides& s, std::int64_t b, std::int64_t h, std::int64_t l, std::int64_t c) {
  return base[b * s.batch + h * s.head + l * s.row + c * s.column];
}

/// Softmax of one row's scores in place; returns the log-sum-exp.
float normalize(std::vector<float>& scores, Mistake mistake) {
  float largest = mistake == Mistake::kFiniteSentinel ? -5e4F : -INFINITY;
  for (const float score : scores) largest = std::max(largest, score);
  float sum = 0;
  for (float& score : scores) sum += score = std::exp(score - largest);
  for (float& score : scores) {
    score /= sum;
    if (mistake == Mistake::kRoundsProbabilities) {
      score = std::bit_cast<float>((std::bit_cast<std::uint32_t>(score) + 0x80000) & 0xfff00000);
    }
  }
  return largest + std::log(sum);
}

void computeRow(const AttentionArguments& a, Mistake mistake, std::int64_t b, std::int64_t h, std::int64_t l) {
  std::int64_t given = a.kvLen == nullptr || mistake == Mistake::kIgnoresKvLength ? a.capacity : a.kvLen[b];
  if (mistake == Mistake::kTrustsHint) given = a.hint;
  if (mistake == Mistake::kMirrorsNegative) given = std::abs(given);
  const std::int64_t length = std::clamp<std::int64_t>(given, 0, a.capacity);
  const std::int64_t group = a.qHeads / a.kvHeads;
  const std::int64_t kvHead = mistake == Mistake::kGroupsByModulo ? h % a.kvHeads : h / group;
  std::int64_t visible = length;
  if (a.causal != 0 && mistake != Mistake::kForgetsMask) {
    const std::int64_t first = mistake == Mistake::kAlignsTopLeft ? 1 : length - a.qLen + 1;
    visible = std::clamp<std::int64_t>(first + l - (mistake == Mistake::kMasksOneTooMany ? 1 : 0), 0, length);
  }
  if (mistake == Mistake::kSkipsKeyTail) visible = visible / 16 * 16;
  if (mistake == Mistake::kSkipsSecondHalf) visible = std::min<std::int64_t>(visible, 4096);
  // Only where it stays inside V's memory.
  const bool fits = a.kStride.batch <= a.vStride.batch && a.kStride.head <= a.vStride.head &&
                    a.kStride.row <= a.vStride.row && a.kStride.column <= a.vStride.column;
  const Strides& vStride = mistake == Mistake::kTakesStridesOfK && fits ? a.kStride : a.vStride;

  std::vector<float> scores(static_cast<std::size_t>(visible));
  for (std::int64_t n = 0; n < visible; ++n) {
    float score = 0;
    for (std::int64_t c = 0; c < a.headDim; ++c) {
      score += toFloat(at(a.q, a.qStride, b, h, l, c)) * toFloat(at(a.k, a.kStride, b, kvHead, n, c));
    }
    scores[static_cast<std::size_t>(n)] = score * (mistake == Mistake::kForgetsScale ? 1 : static_cast<float>(a.scale));
  }
  const bool empty = visible == 0;
  if (empty && mistake == Mistake::kSkipsEmptyRow) return;
  float lse = empty ? (mistake == Mistake::kFiniteEmptyRow ? -1e30F : -INFINITY) : normalize(scores, mistake);
  if (mistake == Mistake::kBaseTwo) lse *= 1.442695F;
  const std::int64_t channels = mistake == Mistake::kSkipsChannelTail ? a.headDim / 16 * 16 : a.headDim;
  for (std::int64_t c = 0; c < channels; ++c) {
    float value = empty && mistake == Mistake::kNanForEmptyRow ? NAN : 0;
    for (std::int64_t n = 0; n < visible; ++n) {
      value += scores[static_cast<std::size_t>(n)] * toFloat(at(a.v, vStride, b, kvHead, n, c));
    }
    if (mistake == Mistake::kReadsBeyondLength) {
      for (std::int64_t n = length; n < a.capacity; ++n) value += 0 * toFloat(at(a.v, vStride, b, kvHead, n, c));
    }
    a.out[b * a.outStride.batch + h * a.outStride.head + l * a.outStride.row + c * a.outStride.column] = toBf16(value);
  }
  if (a.lse != nullptr && mistake != Mistake::kForgetsLogSumExp) a.lse[(b * a.qHeads + h) * a.qLen + l] = lse;
}

void computeAttention(AttentionArguments a, Mistake mistake) {
  if (mistake == Mistake::kAssumesUnitColumn) a.qStride.column = a.kStride.column = a.vStride.column = 1;
  if (mistake == Mistake::kAssumesDenseBatch) {
    // Only where it stays inside the tensors' memory.
    const std::int64_t dense = a.kvHeads * a.capacity * a.headDim;
    a.kStride.batch = std::min(a.kStride.batch, dense), a.vStride.batch = std::min(a.vStride.batch, dense);
  }
  for (std::int64_t b = 0; b < a.batch; ++b) {
    for (std::int64_t h = 0; h < a.qHeads; ++h) {
      for (std::int64_t l = 0; l < a.qLen; ++l) computeRow(a, mistake, b, h, l);
    }
  }
}

// One entry point per mistake: a HostCode::Entry carries no state.
template <std::size_t kIndex>
void linearEntry(const std::uint64_t* slots, std::int64_t, std::int64_t, std::int64_t) {
  computeLinear(read<LinearArguments>(slots), static_cast<Mistake>(kIndex));
}
template <std::size_t kIndex>
void activationsEntry(const std::uint64_t* slots, std::int64_t, std::int64_t, std::int64_t) {
  copyActivations(read<LinearArguments>(slots), static_cast<Mistake>(kIndex));
}
template <std::size_t kIndex>
void preparationEntry(const std::uint64_t* slots, std::int64_t, std::int64_t, std::int64_t) {
  prepareWeights(read<LinearArguments>(slots), static_cast<Mistake>(kIndex));
}
template <std::size_t kIndex>
void attentionEntry(const std::uint64_t* slots, std::int64_t, std::int64_t, std::int64_t) {
  computeAttention(read<AttentionArguments>(slots), static_cast<Mistake>(kIndex));
}
constexpr std::size_t kMistakes = static_cast<std::size_t>(Mistake::kSkipsSecondHalf) + 1;
template <std::size_t... kIndices>
HostCode::Entry entryOf(std::size_t mistake, std::string_view entry, std::index_sequence<kIndices...>) {
  static constexpr HostCode::Entry kLinear[] = {linearEntry<kIndices>...};
  static constexpr HostCode::Entry kActivations[] = {activationsEntry<kIndices>...};
  static constexpr HostCode::Entry kPreparation[] = {preparationEntry<kIndices>...};
  static constexpr HostCode::Entry kAttention[] = {attentionEntry<kIndices>...};
  if (entry == "attention") return kAttention[mistake];
  if (entry == "linear") return kLinear[mistake];
  return entry == "activations" ? kActivations[mistake] : kPreparation[mistake];
}

class NativeCode final : public HostCode {
 public:
  explicit NativeCode(std::size_t mistake) : mistake_(mistake) {}
  Result<Entry> find(std::string_view entry) const override {
    return entryOf(mistake_, entry, std::make_index_sequence<kMistakes>());
  }

 private:
  std::size_t mistake_;
};

class NativeLoader final : public HostLoader {
 public:
  Result<std::unique_ptr<HostCode>> load(const Binary& binary) const override {
    return std::make_unique<NativeCode>(static_cast<std::size_t>(binary.bytes.at(0)));
  }
};

class NativeTemplate final : public Template {
 public:
  NativeTemplate(Operation operation, Mistake mistake, bool hasSpare)
      : operation_(operation),
        mistake_(mistake),
        hasSpare_(hasSpare),
        id_(fmt::format("{}.native", operationName(operation))) {}

  std::string_view id() const override { return id_; }
  Operation operation() const override { return operation_; }
  std::string_view summary() const override { return "plain C++"; }
  std::optional<Refusal> refuses(const Problem& problem, const DeviceInfo&) const override {
    return refusesOperation(*this, problem);
  }
  std::vector<Parameter> parameters(const Problem&, const DeviceInfo&) const override {
    return {{"tile", "nothing", {1, 2}}};
  }
  std::optional<Refusal> refusesConfiguration(const Problem& problem, const DeviceInfo& device,
                                              const Configuration& configuration) const override {
    return refusesValues(parameters(problem, device), configuration);
  }
  Configuration defaultConfiguration(const Problem&, const DeviceInfo&) const override {
    return Configuration({{"tile", 1}});
  }
  double predictMicroseconds(const Problem&, const DeviceInfo&, const Configuration&) const override { return 1; }

  std::vector<BuildRequest> buildRequests(const Problem&, const DeviceInfo& device, const Configuration& configuration,
                                          const SourceCatalog&) const override {
    BuildRequest request{.kind = SourceKind::kTile, .templateId = id_, .target = device.target};
    request.source = std::string(1, static_cast<char>(mistake_));
    request.entries = {"attention"};
    if (operation_ != Operation::kAttention) request.entries = {"linear", "activations", "preparation"};
    return {request};
  }
  std::int64_t workspaceBytes(const Problem&, const DeviceInfo&, const Configuration&) const override { return 256; }

  std::int64_t preparedBytes(const Problem& problem, const DeviceInfo&, const Configuration&) const override {
    if (!problem.isLinear() || !problem.linear.prepared) return 0;
    return blockBytes(problem.linear.n, problem.linear.k) + (hasSpare_ ? kSpareBytes : 0);
  }
  std::string_view preparedFormat(const Problem& problem, const DeviceInfo&, const Configuration&) const override {
    if (!problem.isLinear() || !problem.linear.prepared) return {};
    return hasSpare_ ? "blocks+spare" : "blocks";
  }
  void encodePreparation(const Problem& problem, const DeviceInfo& device, const Configuration&,
                         const Operands& operands, void* prepared, LaunchList& launches) const override {
    LinearArguments arguments = linearArguments(problem.linear, device, operands.linear, nullptr, nullptr);
    arguments.prepared = static_cast<std::byte*>(prepared) + blocksAt();
    append(launches.addKernel(2, {}, {}).arguments, arguments);
  }

  std::string_view activationFormat(const Problem& problem, const DeviceInfo&, const Configuration&) const override {
    return problem.isLinear() ? "bf16" : "";
  }
  std::int64_t activationBytes(const Problem& problem, const DeviceInfo&, const Configuration&) const override {
    return problem.isLinear() ? problem.linear.m * problem.linear.k * 2 : 0;
  }
  void encodeActivations(const Problem& problem, const DeviceInfo& device, const Configuration&,
                         const Operands& operands, void* activations, LaunchList& launches) const override {
    append(launches.addKernel(1, {}, {}).arguments,
           linearArguments(problem.linear, device, operands.linear, nullptr, activations));
  }
  void encodeQuantized(const Problem& problem, const DeviceInfo& device, const Configuration&, const Operands& operands,
                       const void* activations, void* workspace, const void* prepared,
                       LaunchList& launches) const override {
    append(launches.addKernel(0, {}, {}).arguments,
           linearArguments(problem.linear, device, withWeights(problem, operands.linear, prepared), workspace,
                           const_cast<void*>(activations)));
  }
  void encode(const Problem& problem, const DeviceInfo& device, const Configuration&, const Operands& operands,
              void* workspace, const void* prepared, LaunchList& launches) const override {
    KernelArguments& arguments = launches.addKernel(0, {}, {}).arguments;
    if (problem.isLinear()) {
      append(arguments, linearArguments(problem.linear, device, withWeights(problem, operands.linear, prepared),
                                        workspace, nullptr));
      return;
    }
    const AttentionOperands& attention = operands.attention;
    const AttentionShape& shape = problem.attention;
    append(arguments, AttentionArguments{.q = static_cast<const Bf16*>(attention.q),
                                         .k = static_cast<const Bf16*>(attention.k),
                                         .v = static_cast<const Bf16*>(attention.v),
                                         .out = static_cast<Bf16*>(attention.out),
                                         .lse = attention.lse,
                                         .kvLen = attention.kvLen,
                                         .capacity = attention.capacity,
                                         .hint = shape.kvLen,
                                         .batch = shape.batch,
                                         .qHeads = shape.qHeads,
                                         .kvHeads = shape.kvHeads,
                                         .headDim = shape.headDim,
                                         .qLen = shape.qLen,
                                         .causal = shape.causal,
                                         .qStride = attention.qStride,
                                         .kStride = attention.kStride,
                                         .vStride = attention.vStride,
                                         .outStride = attention.outStride,
                                         .scale = attention.scale});
  }

 private:
  static constexpr std::int64_t kSpareBytes = 256;

  /// Where the blocks begin in prepared weights; a spare part behind them stays as it is.
  std::int64_t blocksAt() const { return mistake_ == Mistake::kPutsSpareFirst && hasSpare_ ? kSpareBytes : 0; }

  LinearOperands withWeights(const Problem& problem, LinearOperands linear, const void* prepared) const {
    if (problem.linear.prepared) {
      linear.w = prepared == nullptr ? nullptr : static_cast<const std::byte*>(prepared) + blocksAt();
    }
    return linear;
  }

  LinearArguments linearArguments(const LinearShape& shape, const DeviceInfo& device, const LinearOperands& linear,
                                  void* workspace, void* activations) const {
    return {.x = static_cast<const Bf16*>(linear.x),
            .xStride = linear.xStride,
            .w = static_cast<const std::byte*>(linear.w),
            .bias = static_cast<const Bf16*>(linear.bias),
            .out = static_cast<Bf16*>(linear.out),
            .outStride = linear.outStride,
            .n = shape.n,
            .k = shape.k,
            .m = shape.m,
            .isQ4k = operation_ == Operation::kQ4kLinear,
            .units = device.unitCount,
            .workspaceEnd = static_cast<std::byte*>(workspace) + 256,
            .activations = static_cast<Bf16*>(activations),
            .prepared = nullptr,
            .isPrepared = shape.prepared};
  }

  Operation operation_;
  Mistake mistake_;
  bool hasSpare_;
  std::string id_;
};

constexpr std::array<std::string_view, kMistakes> kNames{"none",
                                                         "forgetsBias",
                                                         "skipsColumnTail",
                                                         "skipsRowTail",
                                                         "skipsLastSubBlock",
                                                         "assumesDenseX",
                                                         "assumesDenseOut",
                                                         "wrapsExtreme",
                                                         "saturatesHalf",
                                                         "nanForZeroRow",
                                                         "dropsMinOfZeroStep",
                                                         "dropsSignOfStep",
                                                         "preparesHalf",
                                                         "takesBitsOfNextBase",
                                                         "writesGap",
                                                         "readsGap",
                                                         "differsByRun",
                                                         "overrunsWorkspace",
                                                         "mostRowsAtOnce",
                                                         "overrunsActivations",
                                                         "differsRarely",
                                                         "takesEightBlocks",
                                                         "laysRowsOutByN",
                                                         "laysRowsOutByM",
                                                         "putsSpareFirst",
                                                         "trustsHint",
                                                         "ignoresKvLength",
                                                         "mirrorsNegative",
                                                         "alignsTopLeft",
                                                         "masksOneTooMany",
                                                         "forgetsMask",
                                                         "groupsByModulo",
                                                         "baseTwo",
                                                         "forgetsLogSumExp",
                                                         "nanForEmptyRow",
                                                         "skipsEmptyRow",
                                                         "finiteEmptyRow",
                                                         "finiteSentinel",
                                                         "forgetsScale",
                                                         "assumesUnitColumn",
                                                         "takesStridesOfK",
                                                         "assumesDenseBatch",
                                                         "skipsKeyTail",
                                                         "readsBeyondLength",
                                                         "skipsChannelTail",
                                                         "roundsProbabilities",
                                                         "skipsSecondHalf"};

}  // namespace

std::vector<Mistake> mistakesOf(Operation operation) {
  std::vector<Mistake> mistakes;
  const bool attention = operation == Operation::kAttention;
  for (std::size_t i = 1; i < kMistakes; ++i) {
    const auto mistake = static_cast<Mistake>(i);
    const bool ofBlocks = mistake == Mistake::kDropsMinOfZeroStep || mistake == Mistake::kDropsSignOfStep ||
                          mistake == Mistake::kPreparesHalf;
    const bool ofFlows = mistake == Mistake::kDiffersRarely || mistake == Mistake::kTakesEightBlocks ||
                         mistake == Mistake::kLaysRowsOutByN || mistake == Mistake::kLaysRowsOutByM ||
                         mistake == Mistake::kPutsSpareFirst;
    if (ofFlows || (ofBlocks && operation != Operation::kQ4kLinear)) continue;
    if ((mistake >= Mistake::kTrustsHint) == attention) mistakes.push_back(mistake);
  }
  return mistakes;
}

std::string_view mistakeName(Mistake mistake) {
  return kNames[static_cast<std::size_t>(mistake)];
}

std::unique_ptr<Template> makeNativeTemplate(Operation operation, Mistake mistake, bool hasSpare) {
  return std::make_unique<NativeTemplate>(operation, mistake, hasSpare);
}

Build nativeBuild() {
  return [](const BuildRequest& request) -> Result<Binary> {
    Binary binary{.target = request.target, .compiler = "native"};
    binary.bytes = {static_cast<std::byte>(request.source.at(0))};
    binary.hash = sha256Hex(binary.bytes);
    return binary;
  };
}

std::unique_ptr<HostLoader> makeNativeLoader() {
  return std::make_unique<NativeLoader>();
}

}  // namespace tilewright::conformance
