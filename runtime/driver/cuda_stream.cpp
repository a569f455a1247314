#include "runtime/driver/cuda_stream.h"

#include "runtime/driver/cuda_context.h"
#include "runtime/driver/cuda_graph.h"

namespace tilewright {
namespace {

class DriverStream final : public CudaStream {
 public:
  DriverStream(std::shared_ptr<const CudaContext> context, Owned<CUstream> stream)
      : context_(std::move(context)), stream_(std::move(stream)), graph_(context_->api().graphExecDestroy) {}

  StreamHandle handle() const override { return stream_.get(); }

  Result<void> synchronize() override {
    const ContextScope scope(*context_);
    TW_TRY(scope.result());
    return api().check(api().streamSynchronize(stream_.get()), "a kernel on the stream failed");
  }

  Result<void> capture(const std::function<Result<void>(StreamHandle)>& enqueue) override {
    const ContextScope scope(*context_);
    TW_TRY(scope.result());
    graph_ = TW_TRY(captureGraph(api(), stream_.get(), enqueue));
    return {};
  }

  Result<void> replay() override {
    if (graph_.get() == nullptr) return fail(ErrorCode::kInvalidArgument, "cannot replay: nothing was captured");
    const ContextScope scope(*context_);
    TW_TRY(scope.result());
    return api().check(api().graphLaunch(graph_.get(), stream_.get()), "cannot launch a graph");
  }

 private:
  const DriverApi& api() const { return context_->api(); }

  std::shared_ptr<const CudaContext> context_;
  Owned<CUstream> stream_;
  Owned<CUgraphExec> graph_;
};

}  // namespace

Result<std::unique_ptr<CudaStream>> createCudaStream(int ordinal) {
  std::shared_ptr<const DriverApi> api = TW_TRY(DriverApi::open());
  CUdevice device = 0;
  TW_TRY(api->check(api->deviceGet(&device, ordinal), "cannot open cuda:{}", ordinal));
  std::shared_ptr<const CudaContext> context = TW_TRY(CudaContext::create(api, device));
  const ContextScope scope(*context);
  TW_TRY(scope.result());
  Owned<CUstream> stream(api->streamDestroy);
  TW_TRY(api->check(api->streamCreate(stream.out(), CU_STREAM_NON_BLOCKING), "cannot create a stream"));
  return std::make_unique<DriverStream>(std::move(context), std::move(stream));
}

}  // namespace tilewright
