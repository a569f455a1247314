// Tiles that no stack should hold are refused.
// RUN: tilewright-opt %s --verify-diagnostics --pass-pipeline='builtin.module(func.func(tile-cpu-assign-buffers,tile-cpu-vectorize))'

// expected-error @+1 {{needs 4259840 bytes of stack for its tiles, at most 2097152 are allowed}}
func.func @tooMuch(%p: !llvm.ptr, %i: index, %n: index, %one: index) {
  %a = tile.load %p[%i, %i] of [%n, %n] strides [%n, %one] : !llvm.ptr -> tensor<1024x1024xf32>
  tile.store %a, %p[%i, %i] of [%n, %n] strides [%n, %one] : tensor<1024x1024xf32>, !llvm.ptr
  return
}
