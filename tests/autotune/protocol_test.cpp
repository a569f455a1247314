// Messages survive the wire, and what does not parse is an error.
#include "autotune/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cmath>
#include <limits>
#include <thread>

#include "autotune/channel.h"

namespace tilewright::autotune {
namespace {

using testing::HasSubstr;

WorkerRequest roundTrip(const WorkerRequest& request) {
  const std::string line = encodeRequest(request);
  EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
  const auto decoded = decodeRequest(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_TRUE(decoded) << decoded.error().message;
  return decoded.value_or(WorkerRequest{});
}

TEST(Protocol, requestsKeepEveryField) {
  const Problem problem{.operation = Operation::kAttention,
                        .attention = {.qHeads = 8, .kvHeads = 2, .headDim = 64, .qLen = 3, .kvLen = 9, .causal = true}};
  const WorkerRequest open =
      roundTrip({.kind = WorkerRequest::Kind::kOpen, .problem = problem, .open = {.seed = 7, .sampleBudget = 1e5}});
  EXPECT_EQ(open.kind, WorkerRequest::Kind::kOpen);
  EXPECT_EQ(open.problem, problem);
  EXPECT_EQ(open.open.seed, 7u);
  EXPECT_EQ(open.open.sampleBudget, 1e5);

  const Configuration configuration({{"tile_m", 64}, {"stages", 3}});
  const WorkerRequest prepare = roundTrip({.kind = WorkerRequest::Kind::kPrepare,
                                           .plan = 4,
                                           .templateId = "a.b",
                                           .configuration = configuration,
                                           .parts = {{"h1", {"first", "second"}}, {"h2", {}}}});
  EXPECT_EQ(prepare.plan, 4);
  EXPECT_EQ(prepare.templateId, "a.b");
  EXPECT_EQ(prepare.configuration, configuration) << "the order of the entries included";
  ASSERT_EQ(prepare.parts.size(), 2u);
  EXPECT_EQ(prepare.parts[0].entries, (std::vector<std::string>{"first", "second"}));

  const WorkerRequest measure =
      roundTrip({.kind = WorkerRequest::Kind::kMeasure,
                 .plan = 2,
                 .measure = {.warmups = 1, .repeats = 9, .flushCache = false, .restMilliseconds = 12.5}});
  EXPECT_EQ(measure.measure.warmups, 1);
  EXPECT_EQ(measure.measure.repeats, 9);
  EXPECT_FALSE(measure.measure.flushCache);
  EXPECT_EQ(measure.measure.restMilliseconds, 12.5);

  const WorkerRequest binary = roundTrip({.kind = WorkerRequest::Kind::kBinary,
                                          .binary = {.hash = "h",
                                                     .buildKey = "k",
                                                     .target = "sm_90a",
                                                     .compiler = "c",
                                                     .bytes = {3, std::byte{9}},
                                                     .kernels = {{"e", 168, 4, 8, 1024}}}});
  EXPECT_EQ(binary.byteCount, 3u);
  EXPECT_EQ(binary.binary.buildKey, "k");
  ASSERT_EQ(binary.binary.kernels.size(), 1u);
  EXPECT_EQ(binary.binary.kernels[0].registers, 168);
  EXPECT_EQ(binary.binary.kernels[0].sharedBytes, 1024);
}

TEST(Protocol, repliesKeepTimesErrorsAndWhatIsNotFinite) {
  WorkerReply reply;
  reply.microseconds = {1.25, 1e-3, 123456.789};
  reply.verification = {.ok = false,
                        .what = "row 3: \"NaN\"\n",
                        .error = std::numeric_limits<double>::quiet_NaN(),
                        .outlierError = 0.5,
                        .microseconds = 17,
                        .preparation = Preparation{.bytes = std::int64_t{1} << 40, .microseconds = 2.5}};
  const std::string line = encodeReply(reply);
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  const auto decoded = decodeReply(line);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->microseconds, reply.microseconds);
  EXPECT_FALSE(decoded->verification.ok);
  EXPECT_EQ(decoded->verification.what, "row 3: \"NaN\"\n");
  EXPECT_TRUE(std::isnan(decoded->verification.error));
  EXPECT_EQ(decoded->verification.outlierError, 0.5);
  EXPECT_EQ(decoded->verification.microseconds, 17);
  EXPECT_EQ(decoded->verification.preparation, reply.verification.preparation);
  EXPECT_EQ(decodeReply(encodeReply(WorkerReply()))->verification.preparation, std::nullopt);

  const auto failed = decodeReply(encodeReply(fail(ErrorCode::kOutOfMemory, "no {} bytes", 7)));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(failed.error().message, "no 7 bytes");
}

TEST(Protocol, unreadableLinesAreErrors) {
  for (const std::string_view line : {"", "{", R"({"do": "dance"})", R"({"plan": 1})", R"({"do": "measure"})",
                                      R"({"do": "prepare", "template": "a.b", "binaries": [7]})"}) {
    EXPECT_FALSE(decodeRequest(line)) << line;
  }
  EXPECT_FALSE(decodeReply("not a reply"));
}

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    ours = Channel(sockets[0]), theirs = Channel(sockets[1]);
  }
  Channel ours, theirs;
};

TEST_F(ChannelTest, carriesLinesAndBytesBetweenThem) {
  // More than a socket's buffer, with newlines among the bytes.
  std::string bytes(1 << 20, 'x');
  for (std::size_t i = 0; i < bytes.size(); i += 7) bytes[i] = '\n';
  std::thread sender([&] {
    EXPECT_TRUE(theirs.send("first\nsecond\n"));
    EXPECT_TRUE(theirs.send(bytes));
    EXPECT_TRUE(theirs.send("third\n"));
  });
  EXPECT_EQ(ours.line(5, {}).value_or(""), "first");
  EXPECT_EQ(ours.line(5, {}).value_or(""), "second");
  std::vector<std::byte> received(bytes.size());
  EXPECT_TRUE(ours.bytes(received));
  EXPECT_EQ(std::memcmp(received.data(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(ours.line(5, {}).value_or(""), "third");
  sender.join();
}

TEST_F(ChannelTest, timesOutStopsAndNoticesTheEnd) {
  EXPECT_EQ(ours.line(0.01, {}).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(ours.line(60, [] { return true; }).error().code, ErrorCode::kTimeout);
  EXPECT_TRUE(theirs.send("half a line"));
  theirs.close();
  EXPECT_EQ(ours.line(5, {}).error().code, ErrorCode::kIo);
  EXPECT_FALSE(ours.send("anybody?")) << "and no SIGPIPE";
}

}  // namespace
}  // namespace tilewright::autotune
