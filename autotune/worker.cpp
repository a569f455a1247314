#include "autotune/worker.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "autotune/channel.h"
#include "autotune/protocol.h"
#include "autotune/worker_process.h"

namespace tilewright::autotune {
namespace {

class Worker {
 public:
  Worker(const WorkerEnvironment& environment, Channel& channel) : environment_(environment), channel_(channel) {}

  int serve() {
    while (true) {
      const Result<std::string> line = channel_.line(-1, {});
      if (!line) return 0;
      Result<WorkerRequest> request = decodeRequest(*line);
      if (request && request->kind == WorkerRequest::Kind::kBinary) {
        if (!receive(*request)) return 0;
        continue;
      }
      const Result<WorkerReply> reply = request ? answer(*request) : std::unexpected(request.error());
      if (!channel_.send(encodeReply(reply))) return 0;
      // After a fault every further call on the device fails, or worse, does not: the tuner starts a fresh process.
      if (!reply && reply.error().code == ErrorCode::kDevice) return 1;
    }
  }

 private:
  Result<void> receive(WorkerRequest& request) {
    request.binary.bytes.resize(request.byteCount);
    TW_TRY(channel_.bytes(request.binary.bytes));
    std::string hash = request.binary.hash;
    binaries_.insert_or_assign(std::move(hash), std::make_shared<const Binary>(std::move(request.binary)));
    return {};
  }

  Result<WorkerReply> answer(const WorkerRequest& request) {
    using Kind = WorkerRequest::Kind;
    WorkerReply reply;
    if (request.kind == Kind::kStart) {
      device_ = TW_TRY(environment_.openDevice(request.device));
      bench_ = std::make_unique<Workbench>(*device_);
      return reply;
    }
    if (!bench_) return fail(ErrorCode::kInternal, "the worker was not started");
    switch (request.kind) {
      case Kind::kOpen:
        TW_TRY(bench_->open(request.problem, request.open));
        break;
      case Kind::kPrepare:
        reply.verification = TW_TRY(prepare(request));
        break;
      case Kind::kVerify:
        reply.verification = TW_TRY(bench_->verify(request.plan));
        break;
      case Kind::kMeasure:
        reply.microseconds = TW_TRY(bench_->measure(request.plan, request.measure));
        break;
      default:
        bench_->release(request.plan);
        break;
    }
    return reply;
  }

  Result<Verification> prepare(const WorkerRequest& request) {
    const auto found =
        std::ranges::find(environment_.templates, request.templateId, [](const Template* each) { return each->id(); });
    if (found == environment_.templates.end()) {
      return fail(ErrorCode::kVersion, "this program has no template {}", request.templateId);
    }
    std::vector<PlanBinary> binaries;
    for (const WorkerRequest::PlanPart& part : request.parts) {
      const auto binary = binaries_.find(part.hash);
      if (binary == binaries_.end()) return fail(ErrorCode::kInternal, "binary {} was not sent", part.hash);
      binaries.push_back({binary->second, part.entries});
    }
    return bench_->prepare(request.plan, **found, request.configuration, binaries);
  }

  const WorkerEnvironment& environment_;
  Channel& channel_;
  std::map<std::string, std::shared_ptr<const Binary>> binaries_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Workbench> bench_;
};

}  // namespace

int serveTuner(const WorkerEnvironment& environment) {
  Channel channel(kWorkerSocket);
  return Worker(environment, channel).serve();
}

}  // namespace tilewright::autotune
