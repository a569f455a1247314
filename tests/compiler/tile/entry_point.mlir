// Arguments come from 8-byte slots; ids from the last three parameters.
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(tile-cpu-entry-point))' | FileCheck %s

// CHECK-LABEL: func.func @slots(%arg0: !llvm.ptr, %arg1: i64, %arg2: i64, %arg3: i64)
func.func @slots(%p: !llvm.ptr, %n: index, %s: f32) {
  // CHECK-DAG: %[[ID1:.*]] = arith.index_cast %arg2 : i64 to index
  // CHECK-DAG: %[[SLOT0:.*]] = llvm.getelementptr %arg0[0] : (!llvm.ptr) -> !llvm.ptr, i64
  // CHECK-DAG: %[[P:.*]] = llvm.load %[[SLOT0]] : !llvm.ptr -> !llvm.ptr
  // CHECK-DAG: %[[SLOT1:.*]] = llvm.getelementptr %arg0[1]
  // CHECK-DAG: %[[N64:.*]] = llvm.load %[[SLOT1]] : !llvm.ptr -> i64
  // CHECK-DAG: %[[N:.*]] = arith.index_cast %[[N64]] : i64 to index
  // CHECK-DAG: %[[SLOT2:.*]] = llvm.getelementptr %arg0[2]
  // CHECK-DAG: %[[S:.*]] = llvm.load %[[SLOT2]] : !llvm.ptr -> f32
  %id = tile.program_id 1
  %one = arith.constant 1 : index
  // CHECK: tile.splat %[[S]]
  %t = tile.splat %s : f32 -> tensor<8xf32>
  // CHECK-NOT: tile.program_id
  // CHECK: tile.store %{{.*}}, %[[P]][%[[ID1]]] of [%[[N]]]
  tile.store %t, %p[%id] of [%n] strides [%one] : tensor<8xf32>, !llvm.ptr
  return
}

// -----

// expected-error @+1 {{takes an argument of type 'i32', must be a pointer, an index or f32}}
func.func @noSlot(%a: i32) {
  return
}

// -----

// expected-error @+1 {{gives results, a tile program stores them}}
func.func @results(%a: index) -> index {
  return %a : index
}
