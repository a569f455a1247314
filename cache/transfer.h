// Moving tuning results between files: export writes a closed, shippable file; merge brings another file's results in.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cache/database.h"

namespace tilewright {

struct ExportOptions {
  bool winnersOnly = false;  ///< leave out records that are not winners
  bool overwrite = false;    ///< replace an existing target
};

struct ExportReport {
  std::int64_t winners = 0, records = 0, builds = 0, bytes = 0;
  std::vector<std::string> missingDefaults;  ///< "template target" of winners without a default build of that pair
};

/// Writes `target` as one closed file: no WAL beside it, binaries of neither winners nor defaults left out, durable on
/// disk, moved into place at the end, so that a reader sees the old file or the whole new one. kInvalidArgument if it
/// exists and `overwrite` is not set; kIo for a full or read-only target.
Result<ExportReport> exportDatabase(const Database& source, const std::filesystem::path& target,
                                    const ExportOptions& options = {});

/// Both files know a winner for a problem on a device, and they differ.
struct MergeConflict {
  std::string problem, device;
  Record kept, other;
  std::string reason;  ///< "more samples (60 against 15)"
};

struct MergeReport {
  std::int64_t recordsAdded = 0, winnersAdded = 0, winnersReplaced = 0, buildsAdded = 0, defaultsAdded = 0;
  std::vector<MergeConflict> conflicts;
  std::vector<std::string> warnings;  ///< damaged rows of the source, which were left out
};

/// Adds everything of `source` to `target` in one transaction. Both measurements of a conflict stay as records; the
/// winner is the better evidenced: more samples, then the smaller relative spread, then the newer, then the target's.
Result<MergeReport> mergeDatabase(Database& target, const Database& source);

}  // namespace tilewright
