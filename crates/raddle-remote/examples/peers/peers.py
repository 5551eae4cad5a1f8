"""The peers of `raddle::remote` in Python: ProcessPoolExecutor and loky, told what to do line by line.

A line is `PEER ROW NUMBER`; the answer is how many seconds it took.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor

WORKERS = 2


def nothing():
    pass


def fib(n):
    return 1 if n <= 1 else fib(n - 1) + fib(n - 2)


def work(turns):
    """Calls `fib(5)` so often: a turn takes a microsecond or two."""
    return sum(fib(5) for _ in range(turns))


def turns_of(milliseconds):
    """How many turns take so long here."""
    best = min(timed(lambda: work(2_000)) for _ in range(5))
    return max(1, int(2_000 * milliseconds / 1e3 / best))


def timed(what):
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


class Executor:
    """A pool of the standard library's."""

    def __init__(self):
        self.pool = None

    def open(self, workers):
        return ProcessPoolExecutor(workers)

    def get(self, workers=WORKERS):
        if self.pool is None or self.workers != workers:
            self.close()
            self.pool, self.workers = self.open(workers), workers
            for future in [self.pool.submit(nothing) for _ in range(10)]:
                future.result()
        return self.pool

    def close(self):
        if self.pool is not None:
            self.pool.shutdown(wait=True)
            self.pool = None

    def trip(self, count):
        pool = self.get(1)
        return timed(lambda: [pool.submit(nothing).result() for _ in range(int(count))]) / count

    def tasks(self, milliseconds):
        turns = turns_of(milliseconds)
        count = max(20, int(300 / milliseconds / 4))
        alone = timed(lambda: [work(turns) for _ in range(count)])
        pool = self.get()
        many = timed(lambda: [f.result() for f in [pool.submit(work, turns) for _ in range(count)]])
        return alone / many

    def rounds(self, count):
        pool = self.get()
        one = lambda: [f.result() for f in [pool.submit(nothing) for _ in range(100)]]
        return timed(lambda: [one() for _ in range(int(count))])

    def reduce(self, count):
        pool = self.get()
        one = lambda: sum(f.result() for f in [pool.submit(fib, 5) for _ in range(32)])
        return timed(lambda: [one() for _ in range(int(count))])

    def reset(self, count):
        def one():
            self.close()
            self.get()
        self.get()
        return timed(lambda: [one() for _ in range(int(count))]) / count


class Loky(Executor):
    def open(self, workers):
        from loky import ProcessPoolExecutor as Pool
        return Pool(workers)


def main():
    peers = {"executor": Executor(), "loky": Loky()}
    for line in sys.stdin:
        peer, row, number = line.split()
        print(getattr(peers[peer], row)(float(number)), flush=True)
    for peer in peers.values():
        peer.close()


if __name__ == "__main__":
    main()
