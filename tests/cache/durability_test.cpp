// The tuning database under fire: killed writers, several writers, full disks, read-only places, damaged and foreign
// files. One long file: its tests share the forked child and the helpers that damage a file.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <random>

#include "cache/database.h"
#include "cache/file_system.h"
#include "cache/transfer.h"
#include "tests/cache/samples.h"

namespace tilewright {
namespace {

using samples::build;
using samples::kDevice;
using samples::problemText;
using samples::record;
using samples::TemporaryFolder;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// A forked process that runs `body`, which writes to a pipe that `output` reads to its end.
class Child {
 public:
  explicit Child(const std::function<void(int pipe)>& body) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[0]);
      body(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    ::close(pipe_);
    if (!reaped_) wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() { ::kill(process_, SIGKILL); }
  int pipe() const { return pipe_; }
  /// Everything the child wrote, after its end.
  std::string output() {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(pipe_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }
  /// The exit status of a child that ended by itself, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t process_ = 0;
  int pipe_ = -1;
  bool reaped_ = false;
};

void say(int pipe, std::string_view text) {
  if (::write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::_exit(3);
}

/// Commits winners for m = first, first + 1, ... and says each number once it is committed; an error ends it.
void commitWinners(const std::filesystem::path& path, int pipe, int first, int count) {
  auto database = Database::open(path, {.access = DatabaseAccess::kCreate});
  if (!database) return say(pipe, "error " + database.error().message + "\n");
  for (int m = first; m < first + count; ++m) {
    const auto status = (*database)->commitWinner(record(m), std::vector{build(std::to_string(m), 20000)}, "policy");
    if (!status) return say(pipe, "error " + status.error().message + "\n");
    say(pipe, std::to_string(m) + "\n");
  }
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

/// Checks that each number of `said` is a winner with its build.
void expectWinners(const Database& database, const std::vector<std::string>& said) {
  std::vector<std::string> warnings;
  std::set<std::string> problems;
  const auto winners = database.winners(kDevice, warnings);
  ASSERT_TRUE(winners) << winners.error().message;
  for (const Winner& winner : *winners) problems.insert(winner.record.problem);
  EXPECT_THAT(warnings, IsEmpty());
  for (const std::string& line : said) {
    ASSERT_EQ(line.find("error"), std::string::npos) << line;
    EXPECT_TRUE(problems.contains(problemText(std::stol(line)))) << line;
    EXPECT_TRUE(database.findByRequest(build(line).requestKey)) << line;
  }
}

void expectError(const Result<std::unique_ptr<Database>>& result, ErrorCode code, std::string_view part) {
  ASSERT_FALSE(result) << part;
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(std::string(part)));
}

TEST(TuningStore, keepsEveryWinnerOfAKilledSweep) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "user.twdb";
  std::mt19937 random(20261130);
  std::size_t said = 0;
  for (int round = 0; round < 10; ++round) {
    Child writer([&](int pipe) { commitWinners(path, pipe, round * 100000, 100000); });
    // Wait for the first winner in all rounds but one, so that something is at stake; then for a random moment.
    char first;
    if (round > 0) {
      ASSERT_EQ(::read(writer.pipe(), &first, 1), 1);
    }
    ::usleep(std::uniform_int_distribution<unsigned>(0, 60000)(random));
    writer.kill();
    std::string text = round > 0 ? first + writer.output() : writer.output();
    EXPECT_EQ(writer.wait(), -SIGKILL);
    said += lines(text).size();
    const auto database = samples::open(path);
    expectWinners(*database, lines(text));
    const auto report = database->verify();
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_THAT(report->problems, IsEmpty());
  }
  EXPECT_GE(said, 9u);
}

TEST(TuningStore, twoProcessesTuneIntoOneFile) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "user.twdb";  // Does not exist: both create it.
  Child one([&](int pipe) { commitWinners(path, pipe, 0, 60); });
  Child two([&](int pipe) { commitWinners(path, pipe, 1000, 60); });
  const auto saidOne = lines(one.output()), saidTwo = lines(two.output());
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(two.wait(), 0);
  EXPECT_THAT(saidOne, SizeIs(60));
  EXPECT_THAT(saidTwo, SizeIs(60));
  const auto database = samples::open(path);
  expectWinners(*database, saidOne);
  expectWinners(*database, saidTwo);
  EXPECT_THAT(database->verify()->problems, IsEmpty());
}

TEST(TuningStore, aReaderRollsBackWhatAKilledWriterWithoutWalLeft) {
  const TemporaryFolder folder;
  {
    const auto database = Database::open(folder / "a.twdb", {.access = DatabaseAccess::kCreate});
    ASSERT_TRUE(database);
    ASSERT_TRUE((*database)->commitWinner(record(1), {}));
  }
  {
    // A transaction that spills to the file, seen from a copy: what a kill leaves.
    SQLite::Database writer((folder / "a.twdb").string(), SQLite::OPEN_READWRITE);
    writer.exec("PRAGMA journal_mode = delete; PRAGMA cache_size = 1; BEGIN IMMEDIATE");
    writer.exec("DELETE FROM records; DELETE FROM winners; CREATE TABLE spill(x)");
    for (int i = 0; i < 100; ++i) writer.exec("INSERT INTO spill VALUES (randomblob(4000))");
    for (const std::string suffix : {"", "-journal"}) {
      std::filesystem::copy_file(folder / ("a.twdb" + suffix), folder / ("b.twdb" + suffix));
      std::filesystem::copy_file(folder / ("a.twdb" + suffix), folder / ("foreign.twdb" + suffix));
    }
  }
  ASSERT_GT(std::filesystem::file_size(folder / "b.twdb"), 400'000u) << "the transaction did not spill";
  EXPECT_THAT(samples::winnersOf(folder / "b.twdb"), SizeIs(1));
  EXPECT_FALSE(std::filesystem::exists(folder / "b.twdb-journal"));

  // Another program's file is left as it is.
  std::fstream foreign(folder / "foreign.twdb", std::ios::in | std::ios::out | std::ios::binary);
  foreign.seekp(68).write("ELSE", 4);
  foreign.close();
  expectError(Database::open(folder / "foreign.twdb"), ErrorCode::kIo, "has to be rolled back");
  EXPECT_TRUE(std::filesystem::exists(folder / "foreign.twdb-journal"));
}

TEST(TuningStore, aLockedFileIsWaitedForAndThenNamed) {
  const TemporaryFolder folder;
  const auto database = samples::open(folder / "user.twdb");
  SQLite::Database holder((folder / "user.twdb").string(), SQLite::OPEN_READWRITE);
  holder.exec("BEGIN IMMEDIATE");
  const auto impatient = Database::open(folder / "user.twdb", {DatabaseAccess::kWrite, 20});
  ASSERT_TRUE(impatient) << impatient.error().message;
  const auto status = (*impatient)->commitWinner(record(1), {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("locked by another process"));
  holder.exec("ROLLBACK");
  EXPECT_TRUE((*impatient)->commitWinner(record(1), {}));
}

/// The locks that this process holds on a file, as the kernel lists them.
std::vector<std::string> locksOf(const std::filesystem::path& path) {
  struct stat status{};
  ::stat(path.c_str(), &status);
  const std::string inode = fmt::format(":{} ", status.st_ino), process = fmt::format(" {} ", ::getpid());
  std::vector<std::string> found;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // Without the running number at its start.
    if (line.contains(inode) && line.contains(process)) found.push_back(line.substr(line.find(' ')));
  }
  std::ranges::sort(found);
  return found;
}

TEST(TuningStore, openingAFileAgainKeepsTheLocksOfThisProcess) {
  // POSIX drops all locks of a process on a file when it closes any descriptor of it: nothing but SQLite may open one.
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "user.twdb";
  samples::open(path).reset();
  SQLite::Database holder(path, SQLite::OPEN_READWRITE);
  holder.exec("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE");
  const auto before = locksOf(path);
  ASSERT_FALSE(before.empty());
  EXPECT_FALSE(Database::open(path, {DatabaseAccess::kRead, 0}));
  EXPECT_FALSE(Database::open(path, {DatabaseAccess::kCreate, 0}));
  EXPECT_EQ(locksOf(path), before);
}

/// What the writer says when its disk is full, and what the file then holds.
void expectFullDisk(const std::filesystem::path& path, const std::string& output) {
  auto said = lines(output);
  ASSERT_FALSE(said.empty());
  const std::string last = said.back();
  said.pop_back();
  EXPECT_THAT(last, AllOf(HasSubstr("error cannot store a winner"),
                          AnyOf(HasSubstr("no space left"), HasSubstr("refused to read or write"))));
  EXPECT_FALSE(said.empty());
  const auto database = samples::open(path, DatabaseAccess::kRead);
  expectWinners(*database, said);
  EXPECT_THAT(database->verify()->problems, IsEmpty());
}

TEST(TuningStore, aFileSizeLimitLosesNoCommittedWinner) {
  const TemporaryFolder folder;
  Child writer([&](int pipe) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{500000, 500000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    commitWinners(folder / "user.twdb", pipe, 0, 1000);
  });
  const std::string output = writer.output();
  EXPECT_EQ(writer.wait(), 0);
  expectFullDisk(folder / "user.twdb", output);
}

TEST(TuningStore, aFullDiskLosesNoCommittedWinner) {
  const TemporaryFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs needs root";
  }
  Child writer([&](int pipe) { commitWinners(folder / "user.twdb", pipe, 0, 1000); });
  const std::string output = writer.output();
  EXPECT_EQ(writer.wait(), 0);
  expectFullDisk(folder / "user.twdb", output);

  const auto database = samples::open(folder / "user.twdb", DatabaseAccess::kRead);
  const auto report = exportDatabase(*database, folder / "export.twdb");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kIo) << report.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder / "export.twdb"));
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

/// Runs `body` as an ordinary user, for permissions do not bind root.
std::string asOrdinaryUser(const std::function<std::string()>& body) {
  Child child([&](int pipe) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    say(pipe, body());
  });
  const std::string output = child.output();
  EXPECT_EQ(child.wait(), 0);
  return output;
}

std::string openingSays(const std::filesystem::path& path, DatabaseAccess access) {
  const auto database = Database::open(path, {.access = access});
  if (!database) return fmt::format("{}: {}", errorCodeName(database.error().code), database.error().message);
  std::vector<std::string> warnings;
  const auto winners = (*database)->winners(kDevice, warnings);
  return winners ? fmt::format("{} winners", winners->size()) : winners.error().message;
}

TEST(TuningStore, aReadOnlyPlaceIsNamedAndAnExportReadableThere) {
  const TemporaryFolder folder;
  {
    const auto database = samples::open(folder / "user.twdb");
    ASSERT_TRUE(database->commitWinner(record(1), {}));
    ASSERT_TRUE(exportDatabase(*database, folder / "shipped.twdb"));
  }
  ::chmod((folder / "shipped.twdb").c_str(), 0444);
  ::chmod((folder / "user.twdb").c_str(), 0444);
  ::chmod(folder.path().c_str(), 0555);
  const auto says = [&](std::string_view name, DatabaseAccess access) {
    return asOrdinaryUser([&] { return openingSays(folder / name, access); });
  };
  EXPECT_EQ(says("shipped.twdb", DatabaseAccess::kRead), "1 winners");
  EXPECT_THAT(says("shipped.twdb", DatabaseAccess::kCreate), AllOf(HasSubstr("io: "), HasSubstr("read-only")));
  EXPECT_THAT(says("user.twdb", DatabaseAccess::kRead), AllOf(HasSubstr("io: "), HasSubstr("export it")));
  EXPECT_THAT(says("new.twdb", DatabaseAccess::kCreate),
              AllOf(HasSubstr("io: "), HasSubstr("its folder is read-only")));
  EXPECT_THAT(says("a/new.twdb", DatabaseAccess::kCreate), AllOf(HasSubstr("io: "), HasSubstr("cannot make folder")));
  ::chmod((folder / "shipped.twdb").c_str(), 0);
  EXPECT_THAT(says("shipped.twdb", DatabaseAccess::kRead), AllOf(HasSubstr("io: "), HasSubstr("Permission denied")));
  ::chmod(folder.path().c_str(), 0700);
}

TEST(TuningStore, aFileThatIsNoDatabaseIsNamed) {
  const TemporaryFolder folder;
  const auto write = [&](std::string_view text) { std::ofstream(folder / "x.twdb", std::ios::binary) << text; };
  const auto read = [&] { return Database::open(folder / "x.twdb"); };
  expectError(read(), ErrorCode::kNotFound, "no such file");
  expectError(Database::open(folder / "none/x.twdb"), ErrorCode::kNotFound, "no such folder");
  expectError(Database::open(folder.path()), ErrorCode::kInvalidArgument, "not a regular file");
  // Nor is anything but a file made into one: opening a pipe would wait for its other end.
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::filesystem::path& path : {folder.path(), folder / "pipe"}) {
    expectError(Database::open(path, {.access = DatabaseAccess::kCreate}), ErrorCode::kInvalidArgument,
                "not a regular file");
  }
  expectError(Database::open(""), ErrorCode::kInvalidArgument, "path is empty");
  write("");
  expectError(read(), ErrorCode::kCorrupt, "the file is empty");
  write("{\"op\": \"linear\"}");
  expectError(read(), ErrorCode::kCorrupt, "not a SQLite file");
  expectError(Database::open(folder / "x.twdb", {.access = DatabaseAccess::kCreate}), ErrorCode::kCorrupt,
              "not a SQLite file");
  write("SQLite format 3");
  expectError(read(), ErrorCode::kCorrupt, "truncated within its header");
}

TEST(TuningStore, namesThatMeanSomethingToSqliteAreFiles) {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const std::string name :
       {":memory:", "file::memory:", "file:x.twdb", "file:x.twdb?mode=memory", "a?b#c%41.twdb"}) {
    for (const std::string& path : {name, "file:folder/" + name}) {
      const auto made = Database::open(path, {.access = DatabaseAccess::kCreate});
      EXPECT_TRUE(made) << path << ": " << made.error().message;
      EXPECT_TRUE(std::filesystem::exists(folder / path)) << path;
      const auto exported = exportDatabase(**made, path + ".export");
      EXPECT_TRUE(exported) << path << ": " << exported.error().message;
      EXPECT_TRUE(Database::open(path + ".export")) << path;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "x.twdb"));
  EXPECT_FALSE(std::filesystem::exists(folder / "folder"));
  std::filesystem::current_path(before);
  // A name that is too long is an error like any other.
  expectError(Database::open(folder / std::string(5000, 'x') / "x.twdb", {.access = DatabaseAccess::kCreate}),
              ErrorCode::kIo, "File name too long");
}

TEST(TuningStore, aForeignOrNewerDatabaseIsNamedAndLeftAlone) {
  const TemporaryFolder folder;
  SQLite::Database(folder / "foreign.twdb", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE t (x)");
  expectError(Database::open(folder / "foreign.twdb", {.access = DatabaseAccess::kCreate}), ErrorCode::kVersion,
              "another program owns it");
  const auto change = [&](const char* sql) {
    std::filesystem::remove(folder / "x.twdb");
    samples::open(folder / "x.twdb").reset();
    SQLite::Database(folder / "x.twdb", SQLite::OPEN_READWRITE).exec(sql);
    return Database::open(folder / "x.twdb", {.access = DatabaseAccess::kWrite});
  };
  expectError(change("PRAGMA user_version = 7"), ErrorCode::kVersion, "its schema is 7, this program reads 1; a newer");
  expectError(change("DROP TABLE done"), ErrorCode::kCorrupt, "done is missing");
  expectError(change("ALTER TABLE done ADD COLUMN x TEXT"), ErrorCode::kCorrupt,
              "done is not defined as this schema has it");
  expectError(change("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM winners; END"), ErrorCode::kCorrupt,
              "it holds 't', which is not part of the schema");
}

TEST(TuningStore, aTruncatedFileIsNamed) {
  const TemporaryFolder folder;
  {
    const auto database = samples::open(folder / "user.twdb");
    for (int m = 0; m < 20; ++m) ASSERT_TRUE(database->commitWinner(record(m), std::vector{build(std::to_string(m))}));
  }
  const std::uintmax_t bytes = std::filesystem::file_size(folder / "user.twdb");
  for (const std::uintmax_t kept : {bytes - 1, bytes / 2, std::uintmax_t{4096}, std::uintmax_t{100}}) {
    std::filesystem::resize_file(folder / "user.twdb", kept);
    expectError(Database::open(folder / "user.twdb"), ErrorCode::kCorrupt, fmt::format("truncated to {} of", kept));
  }
}

TEST(TuningStore, aDamagedRowIsAMissAndHidesNoOther) {
  const TemporaryFolder folder;
  {
    const auto database = samples::open(folder / "user.twdb");
    for (int m = 0; m < 3; ++m) ASSERT_TRUE(database->commitWinner(record(m), std::vector{build(std::to_string(m))}));
    SQLite::Database hand(folder / "user.twdb", SQLite::OPEN_READWRITE);
    hand.exec("UPDATE records SET median_us = 1 WHERE id = 2");
    hand.exec("UPDATE blobs SET bytes = zeroblob(length(bytes)) WHERE hash = '" + build("0").binary.hash + "'");
    hand.exec("UPDATE builds SET compiler = 'other' WHERE build_key = '" + build("1").binary.buildKey + "'");
    hand.exec("DELETE FROM blobs WHERE hash = '" + build("2").binary.hash + "'");
  }
  const auto database = samples::open(folder / "user.twdb");
  std::vector<std::string> warnings;
  EXPECT_THAT(*database->winners(kDevice, warnings), SizeIs(2));
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0], HasSubstr("record 2: its fields do not match their digest"));
  for (const auto& [name, part] :
       {std::pair{"0", "do not match hash"}, {"1", "match their digest"}, {"2", "are missing"}}) {
    const auto found = database->findByRequest(build(name).requestKey);
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(found.error().message, HasSubstr(part));
  }
  EXPECT_GE(database->verify()->problems.size(), 4u);
  EXPECT_EQ(exportDatabase(*database, folder / "x.twdb").error().code, ErrorCode::kCorrupt);

  // Storing a build again heals it, and a merge into a new file leaves the damage behind.
  ASSERT_TRUE(database->addBuilds(std::vector{build("0"), build("1"), build("2")}));
  for (const char* name : {"0", "1", "2"}) EXPECT_TRUE(database->findByRequest(build(name).requestKey)) << name;
  const auto fresh = samples::open(folder / "fresh.twdb");
  const auto merged = mergeDatabase(*fresh, *database);
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_FALSE(merged->warnings.empty());
  EXPECT_THAT(fresh->verify()->problems, IsEmpty());
}

TEST(TuningStore, damageAnywhereNeverCrashesAndNeverPassesForAWinner) {
  const TemporaryFolder folder;
  {
    const auto database = samples::open(folder / "good.twdb");
    for (int m = 0; m < 30; ++m) ASSERT_TRUE(database->commitWinner(record(m), std::vector{build(std::to_string(m))}));
  }
  const auto good = samples::winnersOf(folder / "good.twdb");
  std::map<std::string, Winner> expected;
  for (const Winner& winner : good) expected.emplace(winner.record.problem, winner);
  std::ifstream file(folder / "good.twdb", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});

  std::mt19937 random(4242);
  int noticed = 0;
  for (int round = 0; round < 60; ++round) {
    // One to 64 damaged bytes in a run, anywhere.
    std::string damaged = bytes;
    const std::size_t length = std::size_t{1} << random() % 7, offset = random() % (bytes.size() - length);
    for (std::size_t i = 0; i < length; ++i) damaged[offset + i] = static_cast<char>(random());
    std::ofstream(folder / "bad.twdb", std::ios::binary | std::ios::trunc) << damaged;

    const auto database = Database::open(folder / "bad.twdb");
    if (!database) {
      EXPECT_FALSE(database.error().message.empty());
      ++noticed;
      continue;
    }
    std::vector<std::string> warnings;
    const auto winners = (*database)->winners(kDevice, warnings);
    const std::vector<Winner> survivors = winners ? *winners : std::vector<Winner>{};
    for (const Winner& winner : survivors) {
      const auto known = expected.find(winner.record.problem);
      ASSERT_NE(known, expected.end()) << winner.record.problem;
      Record record = winner.record;
      record.id = known->second.record.id;
      EXPECT_EQ(record, known->second.record) << "offset " << offset;
    }
    for (int m = 0; m < 30; ++m) {
      const auto found = (*database)->findByRequest(build(std::to_string(m)).requestKey);
      EXPECT_TRUE(!found || found->bytes == build(std::to_string(m)).binary.bytes) << "offset " << offset;
    }
    const auto report = (*database)->verify();
    noticed += !report || !report->problems.empty();
    if (round % 20 == 0) {
      const auto merged = mergeDatabase(*samples::open(folder / fmt::format("merged{}.twdb", round)), **database);
      EXPECT_TRUE(merged || !merged.error().message.empty());
    }
  }
  // The unused parts of pages carry nothing, but they are less than three quarters of such a file.
  EXPECT_GT(noticed, 15);
}

TEST(FileSystem, thisMachinesTemporaryFolderIsKnown) {
  EXPECT_EQ(networkFileSystem("/proc"), "");
  EXPECT_FALSE(onReadOnlyFileSystem(std::filesystem::temp_directory_path()));
}

}  // namespace
}  // namespace tilewright
