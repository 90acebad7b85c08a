"""Coverage-guided fuzzing of every parser: `make fuzz`, which is `python -m tests.fuzz`.

On the wheel (`make prove ARGS=--only=fuzz`) no branch of a compiled parser can be seen. libFuzzer then draws from the corpora that guided
runs on the sources have grown, guided by the branches of the checks, of their second readers and of what is not compiled.

Without arguments each target gets an hour; `--minutes` divides a time over all of them, as `make thorough` does. `--inputs` draws that many
from a fixed seed instead, the same ones on every machine: so the gate refuses a change for what it changed, not for what chance drew. Each runs in a process of
its own (`child.py`), from the kept corpus and from what earlier runs on this machine found (.cache/fuzz). A find is written
below .cache/fuzz/finds and printed as the lines that make it a test: `--add` puts it into tests/fuzz/corpus. `--keep` merges what is new into
that, of which libFuzzer keeps the smallest input for each new branch. Without atheris it says so; where `CI` is set it fails.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from tests.fuzz.target import Target, compiled_in
from tests.fuzz.targets import TARGETS, corpus_of, keep


AN_HOUR_SECONDS = 3600
START_SECONDS = 6.0
"""Seconds that a target takes before and after its time: imports, the corpus, and the end."""
CHECKOUT = Path(__file__).parents[2]
FOUND = CHECKOUT / ".cache" / "fuzz"
MOST_KEPT_INPUTS = 60
MOST_KEPT_BYTES = 16_384
SEED = 1
"""Draws that are counted, not timed, begin with it. Any other would do."""
_SAME_ADDRESSES = ("setarch", "--addr-no-randomize")
"""libFuzzer remembers comparisons by their addresses, and draws from them."""
LIBFUZZER = ("-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1", "-use_value_profile=0", "-verbosity=1")


@dataclass(frozen=True, slots=True)
class Ended:
    """One target's run."""

    target: Target
    status: int
    runs: int
    finds: tuple[Path, ...]
    log: Path


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _asked(arguments)
    if asked.add:
        return _add(asked.add)
    names = asked.only.split(",") if asked.only else list(TARGETS)
    if asked.compiled:
        names = [name for name in names if name not in TARGETS or compiled_in(TARGETS[name].check)]
    if unknown := sorted(set(names) - TARGETS.keys()):
        print(f"fuzz: no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
        return 2
    if find_spec("atheris") is None:
        print("fuzz: NOTHING RAN: atheris is not installed (make fuzz installs it, on Linux with Python 3.11 to 3.13)")
        return 1 if os.environ.get("CI") else 0
    seconds = seconds_each(asked.minutes, asked.seconds_each, len(names), asked.jobs)
    length = f"{seconds} s" if asked.inputs is None else f"{asked.inputs:,} inputs of seed {SEED}"
    print(f"fuzz: {len(names)} targets, {length} each, {asked.jobs} at once")
    with ThreadPoolExecutor(asked.jobs) as pool:
        ended = list(pool.map(lambda name: _run(TARGETS[name], seconds, asked.inputs), names))
    if asked.keep:
        for one in ended:
            _merge(one.target)
    found = [find for one in ended for find in one.finds]
    broken = [one for one in ended if (one.status or not one.runs) and not one.finds]
    for one in broken:
        print(
            f"fuzz: {one.target.name} ended with {one.status} after {one.runs:,} inputs and no find; its log: {one.log}"
        )
    print(f"fuzz: {sum(one.runs for one in ended):,} inputs, {len(found)} finds")
    return 1 if found or broken else 0


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description="fuzzes every parser of the product")
    parser.add_argument("--minutes", type=float, help="minutes over all targets; default: an hour each")
    parser.add_argument("--seconds-each", type=int, help="seconds for each target")
    parser.add_argument("--inputs", type=int, help="inputs for each target, the same ones each time")
    parser.add_argument("--only", default="", help="names of targets, with commas")
    parser.add_argument("--compiled", action="store_true", help="only parsers that the wheel compiles")
    parser.add_argument("--jobs", type=int, default=2, help="targets at once")
    parser.add_argument(
        "--add", type=Path, nargs="+", metavar="FIND", help="keep these finds in tests/fuzz/corpus, and end"
    )
    parser.add_argument("--keep", action="store_true", help="merge new inputs into tests/fuzz/corpus")
    return parser.parse_args(arguments)


def seconds_each(minutes: float | None, seconds: int | None, targets: int, jobs: int) -> int:
    """Seconds of fuzzing for each target, so that all of them together take `minutes`."""
    if seconds is not None:
        return seconds
    if minutes is None:
        return AN_HOUR_SECONDS
    turns = -(-targets // jobs)
    return max(1, int(minutes * 60 / turns - START_SECONDS))


def _add(finds: Sequence[Path]) -> int:
    """A find is of the target whose folder it is in, as this command writes it."""
    if wrong := [str(find) for find in finds if find.parent.name not in TARGETS or not find.is_file()]:
        print(f"fuzz: no find in a folder named after a target: {', '.join(wrong)}")
        return 2
    for find in finds:
        target = TARGETS[find.parent.name]
        keep(target, corpus_of(target) | {f"find-{find.name[-12:]}": find.read_bytes()})
    return 0


def _run(target: Target, seconds: int, inputs: int | None) -> Ended:
    """Ends after `seconds`, or after that many inputs: these are the same each time, so no earlier run on this machine adds any."""
    counted = inputs is not None
    grown = _emptied("counted", target) if counted else _folder("corpus", target)
    finds = _folder("finds", target)
    words, log = FOUND / f"{target.name}.dict", FOUND / f"{target.name}.log"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    for number, seed in enumerate(target.seeds):
        (grown / f"seed-{number}").write_bytes(seed)
    before = set(finds.iterdir())
    ends = (f"-runs={inputs}", f"-seed={SEED}") if counted else (f"-max_total_time={seconds}",)
    command = [
        *(_SAME_ADDRESSES if counted and _can_be_given_same_addresses() else ()),
        *(sys.executable, "-m", "tests.fuzz.child", target.name, str(grown), str(_unpacked(target))),
        *(
            *ends,
            f"-max_len={target.most_bytes}",
            f"-dict={words}",
            f"-artifact_prefix={finds}/",
        ),
        *LIBFUZZER,
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # the order of a set must not steer what is drawn
    began = time.monotonic()
    with log.open("wb") as output:
        run = subprocess.run(command, cwd=CHECKOUT, stdout=output, stderr=output, check=False, env=environment)
    text = log.read_text(errors="replace")
    new = tuple(sorted(set(finds.iterdir()) - before))
    runs = int(text.rpartition("number_of_executed_units:")[2].split()[0]) if "executed_units:" in text else 0
    took = time.monotonic() - began
    print(f"fuzz: {target.name:14} {took:5.0f} s {runs:10,} inputs, {len(new)} finds", flush=True)
    for find in new:
        print(lines_for_a_test(target, find, text), flush=True)
    return Ended(target, run.returncode, runs, new, log)


@cache
def _can_be_given_same_addresses() -> bool:
    """Not on every system, nor in every container: there some draws of a seed differ from run to run."""
    found = which(_SAME_ADDRESSES[0]) is not None
    return found and subprocess.run([*_SAME_ADDRESSES, "true"], capture_output=True, check=False).returncode == 0


def lines_for_a_test(target: Target, find: Path, log: str) -> str:
    """The words for a find: the error, and the lines that replay it."""
    error = next((line for line in reversed(log.splitlines()) if line.startswith(("AssertionError", "  File"))), "")
    raised = next(
        (line.strip() for line in log.splitlines() if "Error" in line and not line.startswith(("=", "#"))), error
    )
    return (
        f"fuzz: FOUND in {target.name}: {raised}\n"
        f'  as a test that `make test-long` replays:  make fuzz ARGS="--add {find}"\n'
        f'  in Python:  TARGETS["{target.name}"].checked_within_bounds({find.read_bytes()!r})'
    )


def _merge(target: Target) -> None:
    """Keep the smallest set of inputs that reaches every branch, within bounds: inputs are read by people too."""
    merged, grown = _emptied("merged", target), _folder("corpus", target)
    command = [
        *(
            sys.executable,
            "-m",
            "tests.fuzz.child",
            target.name,
            "-merge=1",
            str(merged),
            str(_unpacked(target)),
            str(grown),
        ),
        f"-max_len={target.most_bytes}",
    ]
    program = FOUND / f"{target.name}.sh"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.fuzz.child {target.name} "$@"\n')
    program.chmod(0o755)
    with (FOUND / f"{target.name}.merge.log").open("wb") as log:
        environment = {**os.environ, "FUZZ_PROGRAM": str(program)}
        subprocess.run(command, cwd=CHECKOUT, stdout=log, stderr=log, check=True, env=environment)
    inputs = {name: data for name, data in corpus_of(target).items() if name.startswith("find-")}
    size = 0
    for path in sorted(merged.iterdir(), key=lambda path: path.stat().st_size)[:MOST_KEPT_INPUTS]:
        size += path.stat().st_size
        if size > MOST_KEPT_BYTES:
            break
        inputs[path.name[:12]] = path.read_bytes()
    keep(target, inputs)


def _unpacked(target: Target) -> Path:
    """The corpus as a folder, which libFuzzer reads."""
    folder = _emptied("kept", target)
    for name, data in corpus_of(target).items():
        (folder / name).write_bytes(data)
    return folder


def _emptied(what: str, target: Target) -> Path:
    folder = _folder(what, target)
    for path in folder.iterdir():
        path.unlink()
    return folder


def _folder(what: str, target: Target) -> Path:
    folder = FOUND / what / target.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _escaped(word: bytes) -> str:
    """A word in the form of libFuzzer's dictionaries."""
    return "".join(f"\\x{byte:02x}" if byte in b'"\\' or not 32 <= byte < 127 else chr(byte) for byte in word)


if __name__ == "__main__":
    sys.exit(main())
