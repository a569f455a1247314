// Hugging Face's config.json to a model's layers.
//
// The file says what the model is, not how its weights are stored: every linear is taken as Q4_K. Keys that this reader
// does not know are ignored; a null is a missing key. Layers that no operation covers (sliding windows, mixtures of
// experts, latent attention, linear attention, logit soft capping) are counted by kind.
#pragma once

#include "base/result.h"
#include "format/json_value.h"
#include "tools/model_shapes/model.h"

namespace tilewright {

/// Whether an object looks like a config.json: it names a model type, an architecture or a hidden size.
bool isModelConfig(const JsonValue& value);

/// kInvalidArgument, naming the key, for sizes that are missing, of another kind or out of range.
Result<Model> modelFromConfig(const JsonValue& value);

}  // namespace tilewright
