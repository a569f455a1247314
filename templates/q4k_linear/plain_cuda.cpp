#include "templates/q4k_linear/plain_cuda.h"

#include "templates/common/plain_gemm.h"

namespace tilewright {
namespace {

class Q4kLinearPlainCuda final : public PlainGemmTemplate {
 public:
  std::string_view id() const override { return "q4k_linear.plain_cuda"; }
  Operation operation() const override { return Operation::kQ4kLinear; }
  std::string_view summary() const override {
    return "any GPU, any layout: shared-memory tiles, mma.sync, Q4_K weights decoded to BF16";
  }

 protected:
  std::string_view sourceFile() const override { return "templates/q4k_linear/plain_cuda.cu"; }
  std::string_view entry() const override { return "q4kLinearPlain"; }
};

}  // namespace

const Template& q4kLinearPlainCuda() {
  static const Q4kLinearPlainCuda kTemplate;
  return kTemplate;
}

}  // namespace tilewright
