"""`make promises`: measures the sidecar's bounds in milliseconds and bytes; exit code 1 if one is broken.

The sidecar runs as for its users, in a process of its own; origin and clients run in this process. It takes a minute,
or two if a bound looks broken: then all are measured again, and a bound counts as broken if it is broken both times. A
real defect shows both times; noise from another process of the machine usually does not.
"""

import asyncio
import gc
import os
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from bench.origin import running_origin
from bench.promises.added_latency import added_latency
from bench.promises.leaving import leaving
from bench.promises.loop_stalls import look_in_stalls, scrape_stalls, upload_stalls
from bench.promises.memory import stuck_readers
from bench.promises.promise import Promise, table
from bench.promises.span_stalls import span_stalls
from bench.promises.status_page import status_page_stalls
from tests.support.sidecar_process import running_sidecar


async def measured() -> list[Promise]:
    """Measure every promise, one group after the other."""
    promises = []
    with tempfile.TemporaryDirectory() as folder:
        async with running_origin() as origin:
            # The origin answers in this loop while the sidecar becomes ready, so that the wait for it needs a thread.
            running = running_sidecar(origin.url, Path(folder), flags=["--log.level=warning"])
            sidecar = await asyncio.to_thread(running.__enter__)
            try:
                promises += await added_latency(origin, sidecar.port)
                promises += await leaving(origin, sidecar.port)
                promises += await stuck_readers(sidecar.port, sidecar.process.pid)
            finally:
                await asyncio.to_thread(running.__exit__, None, None, None)
    promises += await scrape_stalls()
    promises += await status_page_stalls()
    promises += look_in_stalls()
    promises += await upload_stalls()
    promises += await span_stalls()
    return promises


def main() -> int:
    # As `sidecar serve` does once it listens: full collections then skip the imported modules.
    gc.collect()
    gc.freeze()
    broken = told()
    if broken:
        print(
            f"\nOver the bound, or the machine was busy: {'; '.join(sorted(broken))}. Everything is measured again.\n"
        )
        broken &= told()
    for words in sorted(broken):
        print(f"BROKEN: {words}", file=sys.stderr)
    return 1 if broken else 0


def told() -> set[str]:
    """Measure every promise, print the table, and return the names of the broken ones."""
    began = time.perf_counter()
    promises = uvloop.run(measured())
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(table(promises))
    print(f"\n{os.cpu_count()} CPUs, load average {load}, {time.perf_counter() - began:.0f} s")
    return {promise.words for promise in promises if not promise.kept}


if __name__ == "__main__":
    sys.exit(main())
