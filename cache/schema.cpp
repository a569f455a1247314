#include "cache/schema.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <map>
#include <string_view>

namespace tilewright {
namespace {

struct Definition {
  std::string_view name;
  std::string_view sql;
};

// NOTE: changing a letter here makes another schema; count kSchemaVersion up with it.
constexpr std::array kDefinitions = {
    Definition{"devices", R"(CREATE TABLE devices (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  details TEXT NOT NULL
) STRICT)"},
    Definition{"records", R"(CREATE TABLE records (
  id INTEGER PRIMARY KEY,
  problem TEXT NOT NULL,
  device INTEGER NOT NULL,
  template TEXT NOT NULL,
  configuration TEXT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT NOT NULL,
  median_us REAL NOT NULL,
  mad_us REAL NOT NULL,
  samples INTEGER NOT NULL,
  default_us REAL NOT NULL,
  runner_up_us REAL NOT NULL,
  error REAL,
  resources TEXT NOT NULL,
  toolchain TEXT NOT NULL,
  driver INTEGER NOT NULL,
  power_limit_w INTEGER NOT NULL,
  date TEXT NOT NULL,
  digest TEXT NOT NULL UNIQUE
) STRICT)"},
    Definition{"records_by_problem", "CREATE INDEX records_by_problem ON records (device, problem)"},
    Definition{"winners", R"(CREATE TABLE winners (
  device INTEGER NOT NULL,
  problem TEXT NOT NULL,
  record INTEGER NOT NULL,
  PRIMARY KEY (device, problem)
) STRICT, WITHOUT ROWID)"},
    Definition{"winner_builds", R"(CREATE TABLE winner_builds (
  record INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  build_key TEXT NOT NULL,
  PRIMARY KEY (record, ordinal)
) STRICT, WITHOUT ROWID)"},
    Definition{"blobs", R"(CREATE TABLE blobs (
  hash TEXT PRIMARY KEY NOT NULL,
  bytes BLOB NOT NULL
) STRICT)"},
    Definition{"builds", R"(CREATE TABLE builds (
  id INTEGER PRIMARY KEY,
  build_key TEXT NOT NULL UNIQUE,
  request_key TEXT NOT NULL,
  template TEXT NOT NULL,
  target TEXT NOT NULL,
  compiler TEXT NOT NULL,
  hash TEXT NOT NULL,
  warnings TEXT NOT NULL,
  date TEXT NOT NULL,
  digest TEXT NOT NULL
) STRICT)"},
    Definition{"builds_by_request", "CREATE INDEX builds_by_request ON builds (request_key)"},
    Definition{"build_kernels", R"(CREATE TABLE build_kernels (
  build INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  entry TEXT NOT NULL,
  registers INTEGER NOT NULL,
  spill_bytes INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL,
  shared_bytes INTEGER NOT NULL,
  PRIMARY KEY (build, ordinal)
) STRICT, WITHOUT ROWID)"},
    Definition{"defaults", R"(CREATE TABLE defaults (
  template TEXT NOT NULL,
  target TEXT NOT NULL,
  class TEXT NOT NULL,
  build_key TEXT NOT NULL,
  PRIMARY KEY (template, target, class)
) STRICT, WITHOUT ROWID)"},
    Definition{"done", R"(CREATE TABLE done (
  device TEXT NOT NULL,
  policy TEXT NOT NULL,
  problem TEXT NOT NULL,
  date TEXT NOT NULL,
  PRIMARY KEY (device, policy, problem)
) STRICT, WITHOUT ROWID)"},
};

}  // namespace

void createSchema(SQLite::Database& sqlite) {
  for (const Definition& definition : kDefinitions) sqlite.exec(std::string(definition.sql));
  sqlite.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  sqlite.exec(fmt::format("PRAGMA user_version = {}", kSchemaVersion));
}

bool isEmptyDatabase(SQLite::Database& sqlite) {
  return sqlite.execAndGet("PRAGMA application_id").getInt() == 0 &&
         sqlite.execAndGet("PRAGMA user_version").getInt() == 0 &&
         sqlite.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
}

Result<void> checkSchema(SQLite::Database& sqlite, const std::string& path) {
  const std::int32_t application = sqlite.execAndGet("PRAGMA application_id").getInt();
  if (application != kApplicationId) {
    return fail(
        ErrorCode::kVersion,
        "cannot use {} as a tuning database: its application_id is {:#x}, must be {:#x}; another program owns it", path,
        static_cast<std::uint32_t>(application), kApplicationId);
  }
  const std::int32_t version = sqlite.execAndGet("PRAGMA user_version").getInt();
  if (version != kSchemaVersion) {
    return fail(ErrorCode::kVersion, "cannot use tuning database {}: its schema is {}, this program reads {}; {}", path,
                version, kSchemaVersion,
                version > kSchemaVersion ? "a newer tilewright wrote it" : "an older tilewright wrote it, tune again");
  }

  // Every object of ours must be there with our text, and nothing else. Automatic indexes have no text.
  std::map<std::string, std::string, std::less<>> stored;
  SQLite::Statement statement(sqlite, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
  while (statement.executeStep())
    stored.emplace(statement.getColumn(0).getString(), statement.getColumn(1).getString());
  for (const Definition& definition : kDefinitions) {
    const auto found = stored.find(definition.name);
    if (found == stored.end() || found->second != definition.sql) {
      return fail(ErrorCode::kCorrupt, "damaged tuning database {}: {} is {}", path, definition.name,
                  found == stored.end() ? "missing" : "not defined as this schema has it");
    }
    stored.erase(found);
  }
  if (!stored.empty()) {
    return fail(ErrorCode::kCorrupt, "damaged tuning database {}: it holds '{}', which is not part of the schema", path,
                stored.begin()->first);
  }
  return {};
}

}  // namespace tilewright
