"""Which files an event and a request run through, each with its share of the bytecode that they execute: what compiling can save.

The walk of the tests, in memory: the road, the observers, the ledger, objectives, the estimator, a log line for each request. An event is
one token of a stream; a request is one of two tokens, which misses its objectives in one case of three. The sources run,
and every instruction of the interpreter counts as one, whatever it takes, so that no other process on the machine changes a figure; what
libraries do is not counted. The list `[tool.sidecar] compiled` of pyproject.toml is drawn from it.
Run: `.venv/bin/python -m bench.hot_path`; `--least 0`: the files below 0.1 % too; `--beside FOLDER`: how much more an event and a request cost
than in another checkout of this repository.
"""

import argparse
import io
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import sidecar
from sidecar.config.schema import LogConfig
from sidecar.logs.setup import Logs
from sidecar.objectives.objective import Objectives
from tests.support.slo_walk import BUCKETS, LAST, TOKEN, event
from tests.support.walk import AIMS, HEAD, REQUEST, Walk
from tests.support.walk import TOKEN as LONG_TOKEN


PACKAGE = Path(sidecar.__file__).parent
WARM_UP, COUNTED = 200, 60
MISSES_EVERY = 3
MISSED_SECONDS = 2.0
"""To the first token, in a request that misses its objective of 1 s."""
USAGE = b'{"choices":[],"usage":{"prompt_tokens":600,"completion_tokens":2,"total_tokens":602}}'


def counted(step: Callable[[], object], found: Counter[str]) -> None:
    """Run it, and add the instructions that each file of the package executes."""

    def trace(frame: FrameType, what: str, _argument: object) -> Any:
        name = frame.f_code.co_filename
        if what == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif what == "opcode":
            found[name] += 1
        return trace

    sys.settrace(trace)
    try:
        step()
    finally:
        sys.settrace(None)


def walk() -> Walk:
    aims = Objectives({"interactive": dict.fromkeys(BUCKETS, AIMS)})
    made = Walk(objectives=aims, estimate=True)
    made.settlement.log = Logs(LogConfig(level="info", format="json"), io.BytesIO(), made.clock).request
    return made


def of_events() -> Counter[str]:
    """The instructions of one event, by file."""
    played, found = walk(), Counter[str]()
    played.client().send(REQUEST)
    played.engine.send(HEAD)
    for turn in range(WARM_UP + COUNTED):
        played.clock.later(0.03)
        if turn < WARM_UP:
            played.engine.protocol.data_received(LONG_TOKEN)
        else:
            counted(partial(played.engine.protocol.data_received, LONG_TOKEN), found)
    return Counter({path: count / COUNTED for path, count in found.items()})


def of_requests() -> Counter[str]:
    """The instructions of one request, by file."""
    played, found = walk(), Counter[str]()
    client = played.client()

    def request(wait: float) -> None:
        client.send(REQUEST)
        played.clock.later(wait)
        played.engine.send(HEAD + event(TOKEN))
        played.clock.later(0.03)
        played.engine.send(event(LAST) + event(USAGE) + event(b"[DONE]") + b"0\r\n\r\n")
        played.clock.later(0.01)

    for turn in range(WARM_UP + COUNTED):
        wait = MISSED_SECONDS if turn % MISSES_EVERY == 0 else 0.05
        if turn < WARM_UP:
            request(wait)
        else:
            counted(partial(request, wait), found)
    return Counter({path: count / COUNTED for path, count in found.items()})


def own(found: Counter[str]) -> Counter[str]:
    """The files of the package with their instructions; doubles and libraries are left out."""
    return Counter(
        {
            path.removeprefix(f"{PACKAGE.parent}/"): count
            for path, count in found.items()
            if path.startswith(f"{PACKAGE}/")
        }
    )


def shares(found: Counter[str]) -> Counter[str]:
    """The files of the package with their percent of all that the package executes."""
    of_package = own(found)
    return Counter({path: 100 * count / of_package.total() for path, count in of_package.items()})


def totals() -> tuple[float, float]:
    """The instructions of one event and of one request."""
    return own(of_events()).total(), own(of_requests()).total()


def totals_in(checkout: Path) -> tuple[float, float]:
    """The same of another checkout, counted by its own benchmark. Raises subprocess.CalledProcessError where it has none."""
    counted_there = (
        "from bench.hot_path import PACKAGE, of_events, of_requests\n"
        "for found in (of_events(), of_requests()):\n"
        "    print(sum(count for path, count in found.items() if path.startswith(f'{PACKAGE}/')))"
    )
    told = subprocess.run(
        [sys.executable, "-c", counted_there],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.decode()
    event_of, request_of = map(float, told.split())
    return event_of, request_of


def print_beside(checkout: Path) -> None:
    for name, here, there in zip(("an event", "a request"), totals(), totals_in(checkout), strict=True):
        print(f"{name}: {here:.0f} instructions, {there:.0f} in {checkout}: {100 * (here / there - 1):+.1f} %")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hot_path", description=str(__doc__).partition("\n")[0])
    parser.add_argument(
        "--least", type=float, default=0.1, help="percent that a shown file has of one at least; default 0.1"
    )
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="another checkout, which is counted too")
    asked = parser.parse_args()
    if asked.beside is not None:
        print_beside(asked.beside.resolve())
        return 0
    event_of, request_of = shares(of_events()), shares(of_requests())
    print(" event  request  file")
    for path in sorted({*event_of, *request_of}, key=lambda path: (-event_of[path] - request_of[path], path)):
        if max(event_of[path], request_of[path]) >= asked.least:
            print(f"{event_of[path]:5.1f}%  {request_of[path]:5.1f}%  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
