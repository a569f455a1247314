"""One way of timing for our kernels and for peers: CUDA graph replays between events, the L2 flushed before each.

The card is power limited and its limiter remembers some hundred milliseconds, so every candidate starts after the same rest;
without it whatever runs first looks 5 to 8 % better. Warm-ups then take the card out of its rest. Candidates of one row are
timed in turns, round after round.
"""
import time

import torch

RUNS_PER_ROUND = 8
ROUNDS = 2
WARM_UPS = 3  # at least, and for at least
WARM_UP_SECONDS = 0.005
REST_SECONDS = 0.3
FLUSH_BYTES = 256 << 20  # several times the L2 of any current GPU


class Timer:
    """Times callables that put work on the current stream."""

    def __init__(self):
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def capture(self, work):
        """A graph of one call. The call runs before, outside the capture, so that loading and autotuning happen there."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                work()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph

    def round(self, run):
        """Microseconds of each run of one round."""
        torch.cuda.synchronize()
        time.sleep(REST_SECONDS)
        begin, warmUps = time.perf_counter(), 0
        while warmUps < WARM_UPS or time.perf_counter() - begin < WARM_UP_SECONDS:
            self.flush.zero_()
            run()
            torch.cuda.synchronize()
            warmUps += 1
        pairs = []
        for _ in range(RUNS_PER_ROUND):
            self.flush.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in pairs]

    def compare(self, candidates, graphs=True):
        """Median microseconds of each candidate {name: callable}; a refusal is its message instead of a number.

        Without `graphs` the callables are launched one by one; the flush before each is long enough to hide the host's work.
        """
        runs, times, refused = {}, {}, {}
        for name, work in candidates.items():
            try:
                runs[name] = self.capture(work).replay if graphs else work
                runs[name]()
                torch.cuda.synchronize()
                times[name] = []
            except Exception as error:  # a peer that refuses a shape is a result too
                refused[name] = str(error).split("\n")[0][:120]
                runs.pop(name, None)
                torch.cuda.synchronize()
        for _ in range(ROUNDS):
            for name, run in runs.items():
                times[name] += self.round(run)
        medians = {name: sorted(values)[len(values) // 2] for name, values in times.items()}
        return medians | refused
