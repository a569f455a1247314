#include "compiler/tile/programs.h"

#include <utility>

namespace tilewright::tile {

ProgramBuilder findProgram(std::string_view name) {
  static constexpr std::pair<std::string_view, ProgramBuilder> kPrograms[] = {
      {"attention.portable", buildAttentionPortable},
      {"linear.portable", buildLinearPortable},
      {"q4k_linear.portable", buildQ4kLinearPortable},
  };
  for (const auto& [each, builder] : kPrograms) {
    if (each == name) return builder;
  }
  return nullptr;
}

}  // namespace tilewright::tile
