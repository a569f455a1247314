// Runs the program as a process, in a folder of its own, with an environment of its own.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tilewright {

/// How a run of the program ended.
struct Outcome {
  int exitCode = -1;
  std::string output, errors;
};

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("program_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    environment_ = {"HOME=" + (folder_ / "home").string()};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return path(name);
  }
  std::string readBack(const std::string& name) const {
    std::ifstream stream(folder_ / name, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  /// Runs the program with `input` as its standard input and nothing but environment_ as its environment.
  Outcome run(std::vector<std::string> arguments, const std::string& input = "") {
    return finish(start(std::move(arguments), input));
  }

  pid_t start(std::vector<std::string> arguments, const std::string& input = "") {
    write("stdin", input);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string in = path("stdin"), out = output_.empty() ? path("stdout") : output_, err = path("stderr");
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, in.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    arguments.insert(arguments.begin(), TILEWRIGHT_PROGRAM);
    std::vector<char*> argv, envp;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    for (std::string& variable : environment_) envp.push_back(variable.data());
    argv.push_back(nullptr), envp.push_back(nullptr);
    pid_t child = -1;
    const int failed = posix_spawn(&child, TILEWRIGHT_PROGRAM, &actions, nullptr, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(failed, 0);
    return child;
  }

  Outcome finish(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    return {WEXITSTATUS(status), readBack("stdout"), readBack("stderr")};
  }

  /// Nothing on standard output, the message on standard error.
  void expectError(const Outcome& outcome, int exitCode, const std::string& message) {
    EXPECT_EQ(outcome.exitCode, exitCode) << outcome.errors;
    EXPECT_THAT(outcome.errors, testing::AllOf(testing::HasSubstr("tilewright: "), testing::HasSubstr(message)));
    EXPECT_EQ(outcome.output, "");
  }

  std::filesystem::path folder_;
  std::vector<std::string> environment_;
  std::string output_;  ///< another file for standard output
};

}  // namespace tilewright
