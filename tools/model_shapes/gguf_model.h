// GGUF files to a model's layers. Linears come from the table of tensors: every weight matrix with its own type and
// shape, fused ones (query, key and value; gate and up) where the parts are all Q4_K. Attention comes from the
// metadata.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/model_shapes/gguf_file.h"
#include "tools/model_shapes/model.h"

namespace tilewright {

/// Layers of a complete header. Weights that are neither Q4_K nor BF16 are counted by type, expert weights and layers
/// that no operation covers by kind; vectors, embeddings that are looked up, and convolutions are no linears.
Result<Model> modelFromGguf(const GgufHeader& header);

/// The file's header, with those of its siblings if it is part of a split file (NAME-00001-of-00003.gguf). Errors begin
/// with the name of the file that they are about; kNotFound for a missing part.
Result<GgufHeader> readGgufFile(const std::filesystem::path& file);

/// The files that readGgufFile reads for `file`: the first part's name identifies a split file.
std::filesystem::path firstPartOf(const std::filesystem::path& file);

}  // namespace tilewright
