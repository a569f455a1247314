// The tensor types of GGUF files: how many elements a block has and how many bytes it takes (ggml's type traits).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright {

struct GgufType {
  std::uint32_t id;
  std::string_view name;
  std::int64_t blockElements;
  std::int64_t blockBytes;
};

inline constexpr std::uint32_t kGgufQ4K = 12;
inline constexpr std::uint32_t kGgufBf16 = 30;

/// Nothing for a type that this program does not know, or that GGUF has dropped.
std::optional<GgufType> ggufTypeOf(std::uint32_t id);

}  // namespace tilewright
