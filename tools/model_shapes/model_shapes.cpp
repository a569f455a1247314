#include "tools/model_shapes/model_shapes.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "format/json_fields.h"
#include "format/json_parse.h"
#include "tools/model_shapes/gguf_model.h"
#include "tools/model_shapes/hf_config.h"
#include "tools/model_shapes/problem_csv.h"

namespace tilewright {
namespace {

constexpr std::size_t kMaximumListBytes = std::size_t{16} << 20;
constexpr std::size_t kMaximumInputBytes = std::size_t{256}
                                           << 20;  // of standard input: a GGUF header with its vocabulary

Result<ModelShapes> shapesOfText(std::string_view text, const ShapeOptions& options) {
  // Spreadsheets write a byte order mark before a CSV file.
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return fail(ErrorCode::kInvalidArgument, "the input is empty");
  if (text.size() > kMaximumListBytes) {
    return fail(ErrorCode::kInvalidArgument, "the input has more than {} bytes", kMaximumListBytes);
  }
  if (text[first] != '{' && text[first] != '[') {
    if (text.find('\0') != std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument, "neither a GGUF file nor JSON nor a CSV list of problems");
    }
    return ModelShapes{.problems = TW_TRY(problemsFromCsv(text))};
  }
  const JsonValue value = TW_TRY(parseJson(text, {.bytes = kMaximumListBytes}));
  if (value.find("op") != nullptr) return ModelShapes{.problems = {{.problem = TW_TRY(problemFromJson(value))}}};
  if (isModelConfig(value)) return deriveShapes(TW_TRY(modelFromConfig(value)), options);
  if (value.asObject() != nullptr && value.find("problems") == nullptr) {
    return fail(
        ErrorCode::kInvalidArgument,
        "neither a model (model_type, hidden_size) nor a list of problems (problems, or an array) nor a problem (op)");
  }
  return ModelShapes{.problems = TW_TRY(problemListFromJson(value))};
}

Result<ModelShapes> shapesOfStream(std::istream& stream, const ShapeOptions& options) {
  std::string text;
  char block[1 << 16];
  while (stream.read(block, sizeof block), stream.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kMaximumInputBytes) break;  // a GGUF header ends long before
  }
  if (!text.starts_with("GGUF")) return shapesOfText(text, options);
  std::istringstream header(std::move(text));
  const auto bytes = static_cast<std::uint64_t>(header.view().size());
  const GgufHeader read = TW_TRY(GgufHeader::read(header, bytes));
  if (read.integer("split.count").value_or(1) > 1) {
    return fail(ErrorCode::kInvalidArgument, "a split GGUF file has to be given by its name");
  }
  return deriveShapes(TW_TRY(modelFromGguf(read)), options);
}

Result<ModelShapes> shapesOfFile(const std::filesystem::path& file, const ShapeOptions& options) {
  char magic[4] = {};
  std::ifstream(file, std::ios::binary).read(magic, sizeof magic);
  if (std::string_view(magic, sizeof magic) == "GGUF") {
    return deriveShapes(TW_TRY(modelFromGguf(TW_TRY(readGgufFile(file)))), options);
  }
  return shapesOfText(TW_TRY(readTextFile(file, kMaximumListBytes)), options);
}

// The name that tells inputs apart: all parts of a split file are one input, and so are a directory and its
// config.json.
std::filesystem::path fileOf(const std::string& input) {
  std::error_code error;
  std::filesystem::path file = input;
  if (std::filesystem::is_directory(file, error)) file /= "config.json";
  file = firstPartOf(file);
  const auto canonical = std::filesystem::weakly_canonical(file, error);
  return error ? file : canonical;
}

}  // namespace

Result<ModelShapes> readModelShapes(std::span<const std::string> inputs, const ShapeOptions& options,
                                    std::istream& standardInput) {
  if (inputs.empty()) return fail(ErrorCode::kInvalidArgument, "no model shapes were given");
  ModelShapes shapes;
  std::set<std::filesystem::path> seen;
  for (const std::string& input : inputs) {
    const bool isStandardInput = input == "-";
    const std::filesystem::path file = isStandardInput ? std::filesystem::path("-") : fileOf(input);
    if (!seen.insert(file).second) {
      if (isStandardInput) return fail(ErrorCode::kInvalidArgument, "standard input ('-') was given twice");
      continue;
    }
    Result<ModelShapes> more = isStandardInput ? shapesOfStream(standardInput, options) : shapesOfFile(file, options);
    if (!more) {
      Error error = std::move(more).error();
      if (isStandardInput || !error.message.starts_with(fmt::format("cannot read {}", file.string()))) {
        error.message = fmt::format("cannot read {}: {}", isStandardInput ? "standard input" : input, error.message);
      }
      return std::unexpected(std::move(error));
    }
    mergeShapes(shapes, std::move(*more));
  }
  return shapes;
}

}  // namespace tilewright
