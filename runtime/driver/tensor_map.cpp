#include "runtime/driver/tensor_map.h"

#include <algorithm>

namespace tilewright {
namespace {

CUtensorMapDataType elementOf(TensorMap::Element element) {
  switch (element) {
    case TensorMap::Element::kU8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case TensorMap::Element::kBf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case TensorMap::Element::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case TensorMap::Element::kS32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

CUtensorMapSwizzle swizzleOf(TensorMap::Swizzle swizzle) {
  switch (swizzle) {
    case TensorMap::Swizzle::kNone:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case TensorMap::Swizzle::k32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case TensorMap::Swizzle::k64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case TensorMap::Swizzle::k128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

CUtensorMapL2promotion promotionOf(TensorMap::L2Promotion promotion) {
  switch (promotion) {
    case TensorMap::L2Promotion::kNone:
      return CU_TENSOR_MAP_L2_PROMOTION_NONE;
    case TensorMap::L2Promotion::k64:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case TensorMap::L2Promotion::k128:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case TensorMap::L2Promotion::k256:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  }
  return CU_TENSOR_MAP_L2_PROMOTION_NONE;
}

std::string describe(const TensorMap& map) {
  const auto rank = static_cast<std::size_t>(std::clamp(map.rank, 0, 5));
  return fmt::format("tensor map of {} (rank {}, size [{}], strides [{}] bytes, box [{}])", map.base, map.rank,
                     fmt::join(map.size.begin(), map.size.begin() + rank, ", "),
                     fmt::join(map.strideBytes.begin(), map.strideBytes.begin() + (rank == 0 ? 0 : rank - 1), ", "),
                     fmt::join(map.box.begin(), map.box.begin() + rank, ", "));
}

}  // namespace

Result<void> encodeTensorMaps(const DriverApi& api, KernelArguments& arguments) {
  static_assert(sizeof(CUtensorMap) == KernelArguments::kTensorMapBytes);
  // Every element is stepped over one by one: the traversal strides are 1.
  constexpr std::array<cuuint32_t, 5> kUnitSteps = {1, 1, 1, 1, 1};
  int index = 0;
  for (const TensorMap& map : arguments.maps()) {
    auto* encoded = reinterpret_cast<CUtensorMap*>(arguments.slot(arguments.mapSlot(index++)));
    static_assert(sizeof(cuuint64_t) == sizeof(std::uint64_t) && sizeof(cuuint32_t) == sizeof(std::uint32_t));
    const CUresult result =
        api.tensorMapEncodeTiled(encoded, elementOf(map.element), static_cast<cuuint32_t>(map.rank),
                                 const_cast<void*>(map.base), reinterpret_cast<const cuuint64_t*>(map.size.data()),
                                 reinterpret_cast<const cuuint64_t*>(map.strideBytes.data()), map.box.data(),
                                 kUnitSteps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzleOf(map.swizzle),
                                 promotionOf(map.promotion), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS) [[likely]]
      continue;
    Error error = api.error(result, fmt::format("cannot encode {}", describe(map)));
    if (result == CUDA_ERROR_INVALID_VALUE) error.code = ErrorCode::kInvalidArgument;
    return std::unexpected(std::move(error));
  }
  return {};
}

}  // namespace tilewright
