"""Runs the conformance suite on the GPU (tests/conformance/main.cpp), in several processes at once.

Most of a case's time is spent by the host, on random operands and double-precision references, so the cases are dealt to
several processes that share the GPU. The kernels are compiled once before, on all cores, into a folder that all of them read.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import subprocess
import tempfile

PROCESSES = max(1, min(12, (os.cpu_count() or 1) * 3 // 4))

# "main.cpp:39: Failure", the messages, and the line that names the test.
_FAILURE = re.compile(r"^\S+: Failure\n(?:(?!\S+: Skipped\n).*\n)*?\[  FAILED  \] .*$", re.MULTILINE)


def _shard(command, index, count):
    environment = os.environ | {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index)}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(build, target, arguments=(), kept=None, processes=PROCESSES):
    """True if every case passed on cuda:0 and at least one ran. `arguments` go to the suite, such as --huge; kernels are looked
    for in the folder `kept`, and stay there."""
    program = build / "tests/conformance/conformance_gpu"
    with contextlib.nullcontext(kept) if kept else tempfile.TemporaryDirectory(prefix="gpu_check_") as folder:
        cubins = ["--cubins", str(pathlib.Path(folder)), *arguments]
        subprocess.run([program, "--compile-only", "--target", target, *cubins], stdout=subprocess.DEVNULL, check=False)
        command = [program, "--device", "cuda:0", "--gtest_brief=1", *cubins]
        with concurrent.futures.ThreadPoolExecutor(processes) as pool:
            shards = list(pool.map(lambda index: _shard(command, index, processes), range(processes)))

    def total(pattern):
        return sum(int(number) for shard in shards for number in re.findall(pattern, shard.stdout))

    # A brief run counts no failures, but prints each one where it happens.
    passed, skipped = (total(rf"\[  {word}\s*\] (\d+) tests?[,.]") for word in ("PASSED", "SKIPPED"))
    failures = [found for shard in shards for found in _FAILURE.findall(shard.stdout)]
    for failure in failures:
        print(failure[:2000])
    for shard in shards:
        died = shard.returncode not in (0, 1)  # 1: failed tests, or nothing to run
        if died or (shard.returncode == 1 and not _FAILURE.search(shard.stdout)):
            print(f"exit code {shard.returncode}\n{shard.stdout[-4000:]}")
    healthy = passed > 0 and all(shard.returncode == 0 for shard in shards)
    print(f"conformance: {passed} passed, {len(failures)} failed, {skipped} excluded with their reason", flush=True)
    return healthy
