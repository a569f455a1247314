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


def problem(n, k, m, precision, kept=False):
    """As an engine asks that keeps W in super-blocks alone, or beside them what is prepared once for each model."""
    return {"op": "q4k_linear", "n": n, "k": k, "m": m, "precision": precision, "prepared": kept}


def columns(precisions):
    """The (name, precision, kept) of our columns."""
    return [(f"{p}{' kept' if kept else ''}", p, kept) for kept in (False, True) for p in precisions]


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
    result, failed, candidates, plans, twins = {"n": n, "k": k, "m": m}, [], {}, {}, {}
    for name, precision, kept in columns(precisions):
        plan = runtime.bind(problem(n, k, m, precision, kept))
        # Beside super-blocks alone an engine still keeps two numbers a row; a copy of W is made in the call then.
        if kept or plan.prepared_bytes < n * k // 100:
            plan.prepare_weights(w)
        same = next((other for other, each in plans.items() if each.describe() == plan.describe()
                     and (each.prepared is None) == (plan.prepared is None)), None)
        plans[name] = plan
        result[f"{name} plan"] = plan.describe()
        if same:
            twins[name], errors = same, result[f"{same} error"]
        else:
            out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
            errors = []
            for activations in (x, outliers):
                out.fill_(float("nan"))
                plan.linear(activations, w, out)
                torch.cuda.synchronize()
                errors.append(_nrmse(out, activations, w))
            candidates[name] = lambda plan=plan, out=out: plan.linear(x, w, out)
        result[f"{name} error"] = errors
        failed += [f"{name} {plan.template}: error {error:.4f} above {limit}"
                   for error, limit in zip(errors, ERROR_LIMITS[precision]) if not error <= limit]
    if "cublaslt" in peers:
        candidates |= linear_peers.cublasltCandidates(n, k, m)
    if "triton" in peers:
        candidates |= linear_peers.tritonCandidates(n, k, m)
    times = timer.compare(candidates)
    times |= {name: times[same] for name, same in twins.items()}
    failed += [f"{name}: {times[name]}" for name in candidates if name in plans and not isinstance(times[name], float)]
    result |= {"microseconds": times, "failed": failed}
    anchors = [value for name, value in times.items() if name.startswith("cublaslt") and isinstance(value, float)]
    for kept in (False, True):
        timed = [(name, p) for name, p, k_ in columns(precisions) if k_ == kept and isinstance(times[name], float)]
        timed = [each for each in timed if each[1] != "exact"] or timed
        if not timed:
            continue
        name, precision = min(timed, key=lambda each: times[each[0]])
        suffix = "_kept" if kept else ""
        result[f"best{suffix}"] = name
        floor, limit = roofline(n, k, m, precision)
        result[f"roofline{suffix}"] = {"microseconds": floor, "limit": limit, "share": floor / times[name]}
        if anchors:
            result[f"ratio{suffix}"] = times[name] / min(anchors)
        if isinstance(times.get("triton_two_pass"), float):
            result[f"triton_ratio{suffix}"] = times[name] / times["triton_two_pass"]
    return result


def header(precisions):
    ours = "".join(f"{name:>10}" for name, *_ in columns(precisions))
    return ("n,k,m".rjust(18) + ours + "   cublasLt    triton" + "ratio".rjust(8) + "kept".rjust(7) + "   to triton" + "   roofline"
            + "  error of the best (Gaussian/outliers), plan; the same of the best kept")


def legend():
    """What the columns mean."""
    rates = ", ".join(f"{name} {rate / 1e6:.0f}" for name, rate in FLOP_PER_MICROSECOND.items())
    return ("ours: whole calls, with all that they do to x. fp8, int8: W in super-blocks, two numbers a row prepared once; kept: problems "
            "with `prepared`, whose plans may keep a copy of W in 8 bits beside them.\nratio: the better of fp8 and int8 over cuBLASLt's "
            "FP8 GEMM alone, for both; to triton: over the Triton two-pass. roofline: share of the longer of moving W, x and out once\n"
            f"at {BYTES_PER_MICROSECOND / 1e6:.2f} TB/s (mem) and of the operations (ops; TFLOP/s: {rates}), the rates that an H200 was "
            "measured to reach")


def line(result, precisions):
    times = result["microseconds"]

    def number(value):
        return f"{value:10.1f}" if isinstance(value, float) else f"{'-' if value is None else 'refused':>10}"

    def ratio(name, width):
        return f"{result[name]:{width}.2f}" if name in result else "-".rjust(width)

    def best(suffix):
        name = result.get(f"best{suffix}", columns(precisions)[-1 if suffix else 0][0])
        error = "/".join(f"{100 * e:.2f}%" for e in result[f"{name} error"])
        return f"{name} {error} {result[f'{name} plan']}"

    anchor = min((value for name, value in times.items() if name.startswith("cublaslt") and isinstance(value, float)), default=None)
    share = f"{100 * result['roofline']['share']:7.0f}% {result['roofline']['limit']}" if "roofline" in result else " " * 12
    return (f"{result['n']},{result['k']},{result['m']}".rjust(18) + "".join(number(times[name]) for name, *_ in columns(precisions))
            + number(anchor).rjust(11) + number(times.get("triton_two_pass")) + ratio("ratio", 8) + ratio("ratio_kept", 7)
            + ratio("triton_ratio", 12) + share + f"  {best('')}; {best('_kept')}")


def summary(results):
    """Geometric means of the ratios, for few and for many rows."""
    lines = []
    for peer, key in (("cuBLASLt FP8 alone", "ratio"), ("cuBLASLt FP8 alone, W kept in 8 bits too", "ratio_kept"),
                      ("the Triton two-pass", "triton_ratio")):
        for name, chosen in (("m up to 128", [r for r in results if r["m"] <= 128]), ("m above 128", [r for r in results if r["m"] > 128])):
            ratios = [r[key] for r in chosen if key in r]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                lines.append(f"ratio to {peer}, {name}: geometric mean {mean:.3f}, worst {max(ratios):.2f} of {len(ratios)} rows")
    return lines
