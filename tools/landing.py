"""`.ci/run` asks here which of its longest parts it may skip: those whose last green run was on the very files that they depend on.

A part is one of its commands, with the files on which the result depends (`tools/thorough.py` has the theory of keys). `.ci/run` asks with
`--skips COMMAND` before it plays one, says `--passed COMMAND` after it, and `--keep` when all of it was green: only then the records of what it
played go to docs/evidence/landing/. They are committed as they were written. A part without a record of this tree is played.

  python -m tools.landing                    each part: may it be skipped on this tree?
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import machine
from tools.thorough import (
    CHECKOUT,
    FETCHED,
    PACKED,
    Part,
    Record,
    faults,
    key_of,
    minute,
    record_of,
    say,
    state_of,
    status,
    write,
)


RECORDS = "docs/evidence/landing"
PENDING = ".cache/landing"
"""Records wait here for the end of the run."""

SERVED = ("sidecar/app.py", "sidecar/cli.py", "sidecar/__main__.py", "sidecar/diagnosis", *PACKED, *FETCHED)
"""The process that carries traffic: what it imports, the words that it reads, and how it is packed."""
ASIDE = tuple(f"sidecar/commands/{name}" for name in ("capacity", "compare", "doctor", "export", "inject", "verify"))
"""Commands that carry no traffic and speak with no engine, though the program imports them."""


def _part(minutes: int, command: str, *paths: str, without: tuple[str, ...] = ASIDE) -> Part:
    name = command.removeprefix("make ").split()[0]
    return Part(name, minutes, command, paths, without=without, records=RECORDS)


BYTES = (
    "proxy",
    "timeline",
    "classify",
    "observe",
    "histories",
    "builds",
    "garden",
    "fuzz",
    "test_bombs.py",
    "test_builds.py",
)
RECORDED = ("tests/streams", "tests/wire", "tests/spans")
DECIDED = ("alert_rules", "sidecar/commands/export/rules")

PARTS = (
    _part(
        10,
        "make prove",
        *(*SERVED, "tools/prove.py", "tools/only_compiled.py", "bench/soak", "bench/idle_edge.py"),
        *(*RECORDED, *(f"tests/{name}" for name in BYTES)),
        without=(*ASIDE, "sidecar/commands/diagnose"),
    ),
    _part(
        3,
        "make test-live ARGS=tests/commands/demo",
        *(*SERVED, *DECIDED, "tests/commands/demo", "sidecar/commands/demo"),
        without=tuple(name for name in ASIDE if not name.endswith("export")),
    ),
    _part(
        3,
        "make score ARGS=--floors",
        *(*PACKED, *FETCHED, *DECIDED, "bench/score.py", "bench/roots", "bench/incidents"),
        without=(),
    ),
    _part(6, 'make test-engines ARGS="-m core tests/real"', *SERVED, *RECORDED, "tests/real"),
)


def main(arguments: Sequence[str] | None = None, parts: Sequence[Part] = PARTS, checkout: Path = CHECKOUT) -> int:
    """Exit code 0: with `--skips`, the part may be skipped; 1: it is to be played, or a record cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.landing", description=__doc__.partition("\n")[0], allow_abbrev=False
    )
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--skips", metavar="COMMAND", help="exit code 0 if its record is of this tree")
    asked.add_argument("--passed", nargs=2, metavar=("COMMAND", "SECONDS"), help="let its record wait for the end")
    asked.add_argument("--keep", action="store_true", help=f"all was green: write what waits to {RECORDS}")
    given = parser.parse_args(arguments)
    command = given.skips or (given.passed or [""])[0]
    part = next((each for each in parts if each.command == command), None)
    if wrong := faults(parts, checkout):
        say("\n".join(wrong))
        return 1
    if given.keep:
        for path in sorted((checkout / PENDING).glob("*.json")):
            (checkout / RECORDS).mkdir(parents=True, exist_ok=True)
            shutil.move(path, checkout / RECORDS / path.name)
            say(f"{RECORDS}/{path.name}: commit it as it is")
    elif not command:
        say(status(parts, checkout))
    elif part is None:
        return 1 if given.skips else 0
    elif given.skips:
        return _begin(part, checkout)
    elif record_of(begun := replace(part, records=PENDING), checkout) and state_of(begun, checkout) != "fresh":
        say(f"{command}: its files were changed while it ran")
        return 1
    else:
        write(_record(part, checkout, int(given.passed[1])), checkout / PENDING)
    return 0


def _begin(part: Part, checkout: Path) -> int:
    """0 if it may be skipped, else 1, and its key waits for its end."""
    record = record_of(part, checkout)
    if record is not None and state_of(part, checkout) == "fresh":
        say(f"its record of {record.when} is of these files: {RECORDS}/{part.name}.json")
        return 0
    write(_record(part, checkout, 0), checkout / PENDING)
    return 1


def _record(part: Part, checkout: Path, seconds: int) -> Record:
    return Record(part.name, key_of(part, checkout), part.command, minute(), machine.named(), seconds, "passed")


if __name__ == "__main__":
    sys.exit(main())
