// Builds in the background: each once, found ones not at all, failures kept, stoppable.
#include "autotune/builder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tilewright::autotune {
namespace {

using namespace std::chrono_literals;

class CountingCompiler : public Compiler {
 public:
  bool handles(SourceKind kind, std::string_view) const override { return kind == SourceKind::kTile; }
  std::string identity() const override { return "counting"; }
  Result<Binary> build(const BuildRequest& request) const override {
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(20ms);
    --running;
    ++builds;
    if (request.source == "broken") return fail(ErrorCode::kCompile, "broken source");
    return Binary{.hash = request.source, .buildKey = buildKey(request, identity())};
  }
  mutable std::atomic<int> builds = 0, running = 0, most = 0;
};

BuildRequest requestOf(std::string source) {
  return {.kind = SourceKind::kTile, .source = std::move(source)};
}
bool never() {
  return false;
}

class BuilderTest : public testing::Test {
 protected:
  CountingCompiler compiler;
  const Compiler* compilers[1] = {&compiler};
  static std::optional<Binary> nothing(const std::string&) { return std::nullopt; }
};

TEST_F(BuilderTest, buildsEachRequestOnceOnSeveralThreads) {
  Builder builder(compilers, 4, nothing);
  std::vector<std::string> keys;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (int i = 0; i < 8; ++i) keys.push_back(builder.submit(requestOf(fmt::format("{}", i))));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto outcome = builder.wait(keys[i], never);
    ASSERT_TRUE(outcome && *outcome);
    EXPECT_EQ((**outcome)->hash, fmt::format("{}", i % 8));
  }
  EXPECT_EQ(compiler.builds, 8);
  EXPECT_EQ(builder.compiled(), 8);
  EXPECT_GT(compiler.most, 1) << "requests were built one after the other";
}

TEST_F(BuilderTest, failuresAndMissingCompilersAreOutcomes) {
  Builder builder(compilers, 1, nothing);
  const auto broken = builder.wait(builder.submit(requestOf("broken")), never);
  EXPECT_EQ(broken->error().message, "broken source");
  const auto foreign = builder.wait(builder.submit({.kind = SourceKind::kCuda, .source = "x"}), never);
  EXPECT_EQ(foreign->error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(builder.wait("no such key", never)->error().code, ErrorCode::kInternal);
}

TEST_F(BuilderTest, whatTheDatabaseHasIsNotCompiled) {
  Builder builder(compilers, 1,
                  [](const std::string& key) { return std::optional(Binary{.hash = "found", .buildKey = key}); });
  EXPECT_EQ((**builder.wait(builder.submit(requestOf("x")), never))->hash, "found");
  EXPECT_EQ(compiler.builds, 0);
}

TEST_F(BuilderTest, waitingCanBeStoppedAndQueuedWorkIsDropped) {
  {
    Builder builder(compilers, 1, nothing);
    std::vector<std::string> keys;
    for (int i = 0; i < 100; ++i) keys.push_back(builder.submit(requestOf(fmt::format("{}", i)), false));
    EXPECT_FALSE(builder.wait(keys.back(), [] { return true; }));
  }
  EXPECT_LT(compiler.builds, 100) << "a builder that goes away compiles nothing more";
}

}  // namespace
}  // namespace tilewright::autotune
