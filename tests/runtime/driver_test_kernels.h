// The kernels of driver_test: each exercises one way to launch.
#pragma once

#include <string_view>

namespace tilewright {

inline constexpr std::string_view kDriverTestKernels = R"(
extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

extern "C" __global__ void addOne(int* counter) { atomicAdd(counter, 1); }

extern "C" __global__ void writeThrough(int* address) { *address = 1; }

// Fills dynamic shared memory from one end and reads it from the other.
extern "C" __global__ void reverse(int* out, int n) {
  extern __shared__ int values[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) values[i] = i;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = values[n - 1 - i];
}

// Every block waits for every other one: hangs unless all are resident.
extern "C" __global__ void gridBarrier(unsigned* arrived, unsigned* out) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < gridDim.x) {}
    out[blockIdx.x] = *reinterpret_cast<volatile unsigned*>(arrived);
  }
}

#if __CUDA_ARCH__ >= 900
struct alignas(64) Map { char bytes[128]; };

// out = the box at (x, y) of a 2D BF16 tensor, 32 x 16 elements, through the copy engine.
extern "C" __global__ void copyBox(const __grid_constant__ Map map, unsigned short* out, int x, int y) {
  __shared__ alignas(128) unsigned short box[16 * 32];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned boxAddress = static_cast<unsigned>(__cvta_generic_to_shared(box));
  const unsigned barrierAddress = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrierAddress));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrierAddress), "r"(16 * 32 * 2) : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
            "r"(boxAddress), "l"(&map), "r"(x), "r"(y), "r"(barrierAddress) : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (done == 0) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrierAddress) : "memory");
  }
  for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) out[i] = box[i];
}

// Each block reads the shared memory of the next one of its cluster: out[block] = the neighbour's block index.
extern "C" __global__ void readNeighbour(unsigned* out) {
  __shared__ unsigned mine;
  unsigned rank, count, remote, value;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  if (threadIdx.x == 0) mine = blockIdx.x;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(remote) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(&mine))), "r"((rank + 1) % count));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
  if (threadIdx.x == 0) out[blockIdx.x] = value;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Lets its successor start at once, then takes its time before it writes.
extern "C" __global__ void produce(int* data, int value, int n) {
  asm volatile("griddepcontrol.launch_dependents;");
  const long long start = clock64();
  while (clock64() - start < 20000) {}
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = value;
}

extern "C" __global__ void consume(const int* data, int* out, int n) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = data[i] + 1;
}
#endif
)";

}  // namespace tilewright
