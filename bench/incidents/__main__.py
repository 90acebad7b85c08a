"""`make bench-incidents`: plays incidents against the shipped rules and grades the pages, or stretches on which nothing is broken.

Without arguments it plays the sample, one run of each kind in the kind world, as `make thorough` does. `--health` plays the stretches on
which no page is allowed; what has been played of it is kept in .cache/incidents: the same command on the same commit goes on from there.
`--kinds`, `--engines`, `--seeds` and `--world` choose other runs, which are graded and told one by one. `make score` judges the verdict.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.incidents.bounds import BOUNDS, broken
from bench.incidents.engines import ENGINES
from bench.incidents.growth import Growth, failures, growth, limits, told_growth
from bench.incidents.healthy import (
    HEALTH,
    HealthyDay,
    busy_machine,
    drain,
    fleet_day,
    healthy_day,
    quiet_batches,
    quiet_days,
    rolling_restart,
    summed,
    told,
)
from bench.incidents.job import Job, engine_for, jobs
from bench.incidents.kept import Kept, frozen
from bench.incidents.kinds import KINDS
from bench.incidents.report import line
from bench.incidents.run import Done, done
from bench.incidents.world import Mode
from bench.parallel import in_parallel, seeds
from sidecar.metrics.declaration import Profile


SEEDS = range(10, 30)
"""Seeds of chosen runs, where none are given."""
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
"""Kind to a seed, chosen so that at least one lane must page."""
STRETCHES = {
    "healthy_days": "days up to 90 %% load",
    "fleet_days": "days of a fleet of 20 pods with its highest load at lunch",
    "rolling_restarts": "planned deploys: restarts, new pods, and a pod more",
    "drains": "planned drains of a pod of a fleet",
    "busy_machines": "stretches on a machine that lacks CPU",
    "quiet_days": "days of one request a minute",
    "growths": "two days in which prompts grow until an objective burns",
}
"""Name of the argument to its words, for all that is played besides incidents."""
PROFILES: Mapping[str, tuple[Profile, ...]] = {"full": ("full",), "lean": ("lean",), "both": ("full", "lean")}
Piece = tuple[Callable[[Any], HealthyDay | list[HealthyDay] | Growth], Any]
"""A function that plays something healthy, and its argument."""


def main() -> int:
    arguments = _arguments()
    if shutil.which("promtool") is None:
        print("promtool is missing: install the Debian package prometheus", file=sys.stderr)
        return 2
    began = time.perf_counter()
    finished = _runs([replace(job, profiles=PROFILES[arguments.profile]) for job in _todo(arguments)], arguments)
    days, grown = _healthy(arguments)
    minutes = (time.perf_counter() - began) / 60
    print(f"\n{len(finished)} runs and {len(days)} healthy stretches, {minutes:.0f} minutes\n")
    not_kept = _not_kept(finished, days, arguments)
    not_kept += [f"{words}: {told_growth(each)}" for each in grown for words in failures(each)]
    for words in not_kept:
        print(f"BOUND NOT KEPT: {words}", file=sys.stderr)
    if days:
        print(f"{summed(days)}\n{health(days, grown)}", flush=True)
    return 1 if not_kept else 0


def health(days: Sequence[HealthyDay], grown: Sequence[Growth]) -> str:
    """A run of `--health` as one line."""
    pages, tickets = sum(len(day.pages) for day in days), sum(len(day.tickets) for day in days)
    requests = sum(day.requests for day in days)
    healthy = f"{len(days)} healthy stretches, {requests:,} requests: {pages} pages, {tickets} tickets"
    known = [" (a known limit)" if each.wrong and limits(each) else "" for each in grown]
    return "; ".join(
        [healthy, *(told_growth(each).partition(";")[0] + words for each, words in zip(grown, known, strict=True))]
    )


def _not_kept(finished: Sequence[Done], days: Sequence[HealthyDay], arguments: argparse.Namespace) -> list[str]:
    """Broken bounds of the sample, and pages on healthy stretches."""
    words = [f"a page while nothing was broken: {told(day)}" for day in days if day.pages]
    words += [
        f"the profile {profile} pages otherwise: {each.job.kind} {each.job.engine} {each.job.seed} {mode}"
        for each in finished
        for mode, profile in each.differing
    ]
    if arguments.sample:
        cases = [case for each in finished for case in each.cases]
        false = [each for run in finished for each in run.false]
        for mode in arguments.modes:
            words += broken(cases, false, BOUNDS[mode], mode=mode) if mode in BOUNDS else []
    return words


def _todo(arguments: argparse.Namespace) -> list[Job]:
    if arguments.sample:
        return [Job(kind, engine_for(kind, seed), seed, arguments.modes, unkind=False) for kind, seed in SAMPLE.items()]
    if not arguments.picked:
        return []
    kinds = arguments.kinds or [kind.name for kind in KINDS]
    engines = arguments.engines or [engine.name for engine in ENGINES]
    unkind = arguments.world == "unkind"
    return jobs(kinds, engines, arguments.seeds or [*SEEDS], arguments.modes, unkind=unkind)


def _runs(todo: list[Job], arguments: argparse.Namespace) -> list[Done]:
    finished: list[Done] = []
    for each in in_parallel(Kept(done, arguments.kept), todo, arguments.jobs):
        finished.append(each)
        print(line(each, len(todo) - len(finished)), flush=True)
    return sorted(finished, key=lambda each: (each.job.seed, each.job.kind))


def pieces(arguments: argparse.Namespace) -> list[Piece]:
    """Everything to play that is no incident, as functions with their argument: first what takes longest, so that no core waits at the
    end.
    """
    counts: dict[Callable[[int], HealthyDay | Growth], int] = {
        fleet_day: arguments.fleet_days,
        growth: arguments.growths,
        healthy_day: arguments.healthy_days,
        rolling_restart: arguments.rolling_restarts,
        drain: arguments.drains,
        busy_machine: arguments.busy_machines,
    }
    found: list[Piece] = [(play, number) for play, count in counts.items() for number in range(count)]
    return found + [(quiet_days, batch) for batch in quiet_batches(arguments.quiet_days)]


def _healthy(arguments: argparse.Namespace) -> tuple[list[HealthyDay], list[Growth]]:
    days: list[HealthyDay] = []
    grown: list[Growth] = []
    todo: list[Piece] = [(Kept(play, arguments.kept), about) for play, about in pieces(arguments)]
    for found in in_parallel(_heard, todo, arguments.jobs):
        if isinstance(found, Growth):
            grown.append(found)
            print(told_growth(found), *limits(found), sep="\n", flush=True)
            continue
        batch = found if isinstance(found, list) else [found]
        days += batch
        print(*map(told, batch), sep="\n", flush=True)
    return sorted(days, key=lambda day: (day.stretch, day.number)), grown


def _heard(piece: Piece) -> HealthyDay | list[HealthyDay] | Growth:
    play, about = piece
    return play(about)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.incidents", description=__doc__)
    parser.add_argument("--sample", action="store_true", help="one run of each kind in the kind world: the default")
    parser.add_argument(
        "--world",
        choices=("unkind", "kind"),
        help="of chosen runs; unkind: noise, fleets, merged reads and more; kind: none of it, the default",
    )
    parser.add_argument("--kinds", nargs="*", choices=[kind.name for kind in KINDS], metavar="KIND")
    parser.add_argument(
        "--engines", nargs="*", metavar="ENGINE", help="names, such as chunks-2048 or drawn-TEXT-NUMBER"
    )
    parser.add_argument("--seeds", type=seeds, help=f"seeds, such as 10-29 or 3,5; default: {SEEDS[0]}-{SEEDS[-1]}")
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        default="full",
        help="metrics.profile of the pods (default: full); both: the pages of the two have to be the same",
    )
    parser.add_argument("--mode", nargs="*", choices=[mode.value for mode in Mode], help="default: all three")
    parser.add_argument(
        "--health",
        action="store_true",
        help="no incident: the stretches on which no page is allowed and two days of growth, as in `make thorough`",
    )
    for name, words in STRETCHES.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, metavar="N", help=f"{words} (of --health: {HEALTH[name]})"
        )
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    arguments = parser.parse_args()
    arguments.picked = bool(arguments.kinds or arguments.engines or arguments.seeds or arguments.world)
    healthy = arguments.health or any(getattr(arguments, name) for name in STRETCHES)
    arguments.sample |= not (arguments.picked or healthy)
    arguments.kept = frozen() if arguments.health else None
    for name in STRETCHES:
        if getattr(arguments, name) is None:
            setattr(arguments, name, HEALTH[name] if arguments.health else 0)
    usual_modes = (Mode.REPORTS, Mode.ESTIMATOR) if arguments.sample else tuple(Mode)
    arguments.modes = tuple(Mode(each) for each in arguments.mode) if arguments.mode else usual_modes
    return arguments


if __name__ == "__main__":
    sys.exit(main())
