// Cases of `linear` and `q4k_linear`. Sizes are n (rows of W), k, m (rows of x).
//
// Where a size is another project's, the comment says whose: a size of its tests, or the input of a public bug report.
#include "tests/conformance/case.h"

namespace tilewright::conformance {
namespace {

using reference::Activations;
using reference::OperandOptions;
using reference::Weights;

struct Size {
  std::string_view name;
  std::int64_t n, k, m;
  bool bias = false;
  bool huge = false;
  bool padded =
      false;  ///< rows of out start at multiples of 16 bytes, whatever n is: templates with TMA take no others
  bool prepared = false;
};

// Of the template for few rows, whose out passes 2^31 elements only with weights of 9 GiB.
constexpr Size kHugeOutOfFewRows = {"huge_out_few_rows", 67200000, 256, 32, false, true};

constexpr Size kSizes[] = {
    // Edges of rows.
    {"rows_zero", 64, 512, 0},
    {"rows_one", 257, 512, 1},
    {"rows_two", 96, 256, 2},
    {"rows_seven", 37, 256, 7},
    {"rows_eight", 128, 512, 8},
    {"rows_tail_16", 128, 256, 17},
    {"rows_tail_64", 64, 256, 65},
    {"rows_tail_128", 128, 256, 129},
    {"rows_tail_133", 257, 1024, 133},
    {"rows_4100", 4, 256, 4100},
    // Edges of columns.
    {"columns_one", 1, 256, 3},
    {"columns_four", 4, 512, 1},
    {"columns_tail_37", 37, 512, 64},
    {"columns_tail_257", 257, 256, 33},
    {"columns_tail_1638", 1638, 256, 17},
    // The same, and of rows, where templates with TMA take them.
    {"padded_37_rows_one", 37, 512, 1, false, false, true},
    {"padded_37_rows_seven", 37, 4096, 7, true, false, true},
    {"padded_37_rows_133", 37, 1024, 133, false, false, true},
    {"padded_257_rows_zero", 257, 512, 0, true, false, true},
    {"padded_257_rows_17", 257, 2048, 17, true, false, true},
    {"padded_257_rows_133", 257, 8192, 133, true, false, true},
    {"padded_1638_rows_seven", 1638, 2048, 7, true, false, true},
    {"padded_1638_rows_133", 1638, 4096, 133, false, false, true},
    {"padded_1638_rows_300", 1638, 1024, 300, true, false, true},
    // Several tiles a block, the last row of them stored one by one.
    {"padded_32001_rows_300", 32001, 256, 300, true, false, true},
    {"padded_37_depth_147456", 37, 147456, 3, true, false, true},
    {"padded_37_rows_61681", 37, 256, 61681, false, false, true},
    // Edges of k: one super-block, a prime number of them, many.
    {"depth_one_block", 64, 256, 16},
    {"depth_three_blocks", 64, 768, 16},
    {"depth_seven_blocks", 48, 1792, 9},
    {"depth_147456", 37, 147456, 3},
    // Bias.
    {"bias", 256, 512, 40, true},
    {"bias_row", 256, 512, 1, true},
    {"bias_columns_tail", 37, 256, 7, true},
    {"bias_deep", 320, 14336, 40, true},
    // ExecuTorch's int4 dispatch, family and shim tests.
    {"executorch_256x512", 256, 512, 64},
    {"executorch_768x256", 768, 256, 6},
    {"executorch_256x768", 256, 768, 15},
    {"executorch_1536x512", 1536, 512, 24},
    {"executorch_bucket_64", 768, 256, 48},
    {"executorch_one_super_block", 8, 256, 1},
    {"executorch_wide_n", 16, 256, 1},
    {"executorch_packed_shuffle", 8, 1024, 1},
    {"executorch_mlp", 512, 256, 4, true},
    {"executorch_decode_4096x5376", 4096, 5376, 1},
    {"executorch_q_k_o", 8448, 6656, 4},
    {"executorch_kv", 256, 6656, 48},
    {"executorch_down", 6656, 19968, 2},
    {"executorch_gate_up", 39936, 6656, 128},
    {"executorch_prefill_21504x5376", 21504, 5376, 128},
    // Failing inputs of public reports.
    {"deepgemm_768", 768, 512, 133},
    {"deepgemm_masked_rows", 512, 512, 63},
    {"deepgemm_7168", 7168, 1024, 64},
    {"deepgemm_8192", 8192, 8192, 32},
    {"deepgemm_147456", 1024, 147456, 512},
    {"deepgemm_1538", 256, 2048, 1538},
    {"deepgemm_73728", 36864, 1024, 128},
    {"cutlass_5120", 4096, 4096, 5120},
    {"cutlass_2048", 2048, 2048, 128},
    {"cutlass_1638_rows", 256, 256, 1638},
    {"modular_2304", 2304, 2048, 33},
    {"marlin_256_rows", 512, 512, 256},
    {"vllm_61681_tokens", 264, 512, 61681},
    {"llamacpp_32001", 32001, 256, 9},
    // Beyond 2^31 elements: of out, of W, of x.
    {"huge_out", 39936, 256, 61681, false, true},
    {"huge_weights", 73728, 36864, 3, false, true},
    {"huge_weights_rows", 73728, 36864, 128, true, true},
    {"huge_x", 37, 36864, 61681, false, true},
    {"huge_x_padded", 37, 36864, 61681, false, true, true},
};

// Of q4k_linear, called with prepared weights alone.
constexpr Size kPreparedSizes[] = {
    {"prepared", 256, 512, 40, false, false, false, true},
    {"prepared_rows_zero", 64, 512, 0, false, false, false, true},
    {"prepared_rows_one", 4096, 4096, 1, false, false, false, true},  // enough to be near the mean error in E4M3
    {"prepared_37_rows_seven", 37, 4096, 7, true, false, true, true},
    {"prepared_257_rows_133", 257, 2048, 133, true, false, true, true},
    {"prepared_columns_tail_257", 257, 256, 33, false, false, false, true},
};

// `linear` takes any k.
constexpr Size kDepths[] = {
    {"depth_1", 33, 1, 5},          {"depth_7", 33, 7, 5},      {"depth_8", 33, 8, 5},
    {"depth_33", 40, 33, 17},       {"depth_100", 64, 100, 64}, {"depth_1152", 96, 1152, 20},  // DeepGEMM PR 25
    {"depth_10944", 64, 10944, 16},                                                            // vLLM 9913
};

struct Layout {
  std::string_view name;
  OperandOptions operands;
};

std::vector<Layout> layouts() {
  return {
      {"stride_padded", {.xPadding = 64, .outPadding = 24}},
      {"stride_odd", {.xPadding = 3, .outPadding = 5}},
      {"stride_out_odd", {.outPadding = 1}},
      {"base_16_bytes", {.baseOffset = 8}},
      {"base_odd", {.baseOffset = 1}},
      {"base_and_stride_odd", {.baseOffset = 3, .xPadding = 1, .outPadding = 7}},
  };
}

std::vector<Layout> values() {
  return {
      {"x_outliers", {.activations = Activations::kOutliers}},
      {"x_zero_rows", {.activations = Activations::kZeroRows}},
      {"x_constant_rows", {.activations = Activations::kConstantRows}},
      {"x_extremes_127", {.activations = Activations::kExtremes}},
      {"x_60000", {.activations = Activations::kLarge}},
      {"weights_1e-3", {.weightScale = 1e-3}},
      {"weights_1e2", {.weightScale = 1e2}},
      {"weights_1e2_x_60000", {.activations = Activations::kLarge, .weightScale = 1e2}},
  };
}

// Of super-blocks, beside those.
std::vector<Layout> blockValues() {
  return {
      {"w_any_bits", {.weights = Weights::kAnyBits}},
      {"w_only_mins", {.weights = Weights::kOnlyMins}},
      {"w_negative_steps", {.weights = Weights::kNegativeSteps}},
      {"w_any_bits_x_outliers", {.activations = Activations::kOutliers, .weights = Weights::kAnyBits}},
      {"w_only_mins_x_zero_rows", {.activations = Activations::kZeroRows, .weights = Weights::kOnlyMins}},
      {"w_negative_steps_x_constant", {.activations = Activations::kConstantRows, .weights = Weights::kNegativeSteps}},
  };
}

}  // namespace

std::vector<Case> linearCases(Operation operation) {
  std::vector<Case> cases;
  const bool blocks = operation == Operation::kQ4kLinear;
  const auto add = [&](const Size& size, Precision precision, std::string name, OperandOptions operands = {}) {
    if (size.padded) operands.outPadding = (8 - size.n % 8) % 8;
    const LinearShape shape{
        .n = size.n, .k = size.k, .m = size.m, .precision = precision, .bias = size.bias, .prepared = size.prepared};
    cases.push_back({.name = std::move(name),
                     .problem = {.operation = operation, .linear = shape},
                     .operands = operands,
                     .huge = size.huge});
  };
  std::vector<Precision> precisions{Precision::kExact};
  if (blocks) precisions = {Precision::kExact, Precision::kFp8, Precision::kInt8, Precision::kFast};
  for (const Precision precision : precisions) {
    const std::string suffix = blocks ? fmt::format("_{}", precisionName(precision)) : "";
    for (const Size& size : kSizes) add(size, precision, std::string(size.name) + suffix);
    if (precision == Precision::kInt8) {
      add(kHugeOutOfFewRows, precision, fmt::format("{}{}", kHugeOutOfFewRows.name, suffix));
    }
    if (blocks) {
      for (const Size& size : kPreparedSizes) add(size, precision, std::string(size.name) + suffix);
      add({"", 320, 1024, 70, false, false, false, true}, precision, fmt::format("prepared_x_outliers{}", suffix),
          {.activations = Activations::kOutliers});
    } else {
      for (const Size& size : kDepths) add(size, precision, std::string(size.name));
    }
    // Layouts at sizes with and without tails.
    for (const auto& [name, operands] : layouts()) {
      add({name, 256, 512, 64, true}, precision, fmt::format("{}{}", name, suffix), operands);
      add({name, 37, 512, 7, true}, precision, fmt::format("{}_tails{}", name, suffix), operands);
      add({name, 128, 1024, 1}, precision, fmt::format("{}_row{}", name, suffix), operands);
    }
    // Values at many rows, so that errors are statistics, and at few.
    std::vector<Layout> all = values();
    if (blocks) {
      for (Layout& each : blockValues()) all.push_back(std::move(each));
    }
    for (const auto& [name, operands] : all) {
      add({name, 320, 1024, 70}, precision, fmt::format("{}{}", name, suffix), operands);
      add({name, 272, 1024, 4}, precision, fmt::format("{}_few_rows{}", name, suffix), operands);
    }
    // Every pair of parameter values: uneven tiles and a bias; many super-blocks of k, to be cut; few rows.
    if (blocks && precision != Precision::kFast) {
      constexpr Size kEveryPair[] = {{"every_pair_1638x4096_rows_133", 1638, 4096, 133, true, false, true},
                                     {"every_pair_1032x8192_rows_300", 1032, 8192, 300},
                                     {"every_pair_4100x4096_rows_1", 4100, 4096, 1, true, false, true},
                                     {"every_pair_2056x2048_rows_9", 2056, 2048, 9},
                                     {"every_pair_4104x1024_rows_31", 4104, 1024, 31, true}};
      for (const Size& size : kEveryPair) {
        add(size, precision, std::string(size.name) + suffix);
        cases.back().everyPair = true;
      }
      // Groups of k with scales and outliers of their own: two words of flags; tokens too long for registers.
      constexpr Size kWithOutliers[] = {{"every_pair_x_outliers_264x8192_rows_70", 264, 8192, 70},
                                        {"every_pair_x_outliers_96x36864_rows_40", 96, 36864, 40}};
      for (const Size& size : kWithOutliers) {
        add(size, precision, std::string(size.name) + suffix, {.activations = Activations::kOutliers});
        cases.back().everyPair = true;
      }
    }
    // Errors must not grow with k, whatever the weights' size.
    for (const auto& [name, operands] : std::initializer_list<Layout>{
             {"depth_28672", {}},
             {"depth_28672_x_outliers", {.activations = Activations::kOutliers}},
             {"depth_28672_weights_1e-3", {.weightScale = 1e-3}},
             {"depth_28672_weights_1e2", {.weightScale = 1e2}},
         }) {
      add({"", 96, 28672, 40}, precision, fmt::format("{}{}", name, suffix), operands);
    }
  }
  return cases;
}

}  // namespace tilewright::conformance
