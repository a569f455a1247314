// tools/gpu_check/library.py restates the C interface's structs for ctypes: their sizes, and where their last fields
// are; and how it fills the one of a problem.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "tilewright/tilewright.h"

namespace {

/// What `program` prints, or "exit code N".
std::string outputOfPython(const std::string& program) {
  const std::string command = "python3 -B -c \"" + program + "\"";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "no pipe";
  std::string output;
  std::array<char, 256> piece;
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) output += piece.data();
  const int code = pclose(pipe);
  return code == 0 ? output : "exit code " + std::to_string(code);
}

TEST(GpuCheckLibrary, hasTheStructsOfTheHeader) {
  const std::string program =
      "import sys, ctypes; sys.path.insert(0, '" TILEWRIGHT_SOURCE_DIR
      "/tools/gpu_check'); import library as l\n"
      "for s in (l._Problem, l._RuntimeOptions, l._PlanInfo, l._Buffers, l._LinearOperands, l._Strides, "
      "l._AttentionOperands): print(ctypes.sizeof(s), getattr(s, s._fields_[-1][0]).offset)";
  std::string expected;
  const auto add = [&](std::size_t size, std::size_t lastField) {
    expected += std::to_string(size) + " " + std::to_string(lastField) + "\n";
  };
  add(sizeof(tw_problem), offsetof(tw_problem, log_sum_exp));
  add(sizeof(tw_runtime_options), offsetof(tw_runtime_options, build_cache));
  add(sizeof(tw_plan_info), offsetof(tw_plan_info, activation_bytes));
  add(sizeof(tw_buffers), offsetof(tw_buffers, quantized_by));
  add(sizeof(tw_linear_operands), offsetof(tw_linear_operands, out_stride));
  add(sizeof(tw_strides), offsetof(tw_strides, column));
  add(sizeof(tw_attention_operands), offsetof(tw_attention_operands, out_stride));
  EXPECT_EQ(outputOfPython(program), expected);
}

/// A problem's struct as text, in the order of its bytes.
std::string bytesOf(const tw_problem& problem) {
  std::string text;
  for (const unsigned char byte : std::bit_cast<std::array<unsigned char, sizeof problem>>(problem)) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[byte / 16], text += kDigits[byte % 16];
  }
  return text + "\n";
}

TEST(GpuCheckLibrary, fillsTheStructOfAProblem) {
  const std::string program =
      "import sys; sys.path.insert(0, '" TILEWRIGHT_SOURCE_DIR
      "/tools/gpu_check'); import library as l\n"
      "print(bytes(l.native(dict(op='q4k_linear', n=8, k=256, m=3, precision='int8', bias=True, "
      "alignment='any'))).hex())\n"
      "print(bytes(l.native(dict(op='q4k_linear', n=8, k=256, m=3, prepared=True))).hex())\n"
      "print(bytes(l.native(dict(op='attention', batch=1, q_heads=4, kv_heads=2, head_dim=64, q_len=5, kv_len=7, "
      "causal=True, lse=True))).hex())";
  tw_problem biased{}, prepared{}, attention{};  // zero between the members too
  biased.operation = TW_Q4K_LINEAR, biased.n = 8, biased.k = 256, biased.m = 3;
  prepared = biased;
  prepared.prepared = 1;
  biased.precision = TW_INT8, biased.bias = 1, biased.alignment = TW_ALIGNED_ANY;
  attention.operation = TW_ATTENTION, attention.batch = 1, attention.q_heads = 4, attention.kv_heads = 2;
  attention.head_dim = 64, attention.q_len = 5, attention.kv_len = 7, attention.causal = attention.log_sum_exp = 1;
  EXPECT_EQ(outputOfPython(program), bytesOf(biased) + bytesOf(prepared) + bytesOf(attention));
}

}  // namespace
