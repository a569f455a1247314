#include "cache/transfer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <unistd.h>

#include <optional>
#include <ranges>
#include <system_error>
#include <utility>

#include "cache/connection.h"
#include "cache/file_system.h"
#include "cache/rows.h"

namespace tilewright {
namespace {

/// Deletes a file at the end of the scope, and what SQLite may have left beside it.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) { remove(); }
  ~TemporaryFile() { remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void remove() {
    std::error_code ignored;
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
      std::filesystem::remove(std::filesystem::path(path_.string() + suffix), ignored);
    }
  }

  std::filesystem::path path_;
};

/// Leaves out what no winner and no default needs, and resume data, which belongs to the machine that tuned.
Result<void> prune(SQLite::Database& sqlite, bool winnersOnly) {
  if (winnersOnly) sqlite.exec("DELETE FROM records WHERE id NOT IN (SELECT record FROM winners)");
  sqlite.exec("DELETE FROM winner_builds WHERE record NOT IN (SELECT record FROM winners)");
  sqlite.exec(
      "DELETE FROM builds WHERE build_key NOT IN (SELECT build_key FROM winner_builds) "
      "AND build_key NOT IN (SELECT build_key FROM defaults)");
  sqlite.exec("DELETE FROM build_kernels WHERE build NOT IN (SELECT id FROM builds)");
  sqlite.exec("DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM builds)");
  sqlite.exec("DELETE FROM done");
  return {};
}

std::vector<std::string> missingDefaults(SQLite::Database& sqlite) {
  SQLite::Statement statement(sqlite,
                              "SELECT DISTINCT b.template || ' ' || b.target FROM winners w "
                              "JOIN winner_builds u ON u.record = w.record JOIN builds b ON b.build_key = u.build_key "
                              "LEFT JOIN defaults f ON f.template = b.template AND f.target = b.target "
                              "WHERE f.build_key IS NULL ORDER BY 1");
  std::vector<std::string> missing;
  while (statement.executeStep()) missing.push_back(statement.getColumn(0).getString());
  return missing;
}

/// Why `other` is better evidenced than `kept`, or nothing if it is not.
std::optional<std::string> betterEvidence(const Record& kept, const Record& other) {
  if (other.samples != kept.samples) {
    if (other.samples < kept.samples) return std::nullopt;
    return fmt::format("more samples ({} against {})", other.samples, kept.samples);
  }
  const auto spread = [](const Record& record) {
    return record.medianMicroseconds > 0 ? record.madMicroseconds / record.medianMicroseconds : 0.0;
  };
  if (spread(other) != spread(kept)) {
    if (spread(other) > spread(kept)) return std::nullopt;
    return fmt::format("smaller spread ({:.2f} % against {:.2f} %)", 100 * spread(other), 100 * spread(kept));
  }
  if (other.date > kept.date) return fmt::format("newer ({} against {})", other.date, kept.date);
  return std::nullopt;
}

std::string whyKept(const Record& kept, const Record& other) {
  const auto reason = betterEvidence(other, kept);
  return reason ? *reason : "the target's among equals";
}

/// The build ids of a database, read before any is copied.
std::vector<std::int64_t> allBuilds(SQLite::Database& sqlite) {
  SQLite::Statement statement(sqlite, "SELECT id FROM builds ORDER BY id");
  std::vector<std::int64_t> ids;
  while (statement.executeStep()) ids.push_back(statement.getColumn(0).getInt64());
  return ids;
}

/// Copies one database into another, both held by the caller, the target in a transaction.
class Merger {
 public:
  Merger(Connection& source, SQLite::Database& from, SQLite::Database& to) : source_(source), from_(from), to_(to) {}

  Result<MergeReport> run(const std::vector<Record>& records, const std::vector<Winner>& winners) {
    TW_TRY(mergeDevices());
    for (const Record& record : std::views::reverse(records)) {  // Oldest first, as they were measured.
      bool added = false;
      const auto stored = normalized(to_, record);
      if (!stored) {
        report_.warnings.push_back(stored.error().message);
        continue;
      }
      insertRecord(to_, *stored, added);
      report_.recordsAdded += added;
    }
    TW_TRY(mergeBuilds());
    for (const Winner& winner : winners) TW_TRY(mergeWinner(winner));
    mergeDefaults();
    mergeDone();
    return std::move(report_);
  }

  void warn(std::vector<std::string> lines) { report_.warnings = std::move(lines); }

 private:
  Result<void> mergeDevices() {
    SQLite::Statement devices(from_, "SELECT key, details FROM devices WHERE json_valid(details)");
    while (devices.executeStep()) {
      const std::string key = devices.getColumn(0).getString();
      insertDevice(to_, key);
      execute(to_, "UPDATE devices SET details = ? WHERE key = ? AND details = '{}'", devices.getColumn(1).getString(),
              key);
    }
    return {};
  }

  Result<void> mergeBuilds() {
    for (const std::int64_t id : allBuilds(from_)) {
      const auto build = source_.guard("read a build", [&] { return readBuild(from_, id); });
      if (!build) {
        report_.warnings.push_back(fmt::format("{}: left out {}", source_.path().string(), build.error().message));
        continue;
      }
      bool added = false;
      TW_TRY(insertBuild(to_, *build, added));
      report_.buildsAdded += added;
    }
    return {};
  }

  Result<void> mergeWinner(const Winner& winner) {
    const Record stored = TW_TRY(normalized(to_, winner.record));
    bool added = false;
    const std::int64_t record = insertRecord(to_, stored, added);

    SQLite::Statement present(to_,
                              "SELECT w.record FROM winners w JOIN devices d ON d.id = w.device "
                              "WHERE d.key = ? AND w.problem = ?");
    bindAll(present, stored.device, stored.problem);
    const bool occupied = present.executeStep();
    const auto kept = occupied ? RecordReader(to_).record(present.getColumn(0).getInt64())
                               : Result<Record>(fail(ErrorCode::kNotFound, "no winner"));
    if (!kept) {  // None there, or a damaged one, which anything intact replaces.
      insertWinner(to_, stored.device, stored.problem, record, winner.buildKeys);
      ++(occupied ? report_.winnersReplaced : report_.winnersAdded);
      return {};
    }
    if (kept->id == record) return {};

    const auto reason = betterEvidence(*kept, stored);
    if (reason) {
      insertWinner(to_, stored.device, stored.problem, record, winner.buildKeys);
      ++report_.winnersReplaced;
      report_.conflicts.push_back({stored.problem, stored.device, stored, *kept, *reason});
    } else {
      report_.conflicts.push_back({stored.problem, stored.device, *kept, stored, whyKept(*kept, stored)});
    }
    return {};
  }

  void mergeDefaults() {
    SQLite::Statement defaults(from_, "SELECT template, target, class, build_key FROM defaults");
    while (defaults.executeStep()) {
      const auto text = [&](int column) { return defaults.getColumn(column).getString(); };
      if (!readBuildByKey(to_, text(3))) continue;  // It was damaged, and a warning said so.
      SQLite::Statement insert(to_,
                               "INSERT INTO defaults (template, target, class, build_key) VALUES (?, ?, ?, ?) "
                               "ON CONFLICT DO NOTHING");
      bindAll(insert, text(0), text(1), text(2), text(3));
      report_.defaultsAdded += insert.exec();
    }
  }

  void mergeDone() {
    SQLite::Statement done(from_, "SELECT device, policy, problem, date FROM done WHERE json_valid(problem)");
    while (done.executeStep()) {
      const auto text = [&](int column) { return done.getColumn(column).getString(); };
      execute(to_, "INSERT INTO done (device, policy, problem, date) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
              text(0), text(1), text(2), text(3));
    }
  }

  Connection& source_;
  SQLite::Database& from_;
  SQLite::Database& to_;
  MergeReport report_;
};

bool sameFile(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

}  // namespace

Result<ExportReport> exportDatabase(const Database& source, const std::filesystem::path& target,
                                    const ExportOptions& options) {
  std::error_code ignored;
  if (target.empty()) return fail(ErrorCode::kInvalidArgument, "cannot export: the path of the target is empty");
  if (sameFile(source.path(), target)) {
    return fail(ErrorCode::kInvalidArgument, "cannot export {} onto itself", target.string());
  }
  if (!options.overwrite && std::filesystem::exists(target, ignored)) {
    return fail(ErrorCode::kInvalidArgument, "cannot export to {}: the file exists", target.string());
  }
  // The rename at the end would put a file in the place of a device or a pipe.
  if (std::filesystem::exists(target, ignored) && !std::filesystem::is_regular_file(target, ignored)) {
    return fail(ErrorCode::kInvalidArgument, "cannot export to {}: not a regular file", target.string());
  }
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, ignored)) {
    return fail(ErrorCode::kNotFound, "cannot export to {}: no such folder", target.string());
  }

  const TemporaryFile temporary(folder / fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid()));
  TW_TRY(source.connection().read("export", [&](SQLite::Database& sqlite) -> Result<void> {
    execute(sqlite, "VACUUM INTO ?", plainName(temporary.path()));
    return {};
  }));

  // Prune the copy, check it, and close it: journal mode DELETE leaves nothing beside it.
  ExportReport report;
  {
    DatabaseOptions write{.access = DatabaseAccess::kWrite};
    const auto copy = TW_TRY(Connection::open(temporary.path(), write, Connection::Journal::kClosed));
    TW_TRY(copy->write("export", [&](SQLite::Database& sqlite) { return prune(sqlite, options.winnersOnly); }));
    report = TW_TRY(copy->read("export", [&](SQLite::Database& sqlite) -> Result<ExportReport> {
      sqlite.exec("VACUUM");
      const auto count = [&](const char* query) { return sqlite.execAndGet(query).getInt64(); };
      return ExportReport{.winners = count("SELECT count(*) FROM winners"),
                          .records = count("SELECT count(*) FROM records"),
                          .builds = count("SELECT count(*) FROM builds"),
                          .missingDefaults = missingDefaults(sqlite)};
    }));
  }
  const VerifyReport verified = TW_TRY(TW_TRY(Database::open(temporary.path()))->verify());
  if (!verified.problems.empty()) {
    return fail(ErrorCode::kCorrupt,
                "cannot export {}: {} ({} problems in all); merging it into a new database leaves damaged rows out",
                source.path().string(), verified.problems.front(), verified.problems.size());
  }

  TW_TRY(flushToDisk(temporary.path()));
  report.bytes = static_cast<std::int64_t>(std::filesystem::file_size(temporary.path(), ignored));
  std::error_code error;
  std::filesystem::rename(temporary.path(), target, error);
  if (error) return fail(ErrorCode::kIo, "cannot export to {}: {}", target.string(), error.message());
  TW_TRY(flushToDisk(folder));
  return report;
}

Result<MergeReport> mergeDatabase(Database& target, const Database& source) {
  if (sameFile(target.path(), source.path())) {
    return fail(ErrorCode::kInvalidArgument, "cannot merge {} into itself", source.path().string());
  }
  std::vector<std::string> warnings;
  const std::vector<Record> records = TW_TRY(source.records({}, warnings));
  const std::vector<Winner> winners = TW_TRY(source.winners({}, warnings));
  return source.connection().read("merge", [&](SQLite::Database& from) -> Result<MergeReport> {
    return target.connection().write("merge", [&](SQLite::Database& to) -> Result<MergeReport> {
      Merger merger(source.connection(), from, to);
      merger.warn(std::move(warnings));
      return merger.run(records, winners);
    });
  });
}

}  // namespace tilewright
