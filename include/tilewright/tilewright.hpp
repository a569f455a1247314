// Tilewright for C++23: owners and results over the C interface, whose comments (tilewright.h) state the contracts.
//
//   const std::array paths = {"h200.twdb"};
//   auto databases = tw::Databases::open(paths);
//   auto runtime = tw::Runtime::open({.device = "cuda:0", .databases = &*databases});
//   auto plan = runtime->bind({.operation = TW_Q4K_LINEAR, .m = 512, .n = 14336, .k = 4096});
//   auto status = plan->launch(operands, buffers, stream);
//   if (!status) std::puts(status.error().message.c_str());
#pragma once

#include <tilewright/tilewright.h>

#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tw {

struct Error {
  tw_status status = TW_INTERNAL;
  std::string message;
  std::string log;  ///< a compiler's output, or empty

  /// Of the calling thread's call that has just failed.
  static Error last(tw_status status) { return {status, tw_error_message(), tw_error_log()}; }
};

template <typename T>
using Result = std::expected<T, Error>;

namespace detail {

inline Result<void> toResult(tw_status status) {
  if (status != TW_OK) return std::unexpected(Error::last(status));
  return {};
}

template <auto kClose>
struct Closer {
  template <typename Handle>
  void operator()(Handle* handle) const {
    kClose(handle);
  }
};

}  // namespace detail

class Databases {
 public:
  static Result<Databases> open(std::span<const char* const> paths) {
    tw_databases* handle = nullptr;
    if (const auto status = tw_databases_open(paths.data(), paths.size(), &handle)) {
      return std::unexpected(Error::last(status));
    }
    return Databases(handle);
  }
  const tw_databases* get() const { return handle_.get(); }

 private:
  explicit Databases(tw_databases* handle) : handle_(handle) {}
  std::unique_ptr<tw_databases, detail::Closer<tw_databases_close>> handle_;
};

/// The compilers. `tw_jit_open` lies in libtilewright_jit: link it, or pass the function that dlsym found.
class Jit {
 public:
  static Result<Jit> open(tw_status (*open)(tw_jit**)) {
    tw_jit* handle = nullptr;
    if (const auto status = open(&handle)) return std::unexpected(Error{status, "cannot open libtilewright_jit", {}});
    return Jit(handle);
  }
  const tw_jit* get() const { return handle_.get(); }

 private:
  explicit Jit(tw_jit* handle) : handle_(handle) {}
  std::unique_ptr<tw_jit, detail::Closer<tw_jit_close>> handle_;
};

/// A view of a runtime's plan: small, copyable, valid as long as its runtime.
class Plan {
 public:
  explicit Plan(const tw_plan* handle) : handle_(handle) {}
  const tw_plan* get() const { return handle_; }

  tw_plan_info info() const {
    tw_plan_info info{.struct_bytes = sizeof(tw_plan_info)};
    tw_describe(handle_, &info);
    return info;
  }
  std::int64_t workspaceBytes() const { return tw_workspace_bytes(handle_); }
  std::string_view preparedFormat() const { return tw_prepared_format(handle_); }
  std::int64_t preparedBytes() const { return tw_prepared_bytes(handle_); }
  std::string_view activationFormat() const { return tw_activation_format(handle_); }
  std::int64_t activationBytes() const { return tw_activation_bytes(handle_); }

  Result<void> launch(const tw_linear_operands& operands, const tw_buffers& buffers, void* stream = nullptr) const {
    return detail::toResult(tw_launch_linear(handle_, &operands, &buffers, stream));
  }
  Result<void> launch(const tw_attention_operands& operands, const tw_buffers& buffers, void* stream = nullptr) const {
    return detail::toResult(tw_launch_attention(handle_, &operands, &buffers, stream));
  }
  Result<void> prepareWeights(const void* w, void* prepared, std::int64_t bytes, void* stream = nullptr) const {
    return detail::toResult(tw_prepare_weights(handle_, w, prepared, bytes, stream));
  }
  Result<void> quantizeActivations(const void* x, std::int64_t xStride, void* activations, std::int64_t bytes,
                                   void* stream = nullptr) const {
    return detail::toResult(tw_quantize_activations(handle_, x, xStride, activations, bytes, stream));
  }

 private:
  const tw_plan* handle_;
};

class Runtime {
 public:
  struct Options {
    const char* device = "cpu";
    const Databases* databases = nullptr;
    const Jit* jit = nullptr;          ///< outlives the runtime
    const char* buildCache = nullptr;  ///< a database that keeps what is compiled, for the next start
  };

  static Result<Runtime> open(const Options& options) {
    const tw_runtime_options given{.struct_bytes = sizeof(tw_runtime_options),
                                   .device = options.device,
                                   .databases = options.databases ? options.databases->get() : nullptr,
                                   .jit = options.jit ? options.jit->get() : nullptr,
                                   .build_cache = options.buildCache};
    tw_runtime* handle = nullptr;
    if (const auto status = tw_runtime_open(&given, &handle)) return std::unexpected(Error::last(status));
    return Runtime(handle);
  }
  tw_runtime* get() const { return handle_.get(); }

  Result<Plan> bind(const tw_problem& problem) {
    const tw_plan* plan = nullptr;
    if (const auto status = tw_bind(get(), &problem, &plan)) return std::unexpected(Error::last(status));
    return Plan(plan);
  }
  Result<void> prepare(std::span<const tw_problem> problems) {
    return detail::toResult(tw_prepare(get(), problems.data(), problems.size()));
  }
  Result<std::string> explain(const tw_problem& problem) {
    std::size_t length = 0;
    if (const auto status = tw_explain(get(), &problem, nullptr, 0, &length))
      return std::unexpected(Error::last(status));
    std::string text(length + 1, '\0');
    if (const auto status = tw_explain(get(), &problem, text.data(), text.size(), &length)) {
      return std::unexpected(Error::last(status));
    }
    text.resize(length);
    return text;
  }
  Result<void> launch(const tw_problem& problem, const tw_linear_operands& operands, const tw_buffers& buffers,
                      void* stream = nullptr) {
    return detail::toResult(tw_linear(get(), &problem, &operands, &buffers, stream));
  }
  Result<void> launch(const tw_problem& problem, const tw_attention_operands& operands, const tw_buffers& buffers,
                      void* stream = nullptr) {
    return detail::toResult(tw_attention(get(), &problem, &operands, &buffers, stream));
  }

 private:
  explicit Runtime(tw_runtime* handle) : handle_(handle) {}
  std::unique_ptr<tw_runtime, detail::Closer<tw_runtime_close>> handle_;
};

}  // namespace tw
