// An open SQLite file: how it is opened and checked, and the one place where SQLiteCpp's exceptions become errors.
//
// Internal to cache/. `read` and `write` run a function on the connection while holding its lock; whatever SQLite
// throws in there comes back as an Error that names the file, the attempt and what the user can do.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/database.h"

namespace tilewright {

class Connection {
 public:
  enum class Journal : std::uint8_t {
    kShared,  ///< WAL where the file system allows it: several writers, readers never wait
    kClosed,  ///< nothing beside the file once it is closed: exports, and files on network file systems
  };

  static Result<std::unique_ptr<Connection>> open(const std::filesystem::path& path, const DatabaseOptions& options,
                                                  Journal journal = Journal::kShared);

  const std::filesystem::path& path() const { return path_; }
  bool writable() const { return writable_; }
  const std::vector<std::string>& notes() const { return notes_; }

  /// Runs `body(SQLite::Database&)`, which returns a Result, and turns exceptions into errors.
  template <typename Body>
  auto read(std::string_view attempt, Body&& body) -> decltype(body(std::declval<SQLite::Database&>())) {
    const std::scoped_lock lock(mutex_);
    return guard(attempt, [&] { return body(*sqlite_); });
  }

  /// The same inside a transaction that takes the write lock at once; committed when `body` returns a value.
  template <typename Body>
  auto write(std::string_view attempt, Body&& body) -> decltype(body(std::declval<SQLite::Database&>())) {
    if (!writable_) {
      return fail(ErrorCode::kInvalidArgument, "cannot {}: database {} was opened for reading", attempt,
                  path_.string());
    }
    const std::scoped_lock lock(mutex_);
    using R = decltype(body(*sqlite_));
    return guard(attempt, [&]() -> R {
      SQLite::Transaction transaction(*sqlite_, SQLite::TransactionBehavior::IMMEDIATE);
      auto result = body(*sqlite_);
      if (result) transaction.commit();
      return result;
    });
  }

  /// Runs `body`, already on the connection, and turns exceptions into errors: for work that survives a damaged row.
  template <typename Body>
  auto guard(std::string_view attempt, Body&& body) const -> decltype(body()) {
    try {
      return body();
    } catch (const SQLite::Exception& exception) {
      return std::unexpected(translate(attempt, exception));
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::kOutOfMemory, "cannot {}: out of memory with database {}", attempt, path_.string());
    }
  }

 private:
  Connection(std::filesystem::path path, bool writable) : path_(std::move(path)), writable_(writable) {}
  Error translate(std::string_view attempt, const SQLite::Exception& exception) const;
  Result<void> connect(const DatabaseOptions& options, Journal journal);

  std::filesystem::path path_;
  bool writable_;
  std::vector<std::string> notes_;
  std::unique_ptr<SQLite::Database> sqlite_;
  std::mutex mutex_;
};

}  // namespace tilewright
