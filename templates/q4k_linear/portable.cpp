#include "templates/q4k_linear/portable.h"

#include "templates/common/portable_gemm.h"

namespace tilewright {
namespace {

class Q4kLinearPortable final : public PortableGemmTemplate {
 public:
  std::string_view id() const override { return "q4k_linear.portable"; }
  Operation operation() const override { return Operation::kQ4kLinear; }
  std::string_view summary() const override {
    return "any CPU, any layout: Q4_K dequantized into packed panels, register micro-tiles";
  }

 protected:
  std::vector<std::int64_t> tileKValues() const override { return {256}; }
  double instructionsPerWeightVector() const override { return 8; }
  std::string_view entry() const override { return "q4kLinearPortable"; }
};

}  // namespace

const Template& q4kLinearPortable() {
  static const Q4kLinearPortable kTemplate;
  return kTemplate;
}

}  // namespace tilewright
