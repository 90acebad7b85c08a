"""`make bench-incidents`: plays every kind of incident against the shipped rules and grades the pages.

See docs/evidence/incidents.md. Without arguments it does a whole run: every kind in unkind worlds and in the kind one, on
the named engines and on twenty others, then healthy days, deploys and quiet days: hours on two cores. The commit's
own hash draws engines and seeds, so that nothing can have been tuned on them. What has been played of a whole run, or of `--health`, is
kept in .cache/incidents: the same command on the same commit goes on from there. `make thorough` runs `--sample`, one run per kind in
the kind world, and `--health`, the stretches on which nothing is broken.
"""

import argparse
import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from bench.checkout import commit
from bench.incidents.bounds import BOUNDS, SAMPLE_BOUNDS, broken
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
from bench.incidents.healthy import WHOLE as WHOLE_HEALTH
from bench.incidents.job import DRAWN_PREFIX, EVERY_MODE, Job, engine_for, jobs
from bench.incidents.kept import Kept, frozen
from bench.incidents.kinds import KINDS
from bench.incidents.measures import Woken
from bench.incidents.page import WORLDS, page
from bench.incidents.report import MODE_TITLES, line, scoreboard, table
from bench.incidents.run import Done, done, woken
from bench.incidents.world import Mode
from sidecar.metrics.declaration import Profile


TUNING = range(10)
"""Seeds on which rules and defaults may be tuned; reported results come from other seeds."""
REPORTED = range(10, 30)
DRAWN_ENGINES = 20
NEVER_SEEN = range(1_000, 1_000_000)
"""A whole run begins at one of these seeds, which the commit's hash chooses."""


@dataclass(frozen=True, slots=True)
class Part:
    """Every kind on so many seeds."""

    seeds: int
    modes: tuple[Mode, ...]
    unkind: bool = True


WHOLE = (Part(2, EVERY_MODE), Part(7, (Mode.REPORTS,)), Part(2, (Mode.REPORTS,), unkind=False))
"""A whole run. A run without reports costs as much as one with them, and its bounds are wider: fewer show whether it
keeps them."""
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
PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "incidents.md"
Piece = tuple[Callable[[Any], HealthyDay | list[HealthyDay] | Growth], Any]
"""A function that plays something healthy, and its argument."""
_I = TypeVar("_I")
_O = TypeVar("_O")


def main() -> int:
    arguments = _arguments()
    if shutil.which("promtool") is None:
        print("promtool is missing: install the Debian package prometheus", file=sys.stderr)
        return 2
    began = time.perf_counter()
    todo = whole(arguments.drawn_seed, _engines(arguments)) if arguments.whole else _todo(arguments)
    finished = _runs([replace(job, profiles=PROFILES[arguments.profile]) for job in todo], arguments)
    days, grown = _healthy(arguments)
    heard = {
        unkind: woken([each for each in finished if each.job.unkind is unkind])
        for unkind in WORLDS
        if arguments.notifications and any(each.job.unkind is unkind for each in finished)
    }
    minutes = (time.perf_counter() - began) / 60
    command = shlex.join(["python", "-m", "bench.incidents", *sys.argv[1:]])
    played = f"{minutes:.0f} minutes, `{command}`, drawn engines of seed {arguments.drawn_seed}"
    print(f"\n{len(finished)} runs and {len(days)} healthy stretches, {played}\n")
    if arguments.out is not None:
        arguments.out.write_text("".join(f"{json.dumps(each)}\n" for each in _cases(finished)))
    not_kept = _not_kept(finished, days, arguments)
    not_kept += [f"{words}: {told_growth(each)}" for each in grown for words in failures(each)]
    _print(finished, heard)
    if arguments.report:
        PAGE.write_text(page(finished, days, heard, not_kept, played))
        print(f"written to {PAGE}")
    for words in not_kept:
        print(f"BOUND NOT KEPT: {words}", file=sys.stderr)
    if arguments.health:
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


def _cases(finished: Sequence[Done]) -> Iterator[dict[str, object]]:
    """Every case and every false page with the run's world, so that they can be counted in other ways."""
    for run in finished:
        world = {"unkind": run.job.unkind, "world": asdict(run.world)}
        for case in run.cases:
            yield {"what": "case", **asdict(case), **world}
        for false in run.false:
            yield {"what": "false page", **asdict(false), **world}


def _print(finished: Sequence[Done], heard: Mapping[bool, Sequence[Woken]]) -> None:
    for unkind, words in WORLDS.items():
        runs = [each for each in finished if each.job.unkind is unkind]
        cases = [case for each in runs for case in each.cases]
        false = [each for run in runs for each in run.false]
        if cases:
            print(f"\n# {words}\n\n{scoreboard(cases, false, heard.get(unkind, ()))}")
        for mode in Mode:
            of_mode = [case for case in cases if case.mode is mode]
            if of_mode:
                print(f"\n## {MODE_TITLES[mode]}\n")
                of_false = [each for each in false if each.mode is mode]
                print(table(of_mode, of_false, sum(mode in each.job.modes for each in runs)))


def _not_kept(finished: Sequence[Done], days: Sequence[HealthyDay], arguments: argparse.Namespace) -> list[str]:
    """Broken bounds of the kind world, and pages on healthy stretches. `scoreboard` has the bounds of issue 10."""
    words = [f"a page while nothing was broken: {told(day)}" for day in days if day.pages]
    words += [
        f"the profile {profile} pages otherwise: {each.job.kind} {each.job.engine} {each.job.seed} {mode}"
        for each in finished
        for mode, profile in each.differing
    ]
    runs = [each for each in finished if not each.job.unkind]
    if runs:
        cases = [case for each in runs for case in each.cases]
        false = [each for run in runs for each in run.false]
        bounds = SAMPLE_BOUNDS if arguments.sample else BOUNDS
        for mode in arguments.modes:
            words += broken(cases, false, bounds[mode], mode=mode) if mode in bounds else []
    return words


def _todo(arguments: argparse.Namespace) -> list[Job]:
    if arguments.health:
        return []
    worlds = {"unkind": (True,), "kind": (False,), "both": (False, True)}[arguments.world]
    if arguments.sample:
        sample = list(SAMPLE.items())
        return [
            Job(kind, engine_for(kind, seed), seed, arguments.modes, each) for each in worlds for kind, seed in sample
        ]
    kinds = arguments.kinds or [kind.name for kind in KINDS]
    return [
        job
        for unkind in worlds
        for job in jobs(kinds, _engines(arguments), arguments.seeds, arguments.modes, unkind=unkind)
    ]


def whole(text: str, engines: Sequence[str]) -> list[Job]:
    """The jobs of a whole run, on seeds that this text draws. Unkind worlds take theirs in turn; the kind world begins at
    the first one again.
    """
    kinds = [kind.name for kind in KINDS]
    first = dict.fromkeys((True, False), first_seed(text))
    todo = []
    for part in WHOLE:
        seeds = range(first[part.unkind], first[part.unkind] + part.seeds)
        first[part.unkind] = seeds.stop
        todo += jobs(kinds, engines, seeds, part.modes, unkind=part.unkind)
    return todo


def first_seed(text: str) -> int:
    """The first seed of a whole run that this text draws."""
    return Random(text).choice(NEVER_SEEN)


def _engines(arguments: argparse.Namespace) -> list[str]:
    wanted = arguments.engines or ["named", "drawn"]
    named = [engine.name for engine in ENGINES if not (arguments.tuning and engine.held_out)]
    drawn = [f"{DRAWN_PREFIX}{arguments.drawn_seed}-{number}" for number in range(arguments.drawn)]
    groups = {"named": named, "drawn": drawn}
    return [name for each in wanted for name in groups.get(each, [each])]


def _runs(todo: list[Job], arguments: argparse.Namespace) -> list[Done]:
    finished: list[Done] = []
    for each in _in_parallel(Kept(done, arguments.kept), todo, arguments.jobs):
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
    for found in _in_parallel(_heard, todo, arguments.jobs):
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
    named = [engine.name for engine in ENGINES]
    parser.add_argument(
        "--sample", action="store_true", help="one run of each kind in the kind world, as in `make thorough`"
    )
    parser.add_argument(
        "--world",
        choices=("unkind", "kind", "both"),
        help="unkind: noise, fleets, merged reads and more; kind: none of it; default: both, or kind for --sample",
    )
    parser.add_argument("--kinds", nargs="*", choices=[kind.name for kind in KINDS], metavar="KIND")
    parser.add_argument(
        "--engines", nargs="*", choices=["named", "drawn", *named], metavar="ENGINE", help="named, drawn, or names"
    )
    parser.add_argument("--drawn", type=int, default=DRAWN_ENGINES, help=f"drawn engines (default: {DRAWN_ENGINES})")
    parser.add_argument(
        "--drawn-seed", help="text that draws the engines, and the seeds of a whole run (default: the commit's hash)"
    )
    parser.add_argument("--seeds", type=_seeds, help="seeds, such as 10-29 or 3,5")
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        default="full",
        help="metrics.profile of the pods (default: full); both: the pages of the two have to be the same",
    )
    parser.add_argument("--tuning", action="store_true", help="seeds 0 to 9, without the engine that is held out")
    parser.add_argument("--mode", nargs="*", choices=[mode.value for mode in Mode], help="default: all three")
    parser.add_argument(
        "--health",
        action="store_true",
        help="no incident: the stretches on which no page is allowed and two days of growth, as in `make thorough`",
    )
    for name, words in STRETCHES.items():
        default = f"default of a whole run: {WHOLE_HEALTH[name]}, of --health: {HEALTH[name]}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=f"{words} ({default})")
    parser.add_argument(
        "--no-notifications", dest="notifications", action="store_false", help="do not ask an Alertmanager"
    )
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write every case and false page there, as lines of JSON"
    )
    parser.add_argument("--report", action="store_true", help="write docs/evidence/incidents.md")
    arguments = parser.parse_args()
    picked = arguments.sample or arguments.tuning or arguments.kinds or arguments.engines or arguments.seeds
    arguments.whole = not (picked or arguments.health or arguments.world or arguments.mode)
    arguments.kept = frozen() if arguments.whole or arguments.health else None
    usual = HEALTH if arguments.health else dict.fromkeys(WHOLE_HEALTH, 0) if picked else WHOLE_HEALTH
    for name in STRETCHES:
        if getattr(arguments, name) is None:
            setattr(arguments, name, usual[name])
    if arguments.seeds is None:
        arguments.seeds = [*TUNING] if arguments.tuning else [*REPORTED]
    else:
        arguments.seeds = [seed for seed in arguments.seeds if not arguments.tuning or seed in TUNING]
    arguments.world = arguments.world or ("kind" if arguments.sample else "both")
    usual_modes = (Mode.REPORTS, Mode.ESTIMATOR) if arguments.sample else tuple(Mode)
    arguments.modes = tuple(Mode(each) for each in arguments.mode) if arguments.mode else usual_modes
    arguments.notifications = arguments.notifications and not arguments.sample
    arguments.drawn_seed = (arguments.drawn_seed or commit()).replace("-", "_")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
