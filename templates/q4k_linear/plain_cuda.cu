// q4k_linear on any GPU: out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]) with W in GGUF Q4_K super-blocks, any m, n,
// strides and alignment. templates/common/plain_gemm.cuh has the algorithm; here W's tile is decoded in FP32 and
// rounded to BF16.
//
// A tile of 64 along k is a quarter of a super-block: sub-blocks 2c (low nibbles) and 2c + 1 (high nibbles) of 32
// bytes. A thread takes 8 of the bytes of one row and makes 8 weights of either sub-block:
//
//   w = d * scale * q - dmin * min
#include "templates/common/plain_gemm.cuh"

using namespace tilewright;

// Parameters, from the host half:
//   kTileM, kTileN   outputs of a block, rows of x by rows of W
//   kWarps           warps of a block
//   kAligned         1: bases of x, W and out and rows of x and out are multiples of 16 bytes; 0: W's of 2 bytes
using Shape = PlainGemmShape<kTileM, kTileN, kWarps>;

constexpr int kBlockBytes = 144, kBlockWeights = 256, kScalesAt = 4, kQuantsAt = 16;

/// Raw bytes of one thread's pieces, decoded when they go to shared memory.
class Q4kTile {
 public:
  __device__ Q4kTile(const U8* base, I64 rows, I64 k) : base_(base), rows_(rows), blocksPerRow_(k / kBlockWeights) {}

  __device__ void fetch(I64 firstRow, I64 firstColumn) {
    quarter_ = static_cast<int>(firstColumn % kBlockWeights / Shape::kTileK);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = threadIdx.x + i * Shape::kThreads;
      const I64 row = firstRow + piece / kPiecesPerRow;
      pieces_[i] = {};
      if (piece >= Shape::kTileN * kPiecesPerRow || row >= rows_) continue;
      const U8* block = base_ + (row * blocksPerRow_ + firstColumn / kBlockWeights) * kBlockBytes;
      pieces_[i].steps = loadWord(block);
      for (int w = 0; w < 3; ++w) pieces_[i].scales[w] = loadWord(block + kScalesAt + 4 * w);
      const U8* quants = block + kQuantsAt + quarter_ * 32 + piece % kPiecesPerRow * 8;
      pieces_[i].quants[0] = loadWord(quants), pieces_[i].quants[1] = loadWord(quants + 4);
    }
  }

  __device__ void store(U16* tile) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = threadIdx.x + i * Shape::kThreads;
      if (piece >= Shape::kTileN * kPiecesPerRow) continue;
      const float2 steps = halfPairToFloat(pieces_[i].steps);
      for (int half = 0; half < 2; ++half) {
        const U32 scaleAndMin = scaleAndMinOf(pieces_[i].scales, 2 * quarter_ + half);
        const float scale = steps.x * static_cast<float>(scaleAndMin & 0xff);
        const float offset = steps.y * static_cast<float>(scaleAndMin >> 8);
        U32 words[4];
        for (int j = 0; j < 4; ++j) {
          const U32 codes = pieces_[i].quants[j / 2] >> (j % 2 * 16 + half * 4);
          words[j] = packBf16Anywhere(scale * static_cast<float>(codes & 15) - offset,
                                      scale * static_cast<float>((codes >> 8) & 15) - offset);
        }
        U16* to = tile + piece / kPiecesPerRow * Shape::kPitch + half * 32 + piece % kPiecesPerRow * 8;
        *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }

 private:
  static constexpr int kPiecesPerRow = 4;
  static constexpr int kPieces = ceilDiv(Shape::kTileN * kPiecesPerRow, Shape::kThreads);

  struct Piece {
    U32 steps;      // d in the low half, dmin in the high half
    U32 scales[3];  // the 12 packed bytes
    U32 quants[2];
  };

  __device__ static U32 loadWord(const U8* at) {
    if (kAligned != 0) return *reinterpret_cast<const U32*>(at);
    const U16* halves = reinterpret_cast<const U16*>(at);
    return halves[0] | (static_cast<U32>(halves[1]) << 16);
  }

  /// The 6-bit scale (low byte) and min (high byte) of sub-block j.
  __device__ static U32 scaleAndMinOf(const U32 (&packed)[3], int j) {
    const int shift = j % 4 * 8;
    const U32 scaleByte = packed[0] >> shift, minByte = packed[1] >> shift, low = packed[2] >> shift;
    if (j < 4) return (scaleByte & 63) | ((minByte & 63) << 8);
    const U32 scale = (low & 15) | ((scaleByte >> 2) & 0x30), min = ((low >> 4) & 15) | ((minByte >> 2) & 0x30);
    return scale | (min << 8);
  }

  const U8* base_;
  I64 rows_, blocksPerRow_;
  int quarter_ = 0;
  Piece pieces_[kPieces];
};

extern "C" __global__ void __launch_bounds__(Shape::kThreads)
    q4kLinearPlain(const U16* x, I64 xStride, const U8* w, const U16* bias, U16* out, I64 outStride, I64 m, I64 n,
                   I64 k) {
  Q4kTile weights(w, n, k);
  plainGemm<Shape, kAligned != 0>(x, xStride, weights, bias, out, outStride, m, n, k);
}
