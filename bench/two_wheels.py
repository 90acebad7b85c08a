"""`make bench-wheels`: what a request and an event cost on this tree's compiled wheel, beside the wheel of another commit.

Both wheels are built, each with the packages of its own requirements.lock, into environments below .cache/peers; what has not changed is not
built again. In a round, and for each figure, both sidecars are started on one core; a program on another core is engine and load. The wheels
take turns, a window each, in the order A B B A, B A A B, so that a machine that is slow for some seconds, or grows slower, is so for both.
Where the kernel puts a process, and Python's hash seed, move its cost for as long as it lives: so a process lives for one round.

  request   a streamed request of one token: answers with ids of their own, prompts of 20 to 16,000 tokens (log-uniform), six lanes, two models
  event     a token of one of 300 streams, which speak at the same instants, 50 times a second
  one-id    on this tree's wheel: a request to an engine that gives all its answers one id, over one with ids of their own; the answers
            state no times, and so their ledgers wait for a report that does not come

CPU of a window is what the kernel charged to all threads of the sidecar, in nanoseconds; its part in the kernel comes from /proc/PID/stat in
ticks of mostly 10 ms, and tells something in a sum of many windows only. A round has the median of its windows, and one ratio of each
figure. All rounds give the Hodges-Lehmann estimate with the 95 % interval of Wilcoxon's signed ranks, which a few spoilt rounds
hardly move. More rounds follow until the interval of each judged ratio is narrow enough, or the minutes are over. Then a ratio is

  kept         at most its limit, and its interval is narrow enough
  MISSED       above its limit, and its interval is narrow enough: exit code 1
  undecided    the interval is too wide, or there were fewer than six rounds: exit code 3

A processor whose caches other programs empty all the time takes twice as long for a request. On a machine that is not quiet, `--alone` (as
root) takes two cores for the sidecars and the load while windows are played: every other process of the machine has to wait then.

  make bench-wheels                                        this tree beside 7628e029
  make bench-wheels ARGS="--beside HEAD~3 --minutes 30"    beside another commit
  make bench-wheels ARGS="--only event --rounds 2"         a quick look
  make bench-wheels ARGS="--alone --record"                also docs/evidence/two-wheels.json; the tree must be committed
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from math import exp, floor, inf, log, sqrt
from pathlib import Path
from statistics import NormalDist, median

from bench import machine
from bench.checkout import REPOSITORY, is_frozen, named, unpacked
from bench.peers.__main__ import prepare
from bench.peers.build import CACHE, MissingError, generator, wheel
from bench.peers.measure import FailedError, Generator, Window, resident_mb
from bench.peers.proxies import PROXY_CORE, BrokenError, Running, on_core, sidecar


BESIDE = "7628e029"
RECORD = REPOSITORY / "docs" / "evidence" / "two-wheels.json"
LAST = CACHE / "two-wheels.json"
LEAST_ROUNDS = 6
"""With fewer, the signed ranks of all rounds have an interval of less than 95 %."""
NORMAL = NormalDist().inv_cdf(0.975)
OLD, NEW = "beside", "here"
REQUESTS = {"k": 8, "settle_ms": 40, "window_ms": 200, "to_tokens": 16_000}
STREAMS = {"n": 300, "gap_us": 20_000, "step": 1, "settle_ms": 100, "window_ms": 1000}
"""Windows of a second: with `--alone` the kernel stops both cores for a twentieth of each second, and some tokens come in pairs."""
WARM_UP = REQUESTS | {"window_ms": 1000}
ONE_ID = {"one_id": 1}


@dataclass(frozen=True, slots=True)
class Side:
    """A wheel under a load. `usage`: whether it asks the engine for usage. `further`: options of the load, beside those of the figure."""

    wheel: str
    usage: bool = True
    further: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    """CPU of `second` over CPU of `first`. `mode` and `options`: of the load (load.cpp). `per`: the count that CPU is divided by.
    `turns`: of four windows each, in a round.
    """

    key: str
    mode: str
    options: dict[str, int]
    per: str
    turns: int
    first: Side = Side(OLD)
    second: Side = Side(NEW)


FIGURES = (
    Figure("request", "requests", REQUESTS, "requests", 6),
    Figure("event", "streams", STREAMS, "tokens", 2),
    Figure(
        "one-id", "requests", REQUESTS, "requests", 4, Side(NEW, usage=False), Side(NEW, usage=False, further=ONE_ID)
    ),
)
LIMITS = {"request, us": (1.01, 0.02), "event, us": (1.01, 0.02), "one-id, us": (1.05, 0.05)}
"""The columns that are judged: the most that a ratio may be, and how wide its interval. Other columns are shown only."""

Pairs = dict[str, list[tuple[float, float]]]
"""Each column with what both sides had, round by round."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Second over first. `low` and `high`: the 95 % interval, without bounds if there are fewer than LEAST_ROUNDS rounds."""

    estimate: float
    low: float
    high: float

    def verdict(self, most: float, width: float) -> str:
        """`kept`, `MISSED` or `undecided`."""
        if self.high - self.low > width:
            return "undecided"
        return "kept" if self.estimate <= most else "MISSED"


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """The median of all means of two log ratios, and its interval (Hollander and Wolfe, Nonparametric Statistical Methods, 3.2 and 3.3)."""
    logs = [log(second / first) for first, second in pairs]
    count = len(logs)
    means = sorted((one + other) / 2 for at, one in enumerate(logs) for other in logs[at:])
    if count < LEAST_ROUNDS:
        return Ratio(exp(median(means)), 0.0, inf)
    left = count * (count + 1) / 4 - NORMAL * sqrt(count * (count + 1) * (2 * count + 1) / 24)
    at = max(0, floor(left) - 1)
    return Ratio(exp(median(means)), exp(means[at]), exp(means[-1 - at]))


def played(figure: Figure, load: Generator, trees: dict[str, Path], round_: int, *, alone: bool) -> Pairs:
    """One round of a figure: both sides are started, warmed up and measured. Raises MissingError, BrokenError or FailedError."""
    sides = figure.first, figure.second
    windows: tuple[list[Window], list[Window]] = [], []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        running: dict[int, Running] = {}
        for at in (0, 1) if round_ % 2 else (1, 0):
            own, side = Path(folder, str(at)), sides[at]
            own.mkdir()
            running[at] = stack.enter_context(sidecar(load.port, own, usage=side.usage, tree=trees[side.wheel]))
        rest = pair_of(lambda at: resident_mb(running[at].pid))
        if alone:
            stack.enter_context(cores_alone([load.pid, *(each.pid for each in running.values() if each.pid)]))
        for at, side in enumerate(sides):
            load.play("requests", running[at], WARM_UP | side.further)
        for turn in range(round_, round_ + figure.turns):
            for at in (0, 1, 1, 0) if turn % 2 else (1, 0, 0, 1):
                windows[at].append(load.play(figure.mode, running[at], figure.options | sides[at].further))
        end = pair_of(lambda at: resident_mb(running[at].pid))

    def system_us(at: int) -> float:
        counted = sum(each.number(figure.per) for each in windows[at])
        return sum(each.proxy_system_seconds for each in windows[at]) / counted * 1e6

    found = {
        "us": pair_of(lambda at: median(each.cpu_us(figure.per) for each in windows[at])),
        "us in the kernel": pair_of(system_us),
        "MB at rest": rest,
        "MB at the end": end,
        "ms to start": pair_of(lambda at: running[at].start_seconds * 1e3),
    }
    return {f"{figure.key}, {name}": [pair] for name, pair in found.items()}


def pair_of(value: Callable[[int], float]) -> tuple[float, float]:
    """The value of both sides."""
    return value(0), value(1)


@contextmanager
def cores_alone(pids: Iterable[int]) -> Iterator[None]:
    """Within, no other process gets the cores of these (sched(7), SCHED_FIFO), and this one can interrupt them to read their counters."""
    tasks = [int(task.name) for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    for each, priority in ((0, 2), *((task, 1) for task in tasks)):
        os.sched_setscheduler(each, os.SCHED_FIFO, os.sched_param(priority))
    try:
        with on_core(PROXY_CORE):
            yield
    finally:
        for each in (0, *tasks):
            os.sched_setscheduler(each, os.SCHED_OTHER, os.sched_param(0))


def measured(figures: Sequence[Figure], trees: dict[str, Path], asked: argparse.Namespace) -> Pairs:
    """Rounds until all is decided or the time is over. What fails is told, and left out. Raises MissingError, BrokenError."""
    pairs: Pairs = {}
    load, until, round_ = Generator(generator()), time.monotonic() + asked.minutes * 60, 0
    try:
        while time.monotonic() < until and not (round_ >= asked.rounds if asked.rounds else is_decided(pairs)):
            round_ += 1
            try:
                for figure in figures:
                    for name, values in played(figure, load, trees, round_, alone=asked.alone).items():
                        pairs.setdefault(name, []).extend(values)
            except FailedError as failed:
                print(f"round {round_} has no figure: {failed}", file=sys.stderr, flush=True)
            print("\n".join([f"round {round_}", *lines_of(record_of(pairs))]), file=sys.stderr, flush=True)
    finally:
        load.close()
    return pairs


def is_decided(pairs: Pairs) -> bool:
    """Whether each judged column has an interval that is narrow enough."""
    found = record_of(pairs)
    return bool(found) and all(each.get("verdict") != "undecided" for each in found.values())


def record_of(pairs: Pairs) -> dict[str, dict[str, float | str]]:
    """Each column: medians of both sides, the ratio, and the verdict where there is a limit."""
    found: dict[str, dict[str, float | str]] = {}
    for name, values in pairs.items():
        ratio = ratio_of(values)
        found[name] = {side: median(pair[at] for pair in values) for at, side in enumerate(("first", "second"))}
        found[name] |= asdict(ratio)
        if name in LIMITS:
            found[name] |= {"most": LIMITS[name][0], "verdict": ratio.verdict(*LIMITS[name])}
    return found


def lines_of(record: dict[str, dict[str, float | str]]) -> list[str]:
    """The table for people."""
    lines = [f"{'':26}{'first':>10}{'second':>10}   ratio (95 % interval)"]
    for name, each in record.items():
        judged = "  at most {most:.2f}: {verdict}" if "most" in each else ""
        numbers = "{first:10.1f}{second:10.1f}   {estimate:.3f} ({low:.3f} to {high:.3f})"
        lines.append(f"{name:26}{(numbers + judged).format(**each)}")
    return lines


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.two_wheels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    keys = ",".join(figure.key for figure in FIGURES)
    parser.add_argument("--beside", default=BESIDE, metavar="COMMIT", help=f"of this repository; default {BESIDE}")
    parser.add_argument("--only", default=keys, metavar="FIGURES", help=f"of {keys}; default all")
    parser.add_argument("--minutes", type=float, default=15.0, help="the most that it measures; default 15")
    parser.add_argument("--rounds", type=int, help="just so many, of half a minute each; default: until all is decided")
    parser.add_argument("--alone", action="store_true", help="two cores for nothing else, as root")
    parser.add_argument("--record", action="store_true", help=f"keep the figures in {RECORD.relative_to(REPOSITORY)}")
    return parser


def main() -> int:
    parser = options()
    asked = parser.parse_args()
    wanted = asked.only.split(",")
    if unknown := {*wanted} - {figure.key for figure in FIGURES}:
        parser.error(f"--only: {', '.join(sorted(unknown))}: allowed are {', '.join(each.key for each in FIGURES)}")
    if asked.record and not is_frozen():
        parser.error("--record: the tree has changes that are not committed: commit them first")
    try:
        trees = {OLD: unpacked(asked.beside, CACHE / "trees"), NEW: REPOSITORY}
    except subprocess.CalledProcessError as error:
        parser.error(f"--beside={asked.beside}: {error.stderr.strip()}")
    try:
        for name, tree in trees.items():
            wheel(tree, "sidecar" if name == NEW else "beside")
        prepare()
        pairs = measured([figure for figure in FIGURES if figure.key in wanted], trees, asked)
    except (MissingError, BrokenError, PermissionError) as error:
        print(f"make bench-wheels: {error}", file=sys.stderr)
        return 2
    record = record_of(pairs)
    rounds = max(map(len, pairs.values()), default=0)
    summary = {"first": trees[OLD].name, "second": named(), "machine": machine.named(), "alone": asked.alone}
    print("\n".join([*lines_of(record), f"{rounds} rounds; {summary}"]))
    for path in (LAST, *([RECORD] if asked.record else [])):
        path.write_text(json.dumps(summary | {"rounds": rounds, "figures": record}, indent=1) + "\n")
    verdicts = {each.get("verdict") for each in record.values()}
    return 1 if "MISSED" in verdicts else 3 if "undecided" in verdicts or not pairs else 0


if __name__ == "__main__":
    sys.exit(main())
