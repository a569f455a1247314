#include "base/build_request.h"

#include <array>
#include <numeric>

#include "base/hash.h"

namespace tilewright {

std::string buildKey(const BuildRequest& request, std::string_view compilerIdentity) {
  Sha256 hash;
  hash.field(compilerIdentity);
  hash.field(request.kind == SourceKind::kCuda ? "cuda" : "tile");
  hash.field(request.templateId);
  hash.field(request.source);
  hash.field(fmt::format("{}", request.includes.size()));
  for (const SourceFile& file : request.includes) hash.field(file.name), hash.field(file.text);
  hash.field(fmt::format("{}", request.parameters.size()));
  for (const auto& [name, value] : request.parameters) hash.field(name), hash.field(value);
  hash.field(fmt::format("{}", request.options.size()));
  for (const std::string& option : request.options) hash.field(option);
  hash.field(request.target);
  for (const std::string& entry : request.entries) hash.field(entry);
  return hash.hexDigest();
}

std::string describeParameters(const BuildRequest& request) {
  std::string text;
  for (const auto& [name, value] : request.parameters) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

bool Binary::wgmmaSerialized() const {
  static constexpr std::array<std::string_view, 3> kSigns = {"wgmma", "C75", "serializ"};
  for (const std::string& warning : warnings) {
    for (const std::string_view sign : kSigns) {
      if (warning.find(sign) != std::string::npos) return true;
    }
  }
  return false;
}

int Binary::spillBytes() const {
  return std::accumulate(kernels.begin(), kernels.end(), 0,
                         [](int sum, const KernelResources& kernel) { return sum + kernel.spillBytes; });
}

}  // namespace tilewright
