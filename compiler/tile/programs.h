// The tile programs that are linked into the tile compiler, by name.
#pragma once

#include <string_view>

#include "compiler/tile/program.h"

namespace tilewright::tile {

using ProgramBuilder = void (*)(Program& program);

/// The builder of a program such as "linear.portable", or null.
ProgramBuilder findProgram(std::string_view name);

// Defined in templates/<operation>/portable_tile.cpp.
void buildAttentionPortable(Program& program);
void buildLinearPortable(Program& program);
void buildQ4kLinearPortable(Program& program);

}  // namespace tilewright::tile
