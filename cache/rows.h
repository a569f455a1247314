// One row at a time between plain values and tables. Internal to cache/; callers hold the connection, and a transaction
// to write. SQLite's exceptions pass through.
//
// Every record and every build carries a digest, the SHA-256 of its fields, so that a flipped bit in a name or a time
// is found as surely as one in a binary.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "cache/record.h"

namespace tilewright {

/// Binds all values to a statement's parameters, in order.
template <typename... Values>
void bindAll(SQLite::Statement& statement, const Values&... values) {
  int index = 0;
  const auto bindOne = [&](const auto& value) {
    if constexpr (std::is_convertible_v<decltype(value), std::string_view>) {
      statement.bind(++index, std::string(std::string_view(value)));
    } else {
      statement.bind(++index, value);
    }
  };
  (bindOne(values), ...);
}

template <typename... Values>
void execute(SQLite::Database& sqlite, const char* query, const Values&... values) {
  SQLite::Statement statement(sqlite, query);
  bindAll(statement, values...);
  statement.exec();
}

/// A copy as it will be stored: date filled in, an error that is not finite made NaN, the id dropped. kInvalidArgument
/// for empty keys, times that are not finite or negative, and texts that are not JSON.
Result<Record> normalized(SQLite::Database& sqlite, const Record& record);

std::string recordDigest(const Record& record);

/// Adds a normalized record, or finds the equal one; its id. `added` says which.
std::int64_t insertRecord(SQLite::Database& sqlite, const Record& record, bool& added);

/// Reads many records and winners' builds with statements that are prepared once. Usable again after an exception.
class RecordReader {
 public:
  explicit RecordReader(SQLite::Database& sqlite);

  /// kNotFound, or kCorrupt if the row's status is none or its fields do not match its digest.
  Result<Record> record(std::int64_t id);
  /// The build keys of a winner's plan, in order.
  std::vector<std::string> winnerBuilds(std::int64_t record);

 private:
  SQLite::Statement record_;
  SQLite::Statement builds_;
};

std::int64_t insertDevice(SQLite::Database& sqlite, std::string_view key);

void insertWinner(SQLite::Database& sqlite, std::string_view device, std::string_view problem, std::int64_t record,
                  std::span<const std::string> buildKeys);

/// Adds a build, its kernels and its bytes, or replaces a damaged one of the same key. kInvalidArgument if a key is
/// empty or the bytes are none or do not match `binary.hash`. `added` says whether the build key is new.
Result<void> insertBuild(SQLite::Database& sqlite, const StoredBuild& build, bool& added);
void insertDefault(SQLite::Database& sqlite, std::string_view templateId, std::string_view target,
                   std::string_view parameterClass, std::string_view buildKey);
void insertDone(SQLite::Database& sqlite, const DoneProblem& done);

/// The build of a row of `builds`; kNotFound, or kCorrupt if its digest or the hash of its bytes does not match.
Result<StoredBuild> readBuild(SQLite::Database& sqlite, std::int64_t id);
/// The newest build with a request key, or the one with a build key.
Result<StoredBuild> readBuildByRequest(SQLite::Database& sqlite, std::string_view requestKey);
Result<StoredBuild> readBuildByKey(SQLite::Database& sqlite, std::string_view buildKey);

}  // namespace tilewright
