// Problems: rules, canonical text, packed keys, and the work they count.
#include "base/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tilewright {
namespace {

Problem linearProblem(std::int64_t n, std::int64_t k, std::int64_t m, Precision precision = Precision::kExact) {
  return {.operation = Operation::kQ4kLinear, .linear = {.n = n, .k = k, .m = m, .precision = precision}};
}

Problem attentionProblem(std::int64_t qLen, std::int64_t kvLen, bool causal) {
  return {.operation = Operation::kAttention,
          .attention = {
              .batch = 1, .qHeads = 32, .kvHeads = 8, .headDim = 128, .qLen = qLen, .kvLen = kvLen, .causal = causal}};
}

TEST(Problem, canonicalTextHasAFixedOrder) {
  EXPECT_EQ(toJson(linearProblem(14336, 4096, 512, Precision::kFp8)),
            R"({"op": "q4k_linear", "n": 14336, "k": 4096, "m": 512, "precision": "fp8"})");
  EXPECT_EQ(toJson(attentionProblem(512, 16384, true)),
            R"({"op": "attention", "dtype": "bf16", "batch": 1, "q_heads": 32, "kv_heads": 8, "head_dim": 128, )"
            R"("q_len": 512, "kv_len": 16384, "causal": true})");
}

TEST(Problem, brokenRulesNameTheValueAndTheRule) {
  struct Case {
    Problem problem;
    std::string_view part;
  };
  Problem unpreparable = linearProblem(8, 16, 1);
  unpreparable.operation = Operation::kLinear;
  unpreparable.linear.prepared = true;
  Problem heads = attentionProblem(1, 1, false);
  heads.attention.qHeads = 5;
  Problem wide = attentionProblem(1, 1, false);
  wide.attention.headDim = 264;
  Problem odd = attentionProblem(1, 1, false);
  odd.attention.headDim = 100;
  for (const auto& [problem, part] : {
           Case{linearProblem(0, 256, 1), "n is 0, must be from 1"},
           Case{linearProblem(8, 0, 1), "k is 0"},
           Case{linearProblem(8, 128, 1), "k is 128, must be a multiple of 256"},
           Case{linearProblem(8, 256, -1), "m is -1, must be from 0"},
           Case{linearProblem(std::int64_t{1} << 41, 256, 1), "2^40"},
           Case{unpreparable, "invalid linear problem: prepared is true, must be false: only q4k_linear"},
           Case{heads, "q_heads is 5, must be a multiple of kv_heads, which is 8"},
           Case{wide, "head_dim is 264"},
           Case{odd, "head_dim is 100"},
       }) {
    const auto result = validate(problem);
    ASSERT_FALSE(result) << part;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, testing::HasSubstr(std::string(part)));
  }
  EXPECT_TRUE(validate(linearProblem(37, 256, 0)));
  Problem prepared = linearProblem(37, 256, 0);
  prepared.linear.prepared = true;
  EXPECT_TRUE(validate(prepared));
  EXPECT_TRUE(validate(attentionProblem(0, 0, true)));
}

TEST(Problem, everyFieldReachesThePackedKey) {
  std::set<PackedProblem> keys;
  std::size_t count = 0;
  const auto add = [&](const Problem& problem) { keys.insert(pack(problem)), ++count; };
  const Problem base = linearProblem(512, 256, 3);
  add(base);
  for (auto change : std::initializer_list<void (*)(Problem&)>{
           [](Problem& p) { p.linear.n = 513; }, [](Problem& p) { p.linear.k = 512; },
           [](Problem& p) { p.linear.m = 4; }, [](Problem& p) { p.linear.precision = Precision::kFast; },
           [](Problem& p) { p.linear.bias = true; }, [](Problem& p) { p.linear.prepared = true; },
           [](Problem& p) { p.alignment = Alignment::kAny; }, [](Problem& p) { p.operation = Operation::kLinear; }}) {
    Problem problem = base;
    change(problem);
    add(problem);
  }
  const Problem attention = attentionProblem(5, 7, false);
  add(attention);
  for (auto change : std::initializer_list<void (*)(Problem&)>{
           [](Problem& p) { p.attention.batch = 2; }, [](Problem& p) { p.attention.qHeads = 16; },
           [](Problem& p) { p.attention.kvHeads = 4; }, [](Problem& p) { p.attention.headDim = 64; },
           [](Problem& p) { p.attention.qLen = 6; }, [](Problem& p) { p.attention.kvLen = 8; },
           [](Problem& p) { p.attention.causal = true; }, [](Problem& p) { p.attention.logSumExp = true; },
           [](Problem& p) { p.attention.dtype = DType::kF16; }, [](Problem& p) { p.alignment = Alignment::kAny; }}) {
    Problem problem = attention;
    change(problem);
    add(problem);
  }
  EXPECT_EQ(keys.size(), count);
}

TEST(Problem, preparedWeightsCountAsTheirOriginals) {
  Problem prepared = linearProblem(512, 256, 3);
  prepared.linear.prepared = true;
  EXPECT_EQ(toJson(prepared),
            R"({"op": "q4k_linear", "n": 512, "k": 256, "m": 3, "precision": "exact", "prepared": true})");
  EXPECT_EQ(bytes(prepared), bytes(linearProblem(512, 256, 3)));
  EXPECT_EQ(flops(prepared), flops(linearProblem(512, 256, 3)));
}

TEST(Problem, countsTheVisibleAreaOfCausalAttention) {
  // 2 rows over 3 keys, aligned bottom-right: 2 + 3 visible. 3 rows over 2 keys: 0 + 1 + 2.
  const double perPair = 4.0 * 32 * 128;
  EXPECT_EQ(flops(attentionProblem(2, 3, true)), perPair * 5);
  EXPECT_EQ(flops(attentionProblem(3, 2, true)), perPair * 3);
  EXPECT_EQ(flops(attentionProblem(3, 2, false)), perPair * 6);
  EXPECT_EQ(flops(attentionProblem(0, 2, true)), 0);
}

}  // namespace
}  // namespace tilewright
