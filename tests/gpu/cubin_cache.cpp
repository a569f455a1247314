#include "tests/gpu/cubin_cache.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/hash.h"
#include "format/json_fields.h"
#include "format/json_parse.h"

namespace tilewright::probe {
namespace {

JsonValue toJson(const Binary& binary) {
  JsonValue::Array kernels, warnings;
  for (const KernelResources& kernel : binary.kernels) {
    kernels.push_back(JsonValue::object({{"entry", kernel.entry},
                                         {"registers", kernel.registers},
                                         {"spill_bytes", kernel.spillBytes},
                                         {"stack_bytes", kernel.stackBytes},
                                         {"shared_bytes", kernel.sharedBytes}}));
  }
  for (const std::string& warning : binary.warnings) warnings.emplace_back(warning);
  return JsonValue::object({{"hash", binary.hash},
                            {"target", binary.target},
                            {"compiler", binary.compiler},
                            {"kernels", std::move(kernels)},
                            {"warnings", std::move(warnings)}});
}

Result<Binary> fromJson(const JsonValue& value, const std::string& path) {
  const JsonFields fields = TW_TRY(JsonFields::of(value, path));
  Binary binary;
  binary.hash = TW_TRY(fields.string("hash"));
  binary.target = TW_TRY(fields.string("target"));
  binary.compiler = TW_TRY(fields.string("compiler"));
  for (const JsonValue& each : *TW_TRY(fields.array("kernels"))) {
    const JsonFields kernel = TW_TRY(JsonFields::of(each, path + ".kernels"));
    binary.kernels.push_back({.entry = TW_TRY(kernel.string("entry")),
                              .registers = static_cast<int>(TW_TRY(kernel.integer("registers"))),
                              .spillBytes = static_cast<int>(TW_TRY(kernel.integer("spill_bytes"))),
                              .stackBytes = static_cast<int>(TW_TRY(kernel.integer("stack_bytes"))),
                              .sharedBytes = static_cast<int>(TW_TRY(kernel.integer("shared_bytes")))});
  }
  for (const JsonValue& each : *TW_TRY(fields.array("warnings"))) {
    if (const std::string* text = each.asString()) binary.warnings.push_back(*text);
  }
  return binary;
}

/// Writes beside the file first, under this process's own name, so that another process never reads half of it.
Result<void> writeFile(const std::filesystem::path& path, const char* data, std::size_t bytes) {
  const std::filesystem::path part = fmt::format("{}.{}", path.string(), ::getpid());
  std::ofstream stream(part, std::ios::binary);
  stream.write(data, static_cast<std::streamsize>(bytes));
  stream.close();
  std::error_code error;
  if (stream) std::filesystem::rename(part, path, error);
  if (!stream || error) return fail(ErrorCode::kIo, "cannot write {}", path.string());
  return {};
}

}  // namespace

Result<CubinCache> CubinCache::open(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return fail(ErrorCode::kIo, "cannot create {}: {}", directory.string(), error.message());
  CubinCache cache(directory);
  std::ifstream stream(directory / "compilers");
  for (std::string line; std::getline(stream, line);) cache.prefer(line);
  return cache;
}

void CubinCache::prefer(const std::string& compilerIdentity) {
  std::erase(compilers_, compilerIdentity);
  compilers_.insert(compilers_.begin(), compilerIdentity);
}

Result<std::optional<Binary>> CubinCache::find(const BuildRequest& request) const {
  for (const std::string& compiler : compilers_) {
    const std::string key = buildKey(request, compiler);
    const std::filesystem::path path = directory_ / (key + ".json");
    if (!std::filesystem::exists(path)) continue;
    Binary binary = TW_TRY(fromJson(TW_TRY(readJsonFile(path)), path.string()));
    binary.buildKey = key;
    std::ifstream stream(directory_ / (key + ".cubin"), std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(stream), {});
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    binary.bytes.assign(data, data + bytes.size());
    if (sha256Hex(binary.bytes) != binary.hash) {
      return fail(ErrorCode::kCorrupt, "{}.cubin in {} does not match its hash", key, directory_.string());
    }
    return binary;
  }
  return std::nullopt;
}

Result<void> CubinCache::store(const Binary& binary) {
  const std::filesystem::path stem = directory_ / binary.buildKey;
  TW_TRY(writeFile(stem.string() + ".cubin", reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()));
  const std::string text = toJson(binary).text() + "\n";
  TW_TRY(writeFile(stem.string() + ".json", text.data(), text.size()));
  if (!compilers_.empty() && compilers_.front() == binary.compiler &&
      std::filesystem::exists(directory_ / "compilers")) {
    return {};
  }
  prefer(binary.compiler);
  std::string names;
  for (auto name = compilers_.rbegin(); name != compilers_.rend(); ++name) names += *name + "\n";
  return writeFile(directory_ / "compilers", names.data(), names.size());
}

}  // namespace tilewright::probe
