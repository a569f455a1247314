#include "runtime/kernel_loader.h"

#include <algorithm>

#include "templates/template.h"

namespace tilewright {
namespace {

/// Everything of a request but the texts of its includes, which are the same all through a process: cheaper than its
/// key.
std::string slotName(const BuildRequest& request) {
  std::string name = fmt::format("{}|{}|{}|{}|", request.kind == SourceKind::kCuda ? "cuda" : "tile",
                                 request.templateId, request.target, describeParameters(request));
  for (const std::string& option : request.options) name += option + " ";
  for (const std::string& entry : request.entries) name += "|" + entry;
  return name + "|" + request.source;
}

std::string nameOf(const BuildRequest& request) {
  return fmt::format("{} {{{}}} for {}", request.templateId, describeParameters(request), request.target);
}

/// Whether a binary is what the request asks for and its template allows.
Result<void> check(const Template& kernelTemplate, const BuildRequest& request, const Binary& binary) {
  if (binary.target != request.target) {
    return fail(ErrorCode::kUnsupported, "{}: the binary is for {}", nameOf(request), binary.target);
  }
  for (const std::string& entry : request.entries) {
    if (std::ranges::find(binary.kernels, entry, &KernelResources::entry) == binary.kernels.end()) {
      return fail(ErrorCode::kUnsupported, "{}: the binary has no kernel {}", nameOf(request), entry);
    }
  }
  if (const auto refusal = refusesBinary(kernelTemplate, binary)) {
    return fail(ErrorCode::kUnsupported, "{}: refused by {}: {}", nameOf(request), refusal->constraint,
                refusal->reason);
  }
  return {};
}

}  // namespace

Result<std::pair<Binary, std::string>> KernelLoader::obtain(const Template& kernelTemplate, const BuildRequest& request,
                                                            std::vector<std::string>& warnings) const {
  const bool noDatabase = layers_.empty() && buildCache_ == nullptr;
  std::string missing = noDatabase ? "no database is open" : "no database has its binary";
  const std::string requestKey = noDatabase ? std::string() : buildKey(request, "");
  const auto accepts = [&](const Binary& binary, const Database& database) {
    const auto status = check(kernelTemplate, request, binary);
    if (status) return true;
    missing = fmt::format("{} (database {})", status.error().message, database.path().string());
    warnings.push_back("passed over a binary: " + missing);
    return false;
  };
  if (!layers_.empty()) {
    auto found = layers_.findByRequest(requestKey, warnings);
    if (found) {
      const Database& database = *layers_.databases()[found->layer];
      if (accepts(found->binary, database)) {
        return std::pair{std::move(found->binary), "database " + database.path().string()};
      }
    }
  }
  if (buildCache_ != nullptr) {
    auto found = buildCache_->findByRequest(requestKey);
    if (found && accepts(*found, *buildCache_)) {
      return std::pair{std::move(*found), "database " + buildCache_->path().string()};
    }
    if (!found && found.error().code != ErrorCode::kNotFound) {
      warnings.push_back(fmt::format("{}: passed over {}", buildCache_->path().string(), found.error().message));
    }
  }
  for (const Compiler* compiler : compilers_) {
    if (!compiler->handles(request.kind, request.target)) continue;
    Binary binary = TW_TRY(compiler->build(request));
    TW_TRY(check(kernelTemplate, request, binary));
    if (buildCache_ != nullptr) {
      const StoredBuild build{binary, requestKey, std::string(kernelTemplate.id()), {}};
      const auto kept = buildCache_->addBuilds({&build, 1});
      // The plan runs all the same; the next start compiles again.
      if (!kept) warnings.push_back("a binary was not kept: " + kept.error().message);
    }
    return std::pair{std::move(binary), "compiled by " + compiler->identity()};
  }
  std::string compilers =
      compilers_.empty() ? "there is no compiler" : "no compiler makes code of this kind for this target";
  if (compilers_.empty() && missingCompilers_.empty()) compilers += " (open libtilewright_jit)";
  for (const std::string& reason : missingCompilers_) compilers += fmt::format(" ({})", reason);
  return fail(ErrorCode::kUnsupported, "cannot run {}: {}, and {}", nameOf(request), missing, compilers);
}

Result<const KernelLoader::Loaded*> KernelLoader::loadRequest(const Template& kernelTemplate,
                                                              const BuildRequest& request,
                                                              std::vector<std::string>& warnings) {
  const std::string name = slotName(request);
  Slot* slot = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    slot = &slots_[name];
  }
  // Whoever comes second waits for the first; a failure is not kept, so that it may be tried again.
  const std::scoped_lock lock(slot->mutex);
  if (slot->loaded != nullptr) return slot->loaded.get();
  auto [binary, origin] = TW_TRY(obtain(kernelTemplate, request, warnings));
  auto loaded = std::make_unique<Loaded>();
  loaded->binary = TW_TRY(device_.load(binary));
  for (const std::string& entry : request.entries) {
    loaded->handles.push_back(TW_TRY(device_.find(*loaded->binary, entry)));
  }
  loaded->origin = std::move(origin);
  slot->loaded = std::move(loaded);
  return slot->loaded.get();
}

Result<LoadedKernels> KernelLoader::load(const Candidate& candidate, std::vector<std::string>& warnings) {
  LoadedKernels kernels;
  const Template& kernelTemplate = *candidate.kernelTemplate;
  for (const BuildRequest& request :
       kernelTemplate.buildRequests(candidate.problem, device_.info(), candidate.configuration, sources_)) {
    const Loaded* loaded = TW_TRY(loadRequest(kernelTemplate, request, warnings));
    kernels.handles.insert(kernels.handles.end(), loaded->handles.begin(), loaded->handles.end());
    kernels.binaries.push_back(loaded->binary);
    kernels.origins.push_back(loaded->origin);
  }
  return kernels;
}

}  // namespace tilewright
