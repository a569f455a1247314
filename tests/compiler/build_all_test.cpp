// buildAll over a compiler of the test's own.
#include "compiler/build_all.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tilewright {
namespace {

/// Names the binary after the request; fails for "bad". With `meet`, each build waits until that many run at once.
class FakeCompiler final : public Compiler {
 public:
  explicit FakeCompiler(int meet = 1) : meet_(meet) {}

  bool handles(SourceKind, std::string_view) const override { return true; }
  std::string identity() const override { return "fake 1"; }
  Result<Binary> build(const BuildRequest& request) const override {
    std::unique_lock lock(mutex_);
    ++builds_;
    if (++running_ >= meet_) met_.notify_all();
    met_.wait_for(lock, std::chrono::seconds(60), [&] { return builds_ >= meet_; });
    if (request.source == "bad") return fail(ErrorCode::kCompile, "bad source");
    return Binary{.hash = request.source};
  }
  int builds() const { return builds_; }

 private:
  int meet_;
  mutable std::mutex mutex_;
  mutable std::condition_variable met_;
  mutable int builds_ = 0, running_ = 0;
};

std::vector<BuildRequest> requests(int count) {
  std::vector<BuildRequest> all;
  for (int i = 0; i < count; ++i) all.push_back({.templateId = "t", .source = i == 3 ? "bad" : std::to_string(i)});
  return all;
}

TEST(BuildAll, keepsTheOrderAndEachFailure) {
  const auto results = buildAll(FakeCompiler(), requests(20), 4);
  ASSERT_EQ(results.size(), 20u);
  for (int i = 0; i < 20; ++i) {
    if (i == 3) {
      EXPECT_EQ(results[i].error().message, "bad source");
    } else {
      ASSERT_TRUE(results[i]);
      EXPECT_EQ(results[i]->hash, std::to_string(i));
    }
  }
}

TEST(BuildAll, buildsAtOnce) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core: nothing runs at once";
  // Each of two builds waits for the other: this would time out if they ran one after the other.
  const FakeCompiler compiler(2);
  const auto start = std::chrono::steady_clock::now();
  buildAll(compiler, requests(2), 2);
  EXPECT_EQ(compiler.builds(), 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(BuildAll, reportsEachAndStopsWhenAsked) {
  std::atomic<int> reports = 0;
  const FakeCompiler compiler;
  const auto results =
      buildAll(compiler, requests(50), 1, [&](std::size_t, const Result<Binary>&) { return ++reports < 5; });
  EXPECT_EQ(reports, 5);
  EXPECT_EQ(compiler.builds(), 5);
  EXPECT_EQ(
      std::ranges::count_if(results, [](const auto& r) { return !r && r.error().code == ErrorCode::kUnavailable; }),
      45);
}

TEST(BuildAll, takesNoRequests) {
  EXPECT_TRUE(buildAll(FakeCompiler(), {}).empty());
}

}  // namespace
}  // namespace tilewright
