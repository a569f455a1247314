// Writes the wgmma overloads that a kernel uses: CUDA C++ text for its main file, one inline instruction each.
//
// An instruction names each of up to 128 accumulator registers, which no template can spell; generating only what a
// configuration needs keeps sources short and compiles fast. See wgmma.cuh for the overloads' meaning.
#pragma once

#include <span>
#include <string>

namespace tilewright {

struct WgmmaShape {
  enum class Type { kS8, kE4m3, kBf16, kBf16TransposedB };

  Type type;
  int n;              ///< a multiple of 8 (kS8: of 16 above 32) from 8 to 256
  bool aInRegisters;  ///< else a shared-memory descriptor

  bool operator==(const WgmmaShape&) const = default;
};

/// Text to put behind the parameters and before the kernel's #include; it includes wgmma.cuh itself. Shapes may repeat.
std::string wgmmaOverloads(std::span<const WgmmaShape> shapes);

}  // namespace tilewright
