"""Runs the conformance suite's executables on the GPU."""
import re
import subprocess


def run(build):
    """True if every suite of build/tests/conformance passed on cuda:0 and at least one case ran."""
    executables = sorted(path for path in (build / "tests/conformance").iterdir()
                         if path.is_file() and path.stat().st_mode & 0o100 and path.name.endswith("_test"))
    passed, healthy = 0, bool(executables)
    for executable in executables:
        process = subprocess.run([executable, "--device=cuda:0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        count = re.search(r"\[  PASSED  \] (\d+) test", process.stdout)
        passed += int(count.group(1)) if count else 0
        healthy &= process.returncode == 0
        print("\n".join(line for line in process.stdout.splitlines() if not re.match(r"\[( RUN      |       OK |-+)\]", line)), flush=True)
    print(f"conformance: {passed} cases passed, {'healthy' if healthy and passed else 'FAILED'}", flush=True)
    return healthy and passed > 0
