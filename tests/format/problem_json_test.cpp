// Problems: canonical text in both directions, defaults, lists, and what each refusal names.
#include "format/problem_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/json_parse.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

const Problem kLinearProblem{.operation = Operation::kQ4kLinear,
                             .linear = {.n = 14336, .k = 4096, .m = 512, .precision = Precision::kFp8}};
const Problem kAttentionProblem{
    .operation = Operation::kAttention,
    .attention = {.batch = 2, .qHeads = 32, .kvHeads = 8, .headDim = 128, .qLen = 512, .kvLen = 16384, .causal = true}};

TEST(ProblemJson, canonicalTextReadsBackToTheSameProblem) {
  std::vector<Problem> problems = {kLinearProblem, kAttentionProblem};
  problems.push_back({.operation = Operation::kLinear, .linear = {.n = 1, .k = 1, .m = 0}});
  for (const Precision precision : {Precision::kExact, Precision::kInt8, Precision::kFast}) {
    problems.push_back(kLinearProblem);
    problems.back().linear.precision = precision;
    problems.back().linear.bias = true;
    problems.back().linear.prepared = precision != Precision::kInt8;
    problems.back().alignment = Alignment::kAny;
  }
  problems.push_back(kAttentionProblem);
  problems.back().attention.logSumExp = true;
  problems.back().attention.causal = false;
  problems.back().alignment = Alignment::kAny;
  for (const Problem& problem : problems) {
    const auto parsed = parseProblem(toJson(problem));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, problem) << toJson(problem);
    EXPECT_EQ(problemToJson(problem).text(), toJson(problem));
  }
}

TEST(ProblemJson, flagsHaveDefaultsAndOrderIsFree) {
  const auto linear = parseProblem(R"({"m": 3, "k": 256, "op": "q4k_linear", "n": 8})");
  ASSERT_TRUE(linear) << linear.error().message;
  EXPECT_EQ(*linear, (Problem{.operation = Operation::kQ4kLinear, .linear = {.n = 8, .k = 256, .m = 3}}));
  const auto attention =
      parseProblem(R"({"op": "attention", "q_heads": 4, "kv_heads": 2, "head_dim": 64, "q_len": 5, "kv_len": 7})");
  ASSERT_TRUE(attention) << attention.error().message;
  EXPECT_EQ(attention->attention,
            (AttentionShape{.batch = 1, .qHeads = 4, .kvHeads = 2, .headDim = 64, .qLen = 5, .kvLen = 7}));
}

TEST(ProblemJson, refusalsNameTheKeyAndTheRule) {
  struct Case {
    std::string_view text, message;
  };
  for (const auto& [text, message] : std::initializer_list<Case>{
           {R"([])", "expected an object, found an array"},
           {R"({"n": 8})", "key 'op' is missing"},
           {R"({"op": 3})", "column 8, at op: expected a string, found an integer"},
           {R"({"op": "gemm"})", "unknown operation 'gemm'; known are q4k_linear, linear and attention"},
           {R"({"op": "linear", "n": 8, "k": 8})", "key 'm' is missing"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": "1"})", "at m: expected an integer, found a string"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1.0})", "at m: expected an integer, found a number"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": null})", "at m: expected an integer, found null"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": true})", "at m: expected an integer, found a boolean"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1, "M": 1})",
            "unknown key 'M'; allowed are op, n, k, m, precision, bias, prepared, alignment"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1, "head_dim": 1})", "unknown key 'head_dim'"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1, "count": 1})", "unknown key 'count'"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1, "bias": 1})", "at bias: expected a boolean"},
           {R"({"op": "q4k_linear", "n": 8, "k": 256, "m": 1, "prepared": 1})", "at prepared: expected a boolean"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1, "prepared": true})",
            "prepared is true, must be false: only q4k_linear prepares its weights"},
           {R"({"op": "attention", "prepared": true})", "unknown key 'prepared'"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1, "precision": "fp8"})", "precision is fp8, must be exact"},
           {R"({"op": "q4k_linear", "n": 8, "k": 256, "m": 1, "precision": "fp4"})",
            "precision is 'fp4', must be exact, fp8, int8 or fast"},
           {R"({"op": "q4k_linear", "n": 8, "k": 100, "m": 1})", "k is 100, must be a multiple of 256"},
           {R"({"op": "linear", "n": 0, "k": 8, "m": 1})", "n is 0, must be from 1"},
           {R"({"op": "linear", "n": 8, "k": -8, "m": 1})", "k is -8, must be from 1"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1099511627777})", "m is 1099511627777, must be from 0 to 2^40"},
           {R"({"op": "linear", "n": 8, "k": 8, "m": 1, "alignment": "8"})", "alignment is '8', must be '16' or 'any'"},
           {R"({"op": "attention", "q_heads": 3, "kv_heads": 2, "head_dim": 64, "q_len": 5, "kv_len": 7})",
            "q_heads is 3, must be a multiple of kv_heads, which is 2"},
           {R"({"op": "attention", "q_heads": 2, "kv_heads": 2, "head_dim": 60, "q_len": 5, "kv_len": 7})",
            "head_dim is 60, must be a multiple of 8"},
           {R"({"op": "attention", "q_heads": 2, "kv_heads": 0, "head_dim": 64, "q_len": 5, "kv_len": 7})",
            "kv_heads is 0, must be from 1"},
       }) {
    const auto problem = parseProblem(text);
    ASSERT_FALSE(problem) << text;
    EXPECT_EQ(problem.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(problem.error().message, HasSubstr(std::string(message))) << text;
    EXPECT_THAT(problem.error().message, HasSubstr("line 1")) << text;
  }
}

TEST(ProblemJson, featuresThatNobodyHasAreRefusedByName) {
  struct Case {
    std::string_view member, message;
  };
  for (const auto& [member, message] : std::initializer_list<Case>{
           {R"("mask": "boolean")", "masks are not supported"},
           {R"("window": [128, 0])", "sliding windows are not supported"},
           {R"("softcap": 15.0)", "logit soft capping is not supported"},
           {R"("page_size": 16)", "paged key-value caches are not supported"},
           {R"("dtype": "fp8")", "attention on 'fp8' is not supported"},
           {R"("dtype": "f16")", "attention on 'f16' is not supported"},
       }) {
    const auto problem = parseProblem(fmt::format(
        R"({{"op": "attention", "q_heads": 2, "kv_heads": 2, "head_dim": 64, "q_len": 5, "kv_len": 7, {}}})", member));
    ASSERT_FALSE(problem) << member;
    EXPECT_EQ(problem.error().code, ErrorCode::kUnsupported) << member;
    EXPECT_THAT(problem.error().message, HasSubstr(std::string(message)));
  }
}

TEST(ProblemJson, listsAndListingsReadTheSame) {
  const std::string entry = toJson(kAttentionProblem);
  const std::string counted = R"({"op": "linear", "n": 8, "k": 8, "m": 1, "count": 28, "use": "output"})";
  const std::string array = fmt::format("[{}, {}]", entry, counted);
  const std::string listing = fmt::format(R"({{"version": 1, "problems": {}, "not_covered": {{"x": 1}}}})", array);
  for (const std::string& text : {array, listing}) {
    const auto value = parseJson(text);
    ASSERT_TRUE(value);
    const auto problems = problemListFromJson(*value);
    ASSERT_TRUE(problems) << problems.error().message;
    ASSERT_EQ(problems->size(), 2u);
    EXPECT_EQ((*problems)[0], (ListedProblem{.problem = kAttentionProblem}));
    EXPECT_EQ((*problems)[1].count, 28);
    EXPECT_EQ(listedProblemToJson((*problems)[1]).text(), counted);
  }
}

TEST(ProblemJson, listErrorsNameTheEntry) {
  struct Case {
    std::string_view text, message;
  };
  for (const auto& [text, message] : std::initializer_list<Case>{
           {R"([{"op": "linear", "n": 8, "k": 8, "m": 1}, 5])", "at [1]: expected an object"},
           {R"([{"op": "linear", "n": 8, "k": 8, "m": 1, "count": 0}])", "at [0].count: count is 0, must be above 0"},
           {R"({"version": 1, "problems": [{"op": "linear", "n": 8, "k": 8, "m": -1}]})",
            "at problems[0]: invalid linear"},
           {R"({"version": 1, "problem": []})", "unknown key 'problem'"},
           {R"("x")", "expected an object, found a string"},
       }) {
    const auto value = parseJson(text);
    ASSERT_TRUE(value) << text;
    const auto problems = problemListFromJson(*value);
    ASSERT_FALSE(problems) << text;
    EXPECT_THAT(problems.error().message, HasSubstr(std::string(message))) << text;
  }
}

}  // namespace
}  // namespace tilewright
