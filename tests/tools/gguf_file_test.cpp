// GGUF headers: what is read, and that nothing hostile passes, allocates or crashes.
#include "tools/model_shapes/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/tools/gguf_writer.h"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing_gguf::GgufWriter;
using testing_gguf::smallLlama;

Result<GgufHeader> read(const std::string& bytes) {
  std::istringstream stream(bytes);
  return GgufHeader::read(stream, bytes.size());
}

template <typename T>
std::string bytesOf(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

TEST(GgufFile, readsVersions2And3) {
  for (const std::uint32_t version : {2u, 3u}) {
    const auto header = read(smallLlama(version).header());
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->text("general.architecture"), "llama");
    EXPECT_EQ(header->integer("llama.block_count"), 2);
    EXPECT_EQ(header->integer("llama.rope.freq_base"), std::nullopt);
    ASSERT_EQ(header->tensors().size(), 19u);
    const GgufTensor& tensor = header->tensors()[2];
    EXPECT_EQ(tensor.name, "blk.0.attn_q.weight");
    EXPECT_EQ(tensor.type.name, "Q4_K");
    EXPECT_EQ(tensor.dimensions, 2);
    EXPECT_THAT(tensor.size, testing::ElementsAre(512, 512, 1, 1));
  }
}

TEST(GgufFile, readsEveryMetadataType) {
  GgufWriter writer;
  writer.raw("u8", 0, bytesOf(std::uint8_t{200})).raw("i8", 1, bytesOf(std::int8_t{-3}));
  writer.u16("u16", 60000).raw("i16", 3, bytesOf(std::int16_t{-300})).u32("u32", 4000000000u).i32("i32", -7);
  writer.f32("f32", 0.5f).flag("bool", true).text("string", "text");
  writer.u64("u64", std::uint64_t{1} << 62).raw("i64", 11, bytesOf(std::int64_t{-9})).raw("f64", 12, bytesOf(0.25));
  writer.u32s("array", {1, 2, 3}).flags("flags", {true, false}).texts("texts", {"a", ""});
  const auto header = read(writer.header());
  ASSERT_TRUE(header) << header.error().message;
  for (const auto& [key, value] :
       std::initializer_list<std::pair<std::string_view, std::int64_t>>{{"u8", 200},
                                                                        {"i8", -3},
                                                                        {"u16", 60000},
                                                                        {"i16", -300},
                                                                        {"u32", 4000000000},
                                                                        {"i32", -7},
                                                                        {"bool", 1},
                                                                        {"u64", std::int64_t{1} << 62},
                                                                        {"i64", -9}}) {
    EXPECT_EQ(header->integer(key), value) << key;
  }
  EXPECT_EQ(header->find("f32")->real, 0.5);
  EXPECT_EQ(header->find("f64")->real, 0.25);
  EXPECT_EQ(header->text("string"), "text");
  EXPECT_THAT(header->find("array")->integers, testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(header->find("flags")->integers, testing::ElementsAre(1, 0));
  EXPECT_TRUE(header->find("texts")->isArray);
  EXPECT_EQ(header->integer("array"), std::nullopt);
  EXPECT_EQ(header->find("none"), nullptr);
}

TEST(GgufFile, everyTruncationIsAnErrorThatSaysSo) {
  const std::string whole = smallLlama().header();
  ASSERT_TRUE(read(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto header = read(whole.substr(0, length));
    ASSERT_FALSE(header) << length;
    EXPECT_EQ(header.error().code, ErrorCode::kCorrupt) << length;
    EXPECT_THAT(header.error().message, testing::AnyOf(HasSubstr("bytes are missing"), HasSubstr("bytes left")))
        << length;
  }
}

TEST(GgufFile, everyFlippedBitIsAnErrorOrAnotherHeader) {
  const std::string whole = smallLlama().header();
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto header = read(damaged);
    if (!header) {
      ++refused;
      EXPECT_FALSE(header.error().message.empty());
    } else {
      EXPECT_LE(header->tensors().size(), 19u);
    }
  }
  // Flips in names and values are other valid headers; those in the fixed part, lengths, types and offsets are not.
  EXPECT_GT(refused, whole.size() * 8 / 3);
}

TEST(GgufFile, hostileHeadersAreRefused) {
  const auto llama = [] { return GgufWriter().text("general.architecture", "llama"); };
  struct Case {
    std::string_view name;
    std::string bytes;
    ErrorCode code;
    std::string_view message;
  };
  const std::uint64_t huge = std::uint64_t{1} << 60;
  const auto array = [](std::uint32_t type, std::uint64_t count) { return bytesOf(type) + bytesOf(count); };
  for (const auto& [name, bytes, code, message] : std::initializer_list<Case>{
           {"not_gguf", "GGMLxxxxxxxxxxxxxxxxxxxx", ErrorCode::kCorrupt, "does not begin with 'GGUF'"},
           {"version_0", GgufWriter(0).header(), ErrorCode::kVersion, "version 0, this program reads 2 and 3"},
           {"version_1", GgufWriter(1).header(), ErrorCode::kVersion, "version 1"},
           {"version_4", GgufWriter(4).header(), ErrorCode::kVersion, "version 4"},
           {"byte_swapped", GgufWriter(0x03000000).header(), ErrorCode::kUnsupported, "big-endian"},
           {"tensor_count", llama().counts(huge, 1).header(), ErrorCode::kCorrupt,
            "claims 1152921504606846976 tensors"},
           {"tensor_count_negative", llama().counts(~std::uint64_t{0}, 1).header(), ErrorCode::kCorrupt, "tensors"},
           {"key_count", llama().counts(0, huge).header(), ErrorCode::kCorrupt, "claims 1152921504606846976 keys"},
           {"one_tensor_too_many", llama().f32Vector("a", 1).counts(2, 1).header(), ErrorCode::kCorrupt,
            "bytes are missing"},
           {"key_name_length", GgufWriter().counts(0, 1).header() + bytesOf(huge) + std::string(64, 'x'),
            ErrorCode::kCorrupt, "must be at most 65535"},
           {"string_length", llama().raw("s", 8, bytesOf(huge)).header(), ErrorCode::kCorrupt, "bytes are missing"},
           {"string_length_negative", llama().raw("s", 8, bytesOf(~std::uint64_t{0})).header(), ErrorCode::kCorrupt,
            "bytes are missing"},
           {"array_length", llama().raw("a", 9, array(4, huge)).header(), ErrorCode::kCorrupt,
            "claims 1152921504606846976 elements"},
           {"array_of_strings_length", llama().raw("a", 9, array(8, huge)).header(), ErrorCode::kCorrupt, "elements"},
           {"string_in_array", llama().raw("a", 9, array(8, 1) + bytesOf(huge)).header(), ErrorCode::kCorrupt,
            "bytes are missing"},
           {"array_of_arrays", llama().raw("a", 9, array(9, 1) + array(0, 0)).header(), ErrorCode::kCorrupt,
            "array of type 9"},
           {"array_of_nothing", llama().raw("a", 9, array(77, 1)).header(), ErrorCode::kCorrupt, "array of type 77"},
           {"value_type", llama().raw("a", 13, "xxxx").header(), ErrorCode::kCorrupt, "unknown type 13"},
           {"value_beyond_int64", llama().u64("a", ~std::uint64_t{0}).header(), ErrorCode::kCorrupt,
            "must be below 2^63"},
           {"duplicate_key", llama().u32("a", 1).u32("a", 2).header(), ErrorCode::kCorrupt, "two keys 'a'"},
           {"alignment_0", llama().u32("general.alignment", 0).header(), ErrorCode::kCorrupt, "general.alignment is 0"},
           {"alignment_odd", llama().u32("general.alignment", 48).header(), ErrorCode::kCorrupt,
            "general.alignment is 48"},
           {"alignment_huge", llama().u64("general.alignment", huge).header(), ErrorCode::kCorrupt,
            "power of two up to 2^30"},
           {"alignment_negative", llama().i32("general.alignment", -32).header(), ErrorCode::kCorrupt,
            "general.alignment is -32"},
           {"alignment_text", llama().text("general.alignment", "32").header(), ErrorCode::kCorrupt,
            "general.alignment is the string '32', must be an integer"},
           {"alignment_array", llama().u32s("general.alignment", {32}).header(), ErrorCode::kCorrupt,
            "general.alignment is an array"},
           {"tensor_name_length", llama().rawTensor(std::string(65, 'n'), 1, {1}, 0, 0).header(), ErrorCode::kCorrupt,
            "tensor name has 65 bytes, must be at most 64"},
           {"five_dimensions", llama().rawTensor("t", 5, {1, 1, 1, 1, 1}, 0, 0).header(), ErrorCode::kCorrupt,
            "tensor 't' has 5 dimensions, must be at most 4"},
           {"dimensions_huge", llama().rawTensor("t", ~0u, {1}, 0, 0).header(), ErrorCode::kCorrupt,
            "4294967295 dimensions"},
           {"size_0", llama().rawTensor("t", 2, {256, 0}, 12, 0).header(), ErrorCode::kCorrupt,
            "size 0 in dimension 1"},
           {"size_negative", llama().rawTensor("t", 1, {~std::uint64_t{0}}, 0, 0).header(), ErrorCode::kCorrupt,
            "size -1 in dimension 0"},
           {"rows_no_multiple_of_the_block", llama().rawTensor("t", 2, {128, 8}, 12, 0).header(), ErrorCode::kCorrupt,
            "rows of 128 elements, must be a multiple of 256 for Q4_K"},
           {"product_overflows", llama().rawTensor("t", 3, {huge, 8, 1}, 0, 0).header(), ErrorCode::kCorrupt,
            "passes 2^63 bytes"},
           {"product_of_four_overflows", llama().rawTensor("t", 4, {1 << 16, 1 << 16, 1 << 16, 1 << 16}, 0, 0).header(),
            ErrorCode::kCorrupt, "passes 2^63 bytes"},
           {"sum_overflows", llama().rawTensor("a", 1, {huge}, 0, 0).rawTensor("b", 1, {huge}, 0, huge * 4).header(),
            ErrorCode::kCorrupt, "passes 2^63 bytes"},
           {"unknown_type", llama().rawTensor("t", 1, {32}, 4, 0).header(), ErrorCode::kCorrupt,
            "has type 4, which this program does not know"},
           {"offset", llama().rawTensor("t", 1, {8}, 0, 32).header(), ErrorCode::kCorrupt, "offset 32, must be 0"},
           {"overlapping_offsets", llama().rawTensor("a", 1, {9}, 0, 0).rawTensor("b", 1, {8}, 0, 32).header(),
            ErrorCode::kCorrupt, "offset 32, must be 64"},
           {"duplicate_tensor", llama().f32Vector("t", 8).f32Vector("t", 8).header(), ErrorCode::kCorrupt,
            "two tensors 't'"},
       }) {
    const auto header = read(bytes);
    ASSERT_FALSE(header) << name;
    EXPECT_EQ(header.error().code, code) << name << ": " << header.error().message;
    EXPECT_THAT(header.error().message, HasSubstr(std::string(message))) << name;
  }
}

TEST(GgufFile, longVocabulariesAreSkippedAndShortArraysKept) {
  const std::vector<std::uint32_t> longArray(5000, 1);
  const auto header = read(GgufWriter()
                               .texts("tokens", std::vector<std::string>(20000, "token"))
                               .u32s("types", longArray)
                               .text("template", std::string(100000, 't'))
                               .u32("after", 7)
                               .header());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->integer("after"), 7);
  EXPECT_TRUE(header->find("types")->integers.empty());
  EXPECT_TRUE(header->text("template").empty());
}

TEST(GgufFile, offsetsFollowTheAlignmentOfTheFile) {
  const auto header = read(GgufWriter()
                               .alignment(128)
                               .u32("general.alignment", 128)
                               .f32Vector("a", 3)
                               .f32Vector("b", 40)
                               .f32Vector("c", 1)
                               .header());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->tensors().size(), 3u);
}

TEST(GgufFile, partsWithTheSameTensorDoNotJoin) {
  auto first = read(GgufWriter().f32Vector("a", 8).header());
  auto second = read(GgufWriter().f32Vector("b", 8).header());
  auto third = read(GgufWriter().f32Vector("a", 8).header());
  ASSERT_TRUE(first && second && third);
  EXPECT_TRUE(first->append(std::move(*second)));
  EXPECT_EQ(first->tensors().size(), 2u);
  const auto joined = first->append(std::move(*third));
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().message, HasSubstr("'a'"));
}

}  // namespace
}  // namespace tilewright
