// The expand-math pass: exp, log and conversions of narrow floats as arithmetic that every x86-64 has.
//
// LLVM would turn math functions of vectors into calls of a libm per element, and the truncation to bf16 without
// AVX512_BF16 into a call of a runtime function that no library here provides. Everything below is exact to one unit in
// the last place of f32 over the whole range, apart from results below 2^-125, which exp gives as 0.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/tile/lower_cpu/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tilewright::tile {

namespace arith = mlir::arith;
namespace math = mlir::math;
using mlir::Value;

namespace {

/// Arithmetic on f32 and i32 values of one shape: scalars, or vectors of one width.
class Expansion {
 public:
  Expansion(mlir::Operation* operation) : builder_(operation), location_(operation->getLoc()) {
    shape_ = llvm::dyn_cast<mlir::VectorType>(operation->getOperand(0).getType());
  }

  Value exp(Value x);
  Value log(Value x);
  Value truncateToBf16(Value x);
  Value extendBf16(Value x);
  Value extendF16(Value x);

 private:
  mlir::Type typed(mlir::Type element) { return shape_ ? mlir::Type(shape_.clone(element)) : element; }
  Value constant(mlir::TypedAttr value) {
    if (!shape_) return arith::ConstantOp::create(builder_, location_, value);
    const auto type = llvm::cast<mlir::ShapedType>(typed(value.getType()));
    return arith::ConstantOp::create(builder_, location_, mlir::DenseElementsAttr::get(type, mlir::Attribute(value)));
  }
  Value f32(double value) { return constant(builder_.getF32FloatAttr(static_cast<float>(value))); }
  Value i32(std::uint32_t value) { return constant(builder_.getI32IntegerAttr(static_cast<std::int32_t>(value))); }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder_, location_, a, b); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(builder_, location_, a, b); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder_, location_, a, b); }
  Value div(Value a, Value b) { return arith::DivFOp::create(builder_, location_, a, b); }
  /// Code generation contracts this where the target has FMA; a math.fma would become a call where it has not.
  Value fma(Value a, Value b, Value c) { return add(mul(a, b), c); }
  Value addI(Value a, Value b) { return arith::AddIOp::create(builder_, location_, a, b); }
  Value subI(Value a, Value b) { return arith::SubIOp::create(builder_, location_, a, b); }
  Value andI(Value a, Value b) { return arith::AndIOp::create(builder_, location_, a, b); }
  Value orI(Value a, Value b) { return arith::OrIOp::create(builder_, location_, a, b); }
  Value shl(Value a, std::uint32_t by) { return arith::ShLIOp::create(builder_, location_, a, i32(by)); }
  Value shr(Value a, std::uint32_t by) { return arith::ShRUIOp::create(builder_, location_, a, i32(by)); }
  Value select(Value c, Value a, Value b) { return arith::SelectOp::create(builder_, location_, c, a, b); }
  Value is(arith::CmpFPredicate rule, Value a, Value b) {
    return arith::CmpFOp::create(builder_, location_, rule, a, b);
  }
  Value bitsOf(Value x) { return arith::BitcastOp::create(builder_, location_, typed(builder_.getI32Type()), x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(builder_, location_, typed(builder_.getF32Type()), x); }
  /// The 16 bits of a bf16 or f16 as i32.
  Value halfBits(Value x) {
    const Value bits = arith::BitcastOp::create(builder_, location_, typed(builder_.getI16Type()), x);
    return arith::ExtUIOp::create(builder_, location_, typed(builder_.getI32Type()), bits);
  }

  mlir::OpBuilder builder_;
  mlir::Location location_;
  mlir::VectorType shape_;
};

Value Expansion::exp(Value x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2, and exp x = 2^n exp r. Adding 1.5 * 2^23 rounds to the integer n and leaves it
  // in the low bits. n ln 2 is subtracted in two parts, the first with so few bits that its product is exact.
  const Value magic = f32(12582912.0);
  const Value shifted = fma(x, f32(std::numbers::log2e), magic);
  const Value n = sub(shifted, magic);
  constexpr double kHigh = 0.693359375;
  const Value r = fma(n, f32(kHigh - std::numbers::ln2), fma(n, f32(-kHigh), x));

  // Taylor's series to r^7: the rest is below 0.3466^8 / 8! = 5e-9.
  Value series = f32(1.0 / 5040);
  for (const double factorial : {720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0}) series = fma(series, r, f32(1 / factorial));

  // 2^(n - 1) from its exponent bits, then twice, so that results in the last binade are reached.
  const Value scale = fromBits(addI(shl(bitsOf(shifted), 23), i32(126u << 23)));
  const Value y = mul(mul(series, scale), f32(2));
  const Value large = is(arith::CmpFPredicate::OGT, x, f32(128 * std::numbers::ln2));
  const Value small = is(arith::CmpFPredicate::OLT, x, f32(-125 * std::numbers::ln2));
  return select(small, f32(0), select(large, f32(std::numeric_limits<float>::infinity()), y));
}

Value Expansion::log(Value x) {
  // x = 2^e m with m in [0.707, 1.414); subnormal numbers are scaled by 2^23 first.
  const Value isSubnormal = is(arith::CmpFPredicate::OLT, x, f32(0x1p-126));
  const Value bits = bitsOf(select(isSubnormal, mul(x, f32(0x1p23)), x));
  const Value offset = subI(bits, i32(0x3f3504f3));  // the bits of sqrt(1/2), so that e rounds at sqrt(2)
  Value e = arith::SIToFPOp::create(builder_, location_, typed(builder_.getF32Type()),
                                    arith::ShRSIOp::create(builder_, location_, offset, i32(23)));
  e = sub(e, select(isSubnormal, f32(23), f32(0)));
  const Value m = fromBits(addI(andI(offset, i32(0x007fffff)), i32(0x3f3504f3)));

  // log m = 2 artanh t with t = (m - 1) / (m + 1), |t| <= 0.1716; the series' rest is below 2 t^11 / 11 = 7e-10.
  const Value t = div(sub(m, f32(1)), add(m, f32(1)));
  const Value t2 = mul(t, t);
  Value series = f32(2.0 / 9);
  for (const double odd : {7.0, 5.0, 3.0}) series = fma(series, t2, f32(2 / odd));
  const Value logM = fma(mul(series, t2), t, mul(t, f32(2)));
  constexpr double kHigh = 0.693359375;
  const Value y = fma(e, f32(kHigh), fma(e, f32(std::numbers::ln2 - kHigh), logM));

  const double infinity = std::numeric_limits<float>::infinity();
  const Value isInfinite = is(arith::CmpFPredicate::OEQ, x, f32(infinity));
  const Value isZero = is(arith::CmpFPredicate::OEQ, x, f32(0));
  const Value isPositive = is(arith::CmpFPredicate::OGT, x, f32(0));
  const Value beyond = select(isZero, f32(-infinity), f32(std::numeric_limits<float>::quiet_NaN()));
  return select(isPositive, select(isInfinite, x, y), beyond);
}

Value Expansion::truncateToBf16(Value x) {
  // To nearest, ties to even; a NaN keeps its upper bits and becomes quiet.
  const Value bits = bitsOf(x);
  const Value rounded = shr(addI(bits, addI(i32(0x7fff), andI(shr(bits, 16), i32(1)))), 16);
  const Value quiet = orI(shr(bits, 16), i32(0x40));
  const Value chosen = select(is(arith::CmpFPredicate::UNO, x, x), quiet, rounded);
  const Value narrow = arith::TruncIOp::create(builder_, location_, typed(builder_.getI16Type()), chosen);
  return arith::BitcastOp::create(builder_, location_, typed(builder_.getBF16Type()), narrow);
}

Value Expansion::extendBf16(Value x) {
  return fromBits(shl(halfBits(x), 16));
}

Value Expansion::extendF16(Value x) {
  // Exponent and mantissa moved into place are the number times 2^-112, for subnormal numbers too; infinities and NaNs
  // get f32's exponent of all ones.
  const Value bits = halfBits(x);
  const Value magnitude = shl(andI(bits, i32(0x7fff)), 13);
  const Value scaled = bitsOf(mul(fromBits(magnitude), f32(0x1p112)));
  const Value special = orI(magnitude, i32(0x7f800000));
  const Value isSpecial =
      arith::CmpIOp::create(builder_, location_, arith::CmpIPredicate::uge, magnitude, i32(0x0f800000));
  const Value sign = shl(andI(bits, i32(0x8000)), 16);
  return fromBits(orI(sign, select(isSpecial, special, scaled)));
}

struct ExpandMathPass : mlir::PassWrapper<ExpandMathPass, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMathPass)

  ExpandMathPass() = default;
  explicit ExpandMathPass(const CpuOptions& options) { hasF16c = options.hasF16c; }
  ExpandMathPass(const ExpandMathPass& other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const final { return "tile-cpu-expand-math"; }
  llvm::StringRef getDescription() const final { return "Write exp, log and narrow floats out as arithmetic"; }
  void getDependentDialects(mlir::DialectRegistry& registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect>();
  }

  void runOnOperation() final {
    bool refused = false;
    getOperation().walk([&](mlir::Operation* operation) {
      Value expanded;
      if (llvm::isa<math::ExpOp>(operation)) {
        expanded = Expansion(operation).exp(operation->getOperand(0));
      } else if (llvm::isa<math::LogOp>(operation)) {
        expanded = Expansion(operation).log(operation->getOperand(0));
      } else if (llvm::isa<arith::TruncFOp>(operation)) {
        const mlir::Type to = mlir::getElementTypeOrSelf(operation->getResult(0).getType());
        if (to.isBF16()) expanded = Expansion(operation).truncateToBf16(operation->getOperand(0));
        if (to.isF16() && !hasF16c) refused = true, operation->emitError() << "rounds to f16, which this target cannot";
      } else if (llvm::isa<arith::ExtFOp>(operation)) {
        const mlir::Type from = mlir::getElementTypeOrSelf(operation->getOperand(0).getType());
        if (from.isBF16()) expanded = Expansion(operation).extendBf16(operation->getOperand(0));
        if (from.isF16() && !hasF16c) expanded = Expansion(operation).extendF16(operation->getOperand(0));
      } else if (operation->getDialect() == getContext().getLoadedDialect<math::MathDialect>() &&
                 !llvm::isa<math::AbsFOp, math::SqrtOp>(operation)) {
        refused = true, operation->emitError() << "has no expansion for this target";
      }
      if (!expanded) return;
      operation->getResult(0).replaceAllUsesWith(expanded);
      operation->erase();
    });
    if (refused) signalPassFailure();
  }

  Option<bool> hasF16c{*this, "f16c", llvm::cl::desc("The target converts f16 in hardware"), llvm::cl::init(true)};
};

}  // namespace

std::unique_ptr<mlir::Pass> createExpandMathPass(const CpuOptions& options) {
  return std::make_unique<ExpandMathPass>(options);
}

}  // namespace tilewright::tile
