// Split GGUF files: every part has a header of its own with the tensors that it holds; the first has the metadata.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <system_error>

#include "tools/model_shapes/gguf_model.h"

namespace tilewright {
namespace {

constexpr std::int64_t kMaximumParts = 99999;  // five digits in the name

struct PartName {
  std::string prefix;
  std::int64_t number;  ///< from 1
  std::int64_t count;

  std::string of(std::int64_t part) const { return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part, count); }
};

// "NAME-00002-of-00003.gguf", or nothing.
std::optional<PartName> partNameOf(const std::string& name) {
  constexpr std::string_view kForm = "-00001-of-00001.gguf";
  if (name.size() < kForm.size()) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kForm.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return std::nullopt;
  const auto number = [](std::string_view digits) -> std::int64_t {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size() ? value : 0;
  };
  PartName part{name.substr(0, name.size() - kForm.size()), number(tail.substr(1, 5)), number(tail.substr(10, 5))};
  if (part.number < 1 || part.number > part.count) return std::nullopt;
  return part;
}

Result<GgufHeader> readOne(const std::filesystem::path& file) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  if (error == std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kNotFound, "cannot read {}: no such file", file.string());
  }
  if (error) return fail(ErrorCode::kIo, "cannot read {}: {}", file.string(), error.message());
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return fail(ErrorCode::kIo, "cannot open {}", file.string());
  Result<GgufHeader> header = GgufHeader::read(stream, bytes);
  if (!header) header.error().message = fmt::format("cannot read {}: {}", file.string(), header.error().message);
  return header;
}

Result<void> checkPart(const GgufHeader& header, const PartName& name, std::int64_t number) {
  const std::int64_t ownNumber = header.integer("split.no").value_or(-1) + 1;
  const std::int64_t ownCount = header.integer("split.count").value_or(0);
  if (ownNumber == number && ownCount == name.count) return {};
  return fail(ErrorCode::kCorrupt, "cannot read {}: the file calls itself part {} of {}", name.of(number), ownNumber,
              ownCount);
}

}  // namespace

std::filesystem::path firstPartOf(const std::filesystem::path& file) {
  const auto part = partNameOf(file.filename().string());
  return part ? file.parent_path() / part->of(1) : file;
}

Result<GgufHeader> readGgufFile(const std::filesystem::path& file) {
  const auto part = partNameOf(file.filename().string());
  GgufHeader header = TW_TRY(readOne(firstPartOf(file)));
  const std::int64_t count = header.integer("split.count").value_or(1);
  if (count <= 1) return header;
  if (count > kMaximumParts || !part || part->count != count) {
    return fail(ErrorCode::kCorrupt,
                "cannot read {}: it is split into {} parts, so its name must end in -NNNNN-of-{:05}.gguf",
                file.string(), count, count);
  }
  TW_TRY(checkPart(header, *part, 1));
  for (std::int64_t i = 2; i <= count; ++i) {
    const auto sibling = file.parent_path() / part->of(i);
    GgufHeader next = TW_TRY(readOne(sibling));
    TW_TRY(checkPart(next, *part, i));
    if (auto appended = header.append(std::move(next)); !appended) {
      return fail(ErrorCode::kCorrupt, "cannot read {}: {}", sibling.string(), appended.error().message);
    }
  }
  const auto expected = header.integer("split.tensors.count");
  if (expected && *expected != static_cast<std::int64_t>(header.tensors().size())) {
    return fail(ErrorCode::kCorrupt, "cannot read {}: its {} parts have {} tensors, split.tensors.count is {}",
                file.string(), count, header.tensors().size(), *expected);
  }
  return header;
}

}  // namespace tilewright
