// tools/gpu_check/library.py restates the C interface's structs for ctypes: their sizes, and where their last fields are.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

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

}  // namespace
