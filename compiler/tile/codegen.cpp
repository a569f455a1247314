// LLVM's optimizer and code generator for one level of x86-64.
#include "compiler/tile/codegen.h"

#include <mutex>

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

namespace tilewright::tile {

namespace {

constexpr HostTarget kTargets[] = {
    {.name = "x86-64", .vectorBytes = 16, .hasF16c = false},
    {.name = "x86-64-v3", .vectorBytes = 32, .hasF16c = true},
    {.name = "x86-64-v4", .vectorBytes = 64, .hasF16c = true},
};

/// Lets products be fused into sums, and whole vectors be used on CPUs that LLVM would rather give half of one.
void annotate(llvm::Module& module, const llvm::TargetMachine& machine) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    for (llvm::BasicBlock& block : function) {
      for (llvm::Instruction& instruction : block) {
        if (llvm::isa<llvm::FPMathOperator>(instruction)) instruction.setHasAllowContract(true);
      }
    }
  }
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  // The vectors are already there.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

}  // namespace

void initializeBackend() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
}

Result<HostTarget> hostTarget(std::string_view name) {
  for (const HostTarget& target : kTargets) {
    if (target.name == name) return target;
  }
  return fail(ErrorCode::kUnsupported,
              "the tile compiler makes no code for target '{}', only for x86-64, x86-64-v3 and x86-64-v4", name);
}

bool runsHere(const HostTarget& target) {
  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  const auto has = [&](llvm::StringRef feature) { return features.lookup(feature); };
  if (target.vectorBytes >= 32 && !(has("avx2") && has("fma") && has("f16c") && has("bmi2"))) return false;
  return target.vectorBytes < 64 ||
         (has("avx512f") && has("avx512bw") && has("avx512cd") && has("avx512dq") && has("avx512vl"));
}

HostCodegen::HostCodegen() = default;
HostCodegen::HostCodegen(HostCodegen&&) noexcept = default;
HostCodegen::~HostCodegen() = default;

Result<HostCodegen> HostCodegen::create(const HostTarget& target) {
  initializeBackend();
  HostCodegen codegen;
  std::string error;
  const llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (backend == nullptr) return fail(ErrorCode::kUnsupported, "LLVM has no code generator for x86-64: {}", error);
  codegen.machine_.reset(backend->createTargetMachine(triple, llvm::StringRef(target.name), "", {}, llvm::Reloc::PIC_,
                                                      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  codegen.context_ = std::make_unique<llvm::LLVMContext>();
  return codegen;
}

Result<void> HostCodegen::translate(mlir::ModuleOp module) {
  mlir::registerBuiltinDialectTranslation(*module.getContext());
  mlir::registerLLVMDialectTranslation(*module.getContext());
  module_ = mlir::translateModuleToLLVMIR(module, *context_);
  if (!module_) return fail(ErrorCode::kInternal, "cannot translate a lowered tile program to LLVM IR");
  module_->setDataLayout(machine_->createDataLayout());
  module_->setTargetTriple(machine_->getTargetTriple());
  annotate(*module_, *machine_);
  optimize(*module_, *machine_);
  return {};
}

std::string HostCodegen::llvmIr() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module_->print(stream, nullptr);
  return text;
}

Result<void> HostCodegen::emit(bool asAssembly, std::string& bytes) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  const auto type = asAssembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine_->addPassesToEmitFile(passes, stream, nullptr, type)) {
    return fail(ErrorCode::kInternal, "LLVM cannot emit code for x86-64");
  }
  passes.run(*module_);
  bytes.assign(buffer.begin(), buffer.end());
  return {};
}

Result<std::string> HostCodegen::assembly() {
  std::string text;
  TW_TRY(emit(true, text));
  return text;
}

Result<std::vector<std::byte>> HostCodegen::object() {
  std::string text;
  TW_TRY(emit(false, text));
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return std::vector<std::byte>(begin, begin + text.size());
}

}  // namespace tilewright::tile
