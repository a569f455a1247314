"""The table of q4k_linear: ours beside cuBLASLt's FP8 GEMM alone and the Triton two-pass linear, in one call."""
import math

import torch

import linear_peers
import q4k

SHAPES = ((39936, 6656), (14336, 4096), (4096, 14336), (4096, 4096), (8448, 6656), (6656, 19968))  # n, k
ROWS = (1, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096)  # m
# Normalized RMS against exact dequantization in double precision: Gaussian x, and x with 0.5 % of its channels at 30 times.
ERROR_LIMITS = {"exact": (0.003, 0.003), "int8": (0.014, 0.02), "fp8": (0.04, 0.04)}
# What an H200 was measured to do at most: reads of device memory, and cuBLASLt's GEMMs (FP8 with fast accumulation; INT8 has the
# same nominal rate).
BYTES_PER_MICROSECOND = 4.45e6
FLOP_PER_MICROSECOND = {"fp8": 1550e6, "int8": 1550e6, "exact": 800e6}


def problem(n, k, m, precision):
    """As an engine asks that prepares its weights once for each model."""
    return {"op": "q4k_linear", "n": n, "k": k, "m": m, "precision": precision, "prepared": True}


def _nrmse(out, x, w):
    """Normalized RMS of sampled outputs; NaN and infinity make it infinite."""
    rows = torch.randperm(w.shape[0], device="cuda")[:256]
    tokens = torch.randperm(x.shape[0], device="cuda")[:64]
    expected = x[tokens].double() @ q4k.dequantize(w[rows]).T
    difference = out[tokens][:, rows].double() - expected
    value = (difference.norm() / expected.norm()).item()
    return value if math.isfinite(value) else math.inf


def roofline(n, k, m, precision):
    """(microseconds, "mem" or "ops"): the longer of moving W, x and out once and of the operations, at the rates above."""
    memory = (n * k // 256 * 144 + 2 * m * k + 2 * m * n) / BYTES_PER_MICROSECOND
    operations = 2 * m * n * k / FLOP_PER_MICROSECOND[precision]
    return (memory, "mem") if memory >= operations else (operations, "ops")


def row(runtime, timer, n, k, m, precisions, peers):
    """One line of the table as a dict; `failed` lists what broke a limit."""
    x = torch.randn(m, k, device="cuda").bfloat16()
    outliers = x.clone()
    outliers[:, torch.randperm(k, device="cuda")[:max(1, k // 200)]] *= 30
    w = q4k.quantize(torch.randn(n, k, device="cuda"))
    result, failed, candidates, plans = {"n": n, "k": k, "m": m}, [], {}, {}
    for precision in precisions:
        plan = runtime.bind(problem(n, k, m, precision))
        plan.prepare_weights(w)
        out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        errors = []
        for activations, limit in zip((x, outliers), ERROR_LIMITS[precision]):
            out.fill_(float("nan"))
            plan.linear(activations, w, out)
            torch.cuda.synchronize()
            errors.append(_nrmse(out, activations, w))
            if not errors[-1] <= limit:
                failed.append(f"{precision} {plan.template}: error {errors[-1]:.4f} above {limit}")
        result[f"{precision}_error"], result[f"{precision}_plan"] = errors, plan.describe()
        candidates[precision] = lambda plan=plan, out=out: plan.linear(x, w, out)
        plans[precision] = plan
    if "cublaslt" in peers:
        candidates |= linear_peers.cublasltCandidates(n, k, m)
    if "triton" in peers:
        candidates |= linear_peers.tritonCandidates(n, k, m)
    times = timer.compare(candidates)
    for precision in precisions:
        if not isinstance(times[precision], float):
            failed.append(f"{precision}: {times[precision]}")
    result |= {"microseconds": times, "failed": failed}
    anchors = [value for name, value in times.items() if name.startswith("cublaslt") and isinstance(value, float)]
    timed = [precision for precision in precisions if isinstance(times[precision], float)]
    best = min([precision for precision in timed if precision != "exact"] or timed, key=times.get, default=None)
    if best:
        floor, limit = roofline(n, k, m, best)
        result |= {"best": best, "roofline_microseconds": floor, "roofline_limit": limit, "roofline_share": floor / times[best]}
    if best and anchors:
        result["ratio"] = times[best] / min(anchors)
    if best and isinstance(times.get("triton_two_pass"), float):
        result["triton_ratio"] = times[best] / times["triton_two_pass"]
    return result


def header(precisions):
    return ("n,k,m".rjust(18) + "".join(f"{name:>10}" for name in precisions) + "   cublasLt    triton     ratio to each      roofline"
            + "   error (Gaussian/outliers)  template")


def legend():
    """What the columns mean."""
    rates = ", ".join(f"{name} {rate / 1e6:.0f}" for name, rate in FLOP_PER_MICROSECOND.items())
    return ("ours: calls with all that they do to x, on weights that were prepared once (not counted); ratios: the better of fp8 "
            "and int8 over cuBLASLt's FP8 GEMM alone and over the Triton two-pass; roofline: share of the longer of moving W, x and out "
            f"once at {BYTES_PER_MICROSECOND / 1e6:.2f} TB/s (mem) and of the operations (ops; TFLOP/s: {rates}), the rates that an H200 "
            "was measured to reach")


def line(result, precisions):
    times = result["microseconds"]

    def number(value):
        return f"{value:10.1f}" if isinstance(value, float) else "   refused"

    anchor = min((value for name, value in times.items() if name.startswith("cublaslt") and isinstance(value, float)), default="-")
    errors = " ".join(f"{p} " + "/".join(f"{100 * e:.2f}%" for e in result[f"{p}_error"]) for p in precisions)

    def ratio(name):
        return f"{result[name]:8.2f}" if name in result else "       -"

    share = f"{100 * result['roofline_share']:8.0f}% {result['roofline_limit']}" if "best" in result else "            -"
    plan = result[f"{result.get('best', precisions[-1])}_plan"]
    return (f"{result['n']},{result['k']},{result['m']}".rjust(18) + "".join(number(times[p]) for p in precisions)
            + number(anchor).rjust(11) + number(times.get("triton_two_pass", "-")) + ratio("ratio") + ratio("triton_ratio")
            + share + f"   {errors}  {plan}")


def summary(results):
    """Geometric means of the ratios, for few and for many rows."""
    lines = []
    for peer, key in (("cuBLASLt FP8 alone", "ratio"), ("the Triton two-pass", "triton_ratio")):
        for name, chosen in (("m up to 128", [r for r in results if r["m"] <= 128]), ("m above 128", [r for r in results if r["m"] > 128])):
            ratios = [r[key] for r in chosen if key in r]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                lines.append(f"ratio to {peer}, {name}: geometric mean {mean:.3f}, worst {max(ratios):.2f} of {len(ratios)} rows")
    return lines
