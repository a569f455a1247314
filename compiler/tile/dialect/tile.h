// The tile dialect's C++ classes, generated from tile.td.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/tile/dialect/tile_dialect.h.inc"
#include "compiler/tile/dialect/tile_enums.h.inc"

#define GET_OP_CLASSES
#include "compiler/tile/dialect/tile_ops.h.inc"
