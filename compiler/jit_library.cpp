// libtilewright_jit's one function: hands the compilers over to libtilewright.
#include <algorithm>
#include <new>

#include "compiler/code_generators.h"
#include "tilewright/tilewright.h"

extern "C" TW_API tw_status tw_jit_open(tw_jit** jit) {
  if (jit == nullptr) return TW_INVALID_ARGUMENT;
  try {
    auto handle = std::make_unique<tw_jit>();
    std::ranges::copy(tilewright::kCodeGeneratorsVersion, handle->version.begin());
    handle->bytes = sizeof(tilewright::CodeGenerators);
    handle->close = [](tw_jit* closed) { delete closed; };
    handle->generators = tilewright::openCodeGenerators();
    *jit = handle.release();
    return TW_OK;
  } catch (const std::bad_alloc&) {
    return TW_OUT_OF_MEMORY;
  } catch (...) {
    return TW_INTERNAL;
  }
}
