"""What a user would run instead of q4k_linear: cuBLASLt's GEMMs without any dequantization, and a Triton two-pass linear.

cuBLASLt FP8 is the anchor of our tables: it neither quantizes activations nor touches Q4_K, so reaching its time means that
the whole quantized operation costs no more than the bare FP8 matrix product.
"""
import torch
import triton
import triton.language as tl


@triton.jit
def _castKernel(x, out, count, kBlock: tl.constexpr):
    index = tl.program_id(0) * kBlock + tl.arange(0, kBlock)
    tl.store(out + index, tl.load(x + index, mask=index < count, other=0.0).to(tl.float8e4nv), mask=index < count)


@triton.jit
def _dequantizeKernel(nibbles, scale, scaleStep, zero, zeroStep, out, count, K: tl.constexpr, kBlock: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * kBlock + tl.arange(0, kBlock)
    inside = index < count
    row, column = index // K, index % K
    packed = tl.load(nibbles + row * (K // 2) + column // 2, mask=inside, other=0)
    code = ((packed >> ((column & 1) * 4)) & 15).to(tl.float32)
    group, block = row * (K // 32) + column // 32, row * (K // 256) + column // 256
    s = tl.load(scale + group, mask=inside, other=0).to(tl.float32) * tl.load(scaleStep + block, mask=inside, other=0).to(tl.float32)
    z = tl.load(zero + group, mask=inside, other=0).to(tl.float32) * tl.load(zeroStep + block, mask=inside, other=0).to(tl.float32)
    tl.store(out + index, ((code - z) * s).to(tl.float8e4nv), mask=inside)


@triton.autotune([triton.Config(dict(TM=tm, TN=tn, TK=128), num_warps=warps, num_stages=3)
                  for tm, tn, warps in ((64, 128, 4), (128, 128, 8), (128, 256, 8))], key=["M", "N", "K"])
@triton.jit
def _fp8ProductKernel(a, b, c, M, N: tl.constexpr, K: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    program = tl.program_id(0)
    tilesM, tilesN = tl.cdiv(M, TM), tl.cdiv(N, TN)
    first = (program // (8 * tilesN)) * 8
    rows = tl.minimum(tilesM - first, 8)
    m = (first + (program % (8 * tilesN)) % rows) * TM + tl.arange(0, TM)
    n = ((program % (8 * tilesN)) // rows) * TN + tl.arange(0, TN)
    k = tl.arange(0, TK)
    sums = tl.zeros((TM, TN), tl.float32)
    for step in range(0, K, TK):
        left = tl.load(a + m[:, None] * K + (step + k)[None, :], mask=m[:, None] < M, other=0.0)
        right = tl.load(b + n[None, :] * K + (step + k)[:, None], mask=n[None, :] < N, other=0.0)
        sums += tl.dot(left, right)
    tl.store(c + m[:, None] * N + n[None, :], sums.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))


def _twoPass(x, nibbles, scale, scaleStep, zero, zeroStep, x8, w8, out):
    (m, k), n = x.shape, nibbles.shape[0]
    _castKernel[(triton.cdiv(m * k, 512),)](x, x8, m * k, kBlock=512)
    _dequantizeKernel[(triton.cdiv(n * k, 512),)](nibbles, scale, scaleStep, zero, zeroStep, w8, n * k, k, kBlock=512)
    _fp8ProductKernel[lambda c: (triton.cdiv(m, c["TM"]) * triton.cdiv(n, c["TN"]),)](x8, w8, out, m, n, k)


def cublasltCandidates(n, k, m):
    """The FP8 GEMM alone in its four modes: tensor or row scales, fast accumulation or not."""
    x8 = torch.randn(m, k, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
    w8 = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    rows, columns = torch.ones(m, 1, device="cuda"), torch.ones(1, n, device="cuda")

    def mode(scaleA, scaleB, fast):
        return lambda: torch._scaled_mm(x8, w8.t(), scale_a=scaleA, scale_b=scaleB, out_dtype=torch.bfloat16,
                                        use_fast_accum=fast)

    return {f"cublaslt_{name}{'_fast' if fast else ''}": mode(a, b, fast)
            for name, a, b in (("tensor", one, one), ("row", rows, columns)) for fast in (True, False)}


def tritonCandidates(n, k, m):
    """The whole operation as two passes: dequantize to FP8 without scales, then an FP8 product."""
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    nibbles = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
    scale = torch.randint(1, 64, (n, k // 32), dtype=torch.uint8, device="cuda")
    scaleStep = torch.full((n, k // 256), 1e-3, dtype=torch.float16, device="cuda")
    zero = torch.randint(6, 9, (n, k // 32), dtype=torch.uint8, device="cuda")
    zeroStep = torch.ones((n, k // 256), dtype=torch.float16, device="cuda")
    x8 = torch.empty((m, k), dtype=torch.float8_e4m3fn, device="cuda")
    w8 = torch.empty((n, k), dtype=torch.float8_e4m3fn, device="cuda")
    out = torch.empty((m, n), dtype=torch.bfloat16, device="cuda")
    return {"triton_two_pass": lambda: _twoPass(x, nibbles, scale, scaleStep, zero, zeroStep, x8, w8, out)}
