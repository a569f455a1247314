// attention.tma_sm90: causal and full attention for Hopper, BF16 in and out, FP32 sums.
//
//   out[b, h, m, :] = softmax_n(scale * q[b, h, m, :] . k[b, h / group, n, :]) . v[b, h / group, n, :]
//   over n < kvLen[b], and, causal, n <= kvLen[b] - qLen + m; rows that see no key give zeros and a log-sum-exp of -inf
//
// Tiling. A CTA owns kTileM rows (of one query head, or kRowsPerHead rows of each of kPackHeads heads of one KV head)
// and walks its keys in blocks of kTileN from the diagonal backwards, so that the blocks that need a mask come first
// and the long loop needs none. Each consumer warpgroup owns 64 rows. Example, 128 rows and six blocks:
//
//              keys ->              block 0   1   2   3   4   5
//   rows m0      to m0 + 63    WG 0 [     .   .   .   . | 1 \ ]        \ the diagonal, | where masking ends
//   rows m0 + 64 to m0 + 127   WG 1 [     .   .   .   . | 2   1 \ ]    1, 2, ... the order of walking
//
// Warp specialization. Warp 0 of warpgroup 0 picks work, publishes it in a two-slot ring and issues all TMA loads
// (128-byte swizzle): Q into kQStages buffers, K and V into kStages buffers each. The other warpgroups compute. In a
// cluster of two, the CTAs own the same rows of neighbouring heads of one KV head: each loads half of every block and
// multicasts it to both.
//
// Pipeline of a consumer. The stream of (tile, block) steps is never drained:
//   step          issue S' = Q K_j;  issue O += P V_(j-1);  wait S';  softmax(S');  wait O;  P = bf16(S');  rescale O
//   if needed tile change   issue O += P V_last;  issue S' = Q' K'_first of the next tile;  wait O;  write O out
//   beneath the running S'
// so the tensor cores always hold the next product while exponentials run. P never leaves registers. With kPingPong,
// named barriers make the warpgroups issue in turns, which keeps one in its softmax while the other's products run.
//
// Why it is fast: 64 rows per warpgroup against blocks that two or three warpgroups share, products one step ahead of
// the softmax, no masks and almost no rescaling in the long loop, epilogues beneath products, longest tiles first, and
// head groups ordered so that K and V come from L2. The card is power limited under it: fewer moves of data are time,
// too.
#include "templates/attention/online_softmax.cuh"
#include "templates/attention/tma_sm90_epilogue.cuh"
#include "templates/attention/tma_sm90_scheduler.cuh"
#include "templates/attention/tma_sm90_shared.cuh"
#include "templates/common/shared_memory.cuh"
#include "templates/common/tma.cuh"
#include "templates/common/warp_control.cuh"
#include "templates/common/wgmma.cuh"

namespace tilewright {

// Parameters, defined before this file is included:
//   kHeadDim           columns of q, k, v and out: 64, 128 or 256
//   kCausal            1: key n is hidden from row m when n > kvLen - qLen + m
//   kLogSumExp         1: write the log-sum-exp
//   kTileM             rows of a CTA's tile: 128 or 192
//   kTileN             keys of a block
//   kStages            K and V blocks in flight, each
//   kQStages           Q tiles in shared memory
//   kQRegisters        1: a warpgroup keeps its Q in registers: a third less shared-memory traffic in Q K^T, kHeadDim /
//   4 registers kCluster           CTAs that share K and V loads: 1 or 2 kPackHeads         query heads in a tile
//   kPingPong          1: warpgroups issue products in turns
//   kSchedule          0 static, 1 dynamic, 2 stream-K
//   kRescaleThreshold  growth of a row's maximum, in powers of two, from which on O is rescaled

// Q of this warp's 16 rows as A fragments, from the swizzled tile at `tile`.
__device__ __forceinline__ void loadQFragments(U32 (&q)[kHeadDim / 16][4], U32 tile, int warpRow) {
  const int lane = threadIdx.x % 32, row = warpRow + lane % 16;
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    const int column = (i % 4 * 2 + lane / 16) ^ (row & 7);  // of 16 bytes
    const uint4 words = loadMatrix4(tile + i / 4 * (kTileM * 128) + row * 128 + column * 16);
    q[i][0] = words.x, q[i][1] = words.y, q[i][2] = words.z, q[i][3] = words.w;
  }
}

// S = Q K^T for 64 rows: a step of 16 columns is 32 bytes of a swizzle span; the next span of 64 columns is a whole
// tile on.
__device__ __forceinline__ void issueQk(float (&s)[kTileN / 2], U64 q, U64 k) {
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    const U32 within = i % 4 * 32 >> 4;
    wgmmaBf16(s, q + i / 4 * (kTileM * 128 >> 4) + within, k + i / 4 * (kTileN * 128 >> 4) + within, i > 0);
  }
}
__device__ __forceinline__ void issueQk(float (&s)[kTileN / 2], const U32 (&q)[kHeadDim / 16][4], U64 k) {
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    wgmmaBf16(s, q[i], k + i / 4 * (kTileN * 128 >> 4) + (i % 4 * 32 >> 4), i > 0);
  }
}

// O += P V for 64 rows: kTileN / 16 steps of 16 keys.
__device__ __forceinline__ void issuePv(float (&o)[kAccumulators], const U32 (&p)[kTileN / 16][4], U64 v) {
#pragma unroll
  for (int i = 0; i < kTileN / 16; ++i) wgmmaBf16TransposedB(o, p[i], v + i * (16 * 128 >> 4), 1);
}

__device__ __forceinline__ void produce(Shared& shared, const TensorMapParameter& mapQ, const TensorMapParameter& mapK,
                                        const TensorMapParameter& mapV, const Params& p) {
  const bool leader = threadIdx.x == 0;
  const int rank = kCluster > 1 ? clusterRank() : 0;
  Scheduler scheduler(p, shared);
  RingPosition ring;
  RingPosition qAt;
  RingPosition kAt, vAt;
  int batch = 0, kvHead = 0;

  const auto loadBlock = [&](const TensorMapParameter& map, U8(&tiles)[kStages][kKvBytes], U64* full, U64* empty,
                             RingPosition& at, int block) {
    const U32 barrier = sharedAddress(&full[at.stage]), target = sharedAddress(tiles[at.stage]);
    barrierWait(sharedAddress(&empty[at.stage]), at.phase ^ 1);
    barrierArriveExpectIf(leader, barrier, kKvBytes);
    constexpr int kRows = kTileN / kCluster;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const U32 part = target + (chunk * kTileN + rank * kRows) * 128;
      const int row = block * kTileN + rank * kRows;
      if constexpr (kCluster > 1) {
        tmaLoadMulticast4dIf(leader, part, &map, chunk * 64, row, kvHead, batch, barrier, (1 << kCluster) - 1,
                             kEvictLast);
      } else {
        tmaLoad4dIf(leader, part, &map, chunk * 64, row, kvHead, batch, barrier, kEvictLast);
      }
    }
    at.advance<kStages>();
  };

  while (true) {
    const Work work = scheduler.next();
    barrierWait(sharedAddress(&shared.ringEmpty[ring.stage]), ring.phase ^ 1);
    if (leader) {
      shared.ring[ring.stage] = work;
      barrierArrive(sharedAddress(&shared.ringFull[ring.stage]));
    }
    __syncwarp();
    ring.advance<2>();
    if (work.tile < 0) break;

    // Load the Q tile: kRowsPerHead rows of each of kPackHeads heads.
    const int head = (work.group * kCluster + rank) * kPackHeads;
    batch = head / p.qHeads;
    const int qHead = head % p.qHeads;
    kvHead = qHead / (p.qHeads / p.kvHeads);
    const U32 qFull = sharedAddress(&shared.qFull[qAt.stage]);
    barrierWait(sharedAddress(&shared.qEmpty[qAt.stage]), qAt.phase ^ 1);
    barrierArriveExpectIf(leader, qFull, kQBytes);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      tmaLoad4dIf(leader, sharedAddress(shared.q[qAt.stage]) + chunk * kTileM * 128, &mapQ, chunk * 64,
                  work.tile * kRowsPerHead, qHead, batch, qFull, kEvictFirst);
    }
    qAt.advance<kQStages>();

    // Load the blocks, K one ahead of V as the consumers need them.
    loadBlock(mapK, shared.k, shared.kFull, shared.kEmpty, kAt, work.first);
#pragma unroll 1
    for (int i = 1; i < work.count; ++i) {
      loadBlock(mapK, shared.k, shared.kFull, shared.kEmpty, kAt, work.first - i);
      loadBlock(mapV, shared.v, shared.vFull, shared.vEmpty, vAt, work.first - i + 1);
    }
    loadBlock(mapV, shared.v, shared.vFull, shared.vEmpty, vAt, work.first - work.count + 1);
  }
}

__device__ __forceinline__ void consume(Shared& shared, const Params& p, int wg) {
  const int lane = threadIdx.x % 32, thread = threadIdx.x % 128, warpRow = wg * 64 + thread / 32 * 16;
  const int rank = kCluster > 1 ? clusterRank() : 0;
  const int ownBarrier = 8 + wg;  // named barriers 1 to 3 are turns
  const float c = p.scaleLog2;
  RingPosition ring;
  RingPosition qAt;
  RingPosition kAt, vAt;
  float s[kTileN / 2], o[kAccumulators];
  U32 pBits[kTileN / 16][4];
  U32 qBits[kHeadDim / 16][4];
  const U64 qTiles = wgmmaDescriptor128(sharedAddress(shared.q[0]) + wg * 64 * 128);
  const U64 kTiles = wgmmaDescriptor128(sharedAddress(shared.k[0]));
  const U64 vTiles = wgmmaDescriptor128Mn(sharedAddress(shared.v[0]), kTileN * 128, 1024);

  const auto takeTurn = [&] {
    if constexpr (kPingPong) namedBarrier(1 + wg, 256);
  };
  const auto passTurn = [&] {
    if constexpr (kPingPong) namedBarrierArrive(1 + (wg + 1) % kWarpgroups, 256);
  };
  if (kPingPong && wg == kWarpgroups - 1) namedBarrierArrive(1, 256);

  const auto readRing = [&] {
    barrierWait(sharedAddress(&shared.ringFull[ring.stage]), ring.phase);
    Work work = shared.ring[ring.stage];
    // NOTE: the shuffles tell the compiler that loop bounds are uniform; without them it serializes every wgmma.
    const auto uniform = [](int value) { return __shfl_sync(kFullWarp, value, 0); };
    work.tile = uniform(work.tile), work.group = uniform(work.group), work.kvLen = uniform(work.kvLen);
    work.first = uniform(work.first), work.count = uniform(work.count);
    work.peers = uniform(work.peers), work.slot = uniform(work.slot);
    namedBarrier(ownBarrier, 128);
    if (thread == 0) barrierArrive(sharedAddress(&shared.ringEmpty[ring.stage]));
    ring.advance<2>();
    return work;
  };
  const auto releaseBlock = [&](U64* empty, RingPosition& at) {
    const U32 barrier = sharedAddress(&empty[at.stage]);
    if constexpr (kCluster > 1) {
      if (thread < kCluster) barrierArriveRemote(barrier, thread);
    } else {
      if (thread == 0) barrierArrive(barrier);
    }
    at.advance<kStages>();
  };
  const auto releaseQ = [&] {
    if (thread == 0) barrierArrive(sharedAddress(&shared.qEmpty[qAt.stage]));
  };
  // NOTE: fragments free their buffer only when the product that uses them is done: then they are in the registers of
  // all four warps. An arrival behind ldmatrix is too early, even after a barrier: loads under way are ordered before
  // the copy engine's writes by a proxy fence alone, and rows were multiplied with parts of the next tile's Q.
  const auto takeQ = [&] {
    if constexpr (kQRegisters) loadQFragments(qBits, sharedAddress(shared.q[qAt.stage]), warpRow);
  };
  const auto issueS = [&] {
    const U64 k = kTiles + kAt.stage * (kKvBytes >> 4);
    if constexpr (kQRegisters) {
      issueQk(s, qBits, k);
    } else {
      issueQk(s, qTiles + qAt.stage * (kQBytes >> 4), k);
    }
    wgmmaCommit();
  };
  const auto issueO = [&] {
    issuePv(o, pBits, vTiles + vAt.stage * (kKvBytes >> 4));
    wgmmaCommit();
  };
  const auto pinAll = [&] {
    pinRegisters(s);
    pinRegisters(o);
#pragma unroll
    for (int i = 0; i < kTileN / 16; ++i) pinRegisters(pBits[i]);
  };

  // First row of this warpgroup (0 where it has rows of several heads), and of this thread, within the rows of a head.
  const int groupRow = kRowsPerHead % 64 == 0 ? wg * 64 % kRowsPerHead : 0;
  const int threadRow = warpRow % kRowsPerHead + lane / 4;
  // The last key that a row of a piece of work sees.
  const auto lastKeyOf = [&](const Work& work, int row) {
    return kCausal ? work.kvLen - p.qLen + work.tile * kRowsPerHead + row : work.kvLen - 1;
  };
  // A tile's first blocks may lie wholly beyond this warpgroup's rows: those it only passes on.
  // NOTE: at most kStages - 1, or the warpgroup would wait for a stage that needs the turn of another one.
  const auto blocksToSkip = [&](const Work& work) {
    if constexpr (!kCausal || kRowsPerHead % 64 != 0 || kRowsPerHead == 64) return 0;
    const int lastNeeded = (lastKeyOf(work, groupRow + 63) + kTileN) / kTileN - 1;
    return max(0, min(work.first - lastNeeded, min(work.count, kStages) - 1));
  };
  // NOTE: no product brings the four warps together here. Without the barrier a warp that comes after the stage's next
  // load would wait for the one behind that, which needs this warp: a deadlock.
  const auto passOn = [&](U64* full, U64* empty, RingPosition& at, int count) {
    for (int i = 0; i < count; ++i) {
      barrierWait(sharedAddress(&full[at.stage]), at.phase);
      namedBarrier(ownBarrier, 128);
      releaseBlock(empty, at);
    }
  };
  // V rows beyond kvLen may hold anything, NaN too, and 0 * NaN is NaN: clear them in the block that has them.
  const auto clearTail = [&](int block, int kvLen) {
    if (kvLen >= min((block + 1) * kTileN, p.capacity)) return;
    barrierWait(sharedAddress(&shared.vFull[vAt.stage]), vAt.phase);
    for (int i = max(0, kvLen - block * kTileN) * 8 + thread; i < kTileN * 8; i += 128) {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        reinterpret_cast<uint4*>(shared.v[vAt.stage] + chunk * kTileN * 128)[i] = uint4{0, 0, 0, 0};
      }
    }
    fenceAsyncShared();
    namedBarrier(ownBarrier, 128);
  };

  // Start the stream: S of the first tile's first block.
  Work work = readRing();
  int skip = 0;
  if (work.tile >= 0) {
    skip = blocksToSkip(work);
    passOn(shared.kFull, shared.kEmpty, kAt, skip);
    barrierWait(sharedAddress(&shared.qFull[0]), 0);
    barrierWait(sharedAddress(&shared.kFull[kAt.stage]), kAt.phase);
    takeQ();
    wgmmaFence();
    issueS();
  }

  while (work.tile >= 0) {
    SoftmaxRows rows;
    float factor[2] = {1.0f, 1.0f};
#pragma unroll
    for (int i = 0; i < kAccumulators; ++i) o[i] = 0.0f;
    // Column 8 g + 2 (lane % 4) + e of block j is hidden from row r when 8 g + e > limit - j * kTileN + r * rowStep.
    const int limit = lastKeyOf(work, threadRow) - lane % 4 * 2;
    constexpr int kRowStep = kCausal ? 8 : 0;
    const int firstFull = (lastKeyOf(work, groupRow) + 1) / kTileN;  // blocks before it need no mask
    int block = work.first - skip;
    const int last = work.first - work.count + 1;
    const bool single = block == last;

    // The first block: S is already running.
    passOn(shared.vFull, shared.vEmpty, vAt, skip);
    wgmmaWait<0>();
    pinRegisters(s);
    releaseBlock(shared.kEmpty, kAt);
    if constexpr (kQRegisters) releaseQ();
    softmaxStep<true>(s, rows, factor, c, limit - block * kTileN, limit - block * kTileN + kRowStep);
    packScores(pBits, s);
    clearTail(block, work.kvLen);
    // NOTE: every warpgroup takes one turn per block of the tile, also for those it passed on, or the ring of turns
    // would stop.
    for (int i = 0; i < skip; ++i) {
      takeTurn();
      passTurn();
    }

    const auto beginStep = [&] {
      --block;
      barrierWait(sharedAddress(&shared.kFull[kAt.stage]), kAt.phase);
      takeTurn();
      pinAll();
      wgmmaFence();
      issueS();
      barrierWait(sharedAddress(&shared.vFull[vAt.stage]), vAt.phase);
      wgmmaFence();
      issueO();
      passTurn();

      wgmmaWait<1>();
      pinRegisters(s);
      releaseBlock(shared.kEmpty, kAt);
      if (!kQRegisters && kQStages == 1 && block == last) releaseQ();
    };
    const auto endStep = [&](bool moved) {
      // NOTE: ptxas moves this wait above the exponentials; forcing it below them costs 3 %, for packing then comes
      // late.
      wgmmaWait<0>();
      pinRegisters(o);
      releaseBlock(shared.vEmpty, vAt);
      packScores(pBits, s);
      if (kRescaleThreshold == 0 || moved) scaleRows(o, factor);
    };
    if constexpr (kCausal) {
      const int maskEnd = max(last, firstFull);
      while (block > maskEnd) {
        beginStep();
        const int blockLimit = limit - block * kTileN;
        endStep(softmaxStep<true>(s, rows, factor, c, blockLimit, blockLimit + kRowStep));
      }
    }
    while (block > last) {
      beginStep();
      endStep(softmaxStep<false>(s, rows, factor, c, 0, 0));
    }

    // Tile change: the last product of this tile, then the first of the next.
    if (!kQRegisters && (kQStages > 1 || single)) releaseQ();
    qAt.advance<kQStages>();
    barrierWait(sharedAddress(&shared.vFull[vAt.stage]), vAt.phase);
    const Work next = readRing();
    skip = 0;
    if (next.tile >= 0) {
      skip = blocksToSkip(next);
      passOn(shared.kFull, shared.kEmpty, kAt, skip);
    }
    takeTurn();
    pinAll();
    wgmmaFence();
    issueO();
    if (next.tile >= 0) {
      barrierWait(sharedAddress(&shared.qFull[qAt.stage]), qAt.phase);
      barrierWait(sharedAddress(&shared.kFull[kAt.stage]), kAt.phase);
    }
    // NOTE: issued even at the end of the stream (and dropped): a branch around wgmma makes ptxas serialize all of
    // them.
    takeQ();
    wgmmaFence();
    issueS();
    passTurn();
    wgmmaWait<1>();
    pinRegisters(o);
    releaseBlock(shared.vEmpty, vAt);

    const int head = (work.group * kCluster + rank) * kPackHeads + warpRow / kRowsPerHead;
    finishWork(p, work, o, rows, head, work.tile * kRowsPerHead + threadRow, rank, wg, ownBarrier);
    work = next;
  }
  wgmmaWait<0>();
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    attention_tma_sm90(const __grid_constant__ TensorMapParameter mapQ, const __grid_constant__ TensorMapParameter mapK,
                       const __grid_constant__ TensorMapParameter mapV, const __grid_constant__ Params p) {
  extern __shared__ U8 raw[];
  auto& shared = *reinterpret_cast<Shared*>((reinterpret_cast<U64>(raw) + 1023) & ~1023ull);
  if (threadIdx.x == 0) {
    for (const TensorMapParameter* map : {&mapQ, &mapK, &mapV}) tmaPrefetchMap(map);
    initializeBarriers(shared);
  }
  if constexpr (kCluster > 1) {
    clusterSync();
  } else {
    __syncthreads();
  }

  const int warpgroup = __shfl_sync(kFullWarp, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    shrinkRegisters<kProducerRegisters>();
    if (__shfl_sync(kFullWarp, threadIdx.x / 32, 0) == 0) produce(shared, mapQ, mapK, mapV, p);
    __syncwarp();
  } else {
    growRegisters<kConsumerRegisters>();
    consume(shared, p, warpgroup - 1);
  }
  // A CTA of a cluster must outlive the signals that its neighbour sends it.
  if constexpr (kCluster > 1) clusterSync();
}

}  // namespace tilewright
