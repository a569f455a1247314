// Every rule that a verifier states, broken once.
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics

func.func @programId() {
  // expected-error @+1 {{has axis 3, must be from 0 to 2}}
  %0 = tile.program_id 3
  return
}

// -----

func.func @loadRank(%p: !llvm.ptr, %i: index) {
  // expected-error @+1 {{takes one offset, bound and stride per dimension of its tile, which has rank 2, got 1 offsets, 2 bounds and 2 strides}}
  %0 = tile.load %p[%i] of [%i, %i] strides [%i, %i] : !llvm.ptr -> tensor<4x4xf32>
  return
}

// -----

func.func @loadDynamic(%p: !llvm.ptr, %i: index) {
  // expected-error @+1 {{must be tile (static tensor of rank 1 or 2)}}
  %0 = tile.load %p[%i] of [%i] strides [%i] : !llvm.ptr -> tensor<?xf32>
  return
}

// -----

func.func @loadRank3(%p: !llvm.ptr, %i: index) {
  // expected-error @+1 {{must be tile (static tensor of rank 1 or 2)}}
  %0 = tile.load %p[%i, %i, %i] of [%i, %i, %i] strides [%i, %i, %i] : !llvm.ptr -> tensor<2x2x2xf32>
  return
}

// -----

func.func @loadBits(%p: !llvm.ptr, %i: index) {
  // expected-error @+1 {{cannot address elements of i1}}
  %0 = tile.load %p[%i] of [%i] strides [%i] : !llvm.ptr -> tensor<8xi1>
  return
}

// -----

func.func @storeRank(%t: tensor<4xf32>, %p: !llvm.ptr, %i: index) {
  // expected-error @+1 {{which has rank 1, got 2 offsets, 1 bounds and 1 strides}}
  tile.store %t, %p[%i, %i] of [%i] strides [%i] : tensor<4xf32>, !llvm.ptr
  return
}

// -----

func.func @dotRank(%a: tensor<4xf32>, %b: tensor<4x4xf32>) {
  // expected-error @+1 {{takes tiles of rank 2, got ranks 1, 2 and 2}}
  %0 = tile.dot %a, %b, %b : tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  return
}

// -----

func.func @dotK(%a: tensor<4x8xf32>, %b: tensor<4x4xf32>) {
  // expected-error @+1 {{has k = 8 in a and k = 4 in b}}
  %0 = tile.dot %a, %b, %b transpose_b : tensor<4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  return
}

// -----

func.func @dotAccumulator(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  // expected-error @+1 {{must accumulate into [4, 16], got [4, 8]}}
  %0 = tile.dot %a, %b, %a : tensor<4x8xf32>, tensor<8x16xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @dotIntegers(%a: tensor<4x4xi8>, %b: tensor<4x4xf32>) {
  // expected-error @+1 {{operand #0 must be tile of floats}}
  %0 = tile.dot %a, %b, %b : tensor<4x4xi8>, tensor<4x4xf32>, tensor<4x4xf32>
  return
}

// -----

func.func @reduceRank(%a: tensor<4xf32>) {
  // expected-error @+1 {{takes a tile of rank 2, got rank 1}}
  %0 = tile.reduce add %a along 0 : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @reduceAxis(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{has axis 2, must be from 0 to 1}}
  %0 = tile.reduce add %a along 2 : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @reduceShape(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{along 0 must give [8], got 'tensor<4xf32>'}}
  %0 = tile.reduce add %a along 0 : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @broadcastElement(%a: tensor<4xf32>) {
  // expected-error @+1 {{keeps the element type, got 'f32' and 'bf16'}}
  %0 = tile.broadcast %a along 1 : tensor<4xf32> -> tensor<4x8xbf16>
  return
}

// -----

func.func @broadcastRank(%a: tensor<4xf32>) {
  // expected-error @+1 {{gives a tile of rank 2, got rank 1}}
  %0 = tile.broadcast %a along 1 : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @broadcastExtent(%a: tensor<4xf32>) {
  // expected-error @+1 {{along 0 takes [8], got [4]}}
  %0 = tile.broadcast %a along 0 : tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @broadcastRepeatAxis(%a: tensor<4x2xf32>) {
  // expected-error @+1 {{repeats a tile of rank 2 along axis 1 only, got axis 0}}
  %0 = tile.broadcast %a along 0 : tensor<4x2xf32> -> tensor<8x2xf32>
  return
}

// -----

func.func @broadcastRepeatRows(%a: tensor<4x2xf32>) {
  // expected-error @+1 {{keeps the rows, got 4 and 8}}
  %0 = tile.broadcast %a along 1 : tensor<4x2xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcastRepeatColumns(%a: tensor<4x3xf32>) {
  // expected-error @+1 {{repeats 3 columns to a multiple of them, got 8}}
  %0 = tile.broadcast %a along 1 : tensor<4x3xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @splatElement(%s: f32) {
  // expected-error @+1 {{keeps the element type, got 'f32' and 'i32'}}
  %0 = tile.splat %s : f32 -> tensor<4xi32>
  return
}

// -----

func.func @iotaAxis() {
  // expected-error @+1 {{has axis 1, must be from 0 to 0}}
  %0 = tile.iota along 1 : tensor<8xi32>
  return
}

// -----

func.func @iotaElement() {
  // expected-error @+1 {{must be tile of i32}}
  %0 = tile.iota along 0 : tensor<8xf32>
  return
}

// -----

func.func @convertShape(%a: tensor<4x8xbf16>) {
  // expected-error @+1 {{keeps the shape}}
  %0 = tile.convert %a : tensor<4x8xbf16> -> tensor<8x4xf32>
  return
}

// -----

func.func @convertPair(%a: tensor<4xf32>) {
  // expected-error @+1 {{converts between floats, from i8 or i32 to f32 and from i8 to i32, got 'f32' to 'i8'}}
  %0 = tile.convert %a : tensor<4xf32> -> tensor<4xi8>
  return
}

// -----

func.func @convertUnsignedFloat(%a: tensor<4xbf16>) {
  // expected-error @+1 {{reads integers as unsigned, got 'bf16'}}
  %0 = tile.convert %a unsigned : tensor<4xbf16> -> tensor<4xf32>
  return
}

// -----

func.func @unpack4Group(%a: tensor<4x12xi8>) {
  // expected-error @+1 {{takes groups that divide its 12 bytes, got 8}}
  %0 = tile.unpack4 %a group 8 : tensor<4x12xi8> -> tensor<4x24xi8>
  return
}

// -----

func.func @unpack4Shape(%a: tensor<4x12xi8>) {
  // expected-error @+1 {{gives two fields per byte in the same rows}}
  %0 = tile.unpack4 %a group 4 : tensor<4x12xi8> -> tensor<4x12xi8>
  return
}

// -----

func.func @unpack6Bytes(%a: tensor<4x16xi8>) {
  // expected-error @+1 {{takes [n, 12] bytes}}
  %0, %1 = tile.unpack6 %a : tensor<4x16xi8> -> tensor<4x8xi8>
  return
}

// -----

func.func @unpack6Fields(%a: tensor<4x12xi8>) {
  // expected-error @+1 {{gives [4, 8] scales and minimums}}
  %0, %1 = tile.unpack6 %a : tensor<4x12xi8> -> tensor<4x16xi8>
  return
}

// -----

func.func @extractRank(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{takes a tile of rank 1, got rank 2}}
  %0 = tile.extract %a[0] : tensor<4x4xf32> -> f32
  return
}

// -----

func.func @extractElement(%a: tensor<4xf32>) {
  // expected-error @+1 {{gives the element type 'f32', got 'i32'}}
  %0 = tile.extract %a[0] : tensor<4xf32> -> i32
  return
}

// -----

func.func @extractPosition(%a: tensor<4xf32>) {
  // expected-error @+1 {{has position 4, must be from 0 to 3}}
  %0 = tile.extract %a[4] : tensor<4xf32> -> f32
  return
}
