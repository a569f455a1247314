// --model-shapes: model files and lists of problems, whatever they are, to one list of problems without duplicates.
//
// What an input is, its content says: "GGUF" begins a GGUF file, '[' or '{' JSON (a list of problems, a listing, a
// problem, or Hugging Face's config.json), anything else is CSV. A directory stands for the config.json in it, "-" for
// standard input. Lists are taken as they are; the ladders and tensor parallelism apply to models.
#pragma once

#include <istream>
#include <span>
#include <string>

#include "base/result.h"
#include "tools/model_shapes/derive.h"

namespace tilewright {

/// Errors begin with the input's name. kInvalidArgument also for no input, and for "-" given twice.
Result<ModelShapes> readModelShapes(std::span<const std::string> inputs, const ShapeOptions& options,
                                    std::istream& standardInput);

}  // namespace tilewright
