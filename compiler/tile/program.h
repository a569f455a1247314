// The language that tile programs are written in: C++ values that stand for scalars and tiles, and a Program that
// records what is done with them as operations of the tile dialect. No MLIR header is needed to write one.
//
//   Value m0 = p.programId(0) * tileM;                             // index arithmetic is 64 bits wide
//   Value x = p.load(Element::kBf16, {tileM, tileK}, {xs, {m0, k0}, {m, k}, {xStride, 1}});
//   acc = p.dotTransposed(x, w, acc);
//
// Rules between types (shapes that agree, element types of an operation) are the dialect's verifiers': a program that
// breaks one is refused when it is compiled, with the rule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tilewright::tile {

class Program;

enum class Element : std::uint8_t { kI8, kI32, kF16, kBf16, kF32 };

/// Extents of a tile of rank 1 or 2.
using Shape = std::vector<std::int64_t>;

/// A scalar (an index, an f32, a pointer), a tile, or an integer literal that becomes an index where it meets one.
class Value {
 public:
  Value() = default;
  Value(std::int64_t literal) : literal_(literal) {}  // NOLINT: literals are meant to convert
  Value(int literal) : literal_(literal) {}           // NOLINT

 private:
  friend class Program;
  friend Value operator+(Value a, Value b);
  friend Value operator-(Value a, Value b);
  friend Value operator*(Value a, Value b);
  friend Value operator/(Value a, Value b);
  friend Value operator<(Value a, Value b);
  friend Value operator==(Value a, Value b);
  friend Value minimum(Value a, Value b);
  friend Value maximum(Value a, Value b);
  Value(Program* program, void* handle) : program_(program), handle_(handle) {}

  Program* program_ = nullptr;
  void* handle_ = nullptr;  ///< an mlir::Value
  std::int64_t literal_ = 0;
};

// Both operands have the same type: indices, f32, or tiles of i32 or f32. Division of indices rounds down (they are not
// negative); `<` and `==` give conditions for `Program::select`; a comparison with NaN is false.
Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator<(Value a, Value b);
Value operator==(Value a, Value b);
Value minimum(Value a, Value b);
Value maximum(Value a, Value b);

/// A masked block of memory; one entry per dimension of its tile, in elements. See tile.load.
struct Block {
  Value base;
  std::vector<Value> offsets, bounds, strides;
};

class Program {
 public:
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  using LoopBody = std::function<std::vector<Value>(Value index, std::span<const Value> carried)>;

  /// An empty program named `entry`; `parameters` is the configuration that it is built for.
  Program(std::string_view entry, const Parameters& parameters);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// A parameter of the configuration. One that is missing, no integer or out of range makes `finish` fail.
  std::int64_t parameter(std::string_view name, std::int64_t least, std::int64_t most);

  // Arguments, in the order of the kernel's parameters.
  Value pointerArgument();
  Value indexArgument();
  Value floatArgument();

  Value programId(int axis);
  Value scalar(float value);
  Value select(Value condition, Value a, Value b);
  /// The index as an i32 scalar; it must fit.
  Value toI32(Value index);
  /// The i32 scalar as an index, sign-extended.
  Value toIndex(Value scalar);
  /// `base` advanced by `elements` of the given type.
  Value advance(Value base, Element element, Value elements);

  Value load(Element element, const Shape& shape, const Block& block);
  void store(Value tile, const Block& block);
  Value full(const Shape& shape, float value);
  Value splat(const Shape& shape, Value scalar);
  Value iota(const Shape& shape, int axis);
  /// a[m, k] . b[k, n] + acc[m, n]
  Value dot(Value a, Value b, Value acc);
  /// a[m, k] . b[n, k]^T + acc[m, n]
  Value dotTransposed(Value a, Value b, Value acc);
  /// Combines each row of an f32 tile [m, n] into [m].
  Value sumOfRows(Value tile);
  Value maximumOfRows(Value tile);
  /// [m] to [m, columns].
  Value broadcastColumns(Value tile, std::int64_t columns);
  /// [n] to [rows, n].
  Value broadcastRows(Value tile, std::int64_t rows);
  /// [m, g] to [m, columns], each element columns / g times.
  Value repeatColumns(Value tile, std::int64_t columns);
  Value convert(Value tile, Element element);
  Value convertUnsigned(Value tile, Element element);
  Value unpack4(Value bytes, std::int64_t group);
  /// The eight scales and eight minimums of Q4_K's 12 bytes per row.
  std::pair<Value, Value> unpack6(Value bytes);
  Value extract(Value tile, std::int64_t position);
  Value exp(Value tile);
  Value log(Value tile);

  /// Runs the body for index = begin, begin + step, ... below end; it gives the carried values of the next iteration.
  std::vector<Value> loop(Value begin, Value end, Value step, const std::vector<Value>& initial, const LoopBody& body);

  struct Module;  ///< the MLIR module, for the compiler (compiler/tile/program_module.h)
  /// The finished module; kCompile with a verifier's words, or kInvalidArgument for a parameter.
  Result<std::unique_ptr<Module>> finish();

 private:
  friend Value operator+(Value a, Value b);
  friend Value operator-(Value a, Value b);
  friend Value operator*(Value a, Value b);
  friend Value operator/(Value a, Value b);
  friend Value operator<(Value a, Value b);
  friend Value operator==(Value a, Value b);
  friend Value minimum(Value a, Value b);
  friend Value maximum(Value a, Value b);
  struct State;
  enum class Arithmetic : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kLess, kEqual, kMinimum, kMaximum };

  static Value arithmetic(Arithmetic kind, Value a, Value b);
  Value reduceRows(Value tile, bool maximum);

  std::unique_ptr<State> state_;
};

}  // namespace tilewright::tile
