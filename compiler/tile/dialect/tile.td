//===-- The tile dialect ------------------------------------------------------------------------------------------===//
// A tile program computes one block of a kernel's output. Tiles are builtin tensors of static shape and rank 1 or 2, so
// that elementwise work is plain arith and math; loops are scf. The ops here are what those lack: where a program stands
// in the grid, masked blocks of memory, products, reductions, and the fields of quantized formats. Nothing says how a
// tile is stored or which thread holds which element: that is a lowering's choice, on the CPU and on a GPU.
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef TILEWRIGHT_COMPILER_TILE_DIALECT_TILE_TD
#define TILEWRIGHT_COMPILER_TILE_DIALECT_TILE_TD

include "mlir/Dialect/LLVMIR/LLVMTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def TileDialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tilewright::tile";
  let summary = "Programs over blocks of tensors";
}

class TileOp<string mnemonic, list<Trait> traits = []> : Op<TileDialect, mnemonic, traits> {
  let hasVerifier = 1;
}

class TileOf<list<Type> elements, string summary>
    : ShapedContainerType<elements, And<[IsTensorTypePred, HasStaticShapePred, HasAnyRankOfPred<[1, 2]>]>, summary,
                          "::mlir::RankedTensorType">;

def TileElement : AnyTypeOf<[I1, I8, I32, F16, BF16, F32]>;
def Tile : TileOf<[I1, I8, I32, F16, BF16, F32], "tile (static tensor of rank 1 or 2)">;
def FloatTile : TileOf<[F16, BF16, F32], "tile of floats">;
def F32Tile : TileOf<[F32], "tile of f32">;
def ByteTile : TileOf<[I8], "tile of i8">;
def I32Tile : TileOf<[I32], "tile of i32">;

def ReduceKind : I32EnumAttr<"ReduceKind", "how elements are combined", [
    I32EnumAttrCase<"kAdd", 0, "add">, I32EnumAttrCase<"kMax", 1, "max">]> {
  let cppNamespace = "::tilewright::tile";
}

def ProgramIdOp : TileOp<"program_id", [Pure]> {
  let summary = "This program's coordinate along an axis of the grid, 0 to 2";
  let arguments = (ins I32Attr:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$axis attr-dict";
}

class BlockOp<string mnemonic, list<Trait> traits> : TileOp<mnemonic, !listconcat(traits, [AttrSizedOperandSegments])>;

def LoadOp : BlockOp<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "A masked block of memory as a tile";
  let description = [{
    Element (i, j) is `base[(o0 + i) * s0 + (o1 + j) * s1]` where `o0 + i < b0` and `o1 + j < b1`, and zero elsewhere;
    memory outside the bounds is not read. Offsets `o`, bounds `b` and strides `s` are in elements, one for each dimension
    of the tile; offsets must not be negative, bounds and strides may be.

        tile.load %x[%row, %col] of [%m, %k] strides [%ld, %one] : tensor<64x32xbf16>
  }];
  let arguments = (ins LLVM_AnyPointer:$base, Variadic<Index>:$offsets, Variadic<Index>:$bounds,
                       Variadic<Index>:$strides);
  let results = (outs Tile:$result);
  let assemblyFormat = [{
    $base `[` $offsets `]` `of` ` ` `[` $bounds `]` `strides` ` ` `[` $strides `]` attr-dict `:` type($base) `->` type($result)
  }];
}

def StoreOp : BlockOp<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Writes a tile to a masked block of memory";
  let description = "Addresses and mask as for `tile.load`; memory outside the bounds is not written.";
  let arguments = (ins Tile:$value, LLVM_AnyPointer:$base, Variadic<Index>:$offsets, Variadic<Index>:$bounds,
                       Variadic<Index>:$strides);
  let assemblyFormat = [{
    $value `,` $base `[` $offsets `]` `of` ` ` `[` $bounds `]` `strides` ` ` `[` $strides `]` attr-dict
    `:` type($value) `,` type($base)
  }];
}

def DotOp : TileOp<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc[m, n] + a[m, k] . b[k, n], or b[n, k] with transpose_b";
  let description = [{
    Factors are exact products of the operands' values, accumulated in f32 in any order. The factors may be of different
    float types: each is widened to f32 first.
  }];
  let arguments = (ins FloatTile:$a, FloatTile:$b, F32Tile:$acc, UnitAttr:$transpose_b);
  let results = (outs F32Tile:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc (`transpose_b` $transpose_b^)? attr-dict `:` type($a) `,` type($b) `,` type($acc)
  }];
}

def ReduceOp : TileOp<"reduce", [Pure]> {
  let summary = "Combines the elements along an axis of a rank-2 tile, which disappears";
  let description = "`max` takes the other operand where one is NaN; `add` sums in any order.";
  let arguments = (ins ReduceKind:$kind, F32Tile:$source, I32Attr:$axis);
  let results = (outs F32Tile:$result);
  let assemblyFormat = "$kind $source `along` $axis attr-dict `:` type($source) `->` type($result)";
}

def BroadcastOp : TileOp<"broadcast", [Pure]> {
  let summary = "Repeats a rank-1 tile along a new axis, or each element of a rank-2 tile along its rows";
  let description = [{
    A rank-1 source gains the axis: `along 1` makes [m] into [m, n], `along 0` makes [n] into [m, n]. A rank-2 source is
    repeated elementwise `along 1`: [m, g] becomes [m, n], element (i, j) being source (i, j / (n / g)).
  }];
  let arguments = (ins Tile:$source, I32Attr:$axis);
  let results = (outs Tile:$result);
  let assemblyFormat = "$source `along` $axis attr-dict `:` type($source) `->` type($result)";
}

def SplatOp : TileOp<"splat", [Pure]> {
  let summary = "A tile whose elements all are one scalar";
  let arguments = (ins TileElement:$scalar);
  let results = (outs Tile:$result);
  let assemblyFormat = "$scalar attr-dict `:` type($scalar) `->` type($result)";
}

def IotaOp : TileOp<"iota", [Pure]> {
  let summary = "Position of each element along an axis, from 0, as i32";
  let arguments = (ins I32Attr:$axis);
  let results = (outs I32Tile:$result);
  let assemblyFormat = "`along` $axis attr-dict `:` type($result)";
}

def ConvertOp : TileOp<"convert", [Pure]> {
  let summary = "The same values in another element type";
  let description = [{
    Between floats: rounded to nearest even, NaN stays NaN. From i8 or i32 to f32: exact for i8 (read as signed unless
    `unsigned`), rounded for i32. From i8 to i32: extended likewise.
  }];
  let arguments = (ins Tile:$source, UnitAttr:$is_unsigned);
  let results = (outs Tile:$result);
  let assemblyFormat = "$source (`unsigned` $is_unsigned^)? attr-dict `:` type($source) `->` type($result)";
}

def Unpack4Op : TileOp<"unpack4", [Pure]> {
  let summary = "Unsigned 4-bit fields of bytes";
  let description = [{
    Bytes are taken in groups of `group` along the last dimension; each group gives its low nibbles in order, then its
    high nibbles. GGUF's Q4_K has groups of 32: `[n, 32]` bytes are `[n, 64]` fields.
  }];
  let arguments = (ins ByteTile:$source, I64Attr:$group);
  let results = (outs ByteTile:$result);
  let assemblyFormat = "$source `group` $group attr-dict `:` type($source) `->` type($result)";
}

def Unpack6Op : TileOp<"unpack6", [Pure, AllTypesMatch<["scales", "minimums"]>]> {
  let summary = "The eight 6-bit scales and eight 6-bit minimums in the 12 bytes of a GGUF K-quant super-block";
  let description = [{
    For j < 4 scale j is the low 6 bits of byte j and minimum j those of byte j + 4. For j >= 4 scale j is the low nibble of
    byte j + 4 below the top 2 bits of byte j - 4, and minimum j the high nibble of byte j + 4 below the top 2 bits of
    byte j.
  }];
  let arguments = (ins ByteTile:$source);
  let results = (outs ByteTile:$scales, ByteTile:$minimums);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($scales)";
}

def ExtractOp : TileOp<"extract", [Pure]> {
  let summary = "One element of a rank-1 tile as a scalar";
  let arguments = (ins Tile:$source, I64Attr:$position);
  let results = (outs TileElement:$result);
  let assemblyFormat = "$source `[` $position `]` attr-dict `:` type($source) `->` type($result)";
}

#endif  // TILEWRIGHT_COMPILER_TILE_DIALECT_TILE_TD
