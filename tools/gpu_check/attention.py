"""The tables of attention: prefill beside cuDNN, FlashAttention-2 and Triton in one call, and decode."""
import math

import torch

import attention_peers

# batch, q_heads, kv_heads, head_dim, q_len, kv_len; the anchor of the row and the ratio to it that must be reached
# (the best public peer's rate over the anchor's, both measured in one call on an H200).
PREFILL = (
    ((1, 16, 2, 64, 512, 16384), "fa2", 1.50),
    ((1, 16, 2, 64, 4096, 131072), "triton", 1.63),
    ((1, 16, 2, 128, 512, 16384), "fa2", 2.25),
    ((1, 16, 2, 128, 1024, 131072), "triton", 1.70),
    ((1, 16, 2, 128, 4096, 131072), "triton", 1.60),
    ((1, 32, 2, 128, 4096, 32768), "triton", 1.43),
    ((1, 16, 2, 256, 1024, 16384), "triton", 1.63),
    ((1, 16, 2, 256, 4096, 131072), "triton", 1.45),
    ((1, 64, 8, 128, 2048, 2048), "cudnn", 1.05),
    ((1, 64, 8, 128, 4096, 4096), "cudnn", 1.13),
    ((1, 64, 8, 128, 8192, 8192), "cudnn", 1.21),
    ((1, 64, 8, 128, 16384, 16384), "cudnn", 1.18),
    ((1, 32, 8, 128, 16384, 16384), "cudnn", 1.10),
    ((2, 16, 16, 128, 8192, 8192), "cudnn", 1.03),
    ((4, 16, 16, 64, 8192, 8192), "cudnn", 1.09),
    ((1, 32, 8, 64, 16384, 16384), "cudnn", 1.20),
    ((1, 8, 8, 256, 16384, 16384), "cudnn", 1.22),
    ((1, 16, 8, 256, 8192, 8192), "cudnn", 1.05),
)
# One query row, and the microseconds that must not be passed. They were measured with launches one by one.
DECODE = (((1, 32, 8, 128, 1, 4096), 11.0), ((1, 32, 8, 128, 1, 16384), 24.0), ((1, 32, 8, 128, 1, 65536), 70.0),
          ((16, 32, 8, 128, 1, 16384), 255.0))
# Output against double precision, relative L2: P and the output are rounded to BF16, 2^-9 relative each at most, about 2.5e-3
# together on random data; twice that is the limit.
ERROR_LIMIT = 5e-3


def problem(spec):
    b, hq, hkv, d, lq, lkv = spec
    return {"op": "attention", "dtype": "bf16", "batch": b, "q_heads": hq, "kv_heads": hkv, "head_dim": d, "q_len": lq,
            "kv_len": lkv, "causal": True}


def problems():
    return [problem(spec) for spec, *_ in PREFILL + DECODE]


def _operands(spec):
    b, hq, hkv, d, lq, lkv = spec

    def tensor(length, heads):  # [b, l, h, d] in memory, [b, h, l, d] to look at
        return torch.randn(b, length, heads, d, device="cuda", dtype=torch.bfloat16).transpose(1, 2)

    return tensor(lq, hq), tensor(lkv, hkv), tensor(lkv, hkv)


def _error(out, q, k, v):
    """Relative L2 error of sampled rows of two heads against double precision."""
    b, hq, lq, d = q.shape
    lkv, group, worst = k.shape[2], hq // k.shape[1], 0.0
    for head in {0, hq - 1}:
        rows = torch.unique(torch.cat((torch.tensor([0, lq - 1], device="cuda"), torch.randint(0, lq, (30,), device="cuda"))))
        scores = q[b - 1, head, rows].double() @ k[b - 1, head // group].double().T / math.sqrt(d)
        keys = torch.arange(lkv, device="cuda")
        scores.masked_fill_(keys[None, :] > lkv - lq + rows[:, None], -math.inf)
        expected = torch.softmax(scores, -1) @ v[b - 1, head // group].double()
        error = ((out[b - 1, head, rows].double() - expected).norm() / expected.norm()).item()
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst


def row(runtime, timer, spec, peers, launched=False):
    """One line of either table as a dict; with `launched`, also the microseconds of launches outside a graph."""
    b, hq, hkv, d, lq, lkv = spec
    q, k, v = _operands(spec)
    out = torch.full_like(q, float("nan"))
    plan = runtime.bind(problem(spec))
    plan.attention(q, k, v, out, 1 / math.sqrt(d))
    torch.cuda.synchronize()
    error = _error(out, q, k, v)
    candidates = {"ours": lambda: plan.attention(q, k, v, out, 1 / math.sqrt(d))}
    if "sdpa" in peers:
        candidates |= attention_peers.sdpaCandidates(q, k, v)
    if "triton" in peers:
        candidates |= attention_peers.tritonCandidates(q, k, v)
    times = timer.compare(candidates)
    single = timer.compare({name: candidates[name] for name in ("ours", "fa2") if name in candidates}, False) if launched else {}
    failed = [] if error <= ERROR_LIMIT else [f"{plan.template}: error {error:.2e} above {ERROR_LIMIT}"]
    if not isinstance(times["ours"], float):
        failed.append(f"ours: {times['ours']}")
    return {"spec": spec, "microseconds": times, "launched": single, "error": error, "plan": plan.describe(), "failed": failed,
            "flops": 4 * b * hq * d * (lq * lkv - lq * (lq - 1) / 2)}


def best(times, name):
    """Microseconds of the fastest candidate whose name starts with `name`, or None."""
    return min((value for key, value in times.items() if key.startswith(name) and isinstance(value, float)), default=None)


_SPEC = "b,hq,hkv,d,lq,lkv".rjust(28)
PREFILL_HEADER = _SPEC + "        us   TFLOP/s     cudnn       fa2    triton   ratio to     bar     error  plan"
DECODE_HEADER = _SPEC + "        us     cudnn       fa2    triton  launched       fa2     bar     error  plan"


def _number(value, digits):
    return f"{value:10.{digits}f}" if value else "         -"


def _peers(times):
    return [best(times, name) for name in ("cudnn", "fa2", "triton")]


def _spec(result):
    return ",".join(map(str, result["spec"])).rjust(28)


def prefillRatio(result, anchor):
    """The anchor's time over ours, or None."""
    ours, reference = best(result["microseconds"], "ours"), best(result["microseconds"], anchor)
    return reference / ours if ours and reference else None


def prefillLine(result, anchor, bar):
    ours, ratio = best(result["microseconds"], "ours"), prefillRatio(result, anchor)
    rates = [value and result["flops"] / value / 1e6 for value in [ours] + _peers(result["microseconds"])]
    return (_spec(result) + _number(ours, 1) + "".join(_number(rate, 0) for rate in rates)
            + (f"  {ratio:5.2f} {anchor:<6}" if ratio else "     -      ") + f"{bar:7.2f}{result['error']:10.1e}  {result['plan']}")


def decodeLine(result, bar):
    times, single = result["microseconds"], result["launched"]
    return (_spec(result) + _number(best(times, "ours"), 1) + "".join(_number(value, 1) for value in _peers(times))
            + _number(best(single, "ours"), 1) + _number(best(single, "fa2"), 1) + f"{bar:8.1f}{result['error']:10.1e}  {result['plan']}")


def prefillSummary(results):
    """How the rows of (result, anchor, bar) stand to their bars."""
    over = [ratio / bar for result, anchor, bar in results if (ratio := prefillRatio(result, anchor))]
    if not over:
        return "no row has its anchor"
    mean = math.exp(sum(map(math.log, over)) / len(over))
    return f"{sum(each >= 1 for each in over)} of {len(over)} rows reach their bar; ratio over bar: geometric mean {mean:.3f}, least {min(over):.3f}"
