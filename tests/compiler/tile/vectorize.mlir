// Tiles become buffers, loops and vectors of 16 lanes (or 4); one function per op.
// RUN: tilewright-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(tile-cpu-assign-buffers,tile-cpu-vectorize))' | FileCheck %s
// RUN: tilewright-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(tile-cpu-assign-buffers,tile-cpu-vectorize{vector-bytes=16}))' | FileCheck %s --check-prefix=SSE

// A whole block is read in place, any other copied to a zeroed buffer. 40 columns are 16 + 16 + 8.
// CHECK-LABEL: func.func @loadInPlace
// CHECK: %[[COPY:.*]] = llvm.alloca %{{.*}} x bf16 {alignment = 64 : i64}
// CHECK: %[[CHOICE:.*]]:2 = scf.if %{{.*}} -> (!llvm.ptr, index)
// CHECK: scf.yield
// CHECK: } else {
// CHECK: llvm.store %{{.*}}, %{{.*}} : vector<16xbf16>, !llvm.ptr
// CHECK: llvm.store %{{.*}}, %{{.*}} : vector<8xbf16>, !llvm.ptr
// CHECK: scf.yield %[[COPY]]
// CHECK: vector.reduction <add>, %{{.*}} : vector<16xf32> into f32
// CHECK: vector.reduction <add>, %{{.*}} : vector<8xf32> into f32
// SSE-LABEL: func.func @loadInPlace
// SSE-NOT: vector<8x
// SSE-NOT: vector<16x
func.func @loadInPlace(%p: !llvm.ptr, %i: index, %n: index, %ld: index, %one: index) {
  %t = tile.load %p[%i, %i] of [%n, %n] strides [%ld, %one] : !llvm.ptr -> tensor<4x40xbf16>
  %f = tile.convert %t : tensor<4x40xbf16> -> tensor<4x40xf32>
  %r = tile.reduce add %f along 1 : tensor<4x40xf32> -> tensor<4xf32>
  tile.store %r, %p[%i] of [%n] strides [%one] : tensor<4xf32>, !llvm.ptr
  return
}

// -----

// CHECK-LABEL: func.func @loadThenStoreOver
// SSE-LABEL: func.func @loadThenStoreOver
// CHECK-NOT: scf.if %{{.*}} -> (!llvm.ptr, index)
// CHECK: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
func.func @loadThenStoreOver(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %t = tile.load %p[%i] of [%n] strides [%one] : !llvm.ptr -> tensor<16xf32>
  tile.store %t, %p[%i] of [%n] strides [%one] : tensor<16xf32>, !llvm.ptr
  return
}

// -----

// More rows than run along k: b is packed through a transposition, and 8 x 2 accumulators stay in registers.
// CHECK-LABEL: func.func @dotTransposed
// CHECK: %[[PANEL:.*]] = llvm.alloca
// CHECK-COUNT-64: vector.shuffle %{{.*}} : vector<16xf32>, vector<16xf32>
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK-COUNT-16: vector.fma %{{.*}} : vector<16xf32>
// CHECK-NOT: vector.fma
// SSE-LABEL: func.func @dotTransposed
// SSE-COUNT-16: vector.fma %{{.*}} : vector<4xf32>
// SSE-NOT: vector.fma
func.func @dotTransposed(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %zero = arith.constant dense<0.0> : tensor<16x32xf32>
  %a = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<16x64xbf16>
  %b = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<32x64xbf16>
  %d = tile.dot %a, %b, %zero transpose_b : tensor<16x64xbf16>, tensor<32x64xbf16>, tensor<16x32xf32>
  tile.store %d, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<16x32xf32>, !llvm.ptr
  return
}

// -----

// Few rows: lanes run along k, nothing is packed, each output is a sum of lanes.
// CHECK-LABEL: func.func @dotAlongK
// SSE-LABEL: func.func @dotAlongK
// CHECK-NOT: vector.shuffle
// CHECK-COUNT-16: vector.fma
// CHECK: vector.reduction <add>
func.func @dotAlongK(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %zero = arith.constant dense<0.0> : tensor<4x32xf32>
  %a = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x64xbf16>
  %b = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<32x64xbf16>
  %d = tile.dot %a, %b, %zero transpose_b : tensor<4x64xbf16>, tensor<32x64xbf16>, tensor<4x32xf32>
  tile.store %d, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<4x32xf32>, !llvm.ptr
  return
}

// -----

// Rows that the micro-tile does not divide get one of their own: 11 = 8 + 3; columns likewise, 40 = 32 + 8.
// CHECK-LABEL: func.func @dotTails
// CHECK-COUNT-22: vector.fma %{{.*}} : vector<16xf32>
// CHECK-COUNT-11: vector.fma %{{.*}} : vector<8xf32>
// CHECK-NOT: vector.fma
func.func @dotTails(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %zero = arith.constant dense<0.0> : tensor<11x40xf32>
  %a = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<11x64xbf16>
  %b = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<64x40xbf16>
  %d = tile.dot %a, %b, %zero : tensor<11x64xbf16>, tensor<64x40xbf16>, tensor<11x40xf32>
  tile.store %d, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<11x40xf32>, !llvm.ptr
  return
}

// -----

// A carried accumulator stays in its buffer: no copy at the end of an iteration.
// CHECK-LABEL: func.func @carriedInPlace
// CHECK: scf.for
// CHECK: vector.fma
// CHECK: vector.fma
// CHECK: vector.fma
// CHECK: vector.fma
// CHECK: vector.fma
// CHECK: vector.fma
// CHECK: vector.fma
// CHECK: vector.fma
// CHECK-COUNT-8: llvm.store %{{.*}}, %{{.*}} : vector<16xf32>, !llvm.ptr
// CHECK-NOT: llvm.load
// CHECK: scf.if
func.func @carriedInPlace(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %zero = arith.constant dense<0.0> : tensor<8x16xf32>
  %0 = arith.constant 0 : index
  %a = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<8x8xf32>
  %r = scf.for %k = %0 to %n step %one iter_args(%acc = %zero) -> tensor<8x16xf32> {
    %b = tile.load %p[%k, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<8x16xf32>
    %d = tile.dot %a, %b, %acc : tensor<8x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>
    scf.yield %d : tensor<8x16xf32>
  }
  tile.store %r, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<8x16xf32>, !llvm.ptr
  return
}

// -----

// Carried tiles that change places go through a third buffer.
// CHECK-LABEL: func.func @swapped
// CHECK-COUNT-4: llvm.alloca
// CHECK: scf.for
func.func @swapped(%p: !llvm.ptr, %n: index, %one: index, %s: f32) {
  %a = tile.splat %s : f32 -> tensor<16xf32>
  %b = arith.constant dense<1.0> : tensor<16xf32>
  %0 = arith.constant 0 : index
  %r:2 = scf.for %k = %0 to %n step %one iter_args(%x = %a, %y = %b) -> (tensor<16xf32>, tensor<16xf32>) {
    scf.yield %y, %x : tensor<16xf32>, tensor<16xf32>
  }
  tile.store %r#0, %p[%n] of [%n] strides [%one] : tensor<16xf32>, !llvm.ptr
  return
}

// -----

// CHECK-LABEL: func.func @reduceMax
// CHECK: %[[LESS:.*]] = arith.cmpf ogt, %[[X:.*]], %[[M:.*]] : vector<16xf32>
// CHECK: arith.select %[[LESS]], %[[X]], %[[M]]
// CHECK: vector.reduction <maxnumf>
func.func @reduceMax(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %a = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x32xf32>
  %r = tile.reduce max %a along 1 : tensor<4x32xf32> -> tensor<4xf32>
  tile.store %r, %p[%i] of [%n] strides [%one] : tensor<4xf32>, !llvm.ptr
  return
}

// -----

// CHECK-LABEL: func.func @reduceRows
// CHECK-NOT: vector.reduction
// CHECK: arith.addf %{{.*}} : vector<16xf32>
func.func @reduceRows(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %a = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x32xf32>
  %r = tile.reduce add %a along 0 : tensor<4x32xf32> -> tensor<32xf32>
  tile.store %r, %p[%i] of [%n] strides [%one] : tensor<32xf32>, !llvm.ptr
  return
}

// -----

// Masks from positions: a comparison of lane numbers with a limit, no memory.
// CHECK-LABEL: func.func @iotaSelect
// CHECK: arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
// CHECK: arith.cmpi slt, %{{.*}} : vector<16xi32>
// CHECK: arith.select %{{.*}} : vector<16xi1>, vector<16xf32>
func.func @iotaSelect(%p: !llvm.ptr, %i: index, %n: index, %one: index, %limit: i32, %s: f32) {
  %x = tile.splat %s : f32 -> tensor<4x16xf32>
  %zero = arith.constant dense<0.0> : tensor<4x16xf32>
  %at = tile.iota along 1 : tensor<4x16xi32>
  %most = tile.splat %limit : i32 -> tensor<4x16xi32>
  %c = arith.cmpi slt, %at, %most : tensor<4x16xi32>
  %y = arith.select %c, %x, %zero : tensor<4x16xi1>, tensor<4x16xf32>
  tile.store %y, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<4x16xf32>, !llvm.ptr
  return
}

// -----

// Nibbles are shifted as 32-bit lanes and never narrowed before they become f32.
// CHECK-LABEL: func.func @unpack4
// CHECK: arith.extui %{{.*}} : vector<16xi8> to vector<16xi32>
// CHECK: arith.shrui
// CHECK: arith.andi
// CHECK-NOT: arith.trunci
// CHECK: arith.sitofp %{{.*}} : vector<16xi32> to vector<16xf32>
func.func @unpack4(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %b = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x32xi8>
  %q = tile.unpack4 %b group 32 : tensor<4x32xi8> -> tensor<4x64xi8>
  %f = tile.convert %q unsigned : tensor<4x64xi8> -> tensor<4x64xf32>
  tile.store %f, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<4x64xf32>, !llvm.ptr
  return
}

// -----

// Groups below the vector are put together from halves.
// CHECK-LABEL: func.func @unpack4Interleaved
// CHECK: vector.from_elements
// CHECK: vector.shuffle %{{.*}} [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] : vector<8xi32>, vector<8xi32>
func.func @unpack4Interleaved(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %b = tile.load %p[%i] of [%n] strides [%one] : !llvm.ptr -> tensor<8xi8>
  %q = tile.unpack4 %b group 1 : tensor<8xi8> -> tensor<16xi8>
  %f = tile.convert %q : tensor<16xi8> -> tensor<16xi32>
  tile.store %f, %p[%i] of [%n] strides [%one] : tensor<16xi32>, !llvm.ptr
  return
}

// -----

// CHECK-LABEL: func.func @unpack6
// CHECK-DAG: arith.constant 1061109567 : i32
// CHECK-DAG: arith.constant 252645135 : i32
// CHECK-DAG: arith.constant 50529027 : i32
// CHECK-COUNT-4: llvm.store %{{.*}} {alignment = 1 : i64} : i32, !llvm.ptr
func.func @unpack6(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %b = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x12xi8>
  %s, %m = tile.unpack6 %b : tensor<4x12xi8> -> tensor<4x8xi8>
  tile.store %s, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<4x8xi8>, !llvm.ptr
  return
}

// -----

// CHECK-LABEL: func.func @broadcasts
// CHECK: vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK: arith.divui
func.func @broadcasts(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %a = tile.load %p[%i] of [%n] strides [%one] : !llvm.ptr -> tensor<4xf32>
  %b = tile.load %p[%i] of [%n] strides [%one] : !llvm.ptr -> tensor<32xf32>
  %c = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x2xf32>
  %x = tile.broadcast %a along 1 : tensor<4xf32> -> tensor<4x32xf32>
  %y = tile.broadcast %b along 0 : tensor<32xf32> -> tensor<4x32xf32>
  %z = tile.broadcast %c along 1 : tensor<4x2xf32> -> tensor<4x32xf32>
  %u = arith.addf %x, %y : tensor<4x32xf32>
  %v = arith.mulf %u, %z : tensor<4x32xf32>
  tile.store %v, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<4x32xf32>, !llvm.ptr
  return
}

// -----

// CHECK-LABEL: func.func @extract
// CHECK: llvm.load %{{.*}} : !llvm.ptr -> i32
// CHECK: arith.index_cast %{{.*}} : i32 to index
func.func @extract(%p: !llvm.ptr, %i: index, %n: index, %one: index, %s: f32) {
  %a = tile.load %p[%i] of [%n] strides [%one] : !llvm.ptr -> tensor<4xi32>
  %e = tile.extract %a[2] : tensor<4xi32> -> i32
  %at = arith.index_cast %e : i32 to index
  %t = tile.splat %s : f32 -> tensor<16xf32>
  tile.store %t, %p[%at] of [%n] strides [%one] : tensor<16xf32>, !llvm.ptr
  return
}
