#include "cache/layers.h"

namespace tilewright {

std::vector<DatabaseLayers::LayeredWinner> DatabaseLayers::winners(std::string_view device,
                                                                   std::vector<std::string>& warnings) const {
  std::vector<LayeredWinner> all;
  for (std::size_t layer = 0; layer < databases_.size(); ++layer) {
    auto winners = databases_[layer]->winners(device, warnings);
    if (!winners) {
      warnings.push_back(winners.error().message);
      continue;
    }
    for (Winner& winner : *winners) all.push_back({std::move(winner), layer});
  }
  return all;
}

Result<DatabaseLayers::LayeredBinary> DatabaseLayers::findByRequest(std::string_view requestKey,
                                                                    std::vector<std::string>& warnings) const {
  for (std::size_t layer = 0; layer < databases_.size(); ++layer) {
    auto binary = databases_[layer]->findByRequest(requestKey);
    if (binary) return LayeredBinary{std::move(*binary), layer};
    if (binary.error().code != ErrorCode::kNotFound) {
      warnings.push_back(fmt::format("{}: passed over {}", databases_[layer]->path().string(), binary.error().message));
    }
  }
  return fail(ErrorCode::kNotFound, "no database has a build for request {}", requestKey);
}

}  // namespace tilewright
