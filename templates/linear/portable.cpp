#include "templates/linear/portable.h"

#include "templates/common/portable_gemm.h"

namespace tilewright {
namespace {

class LinearPortable final : public PortableGemmTemplate {
 public:
  std::string_view id() const override { return "linear.portable"; }
  Operation operation() const override { return Operation::kLinear; }
  std::string_view summary() const override {
    return "any CPU, any layout: packed panels and register micro-tiles, BF16 weights";
  }

 protected:
  std::vector<std::int64_t> tileKValues() const override { return {128, 64, 256, 512, 1024}; }
  double instructionsPerWeightVector() const override { return 3; }
  std::string_view entry() const override { return "linearPortable"; }
};

}  // namespace

const Template& linearPortable() {
  static const LinearPortable kTemplate;
  return kTemplate;
}

}  // namespace tilewright
