// Every op, parsed, verified, printed and parsed again.
// RUN: tilewright-opt %s | tilewright-opt | FileCheck %s

// CHECK-LABEL: func.func @everyOp
func.func @everyOp(%p: !llvm.ptr, %i: index, %n: index, %one: index, %s: f32) {
  // CHECK: %[[ID:.*]] = tile.program_id 2
  %id = tile.program_id 2
  // CHECK: tile.load %{{.*}}[%[[ID]], %{{.*}}] of [%{{.*}}, %{{.*}}] strides [%{{.*}}, %{{.*}}] : !llvm.ptr -> tensor<4x32xbf16>
  %a = tile.load %p[%id, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x32xbf16>
  // CHECK: tile.load %{{.*}}[%{{.*}}] of [%{{.*}}] strides [%{{.*}}] : !llvm.ptr -> tensor<12xi32>
  %r = tile.load %p[%i] of [%n] strides [%one] : !llvm.ptr -> tensor<12xi32>
  // CHECK: tile.extract %{{.*}}[3] : tensor<12xi32> -> i32
  %e = tile.extract %r[3] : tensor<12xi32> -> i32
  // CHECK: tile.convert %{{.*}} : tensor<4x32xbf16> -> tensor<4x32xf32>
  %f = tile.convert %a : tensor<4x32xbf16> -> tensor<4x32xf32>
  // CHECK: tile.splat %{{.*}} : f32 -> tensor<4x4xf32>
  %c = tile.splat %s : f32 -> tensor<4x4xf32>
  // CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_b : tensor<4x32xf32>, tensor<4x32xbf16>, tensor<4x4xf32>
  %d = tile.dot %f, %a, %c transpose_b : tensor<4x32xf32>, tensor<4x32xbf16>, tensor<4x4xf32>
  // CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x32xf32>, tensor<4x32xf32>
  %g = tile.dot %d, %f, %f : tensor<4x4xf32>, tensor<4x32xf32>, tensor<4x32xf32>
  // CHECK: tile.reduce max %{{.*}} along 1 : tensor<4x32xf32> -> tensor<4xf32>
  %h = tile.reduce max %g along 1 : tensor<4x32xf32> -> tensor<4xf32>
  // CHECK: tile.reduce add %{{.*}} along 0 : tensor<4x32xf32> -> tensor<32xf32>
  %j = tile.reduce add %g along 0 : tensor<4x32xf32> -> tensor<32xf32>
  // CHECK: tile.broadcast %{{.*}} along 1 : tensor<4xf32> -> tensor<4x32xf32>
  %k = tile.broadcast %h along 1 : tensor<4xf32> -> tensor<4x32xf32>
  // CHECK: tile.broadcast %{{.*}} along 0 : tensor<32xf32> -> tensor<4x32xf32>
  %l = tile.broadcast %j along 0 : tensor<32xf32> -> tensor<4x32xf32>
  // CHECK: tile.broadcast %{{.*}} along 1 : tensor<4x4xf32> -> tensor<4x32xf32>
  %m = tile.broadcast %d along 1 : tensor<4x4xf32> -> tensor<4x32xf32>
  // CHECK: tile.iota along 1 : tensor<4x32xi32>
  %o = tile.iota along 1 : tensor<4x32xi32>
  %b = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<4x12xi8>
  // CHECK: tile.unpack4 %{{.*}} group 4 : tensor<4x12xi8> -> tensor<4x24xi8>
  %q = tile.unpack4 %b group 4 : tensor<4x12xi8> -> tensor<4x24xi8>
  // CHECK: tile.unpack6 %{{.*}} : tensor<4x12xi8> -> tensor<4x8xi8>
  %t, %u = tile.unpack6 %b : tensor<4x12xi8> -> tensor<4x8xi8>
  // CHECK: tile.convert %{{.*}} unsigned : tensor<4x24xi8> -> tensor<4x24xf32>
  %v = tile.convert %q unsigned : tensor<4x24xi8> -> tensor<4x24xf32>
  // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] of [%{{.*}}, %{{.*}}] strides [%{{.*}}, %{{.*}}] : tensor<4x24xf32>, !llvm.ptr
  tile.store %v, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<4x24xf32>, !llvm.ptr
  return
}
