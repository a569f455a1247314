// Which tiles get a buffer, which loads are read in place, and what cannot be lowered.
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(tile-cpu-assign-buffers))' | FileCheck %s

// CHECK-LABEL: func.func @usedTwice
func.func @usedTwice(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  // A load that is stored over afterwards is read in place; what is computed from it twice is kept.
  // CHECK: tile.load {{.*}} {tile.in_place}
  %a = tile.load %p[%i] of [%n] strides [%one] : !llvm.ptr -> tensor<16xf32>
  // CHECK: arith.mulf %{{.*}}, %{{.*}} {tile.buffer} : tensor<16xf32>
  %b = arith.mulf %a, %a : tensor<16xf32>
  // Used once: computed where it is used.
  // CHECK: arith.addf %{{.*}}, %{{.*}} : tensor<16xf32>
  %c = arith.addf %b, %b : tensor<16xf32>
  // CHECK: tile.reduce
  %w = tile.broadcast %c along 1 : tensor<16xf32> -> tensor<16x16xf32>
  %r = tile.reduce add %w along 1 : tensor<16x16xf32> -> tensor<16xf32>
  tile.store %r, %p[%i] of [%n] strides [%one] : tensor<16xf32>, !llvm.ptr
  return
}

// -----

// CHECK-LABEL: func.func @broadcastReadsOften
func.func @broadcastReadsOften(%s: f32, %p: !llvm.ptr, %i: index) {
  %a = tile.splat %s : f32 -> tensor<16xf32>
  // CHECK: math.exp %{{.*}} {tile.buffer} : tensor<16xf32>
  %b = math.exp %a : tensor<16xf32>
  // CHECK: tile.broadcast %{{.*}} along 1 : tensor<16xf32> -> tensor<16x8xf32>
  %c = tile.broadcast %b along 1 : tensor<16xf32> -> tensor<16x8xf32>
  tile.store %c, %p[%i, %i] of [%i, %i] strides [%i, %i] : tensor<16x8xf32>, !llvm.ptr
  return
}

// -----

// CHECK-LABEL: func.func @usedInALoop
func.func @usedInALoop(%s: f32, %n: index, %p: !llvm.ptr) {
  %a = tile.splat %s : f32 -> tensor<16xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  // CHECK: math.exp %{{.*}} {tile.buffer}
  %b = math.exp %a : tensor<16xf32>
  scf.for %i = %zero to %n step %one {
    tile.store %b, %p[%i] of [%n] strides [%one] : tensor<16xf32>, !llvm.ptr
  }
  return
}

// -----

// CHECK-LABEL: func.func @storedOverBeforeUse
func.func @storedOverBeforeUse(%p: !llvm.ptr, %i: index, %s: f32) {
  %t = tile.splat %s : f32 -> tensor<16xf32>
  // CHECK: tile.load
  // CHECK-NOT: tile.in_place
  %a = tile.load %p[%i] of [%i] strides [%i] : !llvm.ptr -> tensor<16xf32>
  tile.store %t, %p[%i] of [%i] strides [%i] : tensor<16xf32>, !llvm.ptr
  %b = arith.addf %a, %t : tensor<16xf32>
  %c = tile.broadcast %b along 1 : tensor<16xf32> -> tensor<16x8xf32>
  %d = tile.reduce add %c along 1 : tensor<16x8xf32> -> tensor<16xf32>
  return
}

// -----

func.func @narrowArithmetic(%s: bf16) {
  %a = tile.splat %s : bf16 -> tensor<16xbf16>
  // expected-error @+1 {{computes on 'bf16': convert to f32 first}}
  %b = arith.addf %a, %a : tensor<16xbf16>
  return
}

// -----

func.func @narrowing(%s: f32) {
  %a = tile.splat %s : f32 -> tensor<16xf32>
  // expected-error @+1 {{gives 'bf16': only tile.convert does}}
  %b = arith.truncf %a : tensor<16xf32> to tensor<16xbf16>
  return
}

// -----

func.func @constantsDiffer() {
  // expected-error @+1 {{cannot lower a tile constant whose elements differ}}
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return
}

// -----

func.func @otherControlFlow(%c: i1, %p: !llvm.ptr, %i: index, %s: f32) {
  %t = tile.splat %s : f32 -> tensor<16xf32>
  // expected-error @+1 {{cannot lower control flow other than scf.for}}
  scf.if %c {
    tile.store %t, %p[%i] of [%i] strides [%i] : tensor<16xf32>, !llvm.ptr
  }
  return
}

// -----

func.func @carriedBits(%n: index, %s: i1) {
  %t = tile.splat %s : i1 -> tensor<16xi1>
  %zero = arith.constant 0 : index
  // expected-error @+1 {{cannot carry a tile of i1 through a loop}}
  %r = scf.for %i = %zero to %n step %n iter_args(%b = %t) -> tensor<16xi1> {
    scf.yield %b : tensor<16xi1>
  }
  return
}

// -----

func.func @notElementwise(%s: f32) {
  %t = tile.splat %s : f32 -> tensor<16xf32>
  // expected-error @+1 {{cannot lower 'builtin.unrealized_conversion_cast' on tiles: it is not elementwise}}
  %r = builtin.unrealized_conversion_cast %t : tensor<16xf32> to tensor<16xf32>
  return
}

// -----

// expected-error @+1 {{takes a tile as an argument, tiles come from memory}}
func.func @tileArgument(%t: tensor<16xf32>) {
  return
}
