"""Runs the conformance suite on the GPU (tests/conformance/main.cpp)."""
import re
import subprocess


def run(build, arguments=()):
    """True if every case passed on cuda:0 and at least one ran. `arguments` go to the suite, such as --huge."""
    command = [build / "tests/conformance/conformance_gpu", "--device", "cuda:0", "--gtest_brief=1", *arguments]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    count = re.search(r"\[  PASSED  \] (\d+) test", process.stdout)
    healthy = process.returncode == 0 and count is not None and int(count.group(1)) > 0
    print(process.stdout.rstrip())
    print(f"conformance: {'all passed' if healthy else f'FAILED (exit code {process.returncode})'}", flush=True)
    return healthy
