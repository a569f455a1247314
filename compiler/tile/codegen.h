// From a lowered module to LLVM IR, assembly and object files for a level of x86-64.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compiler/tile/lower_cpu/options.h"
#include "compiler/tile/program.h"

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
}  // namespace llvm
namespace mlir {
class ModuleOp;
}

namespace tilewright::tile {

/// A level of x86-64 as LLVM names CPUs, with what the lowering must know of it.
struct HostTarget {
  std::string_view name;  ///< "x86-64-v4"
  int vectorBytes;
  bool hasF16c;
};

/// kUnsupported for anything but the three levels.
Result<HostTarget> hostTarget(std::string_view name);
/// Whether this CPU runs code made for the target.
bool runsHere(const HostTarget& target);

/// Registers LLVM's x86-64 backend, once.
void initializeBackend();

class HostCodegen {
 public:
  static Result<HostCodegen> create(const HostTarget& target);
  HostCodegen(HostCodegen&&) noexcept;
  ~HostCodegen();

  /// Translates a module in the LLVM dialect and optimizes it.
  Result<void> translate(mlir::ModuleOp module);
  std::string llvmIr() const;
  Result<std::string> assembly();
  Result<std::vector<std::byte>> object();

 private:
  HostCodegen();
  Result<void> emit(bool asAssembly, std::string& bytes);

  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::Module> module_;
};

/// Lowers a finished program and generates code; the target decides vectorBytes and hasF16c of the options.
Result<HostCodegen> generate(Program::Module& program, std::string_view target, CpuOptions options);

}  // namespace tilewright::tile
