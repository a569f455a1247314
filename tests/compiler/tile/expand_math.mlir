// exp, log and narrow floats become arithmetic; f16 only where the target has no instruction.
// RUN: tilewright-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(tile-cpu-expand-math))' | FileCheck %s
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(tile-cpu-expand-math{f16c=false}))' | FileCheck %s --check-prefix=SOFT

// CHECK-LABEL: func.func @exp
// CHECK-NOT: math.exp
// CHECK: arith.constant dense<1.44269502> : vector<8xf32>
// CHECK: arith.bitcast %{{.*}} : vector<8xf32> to vector<8xi32>
// CHECK: arith.shli
// CHECK: arith.bitcast %{{.*}} : vector<8xi32> to vector<8xf32>
func.func @exp(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.exp %x : vector<8xf32>
  return %y : vector<8xf32>
}

// -----

// CHECK-LABEL: func.func @log
// CHECK-NOT: math.log
// CHECK: arith.shrsi %{{.*}} : i32
// CHECK: arith.divf %{{.*}} : f32
func.func @log(%x: f32) -> f32 {
  %y = math.log %x : f32
  return %y : f32
}

// -----

// CHECK-LABEL: func.func @toBf16
// CHECK-NOT: arith.truncf
// CHECK: arith.constant dense<32767> : vector<4xi32>
// CHECK: arith.cmpf uno, %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: arith.bitcast %{{.*}} : vector<4xi16> to vector<4xbf16>
func.func @toBf16(%x: vector<4xf32>) -> vector<4xbf16> {
  %y = arith.truncf %x : vector<4xf32> to vector<4xbf16>
  return %y : vector<4xbf16>
}

// -----

// CHECK-LABEL: func.func @fromBf16
// CHECK: arith.bitcast %{{.*}} : bf16 to i16
// CHECK: arith.extui
// CHECK: arith.shli
// CHECK: arith.bitcast %{{.*}} : i32 to f32
func.func @fromBf16(%x: bf16) -> f32 {
  %y = arith.extf %x : bf16 to f32
  return %y : f32
}

// -----

// CHECK-LABEL: func.func @fromF16
// CHECK: arith.extf
// SOFT-LABEL: func.func @fromF16
// SOFT-NOT: arith.extf
// SOFT: arith.constant 5.19229686E+33 : f32
func.func @fromF16(%x: f16) -> f32 {
  %y = arith.extf %x : f16 to f32
  return %y : f32
}
