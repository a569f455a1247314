// The whole pipeline leaves the LLVM dialect alone, and no call.
// RUN: tilewright-opt %s --tile-cpu-pipeline | FileCheck %s

// CHECK: llvm.func @softmaxRows(%arg0: !llvm.ptr, %arg1: i64, %arg2: i64, %arg3: i64)
// CHECK-NOT: tile.
// CHECK-NOT: llvm.call
// CHECK: llvm.intr.vector.reduce.fadd
// CHECK: llvm.return
func.func @softmaxRows(%p: !llvm.ptr, %out: !llvm.ptr, %n: index, %m: index) {
  %one = arith.constant 1 : index
  %zero = arith.constant 0 : index
  %four = arith.constant 4 : index
  %id = tile.program_id 0
  %row = arith.muli %id, %four : index
  %x = tile.load %p[%row, %zero] of [%m, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x64xbf16>
  %f = tile.convert %x : tensor<4x64xbf16> -> tensor<4x64xf32>
  %most = tile.reduce max %f along 1 : tensor<4x64xf32> -> tensor<4xf32>
  %w = tile.broadcast %most along 1 : tensor<4xf32> -> tensor<4x64xf32>
  %d = arith.subf %f, %w : tensor<4x64xf32>
  %e = math.exp %d : tensor<4x64xf32>
  %s = tile.reduce add %e along 1 : tensor<4x64xf32> -> tensor<4xf32>
  %t = tile.broadcast %s along 1 : tensor<4xf32> -> tensor<4x64xf32>
  %y = arith.divf %e, %t : tensor<4x64xf32>
  %b = tile.convert %y : tensor<4x64xf32> -> tensor<4x64xbf16>
  tile.store %b, %out[%row, %zero] of [%m, %n] strides [%n, %one] : tensor<4x64xbf16>, !llvm.ptr
  return
}
