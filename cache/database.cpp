#include "cache/database.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "cache/connection.h"
#include "cache/rows.h"

namespace tilewright {
namespace {

/// Passes over rows that cannot be read: the value, or nothing and a warning.
template <typename T>
std::optional<T> orWarn(Result<T> result, const std::filesystem::path& path, std::vector<std::string>& warnings) {
  if (result) return std::move(*result);
  warnings.push_back(fmt::format("{}: left out {}", path.string(), result.error().message));
  return std::nullopt;
}

/// All ids that `query` selects; those before a damaged page if there is one.
std::vector<std::int64_t> selectIds(Connection& connection, SQLite::Statement& statement,
                                    std::vector<std::string>& warnings) {
  std::vector<std::int64_t> ids;
  const auto status = connection.guard("list rows", [&]() -> Result<void> {
    while (statement.executeStep()) ids.push_back(statement.getColumn(0).getInt64());
    return {};
  });
  if (!status) warnings.push_back(status.error().message);
  return ids;
}

}  // namespace

Database::Database(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::open(const std::filesystem::path& path, const DatabaseOptions& options) {
  auto connection = TW_TRY(Connection::open(path, options));
  return std::unique_ptr<Database>(new Database(std::move(connection)));
}

const std::filesystem::path& Database::path() const {
  return connection_->path();
}
bool Database::writable() const {
  return connection_->writable();
}
const std::vector<std::string>& Database::notes() const {
  return connection_->notes();
}

Result<void> Database::addDevice(const DeviceInfo& device) {
  return connection_->write("store a device", [&](SQLite::Database& sqlite) -> Result<void> {
    insertDevice(sqlite, deviceKey(device));
    execute(sqlite,
            "UPDATE devices SET details = json_object('kind', ?, 'name', ?, 'target', ?, 'compute_major', ?, "
            "'compute_minor', ?, 'units', ?, 'mig', ?, 'shared_bytes_per_block', ?, 'l2_bytes', ?, 'memory_bytes', ?, "
            "'driver', ?, 'power_limit_w', ?) WHERE key = ?",
            device.kind == DeviceKind::kCpu ? "cpu" : "cuda", device.name, device.target, device.computeMajor,
            device.computeMinor, device.unitCount, device.migProfile, device.sharedBytesPerBlock, device.l2Bytes,
            device.memoryBytes, device.driverVersion, device.powerLimitWatts, deviceKey(device));
    return {};
  });
}

Result<void> Database::addRecords(std::span<const Record> records) {
  return connection_->write("store records", [&](SQLite::Database& sqlite) -> Result<void> {
    for (const Record& record : records) {
      bool added = false;
      insertRecord(sqlite, TW_TRY(normalized(sqlite, record)), added);
    }
    return {};
  });
}

Result<void> Database::commitWinner(const Record& winner, std::span<const StoredBuild> builds,
                                    std::string_view policy) {
  return connection_->write("store a winner", [&](SQLite::Database& sqlite) -> Result<void> {
    if (winner.status != RecordStatus::kOk) {
      return fail(ErrorCode::kInvalidArgument, "cannot store a winner for {}: its record is {}, must be ok",
                  winner.problem, recordStatusName(winner.status));
    }
    bool added = false;
    const std::int64_t record = insertRecord(sqlite, TW_TRY(normalized(sqlite, winner)), added);
    std::vector<std::string> keys;
    for (const StoredBuild& build : builds) {
      TW_TRY(insertBuild(sqlite, build, added));
      keys.push_back(build.binary.buildKey);
    }
    insertWinner(sqlite, winner.device, winner.problem, record, keys);
    if (!policy.empty()) insertDone(sqlite, {winner.problem, winner.device, std::string(policy), {}});
    return {};
  });
}

Result<void> Database::markDone(std::span<const DoneProblem> problems) {
  return connection_->write("mark problems done", [&](SQLite::Database& sqlite) -> Result<void> {
    for (const DoneProblem& problem : problems) insertDone(sqlite, problem);
    return {};
  });
}

Result<void> Database::addBuilds(std::span<const StoredBuild> builds) {
  return connection_->write("store builds", [&](SQLite::Database& sqlite) -> Result<void> {
    bool added = false;
    for (const StoredBuild& build : builds) TW_TRY(insertBuild(sqlite, build, added));
    return {};
  });
}

Result<void> Database::addDefaultBuilds(std::span<const DefaultBuild> defaults) {
  return connection_->write("store default builds", [&](SQLite::Database& sqlite) -> Result<void> {
    bool added = false;
    for (const auto& [build, parameterClass] : defaults) {
      TW_TRY(insertBuild(sqlite, build, added));
      insertDefault(sqlite, build.templateId, build.binary.target, parameterClass, build.binary.buildKey);
    }
    return {};
  });
}

Result<std::vector<Winner>> Database::winners(std::string_view device, std::vector<std::string>& warnings) const {
  return connection_->read("read winners", [&](SQLite::Database& sqlite) -> Result<std::vector<Winner>> {
    SQLite::Statement statement(sqlite,
                                "SELECT w.record, w.problem, d.key FROM winners w JOIN devices d ON d.id = w.device "
                                "WHERE ?1 = '' OR d.key = ?1 ORDER BY d.key, w.problem");
    bindAll(statement, device);
    RecordReader reader(sqlite);
    std::vector<Winner> winners;
    const auto scan = connection_->guard("list winners", [&]() -> Result<void> {
      while (statement.executeStep()) {
        const std::int64_t id = statement.getColumn(0).getInt64();
        const std::string problem = statement.getColumn(1).getString(), key = statement.getColumn(2).getString();
        auto winner =
            orWarn(connection_->guard(
                       "read a winner",
                       [&]() -> Result<Winner> {
                         Record record = TW_TRY(reader.record(id));
                         if (record.problem != problem || record.device != key || record.status != RecordStatus::kOk) {
                           return fail(ErrorCode::kCorrupt,
                                       "the winner of {}: record {} is not of that problem or not ok", problem, id);
                         }
                         return Winner{std::move(record), reader.winnerBuilds(id)};
                       }),
                   path(), warnings);
        if (winner) winners.push_back(std::move(*winner));
      }
      return {};
    });
    if (!scan) warnings.push_back(scan.error().message);
    return winners;
  });
}

Result<std::vector<Record>> Database::records(const RecordFilter& filter, std::vector<std::string>& warnings) const {
  return connection_->read("read records", [&](SQLite::Database& sqlite) -> Result<std::vector<Record>> {
    SQLite::Statement statement(sqlite,
                                "SELECT r.id FROM records r JOIN devices d ON d.id = r.device "
                                "WHERE (?1 = '' OR r.problem = ?1) AND (?2 = '' OR d.key = ?2) "
                                "AND (?3 = '' OR r.template = ?3) AND (NOT ?4 OR r.status = 'ok') "
                                "ORDER BY r.id DESC LIMIT ?5");
    bindAll(statement, filter.problem, filter.device, filter.templateId, static_cast<int>(filter.onlyOk), filter.limit);
    RecordReader reader(sqlite);
    std::vector<Record> records;
    for (const std::int64_t id : selectIds(*connection_, statement, warnings)) {
      auto record = orWarn(connection_->guard("read a record", [&] { return reader.record(id); }), path(), warnings);
      if (record) records.push_back(std::move(*record));
    }
    return records;
  });
}

Result<std::vector<std::pair<std::string, std::string>>> Database::devices() const {
  using Devices = std::vector<std::pair<std::string, std::string>>;
  return connection_->read("read devices", [&](SQLite::Database& sqlite) -> Result<Devices> {
    SQLite::Statement statement(sqlite, "SELECT key, details FROM devices ORDER BY key");
    Devices devices;
    while (statement.executeStep()) {
      devices.emplace_back(statement.getColumn(0).getString(), statement.getColumn(1).getString());
    }
    return devices;
  });
}

Result<std::set<std::string>> Database::doneProblems(std::string_view device, std::string_view policy) const {
  return connection_->read("read what is done", [&](SQLite::Database& sqlite) -> Result<std::set<std::string>> {
    SQLite::Statement statement(sqlite, "SELECT problem FROM done WHERE device = ? AND policy = ?");
    bindAll(statement, device, policy);
    std::set<std::string> problems;
    while (statement.executeStep()) problems.insert(statement.getColumn(0).getString());
    return problems;
  });
}

Result<Binary> Database::findByRequest(std::string_view requestKey) const {
  return connection_->read("find a build", [&](SQLite::Database& sqlite) -> Result<Binary> {
    return TW_TRY(readBuildByRequest(sqlite, requestKey)).binary;
  });
}

Result<Binary> Database::findByBuild(std::string_view buildKey) const {
  return connection_->read("find a build", [&](SQLite::Database& sqlite) -> Result<Binary> {
    return TW_TRY(readBuildByKey(sqlite, buildKey)).binary;
  });
}

Result<Binary> Database::findDefault(std::string_view templateId, std::string_view target,
                                     std::string_view parameterClass) const {
  return connection_->read("find a default build", [&](SQLite::Database& sqlite) -> Result<Binary> {
    SQLite::Statement statement(sqlite,
                                "SELECT build_key FROM defaults WHERE template = ? AND target = ? AND class = ?");
    bindAll(statement, templateId, target, parameterClass);
    if (!statement.executeStep()) {
      return fail(ErrorCode::kNotFound, "no default build of {} for {} {}", templateId, target, parameterClass);
    }
    return TW_TRY(readBuildByKey(sqlite, statement.getColumn(0).getString())).binary;
  });
}

Result<std::vector<BuildListing>> Database::builds() const {
  return connection_->read("list builds", [&](SQLite::Database& sqlite) -> Result<std::vector<BuildListing>> {
    SQLite::Statement statement(
        sqlite,
        "SELECT b.build_key, b.request_key, b.template, b.target, b.compiler, b.hash, b.date, "
        "coalesce((SELECT length(bytes) FROM blobs WHERE hash = b.hash), 0), "
        "EXISTS (SELECT 1 FROM defaults f WHERE f.build_key = b.build_key), "
        "EXISTS (SELECT 1 FROM winners w JOIN winner_builds u ON u.record = w.record WHERE u.build_key = b.build_key), "
        "b.id FROM builds b ORDER BY b.template, b.target, b.id");
    std::vector<BuildListing> builds;
    while (statement.executeStep()) {
      const auto text = [&](int column) { return statement.getColumn(column).getString(); };
      BuildListing listing{text(0), text(1), text(2), text(3), text(4), text(5), text(6)};
      listing.bytes = statement.getColumn(7).getInt64();
      listing.isDefault = statement.getColumn(8).getInt() != 0;
      listing.isWinners = statement.getColumn(9).getInt() != 0;
      SQLite::Statement kernels(sqlite, "SELECT entry FROM build_kernels WHERE build = ? ORDER BY ordinal");
      bindAll(kernels, statement.getColumn(10).getInt64());
      while (kernels.executeStep()) listing.entries.push_back(kernels.getColumn(0).getString());
      builds.push_back(std::move(listing));
    }
    return builds;
  });
}

Result<DatabaseSummary> Database::summary() const {
  return connection_->read("summarize", [&](SQLite::Database& sqlite) -> Result<DatabaseSummary> {
    const auto count = [&](const char* query) { return sqlite.execAndGet(query).getInt64(); };
    return DatabaseSummary{
        .devices = count("SELECT count(*) FROM devices"),
        .records = count("SELECT count(*) FROM records"),
        .winners = count("SELECT count(*) FROM winners"),
        .builds = count("SELECT count(*) FROM builds"),
        .blobs = count("SELECT count(*) FROM blobs"),
        .defaults = count("SELECT count(*) FROM defaults"),
        .done = count("SELECT count(*) FROM done"),
        .blobBytes = count("SELECT coalesce(sum(length(bytes)), 0) FROM blobs"),
        .fileBytes = count("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"),
    };
  });
}

}  // namespace tilewright
