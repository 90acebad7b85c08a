"""`make bounds`: measures the sidecar's bounds in milliseconds and bytes; exit code 1 if one is broken.

The sidecar runs as for its users, in a process of its own; origin and clients run in this process. It takes a minute and
a half. A group with a bound that looks broken is measured again, up to MOST_TIMES in all. A bound counts as broken
if it was over its limit each time, and in SURE_TIMES of these a control beside it was in time (tests/support/control.py). If it was over each
time and the control was late, it was not measured, and that is no failure. Limits are
absolute, because a client waits as long on a slow machine: where code takes twice as long as on the machine of
docs/evidence/performance.md, some are broken. Those of the added latency follow a plain relay that is measured beside the sidecar.
"""

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
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
from tests.support.control import Control
from tests.support.sidecar_process import running_sidecar


MOST_TIMES = 3
"""Measurements of a bound that is over its limit each time."""
SURE_TIMES = 2
"""So many of these beside a control that was in time show that the bound is broken: noise seldom comes twice."""
Group = Callable[[], Awaitable[list[Bound]]]
Figures = tuple[list[Bound], float, float]
"""The bounds of a group, and the instants of `time.monotonic()` between which they were measured."""


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
    with Control() as control:
        verdict = judged(GROUPS, control.why_late)
    for name in verdict.broken:
        print(f"BROKEN: {name}", file=sys.stderr)
    for name, why in verdict.not_measured.items():
        print(f"NOT MEASURED: {name}: this machine was busy: {why}", file=sys.stderr)
    print(f"{verdict.kept} bounds kept, {len(verdict.broken)} broken, {len(verdict.not_measured)} not measured")
    return 1 if verdict.broken else 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many bounds are kept, the names of those that are broken, and of those that were not measured, with the reason."""

    kept: int
    broken: list[str]
    not_measured: dict[str, str]


def judged(groups: Sequence[Group], why_late: Callable[[float, float], str]) -> Verdict:
    """Measure every group, and again each with a bound that was over its limit each time.

    `why_late` says why a control was late between two instants of `time.monotonic()`, "" if it was in time.
    """
    over: dict[Group, set[str]] = {}
    sure, late, bounds = Counter[str](), dict[str, str](), 0
    for left in reversed(range(MOST_TIMES)):
        for group, (figures, began_at, ended_at) in report(groups).items():
            why = why_late(began_at, ended_at)
            bounds += 0 if group in over else len(figures)
            now = {bound.name for bound in figures if not bound.kept}
            over[group] = now & over.get(group, now)
            sure.update(() if why else over[group])
            late.update(dict.fromkeys(over[group], why) if why else {})
        groups = [group for group in groups if over[group]]
        if not groups:
            break
        if left:
            names = sorted(name for group in groups for name in over[group])
            print(f"\nOver the bound, or the machine was busy: {'; '.join(names)}. These are measured again.\n")
    names = sorted(name for group in groups for name in over[group])
    broken = [name for name in names if sure[name] >= SURE_TIMES]
    return Verdict(bounds - len(names), broken, {name: late[name] for name in names if name not in broken})


def report(groups: Sequence[Group]) -> dict[Group, Figures]:
    """Measure these groups, one after the other, and print the table."""
    began = time.perf_counter()
    found = uvloop.run(_measured(groups))
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(table(bound for bounds, _, _ in found.values() for bound in bounds))
    print(f"\n{os.cpu_count()} CPUs, load average {load}, {time.perf_counter() - began:.0f} s")
    return found


async def _measured(groups: Sequence[Group]) -> dict[Group, Figures]:
    found = dict[Group, Figures]()
    for group in groups:
        began_at = time.monotonic()
        found[group] = await group(), began_at, time.monotonic()
    return found


if __name__ == "__main__":
    sys.exit(main())
