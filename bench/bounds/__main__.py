"""`make bounds`: measures the sidecar's bounds in milliseconds and bytes; exit code 1 if one is broken.

The sidecar runs as for its users, in a process of its own; origin and clients run in this process. It takes a minute and
a half. A group with a bound that looks broken is measured again, up to MOST_TIMES in all, and a bound counts as broken
if it is broken each time. A real defect shows each time; noise from another process of the machine usually does not. No limit
depends on the machine's speed, but those of the added latency: they depend on a plain relay that is measured beside the sidecar.
"""

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
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
from bench.bounds.status_page import status_page_stalls
from bench.bounds.wrong_passwords import USERS, wrong_passwords
from bench.origin import running_origin
from sidecar.budgets.heap import give_back_large_blocks
from tests.support.sidecar_process import running_sidecar


MOST_TIMES = 3
"""Measurements of a bound that stays broken."""
Group = Callable[[], Awaitable[list[Bound]]]


async def traffic() -> list[Bound]:
    """Bounds of a sidecar that runs in a process of its own."""
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
                    bounds = await added_latency(origin, sidecar.port, plain_port)
                finally:
                    await asyncio.to_thread(relaying.__exit__, None, None, None)
                bounds += await leaving(origin, sidecar.port)
                bounds += await wrong_passwords(origin, sidecar.port, sidecar.web_port)
                bounds += await stuck_readers(sidecar.port, sidecar.process.pid)
            finally:
                await asyncio.to_thread(running.__exit__, None, None, None)
    return bounds


GROUPS: tuple[Group, ...] = (
    traffic,
    scrape_stalls,
    status_page_stalls,
    partial(asyncio.to_thread, body_peek_stalls),
    upload_stalls,
    span_stalls,
    partial(asyncio.to_thread, baseline_stalls),
)


def main() -> int:
    # As `sidecar serve` does: large blocks are mapped alone, and full collections skip the imported modules.
    give_back_large_blocks()
    gc.collect()
    gc.freeze()
    broken = judged(GROUPS)
    for name in broken:
        print(f"BROKEN: {name}", file=sys.stderr)
    return 1 if broken else 0


def judged(groups: Sequence[Group]) -> list[str]:
    """Measure every group, and again each with a broken bound. The names of the bounds that were broken each time."""
    broken: dict[Group, set[str]] = {}
    names: list[str] = []
    for left in reversed(range(MOST_TIMES)):
        for group, bounds in report(groups).items():
            over = {bound.name for bound in bounds if not bound.kept}
            broken[group] = over & broken.get(group, over)
        groups = [group for group in groups if broken[group]]
        names = sorted(name for group in groups for name in broken[group])
        if not names:
            break
        if left:
            print(f"\nOver the bound, or the machine was busy: {'; '.join(names)}. These are measured again.\n")
    return names


def report(groups: Sequence[Group]) -> dict[Group, list[Bound]]:
    """Measure these groups, one after the other, and print the table."""
    began = time.perf_counter()
    found = uvloop.run(_measured(groups))
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(table(bound for bounds in found.values() for bound in bounds))
    print(f"\n{os.cpu_count()} CPUs, load average {load}, {time.perf_counter() - began:.0f} s")
    return found


async def _measured(groups: Sequence[Group]) -> dict[Group, list[Bound]]:
    return {group: await group() for group in groups}


if __name__ == "__main__":
    sys.exit(main())
