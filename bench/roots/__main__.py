"""`python -m bench.roots`: grades the root decisions of the pods without promtool, in seconds a run.

The first call plays the runs and keeps them; later calls only pass them through the product as it is now, on the rules
that `rules.py` states in Python. Samples are kept too, so that a call without a change of the product takes no time.

  python -m bench.roots --seeds 20-21 --world kind              every kind, named and drawn engines
  python -m bench.roots --kinds crash hang --modes blind         two kinds, one mode
  python -m bench.roots --show decode-slow/20/estimator          one run in detail, every 15 s
  python -m bench.roots --world unkind --quick                   fleets, without their healthy pods
  python -m bench.roots play --seeds 20-24 --world both          play only: fill the cache
  python -m bench.roots --shapes 40 --draw fit --again           drawn shapes, decided anew from what was recorded
  python -m bench.roots fit --shapes 60 --draw fit               weights of the reasons, from these shapes
  python -m bench.roots ablate --shapes 24 --draw held           what the verdict loses without each reason and each ratio
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.incidents.engines import ENGINES
from bench.incidents.job import DRAWN_PREFIX, Job, jobs, played
from bench.incidents.kinds import KINDS
from bench.incidents.world import Mode
from bench.parallel import in_parallel, seeds
from bench.roots.ablation import ALL, table, told_without
from bench.roots.cache import CACHE, Cache
from bench.roots.fit import Row, cost, fitted, rows_of, together
from bench.roots.passage import BLAMED, ROOTS
from bench.roots.report import line, report, scoreboard
from bench.roots.show import shown
from bench.roots.verdicts import Told, recorded_of, told, told_again
from bench.score import todo as todo_of
from sidecar.pod.reasons import Reason
from sidecar.pod.weigh import WEIGHTS


VOTES = {"roots": ROOTS, "blamed": BLAMED}
DRAWN, DRAWN_SEED = 7, "roots"


def main() -> int:
    arguments = _arguments()
    cache = Cache(arguments.cache)
    todo = _todo(arguments)
    if arguments.show:
        return _show(cache, todo, arguments)
    began = time.perf_counter()
    if arguments.what == "fit":
        return _fit(cache, todo, arguments.jobs)
    if arguments.what == "ablate":
        return _ablate(cache, todo, arguments.jobs)
    if arguments.what == "play":
        for number, words in enumerate(in_parallel(partial(_play, cache), todo, arguments.jobs), 1):
            print(f"{number}/{len(todo)} {words}", file=sys.stderr, flush=True)
        return 0
    grade: Callable[[Job], list[Told]] = partial(
        told, cache, votes=VOTES[arguments.votes], minute=arguments.minute, quick=arguments.quick
    )
    if arguments.again:
        grade = partial(told_again, cache)
    found: list[Told] = []
    todo.sort(key=lambda job: _size(cache, job), reverse=True)
    for number, each in enumerate(in_parallel(grade, todo, arguments.jobs), 1):
        found += each
        for one in each:
            print(f"{number}/{len(todo)} {line(one)}", file=sys.stderr, flush=True)
    print(f"\n{len(todo)} runs in {time.perf_counter() - began:.0f} s, votes: {arguments.votes}\n\n{report(found)}")
    return 0


def _fit(cache: Cache, todo: list[Job], processes: int) -> int:
    rows = together(part for parts in in_parallel(partial(_rows, cache), todo, processes) for part in parts)
    found = fitted(rows)
    print(f"{len(todo)} runs, {len(rows)} kinds of misses, cost {cost(rows, found)[0]:.3f}\n")
    for reason, weight in sorted(found.items(), key=lambda item: -item[1]):
        print(f"    Reason.{reason.name}: {weight:.1f},    # now {WEIGHTS[reason]}")
    print(f"\nnot in these runs: {', '.join(each for each in Reason if each not in found) or 'none'}")
    return 0


def _rows(cache: Cache, job: Job) -> list[dict[Row, float]]:
    play = cache.run(job, lambda: played(job))
    return [rows_of(play, recorded_of(cache, job, play, mode)) for mode in job.modes]


def _ablate(cache: Cache, todo: list[Job], processes: int) -> int:
    began = time.perf_counter()
    parts = []
    for number, part in enumerate(in_parallel(partial(told_without, cache), todo, processes), 1):
        parts.append(part)
        print(f"{number}/{len(todo)} {part[ALL][0].job.kind}", file=sys.stderr, flush=True)
    print(
        f"{len(todo)} runs in {time.perf_counter() - began:.0f} s\n\n{scoreboard([one for part in parts for one in part[ALL]], todo[0].modes)}\n"
    )
    print(table(parts))
    return 0


def _play(cache: Cache, job: Job) -> str:
    began, known = time.perf_counter(), cache.has(job)
    if not known:
        cache.run(job, lambda: played(job))
    where = f"{job.kind}/{job.seed} {'un' if job.unkind else ''}kind {job.engine}"
    return f"{where}: {'known' if known else f'{time.perf_counter() - began:.1f} s'}"


def _show(cache: Cache, todo: list[Job], arguments: argparse.Namespace) -> int:
    kind, seed, mode = arguments.show
    wanted = [job for job in todo if (job.kind, job.seed) == (kind, seed)]
    for job in wanted:
        play = cache.run(job, lambda job=job: played(job))  # type: ignore[misc]
        print(
            shown(
                cache,
                job,
                play,
                mode,
                votes=VOTES[arguments.votes],
                minute=arguments.minute,
                quick=arguments.quick,
                pod=arguments.pod,
                lane=arguments.lane,
            )
        )
    return 0 if wanted else 1


def _size(cache: Cache, job: Job) -> float:
    """Bytes of a played run; one that is not played yet comes first."""
    return cache.run_path(job).stat().st_size if cache.has(job) else float("inf")


def _todo(arguments: argparse.Namespace) -> list[Job]:
    worlds = {"unkind": (True,), "kind": (False,), "both": (False, True)}[arguments.world]
    if arguments.shapes:
        modes = tuple(arguments.modes)
        return [replace(job, modes=modes) for job in todo_of(arguments.draw, arguments.shapes)]
    kinds, seeds = arguments.kinds, arguments.seeds
    if arguments.show:
        kinds, seeds = [arguments.show[0]], [arguments.show[1]]
    modes = tuple(arguments.modes)
    return [job for unkind in worlds for job in jobs(kinds, _engines(arguments), seeds, modes, unkind=unkind)]


def _engines(arguments: argparse.Namespace) -> list[str]:
    groups = {
        "named": [engine.name for engine in ENGINES],
        "drawn": [f"{DRAWN_PREFIX}{DRAWN_SEED}-{number}" for number in range(arguments.drawn)],
    }
    groups["both"] = groups["named"] + groups["drawn"]
    return groups[arguments.engines]


def _run(words: str) -> tuple[str, int, Mode]:
    kind, seed, mode = words.split("/")
    return kind, int(seed), Mode(mode)


def _arguments() -> argparse.Namespace:
    kinds = [kind.name for kind in KINDS]
    parser = argparse.ArgumentParser(
        prog="python -m bench.roots", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("grade", "play", "fit", "ablate"),
        default="grade",
        help="play: only fill the cache; fit: weights of the reasons; ablate: each rule left out in turn; default: grade",
    )
    parser.add_argument("--kinds", nargs="*", choices=kinds, default=kinds, metavar="KIND", help=", ".join(kinds))
    parser.add_argument("--seeds", type=seeds, default=[20, 21], help="such as 20-24 or 3,5 (default: 20-21)")
    parser.add_argument(
        "--engines",
        choices=("named", "drawn", "both"),
        default="both",
        help="each kind and seed gets one of these, so that another choice is another run (default: both)",
    )
    parser.add_argument("--drawn", type=int, default=DRAWN, help=f"number of drawn engines (default: {DRAWN})")
    parser.add_argument("--world", choices=("kind", "unkind", "both"), default="kind", help="default: kind")
    parser.add_argument("--modes", nargs="*", type=Mode, choices=[*Mode], default=[*Mode], help="default: all three")
    parser.add_argument("--votes", choices=[*VOTES], default="roots", help="the counter that names the phase of a page")
    parser.add_argument("--minute", action="store_true", help="an outage also pages by one minute with 20 misses")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="in fleets, only the pods at fault pass through the product; the others' misses are counted from the run,"
        " without roots: a third of the time in the unkind world",
    )
    parser.add_argument("--shapes", type=int, default=0, help="number of drawn shapes instead of kinds")
    parser.add_argument("--draw", default="fit", help="text that draws them (default: fit)")
    parser.add_argument("--again", action="store_true", help="decide anew what was recorded, with the present decision")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help=f"default: {CACHE}")
    parser.add_argument(
        "--show", type=_run, metavar="KIND/SEED/MODE", help="one run in detail; with the --engines of its table"
    )
    parser.add_argument("--pod", type=int, help="with --show: the pod of the time line (default: the first at fault)")
    parser.add_argument("--lane", metavar="LANE[/OBJECTIVE]", help="with --show: misses and roots of this lane only")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
