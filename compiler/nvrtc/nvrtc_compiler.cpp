#include "compiler/nvrtc/nvrtc_compiler.h"

#include <algorithm>
#include <array>

#include "base/device_info.h"
#include "base/hash.h"
#include "compiler/nvrtc/build_log.h"

namespace tilewright {
namespace {

// Beyond the target:
//   -default-device      helpers need no __device__, so constexpr functions are written once
//   --no-source-include  nothing is read from disk: the request, and with it the key, holds every source
//   -v                   the log reports registers, spills, stack and shared memory
constexpr std::array<const char*, 4> kOptions = {"--std=c++20", "-default-device", "--no-source-include",
                                                 "--ptxas-options=-v"};

// Newer libraries keep what they compiled in the driver's cache, and what comes from there has no log.
constexpr const char* kNoCache = "--no-cache";

// Options that would make the target or the sources differ from what the request says.
constexpr std::array<std::string_view, 8> kRefusedOptions = {"-arch",    "--gpu-architecture", "-I",   "--include-path",
                                                             "-include", "--pre-include",      "-std", "--std"};

/// One nvrtcProgram.
class Program {
 public:
  static Result<Program> create(const NvrtcLibrary& api, const BuildRequest& request);
  Program(Program&& other) noexcept : api_(other.api_), program_(std::exchange(other.program_, nullptr)) {}
  Program& operator=(Program&&) = delete;
  ~Program() {
    if (program_ != nullptr) api_.destroyProgram(&program_);
  }

  NvrtcLibrary::Code compile(const std::vector<std::string>& options) const {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return api_.compileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string log() const { return text(api_.logSize, api_.log); }
  std::string ptx() const { return text(api_.ptxSize, api_.ptx); }
  std::vector<std::byte> cubin() const {
    std::size_t bytes = 0;
    if (api_.cubinSize(program_, &bytes) != NvrtcLibrary::kSuccess) return {};
    std::vector<std::byte> cubin(bytes);
    if (api_.cubin(program_, reinterpret_cast<char*>(cubin.data())) != NvrtcLibrary::kSuccess) return {};
    return cubin;
  }

 private:
  Program(const NvrtcLibrary& api, NvrtcLibrary::Program program) : api_(api), program_(program) {}

  std::string text(decltype(NvrtcLibrary::logSize) size, decltype(NvrtcLibrary::log) get) const {
    std::size_t bytes = 0;
    if (size(program_, &bytes) != NvrtcLibrary::kSuccess || bytes == 0) return {};
    std::string text(bytes, '\0');
    if (get(program_, text.data()) != NvrtcLibrary::kSuccess) return {};
    text.resize(text.find('\0') == std::string::npos ? bytes : text.find('\0'));
    return text;
  }

  const NvrtcLibrary& api_;
  NvrtcLibrary::Program program_;
};

Result<Program> Program::create(const NvrtcLibrary& api, const BuildRequest& request) {
  std::vector<const char*> texts, names;
  for (const SourceFile& file : request.includes) {
    texts.push_back(file.text.c_str());
    names.push_back(file.name.c_str());
  }
  const std::string name = (request.templateId.empty() ? "kernel" : request.templateId) + ".cu";
  NvrtcLibrary::Program program = nullptr;
  const NvrtcLibrary::Code code = api.createProgram(&program, request.source.c_str(), name.c_str(),
                                                    static_cast<int>(texts.size()), texts.data(), names.data());
  if (code != NvrtcLibrary::kSuccess) {
    return fail(ErrorCode::kInternal, "cannot create a program for {}: {}", name, api.errorString(code));
  }
  return Program(api, program);
}

std::string describe(const BuildRequest& request) {
  return fmt::format("{} {{{}}} for {}", request.templateId, describeParameters(request), request.target);
}

/// "kernel.cu(8): error: identifier ... is undefined": the first line of a log that names an error.
std::string_view firstError(std::string_view log) {
  for (const std::string_view sign : {"error", "fatal"}) {
    const std::size_t at = log.find(sign);
    if (at == std::string_view::npos) continue;
    const std::size_t begin = log.rfind('\n', at) == std::string_view::npos ? 0 : log.rfind('\n', at) + 1;
    return log.substr(begin, log.find('\n', at) - begin);
  }
  return "no message";
}

/// The request's entries in order, out of what the log reports.
Result<std::vector<KernelResources>> entriesOf(const BuildRequest& request, std::vector<KernelResources> reported) {
  if (request.entries.empty()) return reported;
  std::vector<KernelResources> kernels;
  for (const std::string& entry : request.entries) {
    const auto found = std::ranges::find(reported, entry, &KernelResources::entry);
    if (found == reported.end()) {
      std::string names;
      for (const KernelResources& kernel : reported) names += (names.empty() ? "" : ", ") + kernel.entry;
      return fail(ErrorCode::kCompile, "cannot build {}: the source has no kernel '{}' (it has: {})", describe(request),
                  entry, names.empty() ? "none" : names);
    }
    kernels.push_back(*found);
  }
  return kernels;
}

/// Compiles, or fails with the log.
Result<void> compile(const NvrtcLibrary& api, const Program& program, const BuildRequest& request,
                     const std::vector<std::string>& options) {
  const NvrtcLibrary::Code code = program.compile(options);
  if (code == NvrtcLibrary::kSuccess) return {};
  Error error{ErrorCode::kCompile, {}, program.log()};
  if (code == NvrtcLibrary::kInvalidOption) error.code = ErrorCode::kInvalidArgument;
  error.message = fmt::format("cannot build {}: {}", describe(request),
                              error.log.empty() ? std::string_view(api.errorString(code)) : firstError(error.log));
  return std::unexpected(std::move(error));
}

}  // namespace

Result<std::unique_ptr<NvrtcCompiler>> NvrtcCompiler::open(const NvrtcOptions& options) {
  NvrtcLibrary library = TW_TRY(NvrtcLibrary::open(options));
  std::unique_ptr<NvrtcCompiler> compiler(new NvrtcCompiler(std::move(library)));
  TW_TRY(compiler->readVersion());
  return compiler;
}

Result<void> NvrtcCompiler::readVersion() {
  int major = 0, minor = 0, count = 0;
  library_.version(&major, &minor);
  library_.supportedArchitectureCount(&count);
  capabilities_.resize(static_cast<std::size_t>(std::max(count, 0)));
  if (capabilities_.empty()) return fail(ErrorCode::kUnavailable, "{} compiles for no GPU", library_.library.name());
  library_.supportedArchitectures(capabilities_.data());
  std::ranges::sort(capabilities_);

  // NOTE: nvrtcVersion has no build number, yet builds of one release generate different code. Any PTX names it:
  // "// Cuda compilation tools, release 13.0, V13.0.88".
  const BuildRequest empty{.templateId = "version"};
  const Program program = TW_TRY(Program::create(library_, empty));
  TW_TRY(compile(library_, program, empty, {fmt::format("--gpu-architecture=compute_{}", capabilities_.back())}));
  const std::string ptx = program.ptx();
  const std::size_t at = ptx.find(", V");
  const std::string full = at == std::string::npos ? "" : ptx.substr(at + 3, ptx.find('\n', at) - at - 3);
  identity_ = fmt::format("nvrtc {}", full.empty() ? fmt::format("{}.{}", major, minor) : full);

  commonOptions_.assign(kOptions.begin(), kOptions.end());
  const Program again = TW_TRY(Program::create(library_, empty));
  if (again.compile({kNoCache}) == NvrtcLibrary::kSuccess) commonOptions_.emplace_back(kNoCache);
  return {};
}

/// Checks a request's target and options, then gives the option list for `architecture` ("sm_90a", "compute_90a").
Result<std::vector<std::string>> NvrtcCompiler::optionsFor(const BuildRequest& request,
                                                           std::string_view architecture) const {
  const int capability = TW_TRY(computeCapabilityOf(request.target));
  if (std::ranges::find(capabilities_, capability) == capabilities_.end()) {
    return fail(ErrorCode::kUnsupported, "cannot build {}: {} compiles for sm_{}", describe(request), identity_,
                fmt::join(capabilities_, ", sm_"));
  }
  for (const std::string& option : request.options) {
    for (const std::string_view refused : kRefusedOptions) {
      if (!option.starts_with(refused)) continue;
      return fail(
          ErrorCode::kInvalidArgument,
          "cannot build {}: option '{}' would change the target, the language or the sources, which the request "
          "itself states",
          describe(request), option);
    }
  }
  std::vector<std::string> options{fmt::format("--gpu-architecture={}", architecture)};
  options.insert(options.end(), commonOptions_.begin(), commonOptions_.end());
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

bool NvrtcCompiler::handles(SourceKind kind, std::string_view target) const {
  return kind == SourceKind::kCuda && computeCapabilityOf(target).has_value();
}

Result<Binary> NvrtcCompiler::build(const BuildRequest& request) const {
  const std::vector<std::string> options = TW_TRY(optionsFor(request, request.target));
  const Program program = TW_TRY(Program::create(library_, request));
  TW_TRY(compile(library_, program, request, options));

  Binary binary;
  binary.log = program.log();
  BuildLog log = parseBuildLog(binary.log);
  Result<std::vector<KernelResources>> kernels = entriesOf(request, std::move(log.kernels));
  if (!kernels) {
    kernels.error().log = std::move(binary.log);
    return std::unexpected(std::move(kernels).error());
  }
  binary.kernels = std::move(*kernels);
  binary.warnings = std::move(log.warnings);
  binary.bytes = program.cubin();
  if (binary.bytes.empty()) return fail(ErrorCode::kInternal, "NVRTC made no cubin for {}", describe(request));
  binary.hash = sha256Hex(binary.bytes);
  binary.buildKey = buildKey(request, identity_);
  binary.target = request.target;
  binary.compiler = identity_;
  return binary;
}

Result<std::string> NvrtcCompiler::emitPtx(const BuildRequest& request) const {
  const std::string architecture = fmt::format(
      "compute_{}", std::string_view(request.target).substr(std::min<std::size_t>(3, request.target.size())));
  const std::vector<std::string> options = TW_TRY(optionsFor(request, architecture));
  const Program program = TW_TRY(Program::create(library_, request));
  TW_TRY(compile(library_, program, request, options));
  return program.ptx();
}

}  // namespace tilewright
