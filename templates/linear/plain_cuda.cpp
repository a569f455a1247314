#include "templates/linear/plain_cuda.h"

#include "templates/common/plain_gemm.h"

namespace tilewright {
namespace {

class LinearPlainCuda final : public PlainGemmTemplate {
 public:
  std::string_view id() const override { return "linear.plain_cuda"; }
  Operation operation() const override { return Operation::kLinear; }
  std::string_view summary() const override {
    return "any GPU, any layout: shared-memory tiles, mma.sync, BF16 weights";
  }

 protected:
  std::string_view sourceFile() const override { return "templates/linear/plain_cuda.cu"; }
  std::string_view entry() const override { return "linearPlain"; }
};

}  // namespace

const Template& linearPlainCuda() {
  static const LinearPlainCuda kTemplate;
  return kTemplate;
}

}  // namespace tilewright
