// Writing: escapes, numbers that read back to themselves, listings.
#include "format/json_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "format/configuration_json.h"
#include "format/json_parse.h"
#include "format/listing.h"

namespace tilewright {
namespace {

TEST(JsonValue, stringsReadBackToThemselves) {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  for (const std::string& text : {all, std::string("é 漢 𝄞 \\ \" /"), std::string(), std::string("\0x", 2)}) {
    const auto value = parseJson(jsonQuote(text));
    ASSERT_TRUE(value) << value.error().message;
    EXPECT_EQ(*value->asString(), text);
  }
}

TEST(JsonValue, bytesThatAreNotUtf8AreReplaced) {
  // A lone continuation, an overlong slash, half a surrogate pair, a cut sequence.
  for (const std::string& text :
       {std::string("\x80"), std::string("\xc0\xaf"), std::string("\xed\xa0\x80"), std::string("\xe6\xbc")}) {
    const auto value = parseJson(jsonQuote("a" + text + "b"));
    ASSERT_TRUE(value) << value.error().message;
    EXPECT_THAT(*value->asString(), testing::AllOf(testing::StartsWith("a\xef\xbf\xbd"), testing::EndsWith("b")));
  }
}

TEST(JsonValue, realsReadBackToThemselves) {
  for (const double real : {0.1, 1.0 / 3, 1e-300, 1.7976931348623157e308, -2.5, 5e-324}) {
    const auto value = parseJson(JsonValue(real).text());
    ASSERT_TRUE(value) << JsonValue(real).text();
    ASSERT_NE(value->asReal(), nullptr) << JsonValue(real).text();
    EXPECT_EQ(*value->asReal(), real);
  }
  EXPECT_EQ(JsonValue(std::numeric_limits<double>::quiet_NaN()).text(), "null");
  EXPECT_EQ(JsonValue(std::numeric_limits<double>::infinity()).text(), "null");
}

TEST(Listing, isOneObjectWithAVersionAndOneArray) {
  const std::string text =
      listingText("devices", {JsonValue::object({{"name", "a"}}), JsonValue::object({{"name", "b"}})}, {{"total", 2}});
  EXPECT_EQ(text, "{\"version\": 1, \"devices\": [\n  {\"name\": \"a\"},\n  {\"name\": \"b\"}\n], \"total\": 2}\n");
  EXPECT_EQ(listingText("devices", {}), "{\"version\": 1, \"devices\": []}\n");
  const auto value = parseJson(text);
  ASSERT_TRUE(value);
  const auto entries = listingEntries(*value, "devices", {"total"});
  ASSERT_TRUE(entries) << entries.error().message;
  EXPECT_EQ((*entries)->size(), 2u);
}

TEST(Listing, refusesOtherVersionsAndKeys) {
  struct Case {
    std::string_view text, message;
    ErrorCode code;
  };
  for (const auto& [text, message, code] : {
           Case{R"({"version": 2, "devices": []})", "version is 2, this program reads 1", ErrorCode::kVersion},
           Case{R"({"devices": []})", "key 'version' is missing", ErrorCode::kInvalidArgument},
           Case{R"({"version": 1})", "key 'devices' is missing", ErrorCode::kInvalidArgument},
           Case{R"({"version": 1, "devices": {}})", "at devices: expected an array, found an object",
                ErrorCode::kInvalidArgument},
           Case{R"({"version": 1, "devices": [], "x": 0})", "unknown key 'x'; allowed are version, devices",
                ErrorCode::kInvalidArgument},
           Case{"3", "expected an object, found an integer", ErrorCode::kInvalidArgument},
       }) {
    const auto value = parseJson(text);
    ASSERT_TRUE(value);
    const auto entries = listingEntries(*value, "devices");
    ASSERT_FALSE(entries) << text;
    EXPECT_EQ(entries.error().code, code) << text;
    EXPECT_THAT(entries.error().message, testing::HasSubstr(std::string(message)));
  }
}

TEST(ConfigurationJson, keepsNamesValuesAndOrder) {
  const std::string text = R"({"tile_m": 128, "stages": 4, "split": -1})";
  const auto entries = parseConfiguration(text);
  ASSERT_TRUE(entries) << entries.error().message;
  EXPECT_EQ(*entries, (ConfigurationEntries{{"tile_m", 128}, {"stages", 4}, {"split", -1}}));
  EXPECT_EQ(configurationToJson(*entries).text(), text);
}

TEST(ConfigurationJson, refusesEverythingButIntegers) {
  for (const std::string_view text :
       {"[]", "7", R"({"a": 1.5})", R"({"a": "1"})", R"({"a": null})", R"({"a": 1, "a": 1})"}) {
    EXPECT_FALSE(parseConfiguration(text)) << text;
  }
}

}  // namespace
}  // namespace tilewright
