"""The whole GPU check in one call: conformance, tuning of the tables' rows, and the tables themselves beside the peers.

    python3 tools/gpu_check --build build/dev                        everything, about 20 minutes on an H200
    python3 tools/gpu_check --build build/dev --only conformance     the conformance suite on the GPU
    python3 tools/gpu_check --build build/dev --only linear --rows 39936,6656,512 14336,4096,16
    python3 tools/gpu_check --build build/dev --database h200.twdb --no-jit    from a shipped database alone

Needs PyTorch (with Triton for the Triton peers). Exits with 1 if anything was wrong: a failed case, an error above its limit,
a refused problem. Timings never fail the check; they are printed as ratios to peers timed in the same call.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def arguments():
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/dev"), help="the build folder")
    parser.add_argument("--only", nargs="+", choices=("conformance", "linear", "attention", "decode"),
                        default=("conformance", "linear", "attention", "decode"))
    parser.add_argument("--target", default="sm_90a", help="what the conformance suite's kernels are compiled for")
    parser.add_argument("--cubins", type=pathlib.Path, help="folder that keeps the conformance suite's kernels (a temporary one)")
    parser.add_argument("--suite", nargs=argparse.REMAINDER, default=[], help="the rest goes to the conformance suite, such as --huge")
    parser.add_argument("--database", type=pathlib.Path, nargs="*", default=[], help="tuning databases, the first one first")
    parser.add_argument("--tune", type=int, default=0, metavar="SECONDS", help="tune the tables' rows into a new database first")
    parser.add_argument("--no-jit", action="store_true", help="launch from the databases alone, without any compiler")
    parser.add_argument("--precision", nargs="+", default=["fp8", "int8"], choices=("exact", "fp8", "int8"))
    parser.add_argument("--rows", nargs="*", default=[], metavar="N,K,M", help="rows of the linear table (all 60)")
    parser.add_argument("--specs", nargs="*", default=[], metavar="B,HQ,HKV,D,LQ,LKV", help="rows of the attention tables (all)")
    parser.add_argument("--peers", nargs="*", default=["cublaslt", "triton", "sdpa"], choices=("cublaslt", "triton", "sdpa"))
    parser.add_argument("--rounds", type=int, default=2, help="measuring rounds of each candidate")
    parser.add_argument("--json", type=pathlib.Path, help="write every row here, one JSON object a line")
    return parser.parse_args()


def tune(build, chosen, seconds):
    """A database with winners for `chosen` problems, tuned by the command line within `seconds`."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check_"))
    shapes, database = folder / "problems.json", folder / "tuned.twdb"
    shapes.write_text(json.dumps(chosen))
    tuned = subprocess.run([build / "tools/tilewright", "tune", "--device", "cuda:0", "--model-shapes", shapes, "--db", database,
                            "--budget", str(seconds)], check=False)
    if tuned.returncode not in (0, 1):  # 1: a problem failed, which its row of a table shows
        tuned.check_returncode()
    return database


def main():
    options = arguments()
    healthy = True
    if "conformance" in options.only:
        import conformance
        healthy = conformance.run(options.build, options.target, options.suite, options.cubins)
    tables = [name for name in options.only if name != "conformance"]
    if not tables:
        return 0 if healthy else 1

    import torch

    import attention
    import library
    import linear
    import timing

    rows = [tuple(map(int, row.split(","))) for row in options.rows] or [(n, k, m) for n, k in linear.SHAPES for m in linear.ROWS]
    specs = {tuple(map(int, spec.split(","))) for spec in options.specs}
    prefill = [row for row in attention.PREFILL if not specs or row[0] in specs] if "attention" in tables else []
    decode = [row for row in attention.DECODE if not specs or row[0] in specs] if "decode" in tables else []
    databases = list(options.database)
    if options.tune:
        chosen = [attention.problem(spec) for spec, *_ in prefill + decode]
        if "linear" in tables:
            chosen += [linear.problem(n, k, m, precision, kept) for n, k, m in rows for _, precision, kept in linear.columns(options.precision)]
        databases.insert(0, tune(options.build, chosen, options.tune))

    torch.manual_seed(0)
    timing.ROUNDS = options.rounds
    timer = timing.Timer()
    builds = tempfile.TemporaryDirectory(prefix="gpu_check_")
    runtime = library.Runtime(options.build / "runtime/libtilewright.so", databases,
                              None if options.no_jit else options.build / "compiler/libtilewright_jit.so",
                              build_cache=None if options.no_jit else pathlib.Path(builds.name) / "builds.twdb")
    name = torch.cuda.get_device_name()
    print(f"\n{name}, driver CUDA {torch.version.cuda}, PyTorch {torch.__version__}; median of {timing.ROUNDS * timing.RUNS_PER_ROUND} "
          f"graph replays, L2 flushed, {timing.REST_SECONDS * 1e3:.0f} ms rest before each candidate", flush=True)

    results, failures = [], []
    if options.json:
        options.json.write_text("")

    def record(result, text):
        print(text, flush=True)
        results.append(result)
        if options.json:  # row by row: a run that is cut short leaves what it has
            with options.json.open("a") as file:
                file.write(json.dumps(result) + "\n")
        failures.extend(f"{text.split()[0]}: {each}" for each in result["failed"])

    if "linear" in tables:
        print(f"\nq4k_linear, microseconds\n{linear.legend()}\n{linear.header(options.precision)}", flush=True)
        table = []
        for n, k, m in rows:
            result = linear.row(runtime, timer, n, k, m, options.precision, options.peers)
            table.append(result)
            record(result, linear.line(result, options.precision))
        print("\n".join(linear.summary(table)), flush=True)
    if prefill:
        print(f"\nattention, causal; ours and peers in TFLOP/s\n{attention.PREFILL_HEADER}", flush=True)
        table = []
        for spec, anchor, bar in prefill:
            table.append((attention.row(runtime, timer, spec, options.peers), anchor, bar))
            record(table[-1][0], attention.prefillLine(*table[-1]))
        print(attention.prefillSummary(table), flush=True)
    if decode:
        print(f"\nattention, one query row; microseconds as a graph, and of single launches\n{attention.DECODE_HEADER}", flush=True)
        for spec, bar in decode:
            result = attention.row(runtime, timer, spec, options.peers, launched=True)
            record(result, attention.decodeLine(result, bar))
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"gpu_check: {len(results)} rows, {len(failures)} failures", flush=True)
    return 0 if healthy and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
