// SHA-256 (FIPS 180-4): names of binaries, keys of build requests, integrity of what is read from a database.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tilewright {

/// Incremental SHA-256. `field` feeds a text with its length before it, so that ("ab", "c") and ("a", "bc") differ.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// Adds the length of `text` in bytes (64 bit, little endian), then `text`.
  void field(std::string_view text);
  /// 64 lower-case hexadecimal digits. The object must not be used afterwards.
  std::string hexDigest();

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t bytes_ = 0;
};

std::string sha256Hex(std::span<const std::byte> bytes);
std::string sha256Hex(std::string_view text);

}  // namespace tilewright
