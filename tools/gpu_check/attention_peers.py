"""What a user would run instead of attention: cuDNN and FlashAttention-2 through PyTorch, and a Triton kernel over TMA."""
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right


@triton.jit(do_not_specialize=["group"])
def _attentionKernel(Q, K, V, O, kvLen, qLen, capacity, qHead, qRow, kHead, kRow, oHead, oRow, scale, group,
                     D: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr):
    tile, head = tl.program_id(0), tl.program_id(1)
    qMap = tl.make_tensor_descriptor(Q + head * qHead, shape=[qLen, D], strides=[qRow, 1], block_shape=[TM, D])
    kMap = tl.make_tensor_descriptor(K + (head // group) * kHead, shape=[capacity, D], strides=[kRow, 1], block_shape=[TN, D])
    vMap = tl.make_tensor_descriptor(V + (head // group) * kHead, shape=[capacity, D], strides=[kRow, 1], block_shape=[TN, D])
    q = qMap.load([tile * TM, 0])
    maximum = tl.full([TM], -float("inf"), tl.float32)
    total, out = tl.zeros([TM], tl.float32), tl.zeros([TM, D], tl.float32)
    rows = tile * TM + tl.arange(0, TM)
    length = tl.load(kvLen)
    for start in range(0, tl.minimum(length, length - qLen + (tile + 1) * TM), TN):
        s = tl.dot(q, kMap.load([start, 0]).T) * scale
        keys = start + tl.arange(0, TN)
        s = tl.where((keys[None, :] < length) & (keys[None, :] <= length - qLen + rows[:, None]), s, -float("inf"))
        new = tl.maximum(maximum, tl.max(s, 1))
        reference = tl.where(new == -float("inf"), 0.0, new)
        p, factor = tl.exp2(s - reference[:, None]), tl.exp2(maximum - reference)
        total = total * factor + tl.sum(p, 1)
        out = tl.dot(p.to(tl.bfloat16), vMap.load([start, 0]), out * factor[:, None])
        maximum = new
    out = out * tl.where(total == 0, 0.0, 1.0 / total)[:, None]
    tl.store(O + head * oHead + rows[:, None] * oRow + tl.arange(0, D)[None, :], out.to(tl.bfloat16),
             mask=rows[:, None] < qLen)


def sdpaCandidates(q, k, v):
    """cuDNN and FlashAttention-2, causal and aligned bottom-right; q, k, v are [b, h, l, d] in any strides."""
    groups, square = q.shape[1] != k.shape[1], q.shape[2] == k.shape[2]

    def call(backend):
        def run():
            with sdpa_kernel(backend):
                if square:
                    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=groups)
                mask = causal_lower_right(q.shape[2], k.shape[2])
                return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=groups)
        return run

    return {"cudnn": call(SDPBackend.CUDNN_ATTENTION), "fa2": call(SDPBackend.FLASH_ATTENTION)}


def tritonCandidates(q, k, v):
    """The Triton TMA kernel with its two useful tiles; batch 1 only."""
    if q.shape[0] != 1:
        return {}
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    d, stages = q.shape[3], 3 if q.shape[3] < 256 else 2
    out = torch.empty_like(q)
    length = torch.tensor([k.shape[2]], device="cuda", dtype=torch.int32)

    def call(tm, tn, warps):
        return lambda: _attentionKernel[(triton.cdiv(q.shape[2], tm), q.shape[1])](
            q, k, v, out, length, q.shape[2], k.shape[2], q.stride(1), q.stride(2), k.stride(1), k.stride(2), out.stride(1),
            out.stride(2), 1.44269504 / d**0.5, q.shape[1] // k.shape[1], d, tm, tn, num_warps=warps, num_stages=stages)

    return {f"triton_{tm}x{tn}": call(tm, tn, warps) for tm, tn, warps in ((64, 64, 4), (128, 64, 8))}
