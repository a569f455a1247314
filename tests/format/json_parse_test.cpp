// Strict reading: what is accepted, and the place, path and rule that each refusal names.
#include "format/json_parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tilewright {
namespace {

TEST(JsonParse, readsEveryKind) {
  const auto value = parseJson(R"( {"n": null, "b": true, "i": -7, "r": 2.5e-1, "s": "a\"\u00e9", "a": [1, [], {}]} )");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_EQ(value->text(), R"({"n": null, "b": true, "i": -7, "r": 0.25, "s": "a\"é", "a": [1, [], {}]})");
  EXPECT_EQ(value->find("i")->kind(), JsonValue::Kind::kInteger);
  EXPECT_EQ(value->find("r")->kind(), JsonValue::Kind::kReal);
}

TEST(JsonParse, everyValueKnowsWhereItBegan) {
  const auto value = parseJson("{\"a\": 1,\n  \"b\" : [10, 200 , \"x\"],\n\"c\":{\"d\":true}}");
  ASSERT_TRUE(value);
  const auto at = [](const JsonValue& v) { return std::pair(v.position().line, v.position().column); };
  using Place = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_EQ(at(*value), Place(1, 1));
  EXPECT_EQ(at(*value->find("a")), Place(1, 7));
  const JsonValue& b = *value->find("b");
  EXPECT_EQ(at(b), Place(2, 9));
  EXPECT_EQ(at((*b.asArray())[0]), Place(2, 10));
  EXPECT_EQ(at((*b.asArray())[1]), Place(2, 14));
  EXPECT_EQ(at((*b.asArray())[2]), Place(2, 20));
  EXPECT_EQ(at(*value->find("c")->find("d")), Place(3, 10));
}

TEST(JsonParse, keepsTheLimitsOf64BitIntegers) {
  const auto value = parseJson("[9223372036854775807, -9223372036854775808]");
  ASSERT_TRUE(value);
  EXPECT_EQ(*(*value->asArray())[0].asInteger(), INT64_MAX);
  EXPECT_EQ(*(*value->asArray())[1].asInteger(), INT64_MIN);
}

TEST(JsonParse, refusalsNameThePlaceThePathAndTheRule) {
  struct Case {
    std::string_view name, text, message;
  };
  for (const auto& [name, text, message] : std::initializer_list<Case>{
           {"empty", "", "line 1, column 1: syntax error"},
           {"truncated", "{\"a\": [1, 2", "line 1, column 12, at a[2]: syntax error"},
           {"trailing_garbage", "{} x", "line 1, column 4: syntax error"},
           {"second_value", "{}\n{}", "line 2, column 1: syntax error"},
           {"trailing_comma", "[1,]", "syntax error"},
           {"comment", "{/* */}", "syntax error"},
           {"single_quotes", "{'a': 1}", "line 1, column 2: syntax error"},
           {"leading_zero", "[01]", "syntax error"},
           {"not_a_number", "{\"a\": NaN}", "line 1, column 7, at a: syntax error"},
           {"infinite", "[Infinity]", "syntax error"},
           {"raw_newline_in_string", "[\"a\nb\"]", "syntax error"},
           {"lone_surrogate", "[\"\\ud800\"]", "syntax error"},
           {"bad_utf8", "[\"\xff\"]", "syntax error"},
           {"duplicate_key", "{\n \"a\": 1,\n \"a\": 2}", "line 3, column 2, at a: duplicate key 'a'"},
           {"nested_duplicate", "{\"p\": [{}, {\"k\": 1, \"k\": 1}]}",
            "line 1, column 21, at p[1].k: duplicate key 'k'"},
           {"duplicate_by_escape", "{\"a\": 1, \"\\u0061\": 2}", "duplicate key 'a'"},
           {"unsigned_beyond_int64", "[1, 9223372036854775808]",
            "line 1, column 5, at [1]: integer 9223372036854775808 does not fit"},
           {"beyond_uint64", "{\"m\": 18446744073709551616}", "at m: integer 18446744073709551616 does not fit"},
           {"below_int64", "[-9223372036854775809]", "does not fit a signed 64-bit integer"},
           {"beyond_double", "[1e999]", "beyond the range of a double"},
       }) {
    const auto value = parseJson(text);
    ASSERT_FALSE(value) << name;
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument) << name;
    EXPECT_THAT(value.error().message, testing::HasSubstr(std::string(message))) << name;
  }
}

TEST(JsonParse, depthAndSizeAreLimited) {
  const std::string deep(1'000'000, '[');
  const auto value = parseJson(deep);
  ASSERT_FALSE(value);
  EXPECT_THAT(value.error().message, testing::HasSubstr("nested more than 64 deep"));
  const std::string allowed = std::string(64, '[') + std::string(64, ']');
  EXPECT_TRUE(parseJson(allowed));
  EXPECT_FALSE(parseJson("[" + allowed + "]"));

  EXPECT_TRUE(parseJson("[1, 2]", {.bytes = 6}));
  const auto large = parseJson("[1, 20]", {.bytes = 6});
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message, testing::HasSubstr("has 7 bytes, must be at most 6"));
}

TEST(JsonParse, everyTruncationIsAnErrorAndNeverACrash) {
  const std::string text = R"({"a": [1, -2.5e3, "x\u00e9"], "b": {"c": null, "d": true}})";
  ASSERT_TRUE(parseJson(text));
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parseJson(std::string_view(text).substr(0, length))) << length;
  }
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto value = parseJson(damaged);
    if (value) {
      EXPECT_TRUE(parseJson(value->text())) << damaged;
    }
  }
}

TEST(JsonParse, filesAreNamedInErrors) {
  const auto folder = std::filesystem::path(testing::TempDir());
  const auto missing = readJsonFile(folder / "no_such_file.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, testing::HasSubstr("no_such_file.json: no such file"));

  const auto directory = readJsonFile(folder);
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, testing::HasSubstr("it is a directory"));

  const auto file = folder / "json_parse_test_bad.json";
  std::ofstream(file) << "{\"a\": }";
  const auto bad = readJsonFile(file);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, testing::AllOf(testing::HasSubstr("json_parse_test_bad.json: line 1, column 7")));
  const auto large = readTextFile(file, 3);
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message, testing::HasSubstr("more than 3 bytes"));
}

}  // namespace
}  // namespace tilewright
