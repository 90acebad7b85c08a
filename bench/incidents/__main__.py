"""`make bench-incidents`: every kind of incident against the shipped rules, and what came of it. See docs/incidents.md."""

import argparse
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pool

from bench.incidents.engines import ENGINES
from bench.incidents.kinds import KINDS
from bench.incidents.report import line, table
from bench.incidents.run import Done, Job, done, jobs


TUNING = range(10)
"""Seeds that rules and defaults may be tuned on; what is reported comes from others."""
REPORTED = range(10, 30)


def main() -> int:
    arguments = _arguments()
    kinds = arguments.kinds or [kind.name for kind in KINDS]
    engines = arguments.engines or [engine.name for engine in ENGINES if not (arguments.tuning and engine.held_out)]
    seeds = [*TUNING] if arguments.tuning else arguments.seeds
    modes = {"reports": (True,), "estimator": (False,), "both": (True, False)}[arguments.mode]
    todo = jobs(kinds, engines, seeds, modes)
    finished, began = [], time.perf_counter()
    for each in _all_done(todo, arguments.jobs):
        finished.append(each)
        print(line(each, len(todo) - len(finished)), flush=True)
    print(f"\n{len(finished)} runs in {time.perf_counter() - began:.0f} s")
    for reports in modes:
        cases = [case for each in finished for case in each.cases if case.reports is reports]
        false = [page for each in finished for page in each.false if page.reports is reports]
        title = "With the engine's reports" if reports else "Estimator only"
        print(f"\n## {title}\n")
        print(table(cases, false, len(finished)))
    return 0


def _all_done(todo: list[Job], processes: int) -> Iterator[Done]:
    if processes == 1:
        yield from map(done, todo)
        return
    with Pool(processes) as pool:
        yield from pool.imap_unordered(done, todo)


def _seeds(words: str) -> list[int]:
    """`3`, `3,5` or `10-29`."""
    found: list[int] = []
    for part in words.split(","):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.incidents", description=__doc__)
    parser.add_argument("--kinds", nargs="*", choices=[kind.name for kind in KINDS], metavar="KIND")
    parser.add_argument("--engines", nargs="*", choices=[engine.name for engine in ENGINES], metavar="ENGINE")
    parser.add_argument("--seeds", type=_seeds, default=[*REPORTED], help="as in 10-29 (the default) or 3,5")
    parser.add_argument("--tuning", action="store_true", help="seeds 0 to 9, without the engine that is held out")
    parser.add_argument("--mode", choices=("reports", "estimator", "both"), default="both")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
