// What has no expansion is refused, not turned into a call.
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(tile-cpu-expand-math{f16c=false}))'

func.func @sine(%x: vector<8xf32>) -> vector<8xf32> {
  // expected-error @+1 {{has no expansion for this target}}
  %y = math.sin %x : vector<8xf32>
  return %y : vector<8xf32>
}

// -----

func.func @toF16(%x: f32) -> f16 {
  // expected-error @+1 {{rounds to f16, which this target cannot}}
  %y = arith.truncf %x : f32 to f16
  return %y : f16
}
