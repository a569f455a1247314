// Database::verify: reads everything and checks every promise of the schema. Each check goes on behind a damaged row,
// so that one report names all the damage.
#include <SQLiteCpp/SQLiteCpp.h>

#include "base/hash.h"
#include "cache/connection.h"
#include "cache/database.h"
#include "cache/rows.h"
#include "cache/schema.h"

namespace tilewright {
namespace {

class Verifier {
 public:
  Verifier(Connection& connection, SQLite::Database& sqlite)
      : connection_(connection), sqlite_(sqlite), reader_(sqlite) {}

  VerifyReport run() {
    check("check the schema", [&]() -> Result<void> { return checkSchema(sqlite_, connection_.path().string()); });
    check("check the structure", [&]() -> Result<void> { return checkStructure(); });
    report_.records = eachId("SELECT id FROM records", [&](std::int64_t id) { return checkRecord(id); });
    report_.builds = eachId("SELECT id FROM builds", [&](std::int64_t id) -> Result<void> {
      TW_TRY(readBuild(sqlite_, id));
      return {};
    });
    report_.blobs = eachId("SELECT rowid FROM blobs", [&](std::int64_t id) { return checkBlob(id); });
    report_.winners = sqlite_.execAndGet("SELECT count(*) FROM winners").getInt64();
    check("check the references", [&]() -> Result<void> { return checkReferences(); });
    return std::move(report_);
  }

 private:
  template <typename Body>
  void check(std::string_view attempt, Body&& body) {
    const Result<void> status = connection_.guard(attempt, body);
    if (!status) report_.problems.push_back(status.error().message);
  }

  template <typename Body>
  std::int64_t eachId(const char* query, Body&& body) {
    std::int64_t count = 0;
    check("list rows", [&]() -> Result<void> {
      SQLite::Statement statement(sqlite_, query);
      for (; statement.executeStep(); ++count) {
        const std::int64_t id = statement.getColumn(0).getInt64();
        check("read a row", [&]() -> Result<void> { return body(id); });
      }
      return {};
    });
    return count;
  }

  Result<void> checkStructure() {
    SQLite::Statement statement(sqlite_, "PRAGMA integrity_check(100)");
    while (statement.executeStep()) {
      const std::string line = statement.getColumn(0).getString();
      if (line != "ok") report_.problems.push_back("structure: " + line);
    }
    return {};
  }

  Result<void> checkRecord(std::int64_t id) {
    TW_TRY(reader_.record(id));
    SQLite::Statement json(sqlite_,
                           "SELECT json_valid(problem) AND json_valid(configuration) AND json_valid(resources) "
                           "FROM records WHERE id = ?");
    bindAll(json, id);
    if (!json.executeStep() || json.getColumn(0).getInt() != 1) {
      return fail(ErrorCode::kCorrupt, "record {}: problem, configuration or resources is not JSON", id);
    }
    return {};
  }

  Result<void> checkBlob(std::int64_t id) {
    SQLite::Statement blob(sqlite_, "SELECT hash, bytes FROM blobs WHERE rowid = ?");
    bindAll(blob, id);
    if (!blob.executeStep()) return fail(ErrorCode::kCorrupt, "blob {}: cannot be found again", id);
    const SQLite::Column bytes = blob.getColumn(1);
    const std::string hash = blob.getColumn(0).getString();
    if (sha256Hex({static_cast<const std::byte*>(bytes.getBlob()), static_cast<std::size_t>(bytes.getBytes())}) !=
        hash) {
      return fail(ErrorCode::kCorrupt, "blob {}: its bytes do not match its hash", hash);
    }
    return {};
  }

  Result<void> checkReferences() {
    struct Rule {
      const char* query;  // selects a name for each row that breaks the rule
      std::string_view text;
    };
    for (const auto& [query, text] : {
             Rule{"SELECT w.problem FROM winners w LEFT JOIN records r ON r.id = w.record "
                  "WHERE r.id IS NULL OR r.problem <> w.problem OR r.device <> w.device OR r.status <> 'ok'",
                  "the winner of {} does not point to an ok record of that problem and device"},
             Rule{"SELECT w.problem FROM winners w LEFT JOIN devices d ON d.id = w.device WHERE d.id IS NULL",
                  "the winner of {} is of a device that does not exist"},
             Rule{"SELECT r.id FROM records r LEFT JOIN devices d ON d.id = r.device WHERE d.id IS NULL",
                  "record {} is of a device that does not exist"},
             Rule{"SELECT w.problem FROM winners w JOIN winner_builds u ON u.record = w.record "
                  "LEFT JOIN builds b ON b.build_key = u.build_key WHERE b.id IS NULL",
                  "the winner of {} needs a build that does not exist"},
             Rule{
                 "SELECT f.template || ' ' || f.target FROM defaults f LEFT JOIN builds b ON b.build_key = f.build_key "
                 "WHERE b.id IS NULL",
                 "the default of {} needs a build that does not exist"},
             Rule{"SELECT problem FROM done WHERE NOT json_valid(problem)", "the done problem {} is not JSON"},
             Rule{"SELECT key FROM devices WHERE NOT json_valid(details)", "the details of device {} are not JSON"},
         }) {
      SQLite::Statement statement(sqlite_, query);
      while (statement.executeStep()) {
        report_.problems.push_back(fmt::format(fmt::runtime(text), statement.getColumn(0).getString()));
      }
    }
    return {};
  }

  Connection& connection_;
  SQLite::Database& sqlite_;
  RecordReader reader_;
  VerifyReport report_;
};

}  // namespace

Result<VerifyReport> Database::verify() const {
  return connection_->read("verify", [&](SQLite::Database& sqlite) -> Result<VerifyReport> {
    // One transaction, so that a writer beside this one cannot change rows between the checks.
    SQLite::Transaction transaction(sqlite);
    return Verifier(*connection_, sqlite).run();
  });
}

}  // namespace tilewright
