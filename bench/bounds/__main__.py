"""`make bounds`: measures the sidecar's bounds in milliseconds and bytes; exit code 1 if one is broken.

The sidecar runs as for its users, in a process of its own; origin and clients run in this process. It takes a minute,
or two if a bound looks broken: then all are measured again, and a bound counts as broken if it is broken both times. A
real defect shows both times; noise from another process of the machine usually does not. While the whole machine is
slower than usual (`speed.py`), this is repeated, up to MOST_TIMES in all. A limit does not depend on that speed; those of the
added latency depend on a plain relay that is measured beside the sidecar.
"""

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import uvloop

from bench.bounds.added_latency import added_latency
from bench.bounds.baseline_stalls import baseline_stalls
from bench.bounds.bound import Bound, table
from bench.bounds.leaving import leaving
from bench.bounds.loop_stalls import body_peek_stalls, scrape_stalls, upload_stalls
from bench.bounds.memory import stuck_readers
from bench.bounds.plain_relay import running_plain_relay
from bench.bounds.span_stalls import span_stalls
from bench.bounds.speed import QUICK, slowness
from bench.bounds.status_page import status_page_stalls
from bench.bounds.wrong_passwords import USERS, wrong_passwords
from bench.origin import running_origin
from tests.support.sidecar_process import running_sidecar


MOST_TIMES = 5
"""Measurements of a bound that stays broken on a slow machine: five minutes."""


async def measured() -> list[Bound]:
    """Measure every bound, one group after the other."""
    bounds = []
    with tempfile.TemporaryDirectory() as folder:
        web_config = Path(folder) / "web.yml"
        web_config.write_text(USERS)
        async with running_origin() as origin:
            # The origin answers in this loop while the sidecar becomes ready, so that the wait for it needs a thread.
            running = running_sidecar(
                origin.url, Path(folder), flags=["--log.level=warning", f"--web.config.file={web_config}"]
            )
            relaying = running_plain_relay(origin.port)
            sidecar = await asyncio.to_thread(running.__enter__)
            try:
                plain_port = await asyncio.to_thread(relaying.__enter__)
                try:
                    bounds += await beside(added_latency(origin, sidecar.port, plain_port))
                finally:
                    await asyncio.to_thread(relaying.__exit__, None, None, None)
                bounds += await beside(leaving(origin, sidecar.port))
                bounds += await beside(wrong_passwords(origin, sidecar.port, sidecar.web_port))
                bounds += await beside(stuck_readers(sidecar.port, sidecar.process.pid))
            finally:
                await asyncio.to_thread(running.__exit__, None, None, None)
    bounds += await beside(scrape_stalls())
    bounds += await beside(status_page_stalls())
    bounds += await beside(asyncio.to_thread(body_peek_stalls))
    bounds += await beside(upload_stalls())
    bounds += await beside(span_stalls())
    bounds += await beside(asyncio.to_thread(baseline_stalls))
    return bounds


async def beside(group: Awaitable[list[Bound]]) -> list[Bound]:
    """Measure one group, and the machine's speed before and after it: the slower one counts."""
    before = slowness()
    found = await group
    slower = max(before, slowness())
    return [replace(bound, slowness=slower) for bound in found]


def main() -> int:
    # As `sidecar serve` does once it listens: full collections then skip the imported modules.
    gc.collect()
    gc.freeze()
    broken, quick = report()
    times = 1
    while broken and times < MOST_TIMES and (times < 2 or not quick):
        names = "; ".join(sorted(broken))
        print(f"\nOver the bound, or the machine was busy: {names}. Everything is measured again.\n")
        again, quick = report()
        broken &= again
        times += 1
    for name in sorted(broken):
        print(f"BROKEN: {name}", file=sys.stderr)
    return 1 if broken else 0


def report() -> tuple[set[str], bool]:
    """Measure every bound and print the table; the names of the broken ones, and whether the machine was quick."""
    began = time.perf_counter()
    bounds = uvloop.run(measured())
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(table(bounds))
    print(f"\n{os.cpu_count()} CPUs, load average {load}, {time.perf_counter() - began:.0f} s")
    return {bound.name for bound in bounds if not bound.kept}, all(bound.slowness <= QUICK for bound in bounds)


if __name__ == "__main__":
    sys.exit(main())
