#include "cache/rows.h"

#include <cmath>
#include <limits>

#include "base/hash.h"

namespace tilewright {
namespace {

bool isJson(SQLite::Database& sqlite, const std::string& text) {
  SQLite::Statement statement(sqlite, "SELECT json_valid(?)");
  bindAll(statement, text);
  return statement.executeStep() && statement.getColumn(0).getInt() == 1;
}

std::string joinLines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string> splitLines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string buildDigest(const StoredBuild& build) {
  Sha256 hash;
  const Binary& binary = build.binary;
  for (const std::string& field : {binary.buildKey, build.requestKey, build.templateId, binary.target, binary.compiler,
                                   binary.hash, joinLines(binary.warnings), build.date}) {
    hash.field(field);
  }
  for (const KernelResources& kernel : binary.kernels) {
    hash.field(kernel.entry);
    hash.field(fmt::format("{} {} {} {}", kernel.registers, kernel.spillBytes, kernel.stackBytes, kernel.sharedBytes));
  }
  return hash.hexDigest();
}

/// The row that the statement of a RecordReader stands on.
Result<Record> readRow(SQLite::Statement& statement) {
  Record record;
  const auto text = [&](int column) { return statement.getColumn(column).getString(); };
  const auto number = [&](int column) { return statement.getColumn(column).getDouble(); };
  const auto integer = [&](int column) { return statement.getColumn(column).getInt(); };
  record.id = statement.getColumn(0).getInt64();
  record.problem = text(1), record.device = text(2), record.templateId = text(3), record.configuration = text(4);
  const auto status = recordStatusFromName(text(5));
  if (!status) return fail(ErrorCode::kCorrupt, "record {}: unknown status '{}'", record.id, text(5));
  record.status = *status;
  record.reason = text(6);
  record.medianMicroseconds = number(7), record.madMicroseconds = number(8), record.samples = integer(9);
  record.defaultMicroseconds = number(10), record.runnerUpMicroseconds = number(11);
  record.error = statement.getColumn(12).isNull() ? std::numeric_limits<double>::quiet_NaN() : number(12);
  record.resources = text(13), record.toolchain = text(14);
  record.driverVersion = integer(15), record.powerLimitWatts = integer(16), record.date = text(17);
  if (recordDigest(record) != text(18)) {
    return fail(ErrorCode::kCorrupt, "record {}: its fields do not match their digest", record.id);
  }
  return record;
}

}  // namespace

RecordReader::RecordReader(SQLite::Database& sqlite)
    : record_(sqlite,
              "SELECT r.id, r.problem, d.key, r.template, r.configuration, r.status, r.reason, r.median_us, r.mad_us, "
              "r.samples, r.default_us, r.runner_up_us, r.error, r.resources, r.toolchain, r.driver, r.power_limit_w, "
              "r.date, r.digest FROM records r JOIN devices d ON d.id = r.device WHERE r.id = ?"),
      builds_(sqlite, "SELECT build_key FROM winner_builds WHERE record = ? ORDER BY ordinal") {}

Result<Record> RecordReader::record(std::int64_t id) {
  record_.tryReset();
  bindAll(record_, id);
  if (!record_.executeStep()) return fail(ErrorCode::kNotFound, "record {}, which does not exist", id);
  return readRow(record_);
}

std::vector<std::string> RecordReader::winnerBuilds(std::int64_t record) {
  builds_.tryReset();
  bindAll(builds_, record);
  std::vector<std::string> keys;
  while (builds_.executeStep()) keys.push_back(builds_.getColumn(0).getString());
  return keys;
}

Result<Record> normalized(SQLite::Database& sqlite, const Record& record) {
  const auto refuse = [&](std::string_view rule) {
    return fail(ErrorCode::kInvalidArgument, "cannot store a record of {} for {}: {}", record.templateId,
                record.problem, rule);
  };
  if (record.device.empty() || record.templateId.empty()) return refuse("device and template must not be empty");
  for (const double time :
       {record.medianMicroseconds, record.madMicroseconds, record.defaultMicroseconds, record.runnerUpMicroseconds}) {
    if (!std::isfinite(time) || time < 0) return refuse("times must be finite and not negative");
  }
  Record stored = record;
  stored.id = 0;
  if (stored.resources.empty()) stored.resources = "{}";
  if (stored.date.empty()) stored.date = utcNow();
  if (!std::isfinite(stored.error)) stored.error = std::numeric_limits<double>::quiet_NaN();
  for (const std::string* text : {&stored.problem, &stored.configuration, &stored.resources}) {
    if (!isJson(sqlite, *text)) return refuse(fmt::format("'{}' is not JSON", *text));
  }
  return stored;
}

std::string recordDigest(const Record& record) {
  Sha256 hash;
  for (const std::string& field :
       {record.problem, record.device, record.templateId, record.configuration,
        std::string(recordStatusName(record.status)), record.reason, record.resources, record.toolchain, record.date}) {
    hash.field(field);
  }
  // The shortest text that reads back as the same double.
  hash.field(fmt::format("{} {} {} {} {} {} {} {}", record.medianMicroseconds, record.madMicroseconds, record.samples,
                         record.defaultMicroseconds, record.runnerUpMicroseconds,
                         std::isnan(record.error) ? "none" : fmt::format("{}", record.error), record.driverVersion,
                         record.powerLimitWatts));
  return hash.hexDigest();
}

std::int64_t insertDevice(SQLite::Database& sqlite, std::string_view key) {
  execute(sqlite, "INSERT INTO devices (key, details) VALUES (?, '{}') ON CONFLICT DO NOTHING", key);
  SQLite::Statement statement(sqlite, "SELECT id FROM devices WHERE key = ?");
  bindAll(statement, key);
  statement.executeStep();
  return statement.getColumn(0).getInt64();
}

std::int64_t insertRecord(SQLite::Database& sqlite, const Record& record, bool& added) {
  const std::string digest = recordDigest(record);
  SQLite::Statement insert(
      sqlite,
      "INSERT INTO records (problem, device, template, configuration, status, reason, median_us, mad_us, samples, "
      "default_us, runner_up_us, error, resources, toolchain, driver, power_limit_w, date, digest) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING");
  // SQLite stores a NaN as NULL, which is what the column means by it.
  bindAll(insert, record.problem, insertDevice(sqlite, record.device), record.templateId, record.configuration,
          recordStatusName(record.status), record.reason, record.medianMicroseconds, record.madMicroseconds,
          record.samples, record.defaultMicroseconds, record.runnerUpMicroseconds, record.error, record.resources,
          record.toolchain, record.driverVersion, record.powerLimitWatts, record.date, digest);
  added = insert.exec() > 0;
  SQLite::Statement find(sqlite, "SELECT id FROM records WHERE digest = ?");
  bindAll(find, digest);
  find.executeStep();
  return find.getColumn(0).getInt64();
}

void insertWinner(SQLite::Database& sqlite, std::string_view device, std::string_view problem, std::int64_t record,
                  std::span<const std::string> buildKeys) {
  execute(sqlite, "INSERT OR REPLACE INTO winners (device, problem, record) VALUES (?, ?, ?)",
          insertDevice(sqlite, device), problem, record);
  execute(sqlite, "DELETE FROM winner_builds WHERE record = ?", record);
  for (std::size_t i = 0; i < buildKeys.size(); ++i) {
    execute(sqlite, "INSERT INTO winner_builds (record, ordinal, build_key) VALUES (?, ?, ?)", record,
            static_cast<std::int64_t>(i), buildKeys[i]);
  }
}

Result<void> insertBuild(SQLite::Database& sqlite, const StoredBuild& given, bool& added) {
  StoredBuild build = given;
  Binary& binary = build.binary;
  if (build.date.empty()) build.date = utcNow();
  if (binary.buildKey.empty() || build.requestKey.empty()) {
    return fail(ErrorCode::kInvalidArgument, "cannot store a build of {}: its keys must not be empty",
                build.templateId);
  }
  if (binary.bytes.empty() || sha256Hex(binary.bytes) != binary.hash) {
    return fail(ErrorCode::kInvalidArgument, "cannot store a build of {}: its bytes do not match hash {}",
                build.templateId, binary.hash);
  }

  SQLite::Statement blob(sqlite,
                         "INSERT INTO blobs (hash, bytes) VALUES (?, ?) ON CONFLICT (hash) DO UPDATE SET "
                         "bytes = excluded.bytes WHERE bytes <> excluded.bytes");
  blob.bind(1, binary.hash);
  blob.bind(2, binary.bytes.data(), static_cast<int>(binary.bytes.size()));
  blob.exec();

  SQLite::Statement known(sqlite, "SELECT id FROM builds WHERE build_key = ?");
  bindAll(known, binary.buildKey);
  added = !known.executeStep();
  if (!added) {
    const std::int64_t id = known.getColumn(0).getInt64();
    if (readBuild(sqlite, id)) return {};
    execute(sqlite, "DELETE FROM build_kernels WHERE build = ?", id);
    execute(sqlite, "DELETE FROM builds WHERE id = ?", id);
  }
  execute(sqlite,
          "INSERT INTO builds (build_key, request_key, template, target, compiler, hash, warnings, date, digest) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
          binary.buildKey, build.requestKey, build.templateId, binary.target, binary.compiler, binary.hash,
          joinLines(binary.warnings), build.date, buildDigest(build));
  const std::int64_t id = sqlite.getLastInsertRowid();
  for (std::size_t i = 0; i < binary.kernels.size(); ++i) {
    const KernelResources& kernel = binary.kernels[i];
    execute(sqlite,
            "INSERT INTO build_kernels (build, ordinal, entry, registers, spill_bytes, stack_bytes, shared_bytes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            id, static_cast<std::int64_t>(i), kernel.entry, kernel.registers, kernel.spillBytes, kernel.stackBytes,
            kernel.sharedBytes);
  }
  return {};
}

void insertDefault(SQLite::Database& sqlite, std::string_view templateId, std::string_view target,
                   std::string_view parameterClass, std::string_view buildKey) {
  execute(sqlite, "INSERT OR REPLACE INTO defaults (template, target, class, build_key) VALUES (?, ?, ?, ?)",
          templateId, target, parameterClass, buildKey);
}

void insertDone(SQLite::Database& sqlite, const DoneProblem& done) {
  execute(sqlite, "INSERT OR REPLACE INTO done (device, policy, problem, date) VALUES (?, ?, ?, ?)", done.device,
          done.policy, done.problem, done.date.empty() ? utcNow() : done.date);
}

Result<StoredBuild> readBuild(SQLite::Database& sqlite, std::int64_t id) {
  SQLite::Statement row(sqlite,
                        "SELECT build_key, request_key, template, target, compiler, hash, warnings, date, digest "
                        "FROM builds WHERE id = ?");
  bindAll(row, id);
  if (!row.executeStep()) return fail(ErrorCode::kNotFound, "build {} does not exist", id);
  StoredBuild build;
  Binary& binary = build.binary;
  const auto text = [&](int column) { return row.getColumn(column).getString(); };
  binary.buildKey = text(0), build.requestKey = text(1), build.templateId = text(2), binary.target = text(3);
  binary.compiler = text(4), binary.hash = text(5), binary.warnings = splitLines(text(6)), build.date = text(7);

  SQLite::Statement kernels(sqlite,
                            "SELECT entry, registers, spill_bytes, stack_bytes, shared_bytes FROM build_kernels "
                            "WHERE build = ? ORDER BY ordinal");
  bindAll(kernels, id);
  while (kernels.executeStep()) {
    const auto integer = [&](int column) { return kernels.getColumn(column).getInt(); };
    binary.kernels.push_back({kernels.getColumn(0).getString(), integer(1), integer(2), integer(3), integer(4)});
  }
  if (buildDigest(build) != text(8)) {
    return fail(ErrorCode::kCorrupt, "build {}: its fields do not match their digest", binary.buildKey);
  }

  SQLite::Statement blob(sqlite, "SELECT bytes FROM blobs WHERE hash = ?");
  bindAll(blob, binary.hash);
  if (!blob.executeStep()) {
    return fail(ErrorCode::kCorrupt, "build {}: its bytes {} are missing", binary.buildKey, binary.hash);
  }
  const SQLite::Column column = blob.getColumn(0);
  const auto* bytes = static_cast<const std::byte*>(column.getBlob());
  binary.bytes.assign(bytes, bytes + column.getBytes());
  if (sha256Hex(binary.bytes) != binary.hash) {
    return fail(ErrorCode::kCorrupt, "build {}: its bytes do not match hash {}", binary.buildKey, binary.hash);
  }
  return build;
}

namespace {

Result<StoredBuild> readFirstBuild(SQLite::Database& sqlite, const char* query, std::string_view key) {
  SQLite::Statement statement(sqlite, query);
  bindAll(statement, key);
  Result<StoredBuild> answer = fail(ErrorCode::kNotFound, "no build with key {}", key);
  while (statement.executeStep()) {
    answer = readBuild(sqlite, statement.getColumn(0).getInt64());
    if (answer) break;
  }
  return answer;
}

}  // namespace

Result<StoredBuild> readBuildByRequest(SQLite::Database& sqlite, std::string_view requestKey) {
  return readFirstBuild(sqlite, "SELECT id FROM builds WHERE request_key = ? ORDER BY date DESC, id DESC", requestKey);
}

Result<StoredBuild> readBuildByKey(SQLite::Database& sqlite, std::string_view buildKey) {
  return readFirstBuild(sqlite, "SELECT id FROM builds WHERE build_key = ?", buildKey);
}

}  // namespace tilewright
