// A shared library opened at run time, so that a program that could use a driver or a compiler starts without one.
#pragma once

#include <string>

#include "base/result.h"

namespace tilewright {

class SharedLibrary {
 public:
  /// Opens a file, or a bare name through the loader's search path. kUnavailable with the loader's words. The library
  /// stays mapped until the process ends: those opened here keep threads and thread-local destructors of their own.
  static Result<SharedLibrary> open(const std::string& name);

  const std::string& name() const { return name_; }

  /// Sets `function` to a symbol, whose type the caller vouches for; kUnavailable if the library has none of this name.
  template <typename Function>
  Result<void> bind(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(find(symbol));
    if (function == nullptr) return fail(ErrorCode::kUnavailable, "{} has no function {}", name_, symbol);
    return {};
  }

  /// The address of a symbol, or null.
  void* find(const char* symbol) const;

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}

  void* handle_;
  std::string name_;
};

}  // namespace tilewright
