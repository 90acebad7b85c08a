"""How much slower this machine is now than at its usual speed, to tell a defect from a host that is busy.

A virtual machine's processor is shared: the same code takes 1.0 to 1.6 times its time within an hour, on the clock of
its own thread too. So a fixed piece of work is timed beside every group of bounds. It knows that work. It refuses to
change a limit: a bound that looks broken on a slow machine is measured again, and counts as it is if it stays broken.
"""

import json
import time
from statistics import median


REFERENCE_MS = 1.83
"""An estimate: the work here over the reading of one long text of a MiB in one call here, times what CI measured for that text
on 20 November 2026 (1.339 ms)."""
QUICK = 1.25
"""Up to this a machine has about its usual speed."""
ROUNDS_OF_WORK = 15
_TEXT = json.dumps([{"role": "user", "content": "What is the queue for? " * 4, "n": n} for n in range(1200)]).encode()


def slowness() -> float:
    """Time of the work over the reference's, at least 1. It takes about 50 ms."""
    took = []
    for _ in range(ROUNDS_OF_WORK):
        before = time.thread_time()
        _work()
        took.append((time.thread_time() - before) * 1e3)
    return max(1.0, median(took) / REFERENCE_MS)


def _work() -> int:
    """Parsing, searching in bytes and plain Python, as the sidecar does."""
    found = json.loads(_TEXT)
    at, quotes = 0, 0
    while (at := _TEXT.find(b'"', at) + 1) > 0:
        quotes += 1
    return quotes + len(found)
