// Tile programs as operations: each method of Program is one operation of the tile, arith, math or scf dialect.
#include "compiler/tile/program.h"

#include <charconv>
#include <optional>

#include "compiler/tile/dialect/tile.h"
#include "compiler/tile/program_module.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

namespace tilewright::tile {

namespace arith = mlir::arith;

std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<TileDialect, arith::ArithDialect, mlir::func::FuncDialect, mlir::LLVM::LLVMDialect,
                       mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
  return context;
}

DiagnosticLog::DiagnosticLog(mlir::MLIRContext& context)
    : handler_(&context, [this](mlir::Diagnostic& diagnostic) {
        text_ += diagnostic.str() + "\n";
        return mlir::success();
      }) {}

struct Program::State {
  State(Program* program, std::string_view entry, const Parameters& parameters)
      : program(program),
        parameters(parameters),
        context(makeContext()),
        builder(context.get()),
        location(builder.getUnknownLoc()) {
    module = mlir::ModuleOp::create(location);
    builder.setInsertionPointToEnd(module->getBody());
    function = mlir::func::FuncOp::create(builder, location, entry, builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(function.addEntryBlock());
  }

  mlir::Type type(Element element) {
    switch (element) {
      case Element::kI8:
        return builder.getI8Type();
      case Element::kI32:
        return builder.getI32Type();
      case Element::kF16:
        return builder.getF16Type();
      case Element::kBf16:
        return builder.getBF16Type();
      case Element::kF32:
        return builder.getF32Type();
    }
    llvm_unreachable("an element type without an MLIR type");
  }

  static mlir::RankedTensorType tile(const Shape& shape, mlir::Type element) {
    return mlir::RankedTensorType::get(shape, element);
  }
  static mlir::RankedTensorType tileOf(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType());
  }

  mlir::Value index(std::int64_t value) { return arith::ConstantIndexOp::create(builder, location, value); }

  mlir::Value unwrap(Value value) {
    return value.program_ == nullptr ? index(value.literal_) : mlir::Value::getFromOpaquePointer(value.handle_);
  }
  llvm::SmallVector<mlir::Value> unwrap(const std::vector<Value>& values) {
    llvm::SmallVector<mlir::Value> unwrapped;
    for (const Value& value : values) unwrapped.push_back(unwrap(value));
    return unwrapped;
  }

  Value addArgument(mlir::Type type) {
    (void)function.insertArgument(function.getNumArguments(), type, {}, location);
    return wrap(function.getArguments().back());
  }

  /// Adds an operation with one result.
  template <typename Operation, typename... Arguments>
  Value emit(Arguments&&... arguments) {
    mlir::Operation* operation = Operation::create(builder, location, std::forward<Arguments>(arguments)...);
    return wrap(operation->getResult(0));
  }

  Value wrap(mlir::Value value) { return Value(program, value.getAsOpaquePointer()); }

  Program* program;
  const Parameters parameters;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OpBuilder builder;
  mlir::Location location;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  std::optional<Error> error;
};

Program::Program(std::string_view entry, const Parameters& parameters)
    : state_(std::make_unique<State>(this, entry, parameters)) {}
Program::~Program() = default;

std::int64_t Program::parameter(std::string_view name, std::int64_t least, std::int64_t most) {
  const auto fault = [&](std::string_view value) {
    if (!state_->error) {
      state_->error = Error{ErrorCode::kInvalidArgument,
                            fmt::format("parameter {} is {}, must be from {} to {}", name, value, least, most)};
    }
    return least;
  };
  for (const auto& [each, text] : state_->parameters) {
    if (each != name) continue;
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    return error != std::errc{} || rest != end || value < least || value > most ? fault(text) : value;
  }
  return fault("missing");
}

Value Program::pointerArgument() {
  return state_->addArgument(mlir::LLVM::LLVMPointerType::get(state_->context.get()));
}
Value Program::indexArgument() {
  return state_->addArgument(state_->builder.getIndexType());
}
Value Program::floatArgument() {
  return state_->addArgument(state_->builder.getF32Type());
}

Value Program::programId(int axis) {
  return state_->emit<ProgramIdOp>(axis);
}

Value Program::scalar(float value) {
  return state_->emit<arith::ConstantOp>(state_->builder.getF32FloatAttr(value));
}

Value Program::select(Value condition, Value a, Value b) {
  return state_->emit<arith::SelectOp>(state_->unwrap(condition), state_->unwrap(a), state_->unwrap(b));
}

Value Program::toI32(Value index) {
  return state_->emit<arith::IndexCastOp>(state_->builder.getI32Type(), state_->unwrap(index));
}

Value Program::toIndex(Value scalar) {
  return state_->emit<arith::IndexCastOp>(state_->builder.getIndexType(), state_->unwrap(scalar));
}

Value Program::advance(Value base, Element element, Value elements) {
  const mlir::Value pointer = state_->unwrap(base);
  const mlir::Value offset = arith::IndexCastOp::create(state_->builder, state_->location, state_->builder.getI64Type(),
                                                        state_->unwrap(elements));
  return state_->emit<mlir::LLVM::GEPOp>(pointer.getType(), state_->type(element), pointer, mlir::ValueRange{offset});
}

Value Program::load(Element element, const Shape& shape, const Block& block) {
  return state_->emit<LoadOp>(state_->tile(shape, state_->type(element)), state_->unwrap(block.base),
                              state_->unwrap(block.offsets), state_->unwrap(block.bounds),
                              state_->unwrap(block.strides));
}

void Program::store(Value tile, const Block& block) {
  StoreOp::create(state_->builder, state_->location, state_->unwrap(tile), state_->unwrap(block.base),
                  state_->unwrap(block.offsets), state_->unwrap(block.bounds), state_->unwrap(block.strides));
}

Value Program::full(const Shape& shape, float value) {
  const mlir::RankedTensorType type = state_->tile(shape, state_->builder.getF32Type());
  return state_->emit<arith::ConstantOp>(mlir::DenseElementsAttr::get(type, value));
}

Value Program::splat(const Shape& shape, Value scalar) {
  const mlir::Value value = state_->unwrap(scalar);
  return state_->emit<SplatOp>(state_->tile(shape, value.getType()), value);
}

Value Program::iota(const Shape& shape, int axis) {
  return state_->emit<IotaOp>(state_->tile(shape, state_->builder.getI32Type()), axis);
}

Value Program::dot(Value a, Value b, Value acc) {
  return state_->emit<DotOp>(state_->unwrap(a), state_->unwrap(b), state_->unwrap(acc), false);
}

Value Program::dotTransposed(Value a, Value b, Value acc) {
  return state_->emit<DotOp>(state_->unwrap(a), state_->unwrap(b), state_->unwrap(acc), true);
}

Value Program::reduceRows(Value tile, bool maximum) {
  const mlir::Value source = state_->unwrap(tile);
  const mlir::RankedTensorType type = state_->tileOf(source);
  return state_->emit<ReduceOp>(state_->tile({type.getDimSize(0)}, type.getElementType()),
                                maximum ? ReduceKind::kMax : ReduceKind::kAdd, source, 1);
}
Value Program::sumOfRows(Value tile) {
  return reduceRows(tile, false);
}
Value Program::maximumOfRows(Value tile) {
  return reduceRows(tile, true);
}

Value Program::broadcastColumns(Value tile, std::int64_t columns) {
  const mlir::Value source = state_->unwrap(tile);
  const mlir::RankedTensorType type = state_->tileOf(source);
  return state_->emit<BroadcastOp>(state_->tile({type.getDimSize(0), columns}, type.getElementType()), source, 1);
}

Value Program::broadcastRows(Value tile, std::int64_t rows) {
  const mlir::Value source = state_->unwrap(tile);
  const mlir::RankedTensorType type = state_->tileOf(source);
  return state_->emit<BroadcastOp>(state_->tile({rows, type.getDimSize(0)}, type.getElementType()), source, 0);
}

Value Program::repeatColumns(Value tile, std::int64_t columns) {
  return broadcastColumns(tile, columns);
}

Value Program::convert(Value tile, Element element) {
  const mlir::Value source = state_->unwrap(tile);
  return state_->emit<ConvertOp>(state_->tileOf(source).clone(state_->type(element)), source, false);
}

Value Program::convertUnsigned(Value tile, Element element) {
  const mlir::Value source = state_->unwrap(tile);
  return state_->emit<ConvertOp>(state_->tileOf(source).clone(state_->type(element)), source, true);
}

Value Program::unpack4(Value bytes, std::int64_t group) {
  const mlir::Value source = state_->unwrap(bytes);
  Shape shape = state_->tileOf(source).getShape().vec();
  shape.back() *= 2;
  return state_->emit<Unpack4Op>(state_->tile(shape, state_->builder.getI8Type()), source, group);
}

std::pair<Value, Value> Program::unpack6(Value bytes) {
  const mlir::Value source = state_->unwrap(bytes);
  const mlir::RankedTensorType type =
      state_->tile({state_->tileOf(source).getDimSize(0), 8}, state_->builder.getI8Type());
  auto operation = Unpack6Op::create(state_->builder, state_->location, type, type, source);
  return {state_->wrap(operation.getScales()), state_->wrap(operation.getMinimums())};
}

Value Program::extract(Value tile, std::int64_t position) {
  const mlir::Value source = state_->unwrap(tile);
  return state_->emit<ExtractOp>(state_->tileOf(source).getElementType(), source, position);
}

Value Program::exp(Value tile) {
  return state_->emit<mlir::math::ExpOp>(state_->unwrap(tile));
}
Value Program::log(Value tile) {
  return state_->emit<mlir::math::LogOp>(state_->unwrap(tile));
}

std::vector<Value> Program::loop(Value begin, Value end, Value step, const std::vector<Value>& initial,
                                 const LoopBody& body) {
  State& state = *state_;
  const mlir::Value first = state.unwrap(begin), last = state.unwrap(end), stride = state.unwrap(step);
  const llvm::SmallVector<mlir::Value> carried = state.unwrap(initial);
  auto loop = mlir::scf::ForOp::create(state.builder, state.location, first, last, stride, carried);
  {
    const mlir::OpBuilder::InsertionGuard guard(state.builder);
    state.builder.setInsertionPointToStart(loop.getBody());
    std::vector<Value> arguments;
    for (const mlir::Value argument : loop.getRegionIterArgs()) arguments.push_back(state.wrap(argument));
    const std::vector<Value> next = body(state.wrap(loop.getInductionVar()), arguments);
    // A loop that carries nothing has its terminator already.
    if (!carried.empty()) mlir::scf::YieldOp::create(state.builder, state.location, state.unwrap(next));
  }
  std::vector<Value> results;
  for (const mlir::Value result : loop.getResults()) results.push_back(state.wrap(result));
  return results;
}

Result<std::unique_ptr<Program::Module>> Program::finish() {
  State& state = *state_;
  if (state.error) return std::unexpected(*state.error);
  mlir::func::ReturnOp::create(state.builder, state.location);
  const DiagnosticLog log(*state.context);
  if (mlir::failed(mlir::verify(*state.module))) {
    return std::unexpected(Error{ErrorCode::kCompile, "the tile program breaks a rule of its dialect", log.text()});
  }
  auto module = std::make_unique<Module>();
  module->context = std::move(state.context);
  module->module = std::move(state.module);
  return module;
}

Value Program::arithmetic(Arithmetic kind, Value a, Value b) {
  Program* program = a.program_ != nullptr ? a.program_ : b.program_;
  assert(program != nullptr && "arithmetic on two literals");
  State& state = *program->state_;
  const mlir::Value left = state.unwrap(a), right = state.unwrap(b);
  const bool isFloat = llvm::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(left.getType()));
  switch (kind) {
    case Arithmetic::kAdd:
      return isFloat ? state.emit<arith::AddFOp>(left, right) : state.emit<arith::AddIOp>(left, right);
    case Arithmetic::kSubtract:
      return isFloat ? state.emit<arith::SubFOp>(left, right) : state.emit<arith::SubIOp>(left, right);
    case Arithmetic::kMultiply:
      return isFloat ? state.emit<arith::MulFOp>(left, right) : state.emit<arith::MulIOp>(left, right);
    case Arithmetic::kDivide:
      return isFloat ? state.emit<arith::DivFOp>(left, right) : state.emit<arith::DivUIOp>(left, right);
    case Arithmetic::kLess:
      return isFloat ? state.emit<arith::CmpFOp>(arith::CmpFPredicate::OLT, left, right)
                     : state.emit<arith::CmpIOp>(arith::CmpIPredicate::slt, left, right);
    case Arithmetic::kEqual:
      return isFloat ? state.emit<arith::CmpFOp>(arith::CmpFPredicate::OEQ, left, right)
                     : state.emit<arith::CmpIOp>(arith::CmpIPredicate::eq, left, right);
    case Arithmetic::kMinimum:
      return isFloat ? state.emit<arith::MinNumFOp>(left, right) : state.emit<arith::MinSIOp>(left, right);
    case Arithmetic::kMaximum:
      return isFloat ? state.emit<arith::MaxNumFOp>(left, right) : state.emit<arith::MaxSIOp>(left, right);
  }
  llvm_unreachable("an arithmetic operation without an MLIR operation");
}

Value operator+(Value a, Value b) {
  return Program::arithmetic(Program::Arithmetic::kAdd, a, b);
}
Value operator-(Value a, Value b) {
  return Program::arithmetic(Program::Arithmetic::kSubtract, a, b);
}
Value operator*(Value a, Value b) {
  return Program::arithmetic(Program::Arithmetic::kMultiply, a, b);
}
Value operator/(Value a, Value b) {
  return Program::arithmetic(Program::Arithmetic::kDivide, a, b);
}
Value operator<(Value a, Value b) {
  return Program::arithmetic(Program::Arithmetic::kLess, a, b);
}
Value operator==(Value a, Value b) {
  return Program::arithmetic(Program::Arithmetic::kEqual, a, b);
}
Value minimum(Value a, Value b) {
  return Program::arithmetic(Program::Arithmetic::kMinimum, a, b);
}
Value maximum(Value a, Value b) {
  return Program::arithmetic(Program::Arithmetic::kMaximum, a, b);
}

}  // namespace tilewright::tile
