"""`make bench-incidents`: plays every kind of incident against the shipped rules and grades the pages.

See docs/evidence/incidents.md. The bench takes most of an hour on two cores. CI runs `--sample`, one run per kind.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import TypeVar

from bench.incidents.bounds import (
    ESTIMATOR_ONLY,
    SAMPLE_ESTIMATOR_ONLY,
    SAMPLE_WITH_REPORTS,
    WITH_REPORTS,
    broken,
)
from bench.incidents.engines import ENGINES
from bench.incidents.healthy import DAYS, HealthyDay, healthy_day
from bench.incidents.kinds import KINDS
from bench.incidents.page import page
from bench.incidents.report import days_line, line, table
from bench.incidents.run import Done, Job, done, engine_for, jobs


TUNING = range(10)
"""Seeds on which rules and defaults may be tuned; reported results come from other seeds."""
REPORTED = range(10, 30)
SAMPLE = {
    "burst": 10,
    "overload": 13,
    "long-outputs": 16,
    "prompts-beyond-kv": 20,
    "few-slots": 22,
    "long-tail": 25,
    "cache-lost": 28,
    "prefill-slow": 11,
    "interference": 14,
    "decode-slow": 17,
    "preemption": 20,
    "crash": 24,
    "hang": 26,
    "cold-start": 29,
    "slow-clients": 12,
    "hop": 15,
    "tokeniser": 18,
    "noisy-tenant": 21,
    "two-faults": 24,
}
"""Kind to one of the reported seeds, chosen so that at least one lane must page."""
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "incidents.md"
_I = TypeVar("_I")
_O = TypeVar("_O")


def main() -> int:
    arguments = _arguments()
    if shutil.which("promtool") is None:
        print("promtool is missing: install the Debian package prometheus", file=sys.stderr)
        return 2
    modes = {"reports": (True,), "estimator": (False,), "both": (True, False)}[arguments.mode]
    began = time.perf_counter()
    finished = _runs(_todo(arguments, modes), arguments.jobs)
    days = _healthy(arguments.healthy_days, arguments.jobs)
    minutes = (time.perf_counter() - began) / 60
    print(f"\n{len(finished)} runs and {len(days)} healthy days in {minutes:.1f} minutes")
    cases = [case for each in finished for case in each.cases]
    false = [each for run in finished for each in run.false]
    not_kept: list[str] = []
    for reports in modes if finished else ():
        title = "With the engine's reports" if reports else "Estimator only"
        of_mode = (
            [case for case in cases if case.reports is reports],
            [each for each in false if each.reports is reports],
        )
        print(f"\n## {title}\n\n{table(*of_mode, len(finished))}")
        whole = WITH_REPORTS if reports else ESTIMATOR_ONLY
        small = SAMPLE_WITH_REPORTS if reports else SAMPLE_ESTIMATOR_ONLY
        not_kept += broken(cases, false, small if arguments.sample else whole, reports=reports)
    not_kept += [f"a page on a healthy day: {days_line(day)}" for day in days if day.pages]
    if arguments.report:
        PAGE.write_text(page(finished, days, not_kept, minutes))
        print(f"written to {PAGE}")
    for words in not_kept:
        print(f"BOUND NOT KEPT: {words}", file=sys.stderr)
    return 1 if not_kept else 0


def _todo(arguments: argparse.Namespace, modes: tuple[bool, ...]) -> list[Job]:
    if arguments.sample:
        return [Job(kind, engine_for(kind, seed).name, seed, modes) for kind, seed in SAMPLE.items()]
    kinds = arguments.kinds or [kind.name for kind in KINDS]
    engines = arguments.engines or [engine.name for engine in ENGINES if not (arguments.tuning and engine.held_out)]
    seeds = [seed for seed in arguments.seeds if not arguments.tuning or seed in TUNING]
    return jobs(kinds, engines, seeds, modes)


def _runs(todo: list[Job], processes: int) -> list[Done]:
    finished: list[Done] = []
    for each in _in_parallel(done, todo, processes):
        finished.append(each)
        print(line(each, len(todo) - len(finished)), flush=True)
    return sorted(finished, key=lambda each: (each.job.seed, each.job.kind))


def _healthy(count: int, processes: int) -> list[HealthyDay]:
    days = []
    for day in _in_parallel(healthy_day, list(range(count)), processes):
        days.append(day)
        print(f"healthy day: {days_line(day)}", flush=True)
    return sorted(days, key=lambda day: day.number)


def _in_parallel(do: Callable[[_I], _O], todo: list[_I], processes: int) -> Iterator[_O]:
    if processes == 1 or len(todo) < 2:
        yield from map(do, todo)
        return
    with Pool(processes) as pool:
        yield from pool.imap_unordered(do, todo)


def _seeds(words: str) -> list[int]:
    """Seeds from text such as `3`, `3,5` or `10-29`."""
    found: list[int] = []
    for part in words.split(","):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.incidents", description=__doc__)
    parser.add_argument("--sample", action="store_true", help="one run of each kind, as in CI")
    parser.add_argument("--kinds", nargs="*", choices=[kind.name for kind in KINDS], metavar="KIND")
    parser.add_argument("--engines", nargs="*", choices=[engine.name for engine in ENGINES], metavar="ENGINE")
    parser.add_argument("--seeds", type=_seeds, help="seeds, such as 10-29 (the default) or 3,5")
    parser.add_argument("--tuning", action="store_true", help="seeds 0 to 9, without the engine that is held out")
    parser.add_argument("--mode", choices=("reports", "estimator", "both"), default="both")
    parser.add_argument(
        "--healthy-days", type=int, help=f"number of healthy days (default: {DAYS} in a whole run, else none)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--report", action="store_true", help="write docs/evidence/incidents.md")
    arguments = parser.parse_args()
    whole = not (arguments.sample or arguments.tuning or arguments.kinds or arguments.engines or arguments.seeds)
    if arguments.healthy_days is None:
        arguments.healthy_days = DAYS if whole else 0
    if arguments.seeds is None:
        arguments.seeds = [*TUNING] if arguments.tuning else [*REPORTED]
    return arguments


if __name__ == "__main__":
    sys.exit(main())
