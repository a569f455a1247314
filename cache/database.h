// One tuning database: a SQLite file, suffix .twdb, with records, winners and binaries.
//
//   devices   key, details                        records   every measured plan, with a digest of its fields
//   winners   (problem, device) -> record         winner_builds   record -> build keys, in the plan's order
//   builds    build key, request key -> hash      blobs     hash -> bytes, checked before they are handed out
//   defaults  (template, target, class) -> build  done      (problem, device, policy): what a resumed sweep skips
//
// The user's file is in WAL mode, one connection per process, every change in its own `BEGIN IMMEDIATE` transaction
// with a busy timeout: several processes may tune into one file, and a process that is killed loses only the
// transaction it was in. A damaged row is a miss and one warning; it never hides the healthy rows beside it.
//
// Errors: kNotFound (no such file or folder), kCorrupt (not a database, truncated, damaged pages), kVersion (another
// schema), kIo (permissions, read-only, no space), kUnavailable (locked by another process beyond the busy timeout).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/device_info.h"
#include "base/result.h"
#include "cache/record.h"

namespace tilewright {

class Connection;

enum class DatabaseAccess : std::uint8_t {
  kRead,    ///< an existing file, never changed
  kWrite,   ///< an existing file
  kCreate,  ///< made, with its missing folders, if it is not there
};

struct DatabaseOptions {
  DatabaseAccess access = DatabaseAccess::kRead;
  int busyTimeoutMilliseconds = 10000;  ///< how long a locked file is waited for
};

/// Which records `records` returns; empty texts match everything.
struct RecordFilter {
  std::string problem;
  std::string device;
  std::string templateId;
  bool onlyOk = false;
  std::int64_t limit = -1;  ///< the newest; negative: all
};

/// Row counts and sizes for `db show`.
struct DatabaseSummary {
  std::int64_t devices = 0, records = 0, winners = 0, builds = 0, blobs = 0, defaults = 0, done = 0;
  std::int64_t blobBytes = 0;
  std::int64_t fileBytes = 0;
};

/// A build without its bytes, for listings.
struct BuildListing {
  std::string buildKey, requestKey, templateId, target, compiler, hash, date;
  std::int64_t bytes = 0;
  std::vector<std::string> entries;
  bool isDefault = false;
  bool isWinners = false;  ///< some winner's plan uses it
};

/// What `verify` found; `problems` is empty for a clean file.
struct VerifyReport {
  std::int64_t records = 0, winners = 0, builds = 0, blobs = 0;
  std::vector<std::string> problems;  ///< each a line that names the row and the rule
};

/// Safe to use from several threads: calls on one object take turns.
class Database {
 public:
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& path, const DatabaseOptions& options = {});
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::filesystem::path& path() const;
  bool writable() const;
  /// Lines about the file that the user should know, such as that it lies on a network file system.
  const std::vector<std::string>& notes() const;

  // --- Writing. Each call is one transaction; kInvalidArgument if the database was opened for reading. ---

  /// Records a device with its limits and recorded fields. Not required before records name the device.
  Result<void> addDevice(const DeviceInfo& device);
  /// Adds measurements; a record that is there already, field by field, is not added again.
  Result<void> addRecords(std::span<const Record> records);
  /// Adds `winner` as a record, makes it the winner of its problem and device, stores its binaries in the plan's order
  /// and, with a policy, marks the problem done. kInvalidArgument unless its status is kOk.
  Result<void> commitWinner(const Record& winner, std::span<const StoredBuild> builds, std::string_view policy = {});
  /// Marks problems done that ended without a winner.
  Result<void> markDone(std::span<const DoneProblem> problems);
  Result<void> addBuilds(std::span<const StoredBuild> builds);
  Result<void> addDefaultBuilds(std::span<const DefaultBuild> builds);

  // --- Reading. Damaged rows are left out and described in `warnings`. ---

  /// Winners of a device, or of all devices for an empty key, ordered by device and problem.
  Result<std::vector<Winner>> winners(std::string_view device, std::vector<std::string>& warnings) const;
  Result<std::vector<Record>> records(const RecordFilter& filter, std::vector<std::string>& warnings) const;
  /// Device keys with the JSON of what is known of each.
  Result<std::vector<std::pair<std::string, std::string>>> devices() const;
  /// Problems done for a device under a policy, as canonical JSON.
  Result<std::set<std::string>> doneProblems(std::string_view device, std::string_view policy) const;
  /// The newest build that answers a request; kNotFound if there is none, kCorrupt if its bytes do not match their
  /// hash.
  Result<Binary> findByRequest(std::string_view requestKey) const;
  Result<Binary> findByBuild(std::string_view buildKey) const;
  /// The default build of a template, target and class; errors as above.
  Result<Binary> findDefault(std::string_view templateId, std::string_view target,
                             std::string_view parameterClass) const;
  Result<std::vector<BuildListing>> builds() const;
  Result<DatabaseSummary> summary() const;

  /// Checks SQLite's own structure, the schema, every digest, every hash, every JSON text, and that winners point to
  /// records and builds that exist. An error only if the file cannot be read at all.
  Result<VerifyReport> verify() const;

  /// The SQLite connection, for the other files of cache/; the type is incomplete outside.
  Connection& connection() const { return *connection_; }

 private:
  explicit Database(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace tilewright
