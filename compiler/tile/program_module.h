// What a finished tile program is to the compiler: an MLIR module and the context that owns it.
#pragma once

#include <string>

#include "compiler/tile/program.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace tilewright::tile {

struct Program::Module {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// A context, without threads of its own, with the dialects that tile programs and their lowering use.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// Collects the diagnostics that MLIR emits while it lives, one a line.
class DiagnosticLog {
 public:
  explicit DiagnosticLog(mlir::MLIRContext& context);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace tilewright::tile
