#include "compiler/nvrtc/nvrtc_library.h"

#include <algorithm>
#include <array>

namespace tilewright {
namespace {

namespace fs = std::filesystem;

// Newest first; both speak the same interface.
constexpr std::array<const char*, 3> kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

/// The folders below a toolkit or a Python environment in which NVIDIA's packages put the library.
void addFoldersBelow(const fs::path& root, std::vector<fs::path>& folders) {
  for (const char* below : {"", "lib64", "lib", "targets/x86_64-linux/lib"}) folders.push_back(root / below);

  const auto addWheels = [&](const fs::path& packages) {
    for (const char* below : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) folders.push_back(packages / below);
  };
  addWheels(root / "lib/python3/dist-packages");
  std::error_code error;
  std::vector<fs::path> pythons;
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "lib", error)) {
    if (entry.path().filename().string().starts_with("python3.")) pythons.push_back(entry.path());
  }
  std::ranges::sort(pythons, std::greater{});
  for (const fs::path& python : pythons) addWheels(python / "site-packages"), addWheels(python / "dist-packages");
}

/// What to hand to the loader, in order: whole paths that exist, and bare names for the loader's own path.
std::vector<std::string> candidates(const NvrtcOptions& options) {
  if (!options.library.empty()) return {options.library.string()};
  std::vector<std::string> names;
  const auto addExisting = [&](const fs::path& root) {
    std::vector<fs::path> folders;
    addFoldersBelow(root, folders);
    for (const fs::path& folder : folders) {
      for (const char* name : kNames) {
        std::error_code error;
        if (fs::exists(folder / name, error)) names.push_back((folder / name).string());
      }
    }
  };
  for (const fs::path& directory : options.directories) {
    if (!directory.empty()) addExisting(directory);
  }
  names.insert(names.end(), kNames.begin(), kNames.end());
  for (const char* root : {"/usr/local/cuda", "/opt/cuda", "/usr", "/usr/local"}) addExisting(root);
  return names;
}

Result<NvrtcLibrary> bindAll(SharedLibrary library) {
  NvrtcLibrary api{.library = std::move(library)};
  const SharedLibrary& from = api.library;
  TW_TRY(from.bind(api.version, "nvrtcVersion"));
  TW_TRY(from.bind(api.supportedArchitectureCount, "nvrtcGetNumSupportedArchs"));
  TW_TRY(from.bind(api.supportedArchitectures, "nvrtcGetSupportedArchs"));
  TW_TRY(from.bind(api.createProgram, "nvrtcCreateProgram"));
  TW_TRY(from.bind(api.compileProgram, "nvrtcCompileProgram"));
  TW_TRY(from.bind(api.destroyProgram, "nvrtcDestroyProgram"));
  TW_TRY(from.bind(api.logSize, "nvrtcGetProgramLogSize"));
  TW_TRY(from.bind(api.log, "nvrtcGetProgramLog"));
  TW_TRY(from.bind(api.cubinSize, "nvrtcGetCUBINSize"));
  TW_TRY(from.bind(api.cubin, "nvrtcGetCUBIN"));
  TW_TRY(from.bind(api.ptxSize, "nvrtcGetPTXSize"));
  TW_TRY(from.bind(api.ptx, "nvrtcGetPTX"));
  TW_TRY(from.bind(api.errorString, "nvrtcGetErrorString"));
  return api;
}

}  // namespace

Result<NvrtcLibrary> NvrtcLibrary::open(const NvrtcOptions& options) {
  std::string tried;
  for (const std::string& name : candidates(options)) {
    Result<SharedLibrary> library = SharedLibrary::open(name);
    Result<NvrtcLibrary> api = library ? bindAll(std::move(*library)) : std::unexpected(library.error());
    if (api) return api;
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", api.error().message);
  }
  return fail(ErrorCode::kUnavailable, "cannot find NVRTC (CUDA 12 or 13): {}", tried);
}

}  // namespace tilewright
