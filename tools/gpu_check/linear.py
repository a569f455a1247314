"""The table of q4k_linear: ours beside cuBLASLt's FP8 GEMM alone and the Triton two-pass linear, in one call."""
import math

import torch

import linear_peers
import q4k

SHAPES = ((39936, 6656), (14336, 4096), (4096, 14336), (4096, 4096), (8448, 6656), (6656, 19968))  # n, k
ROWS = (1, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096)  # m
# Normalized RMS against exact dequantization in double precision: Gaussian x, and x with 0.5 % of its channels at 30 times.
ERROR_LIMITS = {"exact": (0.003, 0.003), "int8": (0.014, 0.02), "fp8": (0.04, 0.04)}
READ_BYTES_PER_MICROSECOND = 4.45e6  # the H200's measured read bandwidth
FP8_FLOP_PER_MICROSECOND = 1550e6  # the H200's measured cuBLASLt FP8 rate


def problems(precisions, shapes=SHAPES, rows=ROWS):
    return [{"op": "q4k_linear", "n": n, "k": k, "m": m, "precision": precision}
            for n, k in shapes for m in rows for precision in precisions]


def _nrmse(out, x, w):
    """Normalized RMS of sampled outputs; NaN and infinity make it infinite."""
    rows = torch.randperm(w.shape[0], device="cuda")[:256]
    tokens = torch.randperm(x.shape[0], device="cuda")[:64]
    expected = x[tokens].double() @ q4k.dequantize(w[rows]).T
    difference = out[tokens][:, rows].double() - expected
    value = (difference.norm() / expected.norm()).item()
    return value if math.isfinite(value) else math.inf


def row(runtime, timer, n, k, m, precisions, peers):
    """One line of the table as a dict; `failed` lists what broke a limit."""
    x = torch.randn(m, k, device="cuda").bfloat16()
    outliers = x.clone()
    outliers[:, torch.randperm(k, device="cuda")[:max(1, k // 200)]] *= 30
    w = q4k.quantize(torch.randn(n, k, device="cuda"))
    result, failed, candidates, plans = {"n": n, "k": k, "m": m}, [], {}, {}
    for precision in precisions:
        plan = runtime.bind({"op": "q4k_linear", "n": n, "k": k, "m": m, "precision": precision})
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
    anchors = [value for name, value in times.items() if name.startswith("cublaslt") and isinstance(value, float)]
    ours = [times[precision] for precision in precisions if precision != "exact" and isinstance(times[precision], float)]
    floor = max(n * k * 144 / 256 / READ_BYTES_PER_MICROSECOND, 2 * m * n * k / FP8_FLOP_PER_MICROSECOND)
    result |= {"microseconds": times, "failed": failed, "roofline_microseconds": floor}
    if anchors and ours:
        result |= {"ratio": min(ours) / min(anchors), "roofline_share": floor / min(ours)}
    return result


def header(precisions):
    return ("n,k,m".rjust(18) + "".join(f"{name:>10}" for name in precisions) + "   cublasLt    triton     ratio  roofline"
            + "   error (Gaussian/outliers)  template")


def line(result, precisions):
    times = result["microseconds"]

    def number(value):
        return f"{value:10.1f}" if isinstance(value, float) else "   refused"

    anchor = min((value for name, value in times.items() if name.startswith("cublaslt") and isinstance(value, float)), default="-")
    errors = " ".join(f"{p} " + "/".join(f"{100 * e:.2f}%" for e in result[f"{p}_error"]) for p in precisions)
    return (f"{result['n']},{result['k']},{result['m']}".rjust(18) + "".join(number(times[p]) for p in precisions)
            + number(anchor).rjust(11) + number(times.get("triton_two_pass", "-"))
            + (f"{result['ratio']:10.2f}{100 * result['roofline_share']:9.0f}%" if "ratio" in result else "         -         -")
            + f"   {errors}  {result[precisions[-1] + '_plan']}")


def summary(results):
    """Geometric means of the ratios, for few and for many rows."""
    lines = []
    for name, chosen in (("m up to 128", [r for r in results if r["m"] <= 128]), ("m above 128", [r for r in results if r["m"] > 128])):
        ratios = [r["ratio"] for r in chosen if "ratio" in r]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"ratio to cuBLASLt FP8 alone, {name}: geometric mean {mean:.3f}, worst {max(ratios):.2f} of {len(ratios)} rows")
    return lines
