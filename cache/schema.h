// The tables of a tuning database, and the check that a file has exactly these.
//
// Internal to cache/. The file's `application_id` names Tilewright, its `user_version` the schema. A file whose stored
// table definitions differ by a letter is refused: triggers, views or columns of somebody else never run here.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace SQLite {
class Database;
}

namespace tilewright {

inline constexpr std::int32_t kApplicationId = 0x54574442;  // "TWDB"
inline constexpr std::int32_t kSchemaVersion = 1;

/// Creates the tables in an empty database, inside the caller's transaction.
void createSchema(SQLite::Database& sqlite);

/// Whether the file holds nothing at all yet.
bool isEmptyDatabase(SQLite::Database& sqlite);

/// kVersion for another application or schema version, kCorrupt if the tables are not exactly these.
Result<void> checkSchema(SQLite::Database& sqlite, const std::string& path);

}  // namespace tilewright
