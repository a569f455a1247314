#include "cache/connection.h"

#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "cache/file_system.h"
#include "cache/schema.h"

namespace tilewright {
namespace {

/// "file:" URI of a path, everything that has a meaning in one escaped.
std::string immutableUri(const std::filesystem::path& path) {
  std::string uri = "file:";
  for (const char letter : plainName(path)) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = std::isalnum(byte) || letter == '/' || letter == '.' || letter == '-' || letter == '_';
    uri += plain ? std::string(1, letter) : fmt::format("%{:02x}", byte);
  }
  return uri + "?immutable=1";
}

bool folderIsWritable(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  return ::access(folder.c_str(), W_OK) == 0;
}

/// Nothing, or an empty file, which becomes a database: all else is checked before SQLite sees it.
bool mayBecomeDatabase(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status)) return true;
  return std::filesystem::is_regular_file(status) && std::filesystem::file_size(path, ignored) == 0;
}

/// Checks the start of an open file, read through SQLite's own descriptor: the header, or zeros of an empty file.
Result<DatabaseHeader> checkOpenFile(SQLite::Database& sqlite, const std::filesystem::path& path) {
  sqlite3_file* file = nullptr;
  DatabaseHeader header{};
  sqlite3_int64 bytes = 0;
  if (sqlite3_file_control(sqlite.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
      file->pMethods == nullptr || file->pMethods->xFileSize(file, &bytes) != SQLITE_OK) {
    return fail(ErrorCode::kIo, "cannot open database {}: its size cannot be read", path.string());
  }
  if (bytes == 0) return header;  // Nobody has made its tables yet.
  const int code = file->pMethods->xRead(file, header.data(), static_cast<int>(header.size()), 0);
  if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) {
    return fail(ErrorCode::kIo, "cannot open database {}: its first bytes cannot be read", path.string());
  }
  TW_TRY(checkHeader(path, header, static_cast<std::uintmax_t>(bytes)));
  return header;
}

/// A writer that was killed where there is no WAL leaves a journal that readers may not roll back. Opens our file for
/// writing once, where that is allowed. What goes wrong here is left to the reader to say.
void rollBackJournal(const std::filesystem::path& path, int timeoutMilliseconds) {
  if (!hasContent(path.string() + "-journal") || ::access(path.c_str(), W_OK) != 0) return;
  try {
    SQLite::Database sqlite(plainName(path), SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX | SQLite::OPEN_URI,
                            timeoutMilliseconds);
    const auto header = checkOpenFile(sqlite, path);
    if (header && std::string_view(reinterpret_cast<const char*>(header->data()) + 68, 4) == "TWDB") {
      sqlite.execAndGet("PRAGMA schema_version");
    }
  } catch (const SQLite::Exception&) {
  }
}

/// Switches the journal mode. SQLite calls no busy handler here, so a file in use is waited for by trying again.
void setJournalMode(SQLite::Database& sqlite, std::string_view mode, int timeoutMilliseconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(timeoutMilliseconds);
  const std::string query = fmt::format("PRAGMA journal_mode = {}", mode);
  while (true) {
    if (sqlite.execAndGet("PRAGMA journal_mode").getString() == mode) return;
    const int code = sqlite.tryExec(query);
    if (code == SQLITE_OK) return;
    if (code != SQLITE_BUSY || Clock::now() >= end) throw SQLite::Exception(sqlite.getHandle(), code);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const std::filesystem::path& path, const DatabaseOptions& options,
                                                     Journal journal) {
  if (path.empty()) return fail(ErrorCode::kInvalidArgument, "cannot open a database: its path is empty");
  if (options.access == DatabaseAccess::kCreate) TW_TRY(makeFolders(path.parent_path()));
  if (options.access != DatabaseAccess::kCreate || !mayBecomeDatabase(path)) TW_TRY(checkDatabaseFile(path));

  std::unique_ptr<Connection> connection(new Connection(path, options.access != DatabaseAccess::kRead));
  TW_TRY(connection->guard("open", [&] { return connection->connect(options, journal); }));
  return connection;
}

Result<void> Connection::connect(const DatabaseOptions& options, Journal journal) {
  // A file that nobody can change needs no locks, and on a read-only file system could not have any.
  const bool immutable = !writable_ && onReadOnlyFileSystem(path_) && !hasContent(path_.string() + "-wal") &&
                         !hasContent(path_.string() + "-journal");
  if (!writable_ && !immutable) rollBackJournal(path_, options.busyTimeoutMilliseconds);
  const int mode = options.access == DatabaseAccess::kRead    ? SQLite::OPEN_READONLY
                   : options.access == DatabaseAccess::kWrite ? SQLite::OPEN_READWRITE
                                                              : SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE;
  sqlite_ = std::make_unique<SQLite::Database>(immutable ? immutableUri(path_) : plainName(path_),
                                               mode | SQLite::OPEN_NOMUTEX | SQLite::OPEN_URI,
                                               options.busyTimeoutMilliseconds);
  TW_TRY(checkOpenFile(*sqlite_, path_));
  if (writable_ && sqlite3_db_readonly(sqlite_->getHandle(), "main") == 1) {
    return fail(ErrorCode::kIo, "cannot write to database {}: the file is read-only", path_.string());
  }

  // Distrust what the file says: its schema runs no functions, its pages are checked as they are read.
  sqlite_->exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA synchronous = FULL");
  if (options.access == DatabaseAccess::kCreate && isEmptyDatabase(*sqlite_)) {
    // Two processes may come here at once; the second finds the tables of the first.
    SQLite::Transaction transaction(*sqlite_, SQLite::TransactionBehavior::IMMEDIATE);
    if (isEmptyDatabase(*sqlite_)) createSchema(*sqlite_);
    transaction.commit();
  }
  TW_TRY(checkSchema(*sqlite_, path_.string()));

  if (!writable_) return {};
  const std::string_view network = networkFileSystem(path_);
  if (!network.empty()) {
    notes_.push_back(
        fmt::format("database {} lies on a network file system ({}): it is used without WAL; processes on "
                    "other machines should tune into files of their own, to be merged",
                    path_.string(), network));
  }
  setJournalMode(*sqlite_, journal == Journal::kShared && network.empty() ? "wal" : "delete",
                 options.busyTimeoutMilliseconds);
  return {};
}

Error Connection::translate(std::string_view attempt, const SQLite::Exception& exception) const {
  const auto error = [&](ErrorCode code, std::string_view reason) {
    return Error{code,
                 fmt::format("cannot {}: database {}: {} ({})", attempt, path_.string(), reason, exception.what())};
  };
  switch (exception.getErrorCode()) {
    case SQLITE_CORRUPT:
      return error(ErrorCode::kCorrupt, "the file is damaged");
    case SQLITE_NOTADB:
      return error(ErrorCode::kCorrupt, "not a SQLite file");
    case SQLITE_FORMAT:
    case SQLITE_MISMATCH:
      return error(ErrorCode::kCorrupt, "the file's content is not what its schema says");
    case SQLITE_FULL:
      return error(ErrorCode::kIo, "no space left");
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return error(ErrorCode::kIo, "permission denied");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      if (exception.getExtendedErrorCode() == SQLITE_READONLY_ROLLBACK) {
        return error(ErrorCode::kIo,
                     "a write that was cut off has to be rolled back, by a program that may write the file");
      }
      if (folderIsWritable(path_)) return error(ErrorCode::kIo, "the file cannot be opened or is read-only");
      return error(ErrorCode::kIo, writable_
                                       ? "its folder is read-only"
                                       : "it is open for writing elsewhere or was left in WAL mode, which cannot be "
                                         "read in a read-only folder; export it and open the export");
    case SQLITE_IOERR:
      return error(ErrorCode::kIo, "the operating system refused to read or write");
    case SQLITE_NOLFS:
      return error(ErrorCode::kIo, "the file is larger than this system allows");
    case SQLITE_TOOBIG:
      return error(ErrorCode::kInvalidArgument, "a value is larger than SQLite holds");
    case SQLITE_NOMEM:
      return error(ErrorCode::kOutOfMemory, "out of memory");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return error(ErrorCode::kUnavailable, "locked by another process");
    case SQLITE_PROTOCOL:
      return error(ErrorCode::kUnavailable, "its locks do not work on this file system");
    default:
      return error(ErrorCode::kInternal, "an unexpected answer from SQLite");
  }
}

}  // namespace tilewright
