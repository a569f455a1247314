// Databases stacked on each other: read-only system files below one writable user file. Look-ups go from the top down.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/database.h"

namespace tilewright {

class DatabaseLayers {
 public:
  DatabaseLayers() = default;
  /// `databases` from the top (the user's) to the bottom.
  explicit DatabaseLayers(std::vector<std::shared_ptr<const Database>> databases) : databases_(std::move(databases)) {}

  const std::vector<std::shared_ptr<const Database>>& databases() const { return databases_; }
  bool empty() const { return databases_.empty(); }

  struct LayeredWinner {
    Winner winner;
    std::size_t layer = 0;  ///< index into databases()
  };
  /// The winners of a device in every layer, upper layers first. A layer that cannot be read is a warning.
  std::vector<LayeredWinner> winners(std::string_view device, std::vector<std::string>& warnings) const;

  struct LayeredBinary {
    Binary binary;
    std::size_t layer = 0;
  };
  /// The build of a request in the highest layer that has an intact one. kNotFound if no layer knows the request; a
  /// damaged one is passed over with a warning.
  Result<LayeredBinary> findByRequest(std::string_view requestKey, std::vector<std::string>& warnings) const;

 private:
  std::vector<std::shared_ptr<const Database>> databases_;
};

}  // namespace tilewright
