#include "base/shared_library.h"

#include <dlfcn.h>

namespace tilewright {

Result<SharedLibrary> SharedLibrary::open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return fail(ErrorCode::kUnavailable, "cannot open {}: {}", name, reason == nullptr ? "unknown reason" : reason);
  }
  return SharedLibrary(handle, name);
}

void* SharedLibrary::find(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace tilewright
