#include "compiler/tile/compile_program.h"

#include "compiler/tile/codegen.h"
#include "compiler/tile/lower_cpu/passes.h"
#include "compiler/tile/program_module.h"
#include "mlir/Pass/PassManager.h"

namespace tilewright::tile {

Result<HostCodegen> generate(Program::Module& program, std::string_view targetName, CpuOptions options) {
  const HostTarget target = TW_TRY(hostTarget(targetName));
  options.vectorBytes = target.vectorBytes, options.hasF16c = target.hasF16c;

  const DiagnosticLog log(*program.context);
  mlir::PassManager manager(program.context.get());
  manager.enableVerifier(false);
  buildCpuPipeline(manager, options);
  if (failed(manager.run(*program.module))) {
    return std::unexpected(Error{ErrorCode::kCompile, "the tile program cannot be lowered to the CPU", log.text()});
  }
  auto codegen = TW_TRY(HostCodegen::create(target));
  TW_TRY(codegen.translate(*program.module));
  return codegen;
}

Result<std::vector<std::byte>> compileProgram(Program& program, std::string_view target, const CpuOptions& options) {
  const auto module = TW_TRY(program.finish());
  auto codegen = TW_TRY(generate(*module, target, options));
  return codegen.object();
}

}  // namespace tilewright::tile
