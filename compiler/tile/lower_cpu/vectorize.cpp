// The vectorize pass: a function of tile operations becomes one of loops and vectors over buffers on the stack.
//
// The body is written anew, operation by operation. Scalars are cloned; a tile gets a buffer when the assign-buffers
// pass asked for one, when it is a load, a product or a reduction, or when a loop carries it; every other tile is
// written out where it is used (evaluate.cpp).
#include "compiler/tile/lower_cpu/emitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tilewright::tile {

namespace arith = mlir::arith;
namespace scf = mlir::scf;
using mlir::failure;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;
using mlir::ValueRange;

LogicalResult Emitter::run() {
  mlir::Region old;
  old.takeBody(function_.getBody());
  mlir::Block* entry = function_.addEntryBlock();
  for (auto [before, after] : llvm::zip(old.front().getArguments(), entry->getArguments())) scalars_.map(before, after);
  builder_.setInsertionPointToEnd(entry);
  if (failed(emitBlock(old.front()))) return failure();
  mlir::func::ReturnOp::create(builder_, location_);
  buffers_.clear();
  old.front().dropAllReferences();
  if (stackBytes_ <= kMostStackBytes) return success();
  return function_.emitError() << "needs " << stackBytes_ << " bytes of stack for its tiles, at most "
                               << kMostStackBytes << " are allowed";
}

LogicalResult Emitter::emitBlock(mlir::Block& block) {
  for (mlir::Operation& operation : block.without_terminator()) {
    if (failed(emitOperation(operation))) return failure();
  }
  return success();
}

LogicalResult Emitter::emitOperation(mlir::Operation& operation) {
  location_ = operation.getLoc();
  if (auto loop = llvm::dyn_cast<scf::ForOp>(operation)) return emitFor(loop);
  if (auto load = llvm::dyn_cast<LoadOp>(operation)) {
    emitLoad(load);
  } else if (auto store = llvm::dyn_cast<StoreOp>(operation)) {
    emitStore(store);
  } else if (auto dot = llvm::dyn_cast<DotOp>(operation)) {
    emitDot(dot);
  } else if (auto reduce = llvm::dyn_cast<ReduceOp>(operation)) {
    emitReduce(reduce);
  } else if (auto unpack = llvm::dyn_cast<Unpack6Op>(operation)) {
    emitUnpack6(unpack);
  } else if (auto extract = llvm::dyn_cast<ExtractOp>(operation)) {
    const auto position = static_cast<std::int64_t>(extract.getPosition());
    scalars_.map(extract.getResult(), eval(extract.getSource(), index(0), index(position), 1));
  } else if (operation.getNumResults() == 1 && tileType(operation.getResult(0))) {
    if (operation.hasAttr(kBufferAttribute)) materialize(operation.getResult(0));
  } else {
    builder_.clone(operation, scalars_);
  }
  return success();
}

LogicalResult Emitter::emitFor(scf::ForOp old) {
  Values initial;
  llvm::SmallVector<TileBuffer> homes;  // one per carried value, empty for scalars
  for (auto [value, argument] : llvm::zip(old.getInitArgs(), old.getRegionIterArgs())) {
    homes.emplace_back();
    if (!tileType(value)) {
      initial.push_back(scalars_.lookupOrDefault(value));
      continue;
    }
    homes.back() = allocate(tileType(value));
    evalInto(value, homes.back());
    buffers_[argument] = homes.back();
  }

  auto loop = scf::ForOp::create(builder_, location_, scalars_.lookupOrDefault(old.getLowerBound()),
                                 scalars_.lookupOrDefault(old.getUpperBound()), scalars_.lookupOrDefault(old.getStep()),
                                 initial);
  scalars_.map(old.getInductionVar(), loop.getInductionVar());
  ValueRange carried = loop.getRegionIterArgs();
  for (const Value argument : old.getRegionIterArgs()) {
    if (tileType(argument)) continue;
    scalars_.map(argument, carried.front());
    carried = carried.drop_front();
  }
  {
    const mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(loop.getBody());
    if (failed(emitBlock(*old.getBody()))) return failure();

    // All next values exist, apart from the carried buffers, before the first of those is overwritten: the values may
    // be computed from each other's predecessors, or be one another's.
    Values next;
    llvm::SmallVector<std::pair<Value, TileBuffer>> copies;
    for (auto [value, home] : llvm::zip(old.getYieldedValues(), homes)) {
      if (!tileType(value)) {
        next.push_back(scalars_.lookupOrDefault(value));
        continue;
      }
      const TileBuffer buffer = materialize(value);
      if (buffer.base == home.base) continue;
      // Another carried value's home is about to be overwritten.
      if (llvm::any_of(homes, [&](const TileBuffer& other) { return other.base == buffer.base; })) {
        const TileBuffer apart = allocate(tileType(value));
        evalInto(value, apart);
        buffers_[value] = apart;
      }
      copies.emplace_back(value, home);
    }
    for (const auto& [value, buffer] : copies) evalInto(value, buffer);
    if (!initial.empty()) scf::YieldOp::create(builder_, location_, next);
  }
  ValueRange results = loop.getResults();
  for (auto [result, home] : llvm::zip(old.getResults(), homes)) {
    if (tileType(result)) {
      buffers_[result] = home;
    } else {
      scalars_.map(result, results.front());
      results = results.drop_front();
    }
  }
  return success();
}

void Emitter::emitReduce(ReduceOp reduce) {
  const mlir::RankedTensorType type = reduce.getSource().getType();
  const mlir::Type f32 = type.getElementType();
  const bool isMax = reduce.getKind() == ReduceKind::kMax;
  const TileBuffer buffer = allocate(reduce.getResult().getType());
  const auto combine = [&](Value sum, Value value) -> Value {
    if (!isMax) return arith::AddFOp::create(builder_, location_, sum, value);
    // The instruction's own rule, so that it is one instruction: a NaN in `value` loses.
    const Value greater = arith::CmpFOp::create(builder_, location_, arith::CmpFPredicate::OGT, value, sum);
    return arith::SelectOp::create(builder_, location_, greater, value, sum);
  };
  const auto start = [&](int width) {
    const float value = isMax ? -std::numeric_limits<float>::infinity() : 0.0f;
    return constant(builder_.getF32FloatAttr(value), width);
  };

  if (reduce.getAxis() == 0) {
    forEachChunkOfRow(columnsOf(type), index(0), [&](Value, Value column, int width) {
      const Values sum = loop(index(0), index(rowsOf(type)), 1, {start(width)}, [&](Value row, ValueRange carried) {
        return Values{combine(carried[0], eval(reduce.getSource(), row, column, width))};
      });
      storeVector(sum[0], address(buffer, f32, index(0), column));
    });
  } else {
    const auto acrossLanes = [&](Value vector) -> Value {
      if (!llvm::isa<mlir::VectorType>(vector.getType()) || !isMax) return sumOfLanes(vector);
      return mlir::vector::ReductionOp::create(builder_, location_, mlir::vector::CombiningKind::MAXNUMF, vector);
    };
    loop(index(0), index(rowsOf(type)), 1, [&](Value row) {
      const std::int64_t whole = columnsOf(type) / lanes() * lanes();
      Value total = start(1);
      if (whole > 0) {
        const Values sum =
            loop(index(0), index(whole), lanes(), {start(lanes())}, [&](Value column, ValueRange carried) {
              return Values{combine(carried[0], eval(reduce.getSource(), row, column, lanes()))};
            });
        total = acrossLanes(sum[0]);
      }
      for (const Chunk& chunk : chunksOf(whole, columnsOf(type), lanes())) {
        const Value part = combine(start(chunk.width), eval(reduce.getSource(), row, index(chunk.begin), chunk.width));
        total = combine(total, acrossLanes(part));
      }
      storeVector(total, address(buffer, f32, index(0), row));
    });
  }
  buffers_[reduce.getResult()] = buffer;
}

void Emitter::emitUnpack6(Unpack6Op unpack) {
  // Four fields at a time, in the bytes of a 32-bit word; the high halves combine nibbles with the top bits of word 0
  // or 1.
  const mlir::RankedTensorType type = unpack.getScales().getType();
  const mlir::Type i32 = builder_.getI32Type(), i8 = type.getElementType();
  const TileBuffer bytes = materialize(unpack.getSource());
  const TileBuffer scales = allocate(type), minimums = allocate(type);
  const auto number = [&](std::int64_t value) { return constant(builder_.getI32IntegerAttr(value), 1); };
  const auto masked = [&](Value word, std::int64_t shift, std::int64_t mask) -> Value {
    if (shift != 0) word = arith::ShRUIOp::create(builder_, location_, word, number(shift));
    return arith::AndIOp::create(builder_, location_, word, number(mask));
  };
  loop(index(0), index(rowsOf(type)), 1, [&](Value row) {
    const auto word = [&](int i) {
      const Value at = address(bytes, i8, row, index(4 * i));
      return Value(mlir::LLVM::LoadOp::create(builder_, location_, i32, at, /*alignment=*/1));
    };
    const auto write = [&](const TileBuffer& buffer, Value low, Value nibbles, Value top) {
      const Value shifted = arith::ShLIOp::create(builder_, location_, top, number(4));
      const Value high = arith::OrIOp::create(builder_, location_, nibbles, shifted);
      mlir::LLVM::StoreOp::create(builder_, location_, low, address(buffer, i8, row, index(0)), /*alignment=*/1);
      mlir::LLVM::StoreOp::create(builder_, location_, high, address(buffer, i8, row, index(4)), /*alignment=*/1);
    };
    const Value w0 = word(0), w1 = word(1), w2 = word(2);
    write(scales, masked(w0, 0, 0x3f3f3f3f), masked(w2, 0, 0x0f0f0f0f), masked(w0, 6, 0x03030303));
    write(minimums, masked(w1, 0, 0x3f3f3f3f), masked(w2, 4, 0x0f0f0f0f), masked(w1, 6, 0x03030303));
  });
  buffers_[unpack.getScales()] = scales;
  buffers_[unpack.getMinimums()] = minimums;
}

namespace {

struct VectorizePass : mlir::PassWrapper<VectorizePass, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VectorizePass)

  VectorizePass() = default;
  explicit VectorizePass(const CpuOptions& from) {
    vectorBytes = from.vectorBytes, microRows = from.microRows;
    microVectors = from.microVectors, unroll = from.unroll;
  }
  VectorizePass(const VectorizePass& other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const final { return "tile-cpu-vectorize"; }
  llvm::StringRef getDescription() const final { return "Turn tiles into buffers, loops and 1-D vectors"; }
  void getDependentDialects(mlir::DialectRegistry& registry) const final {
    registry.insert<arith::ArithDialect, mlir::LLVM::LLVMDialect, scf::SCFDialect, mlir::vector::VectorDialect>();
  }
  void runOnOperation() final {
    CpuOptions options;
    options.vectorBytes = vectorBytes, options.microRows = microRows;
    options.microVectors = microVectors, options.unroll = unroll;
    if (failed(Emitter(getOperation(), options).run())) signalPassFailure();
  }

  Option<int> vectorBytes{*this, "vector-bytes", llvm::cl::desc("Bytes of a vector register"), llvm::cl::init(64)};
  Option<int> microRows{*this, "micro-rows", llvm::cl::desc("Rows of the register micro-tile"), llvm::cl::init(8)};
  Option<int> microVectors{*this, "micro-vectors", llvm::cl::desc("Vectors in a row of it"), llvm::cl::init(2)};
  Option<int> unroll{*this, "unroll", llvm::cl::desc("Steps of k in one iteration"), llvm::cl::init(1)};
};

}  // namespace

std::unique_ptr<mlir::Pass> createVectorizePass(const CpuOptions& options) {
  return std::make_unique<VectorizePass>(options);
}

}  // namespace tilewright::tile
