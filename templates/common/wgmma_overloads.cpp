#include "templates/common/wgmma_overloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <vector>

namespace tilewright {
namespace {

struct TypeText {
  const char* function;
  const char* accumulator;  // C++ type
  char constraint;
  int k;
  const char* types;
  const char* tail;  // immediates behind the accumulate predicate: scales of A and B, then transpositions
};

TypeText textOf(const WgmmaShape& shape) {
  switch (shape.type) {
    case WgmmaShape::Type::kS8:
      return {"wgmmaS8", "int", 'r', 32, "s32.s8.s8", ""};
    case WgmmaShape::Type::kE4m3:
      return {"wgmmaE4m3", "float", 'f', 32, "f32.e4m3.e4m3", ", 1, 1"};
    case WgmmaShape::Type::kBf16:
      return {"wgmmaBf16", "float", 'f', 16, "f32.bf16.bf16", shape.aInRegisters ? ", 1, 1, 0" : ", 1, 1, 0, 0"};
    case WgmmaShape::Type::kBf16TransposedB:
      return {
          "wgmmaBf16TransposedB", "float", 'f', 16, "f32.bf16.bf16", shape.aInRegisters ? ", 1, 1, 1" : ", 1, 1, 0, 1"};
  }
  return {};
}

std::string overload(const WgmmaShape& shape) {
  assert(shape.n % 8 == 0 && shape.n >= 8 && shape.n <= 256);
  const TypeText text = textOf(shape);
  const int count = shape.n / 2;
  const int aWords = shape.aInRegisters ? 4 : 1;

  std::string accumulators, operands, a;
  for (int i = 0; i < count; ++i) {
    accumulators += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    operands += fmt::format("{}\"+{}\"(d[{}])", i == 0 ? "" : ", ", text.constraint, i);
  }
  for (int i = 0; i < aWords; ++i) a += fmt::format("{}%{}", i == 0 ? "" : ", ", count + i);
  if (shape.aInRegisters) a = "{" + a + "}";

  const char* aParameter = shape.aInRegisters ? "const U32 (&a)[4]" : "U64 a";
  const char* aOperands = shape.aInRegisters ? R"("r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]))" : R"("l"(a))";
  return fmt::format(
      "__device__ __forceinline__ void {}({} (&d)[{}], {}, U64 b, int accumulate) {{\n"
      "  asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{}, 0;\"\n"
      "               \" wgmma.mma_async.sync.aligned.m64n{}k{}.{} {{{}}}, {}, %{}, p{};}}\"\n"
      "               : {}\n"
      "               : {}, \"l\"(b), \"r\"(accumulate));\n"
      "}}\n",
      text.function, text.accumulator, count, aParameter, count + aWords + 1, shape.n, text.k, text.types, accumulators,
      a, count + aWords, text.tail, operands, aOperands);
}

}  // namespace

std::string wgmmaOverloads(std::span<const WgmmaShape> shapes) {
  std::vector<WgmmaShape> distinct;
  for (const WgmmaShape& shape : shapes) {
    if (std::ranges::find(distinct, shape) == distinct.end()) distinct.push_back(shape);
  }
  std::string text = "#include \"templates/common/wgmma.cuh\"\nnamespace tilewright {\n";
  for (const WgmmaShape& shape : distinct) text += overload(shape);
  return text + "}  // namespace tilewright\n";
}

}  // namespace tilewright
