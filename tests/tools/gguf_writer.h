// Writes GGUF headers for tests, right ones and wrong ones. Shares no code with the reader.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::testing_gguf {

class GgufWriter {
 public:
  explicit GgufWriter(std::uint32_t version = 3) : version_(version) {}

  GgufWriter& u32(std::string_view key, std::uint32_t value) { return keyed(key, 4).put(keys_, value); }
  GgufWriter& u16(std::string_view key, std::uint16_t value) { return keyed(key, 2).put(keys_, value); }
  GgufWriter& i32(std::string_view key, std::int32_t value) { return keyed(key, 5).put(keys_, value); }
  GgufWriter& u64(std::string_view key, std::uint64_t value) { return keyed(key, 10).put(keys_, value); }
  GgufWriter& f32(std::string_view key, float value) { return keyed(key, 6).put(keys_, value); }
  GgufWriter& flag(std::string_view key, bool value) { return keyed(key, 7).put(keys_, std::uint8_t{value}); }
  GgufWriter& text(std::string_view key, std::string_view value) {
    keyed(key, 8);
    return string(keys_, value);
  }
  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values) {
    keyed(key, 9).put(keys_, std::uint32_t{8}).put(keys_, std::uint64_t{values.size()});
    for (const std::string& value : values) string(keys_, value);
    return *this;
  }
  GgufWriter& u32s(std::string_view key, const std::vector<std::uint32_t>& values) {
    keyed(key, 9).put(keys_, std::uint32_t{4}).put(keys_, std::uint64_t{values.size()});
    for (const std::uint32_t value : values) put(keys_, value);
    return *this;
  }
  GgufWriter& flags(std::string_view key, const std::vector<bool>& values) {
    keyed(key, 9).put(keys_, std::uint32_t{7}).put(keys_, std::uint64_t{values.size()});
    for (const bool value : values) put(keys_, std::uint8_t{value});
    return *this;
  }
  /// A key of any type with any bytes as its value.
  GgufWriter& raw(std::string_view key, std::uint32_t type, std::string_view bytes) {
    keyed(key, type);
    keys_ += bytes;
    return *this;
  }

  /// A tensor at the right offset. Bytes of a row are those of the type's blocks, given by the caller.
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                     std::uint64_t bytes) {
    rawTensor(name, static_cast<std::uint32_t>(sizes.size()), sizes, type, offset_);
    offset_ += (bytes + alignment_ - 1) / alignment_ * alignment_;
    return *this;
  }
  /// A Q4_K, Q6_K, BF16 or F32 matrix of n rows of k.
  GgufWriter& q4k(std::string_view name, std::uint64_t n, std::uint64_t k) {
    return tensor(name, {k, n}, 12, n * k / 256 * 144);
  }
  GgufWriter& q6k(std::string_view name, std::uint64_t n, std::uint64_t k) {
    return tensor(name, {k, n}, 14, n * k / 256 * 210);
  }
  GgufWriter& bf16(std::string_view name, std::uint64_t n, std::uint64_t k) {
    return tensor(name, {k, n}, 30, n * k * 2);
  }
  GgufWriter& f32Vector(std::string_view name, std::uint64_t n) { return tensor(name, {n}, 0, n * 4); }
  /// A tensor with any fields.
  GgufWriter& rawTensor(std::string_view name, std::uint32_t dimensions, const std::vector<std::uint64_t>& sizes,
                        std::uint32_t type, std::uint64_t offset) {
    ++tensorCount_;
    string(tensors_, name).put(tensors_, dimensions);
    for (const std::uint64_t size : sizes) put(tensors_, size);
    return put(tensors_, type).put(tensors_, offset);
  }
  GgufWriter& alignment(std::uint64_t value) {
    alignment_ = value;
    return *this;
  }
  /// Writes these counts instead of the true ones.
  GgufWriter& counts(std::uint64_t tensors, std::uint64_t keys) {
    tensorCount_ = tensors, keyCount_ = keys;
    return *this;
  }

  std::string header() const {
    std::string out = "GGUF";
    append(out, version_), append(out, tensorCount_), append(out, keyCount_);
    return out + keys_ + tensors_;
  }

 private:
  template <typename T>
  static void append(std::string& out, T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out.append(bytes, sizeof value);
  }
  template <typename T>
  GgufWriter& put(std::string& out, T value) {
    append(out, value);
    return *this;
  }
  GgufWriter& string(std::string& out, std::string_view text) {
    append(out, std::uint64_t{text.size()});
    out += text;
    return *this;
  }
  GgufWriter& keyed(std::string_view key, std::uint32_t type) {
    ++keyCount_;
    return string(keys_, key).put(keys_, type);
  }

  std::uint32_t version_;
  std::uint64_t tensorCount_ = 0, keyCount_ = 0, offset_ = 0, alignment_ = 32;
  std::string keys_, tensors_;
};

/// A small Llama with two layers; the second has Q6_K where Q4_K_M files have it.
inline GgufWriter smallLlama(std::uint32_t version = 3) {
  GgufWriter writer(version);
  writer.text("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .u32("llama.context_length", 8192)
      .u32("llama.embedding_length", 512)
      .u32("llama.attention.head_count", 8)
      .u32("llama.attention.head_count_kv", 2)
      .f32("llama.rope.freq_base", 10000)
      .texts("tokenizer.ggml.tokens", {"<s>", "a", "bc"});
  writer.q4k("token_embd.weight", 1000, 512);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    writer.f32Vector(layer + "attn_norm.weight", 512);
    writer.q4k(layer + "attn_q.weight", 512, 512);
    writer.q4k(layer + "attn_k.weight", 128, 512);
    layer == "blk.1." ? writer.q6k(layer + "attn_v.weight", 128, 512) : writer.q4k(layer + "attn_v.weight", 128, 512);
    writer.q4k(layer + "attn_output.weight", 512, 512);
    writer.q4k(layer + "ffn_gate.weight", 1024, 512);
    writer.q4k(layer + "ffn_up.weight", 1024, 512);
    layer == "blk.1." ? writer.q6k(layer + "ffn_down.weight", 512, 1024)
                      : writer.q4k(layer + "ffn_down.weight", 512, 1024);
  }
  writer.f32Vector("output_norm.weight", 512);
  writer.q6k("output.weight", 1000, 512);
  return writer;
}

}  // namespace tilewright::testing_gguf
