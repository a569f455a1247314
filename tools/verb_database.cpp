// `tilewright db`: ls, show, verify, merge, export.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cache/database.h"
#include "cache/transfer.h"
#include "format/configuration_json.h"
#include "format/json_parse.h"
#include "format/listing.h"
#include "format/problem_json.h"
#include "tools/problem_text.h"
#include "tools/setup.h"
#include "tools/table.h"
#include "tools/verbs.h"

namespace tilewright {
namespace {

using Path = std::filesystem::path;
using Side = Table::Side;

Result<Path> userPath(const Options& options) {
  return options.databases.user ? *options.databases.user : userDatabasePath(options.environment);
}

// The files that a verb is about: its arguments, or the user's database (and, for `ls`, those below it).
Result<std::vector<Path>> filesOf(const Options& options) {
  if (!options.database.files.empty()) return options.database.files;
  return std::vector<Path>{TW_TRY(userPath(options))};
}

Result<std::unique_ptr<Database>> open(const Path& path, DatabaseAccess access = DatabaseAccess::kRead) {
  auto database = TW_TRY(Database::open(path, {.access = access}));
  printNotes(database->notes());
  return database;
}

// Stored texts are canonical JSON; one that is not is shown as a string.
JsonValue storedJson(std::string_view text) {
  auto value = parseJson(text);
  return value ? std::move(*value) : JsonValue(text);
}

JsonValue recordToJson(const Record& record) {
  JsonValue value = JsonValue::object({{"problem", storedJson(record.problem)},
                                       {"device", record.device},
                                       {"template", record.templateId},
                                       {"configuration", storedJson(record.configuration)},
                                       {"status", recordStatusName(record.status)}});
  if (record.status != RecordStatus::kOk) value.add("reason", record.reason);
  if (record.status == RecordStatus::kOk) {
    value.add("median_us", record.medianMicroseconds);
    value.add("mad_us", record.madMicroseconds);
    value.add("samples", record.samples);
    if (record.defaultMicroseconds > 0) value.add("default_us", record.defaultMicroseconds);
    if (record.runnerUpMicroseconds > 0) value.add("runner_up_us", record.runnerUpMicroseconds);
  }
  value.add("error", record.error);
  value.add("resources", storedJson(record.resources));
  value.add("toolchain", record.toolchain);
  value.add("driver_version", record.driverVersion);
  value.add("power_limit_watts", record.powerLimitWatts);
  value.add("date", record.date);
  return value;
}

std::string storedProblemText(const std::string& text) {
  const auto problem = parseProblem(text);
  return problem ? problemText(*problem) : text;
}

std::string storedConfigurationText(const std::string& text) {
  auto entries = parseConfiguration(text);
  return entries ? Configuration(std::move(*entries)).text() : text;
}

std::string recordsTable(const std::vector<Record>& records) {
  Table table({{"device"},
               {"problem"},
               {"template"},
               {"configuration"},
               {"time", Side::kRight},
               {"vs default", Side::kRight},
               {"error", Side::kRight},
               {"status"}});
  for (const Record& record : records) {
    const bool ok = record.status == RecordStatus::kOk;
    const double speedUp =
        ok && record.medianMicroseconds > 0 ? record.defaultMicroseconds / record.medianMicroseconds : 0;
    table.add({record.device, storedProblemText(record.problem), record.templateId,
               storedConfigurationText(record.configuration), ok ? formatMicroseconds(record.medianMicroseconds) : "-",
               speedUp > 0 ? fmt::format("{:.2f}x", speedUp) : "-",
               record.error == record.error ? fmt::format("{:.2e}", record.error) : "-",
               ok ? "ok" : fmt::format("{}: {}", recordStatusName(record.status), record.reason)});
  }
  return table.text();
}

// Says why a file was passed over. The exit code of several files is the first failure's, but damage goes before all.
ExitCode afterFailure(ExitCode code, const Error& error) {
  printNotes({error.message});
  const ExitCode own = exitCodeOf(error.code);
  return code == kExitSuccess || own == kExitCorrupt ? own : code;
}

Result<ExitCode> list(const Options& options) {
  std::vector<Path> files = TW_TRY(filesOf(options));
  if (options.database.files.empty()) {
    files.insert(files.end(), options.databases.systems.begin(), options.databases.systems.end());
  }
  Table table({{"file"},
               {"size", Side::kRight},
               {"devices", Side::kRight},
               {"winners", Side::kRight},
               {"records", Side::kRight},
               {"binaries", Side::kRight},
               {"binary size", Side::kRight}});
  JsonValue::Array entries;
  ExitCode code = kExitSuccess;
  for (const Path& file : files) {
    const auto read = [&]() -> Result<DatabaseSummary> { return TW_TRY(open(file))->summary(); }();
    if (!read) {
      code = afterFailure(code, read.error());
      continue;
    }
    const DatabaseSummary& summary = *read;
    table.add({file.string(), formatBytes(static_cast<double>(summary.fileBytes)), fmt::format("{}", summary.devices),
               fmt::format("{}", summary.winners), fmt::format("{}", summary.records),
               fmt::format("{}", summary.builds), formatBytes(static_cast<double>(summary.blobBytes))});
    entries.push_back(JsonValue::object({{"file", file.string()},
                                         {"bytes", summary.fileBytes},
                                         {"devices", summary.devices},
                                         {"winners", summary.winners},
                                         {"records", summary.records},
                                         {"builds", summary.builds},
                                         {"defaults", summary.defaults},
                                         {"binary_bytes", summary.blobBytes}}));
  }
  if (options.json || !table.empty()) fmt::print("{}", options.json ? listingText("databases", entries) : table.text());
  return code;
}

Result<ExitCode> show(const Options& options) {
  const DatabaseCommand& command = options.database;
  const auto database = TW_TRY(open(TW_TRY(filesOf(options)).front()));
  std::vector<std::string> warnings;
  std::vector<Record> records;
  if (command.records) {
    records = TW_TRY(database->records({.problem = command.problem, .templateId = command.templateId}, warnings));
  } else {
    for (Winner& winner : TW_TRY(database->winners("", warnings))) {
      if (!command.problem.empty() && winner.record.problem != command.problem) continue;
      if (!command.templateId.empty() && winner.record.templateId != command.templateId) continue;
      records.push_back(std::move(winner.record));
    }
  }
  printNotes(warnings);
  const std::string_view name = command.records ? "records" : "winners";
  if (!options.json) {
    fmt::print("{}{} {} in {}\n", records.empty() ? "" : recordsTable(records), records.size(), name,
               database->path().string());
    return kExitSuccess;
  }
  JsonValue::Array entries;
  for (const Record& record : records) entries.push_back(recordToJson(record));
  fmt::print("{}", listingText(name, entries));
  return kExitSuccess;
}

Result<ExitCode> verify(const Options& options) {
  ExitCode code = kExitSuccess;
  JsonValue::Array entries;
  for (const Path& file : TW_TRY(filesOf(options))) {
    const auto read = [&]() -> Result<VerifyReport> { return TW_TRY(open(file))->verify(); }();
    if (!read) {
      code = afterFailure(code, read.error());
      entries.push_back(JsonValue::object(
          {{"file", file.string()}, {"clean", false}, {"problems", JsonValue::Array{read.error().message}}}));
      continue;
    }
    const VerifyReport& report = *read;
    if (!report.problems.empty()) code = kExitCorrupt;
    JsonValue::Array problems(report.problems.begin(), report.problems.end());
    entries.push_back(JsonValue::object({{"file", file.string()},
                                         {"clean", report.problems.empty()},
                                         {"records", report.records},
                                         {"winners", report.winners},
                                         {"builds", report.builds},
                                         {"blobs", report.blobs},
                                         {"problems", std::move(problems)}}));
    if (options.json) continue;
    for (const std::string& problem : report.problems) fmt::print("{}: {}\n", file.string(), problem);
    fmt::print("{}: {} winners, {} records, {} builds, {} binaries: {}\n", file.string(), report.winners,
               report.records, report.builds, report.blobs,
               report.problems.empty() ? "clean" : fmt::format("{} problems", report.problems.size()));
  }
  if (options.json) fmt::print("{}", listingText("databases", entries));
  return code;
}

JsonValue conflictToJson(const MergeConflict& conflict) {
  return JsonValue::object({{"problem", storedJson(conflict.problem)},
                            {"device", conflict.device},
                            {"kept", recordToJson(conflict.kept)},
                            {"other", recordToJson(conflict.other)},
                            {"reason", conflict.reason}});
}

Result<ExitCode> merge(const Options& options) {
  const Path path = TW_TRY(userPath(options));
  // All sources are opened before the target is made or changed.
  std::vector<std::unique_ptr<Database>> sources;
  for (const Path& file : options.database.files) {
    std::error_code error;
    if (std::filesystem::equivalent(file, path, error)) {
      return fail(ErrorCode::kInvalidArgument, "cannot merge {} into itself", file.string());
    }
    sources.push_back(TW_TRY(open(file)));
  }
  const auto target = TW_TRY(open(path, DatabaseAccess::kCreate));
  JsonValue::Array entries;
  std::optional<Error> failure;
  for (const auto& source : sources) {
    const Path& file = source->path();
    const Result<MergeReport> merged = mergeDatabase(*target, *source);
    if (!merged) {
      failure = merged.error();
      break;
    }
    const MergeReport& report = *merged;
    printNotes(report.warnings);
    JsonValue::Array conflicts;
    for (const MergeConflict& conflict : report.conflicts) conflicts.push_back(conflictToJson(conflict));
    entries.push_back(JsonValue::object({{"file", file.string()},
                                         {"winners_added", report.winnersAdded},
                                         {"winners_replaced", report.winnersReplaced},
                                         {"records_added", report.recordsAdded},
                                         {"builds_added", report.buildsAdded},
                                         {"defaults_added", report.defaultsAdded},
                                         {"conflicts", std::move(conflicts)}}));
    if (options.json) continue;
    fmt::print("{} into {}: {} winners added, {} replaced; {} records, {} binaries, {} defaults added\n", file.string(),
               path.string(), report.winnersAdded, report.winnersReplaced, report.recordsAdded, report.buildsAdded,
               report.defaultsAdded);
    for (const MergeConflict& conflict : report.conflicts) {
      fmt::print("conflict: {} on {}: kept {} of {}, other {}: {}\n", storedProblemText(conflict.problem),
                 conflict.device, formatMicroseconds(conflict.kept.medianMicroseconds), conflict.kept.templateId,
                 formatMicroseconds(conflict.other.medianMicroseconds), conflict.reason);
    }
  }
  if (options.json) fmt::print("{}", listingText("merges", entries));
  if (failure) return std::unexpected(std::move(*failure));
  return kExitSuccess;
}

Result<ExitCode> exportTo(const Options& options) {
  const auto source = TW_TRY(open(TW_TRY(userPath(options))));
  const Path& target = options.database.files.front();
  const ExportReport report = TW_TRY(exportDatabase(
      *source, target, {.winnersOnly = options.database.winnersOnly, .overwrite = options.database.overwrite}));
  for (const std::string& pair : report.missingDefaults) {
    fmt::print(stderr, "tilewright: no default binary for {}: problems that nobody tuned will find none there\n", pair);
  }
  if (options.json) {
    fmt::print("{}", listingText("exports", {JsonValue::object({{"file", target.string()},
                                                                {"winners", report.winners},
                                                                {"records", report.records},
                                                                {"builds", report.builds},
                                                                {"bytes", report.bytes}})}));
    return kExitSuccess;
  }
  fmt::print("{}: {} winners, {} records, {} binaries, {}\n", target.string(), report.winners, report.records,
             report.builds, formatBytes(static_cast<double>(report.bytes)));
  return kExitSuccess;
}

}  // namespace

Result<ExitCode> runDatabase(const Options& options) {
  switch (options.database.action) {
    case DatabaseCommand::Action::kList:
      return list(options);
    case DatabaseCommand::Action::kShow:
      return show(options);
    case DatabaseCommand::Action::kVerify:
      return verify(options);
    case DatabaseCommand::Action::kMerge:
      return merge(options);
    case DatabaseCommand::Action::kExport:
      return exportTo(options);
  }
  return fail(ErrorCode::kInternal, "unknown database action {}", static_cast<int>(options.database.action));
}

}  // namespace tilewright
