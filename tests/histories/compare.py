"""Two trees by what they write of the same histories: of each seed, the first lines that differ.

Each tree plays its own `tests.histories.history`, in its checkout, with its .venv or, where it has none, with this interpreter.
Run: `python -m tests.histories.compare OTHER_CHECKOUT --seeds 20 --requests 300`; lines that match `--but PATTERN` are left out: those that
a changelog names. Exit code 1: a seed differs.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from difflib import unified_diff
from itertools import islice
from pathlib import Path


CHECKOUT = Path(__file__).parents[2]
SHOWN_LINES, SHOWN_COLUMNS = 12, 240


def written(trees: Sequence[Path], seed: int, requests: int, **variables: str) -> list[list[str]]:
    """The lines that each tree writes of one history; they run beside each other. Raises CalledProcessError."""
    processes = []
    for tree in trees:
        own = tree / ".venv/bin/python"
        words = [
            own if own.exists() and tree != CHECKOUT else sys.executable,
            "-m",
            "tests.histories.history",
            str(seed),
            str(requests),
        ]
        env = {**os.environ, "PYTHONPATH": str(tree), **variables}
        processes.append(subprocess.Popen(words, cwd=tree, env=env, stdout=subprocess.PIPE, text=True))
    texts = [process.communicate()[0] for process in processes]
    for process in processes:
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return [text.splitlines() for text in texts]


def differing(old: Sequence[str], new: Sequence[str], but: str = "") -> list[str]:
    """The first lines that differ, as a unified diff; none if nothing does. `but`: a pattern of lines that may."""
    kept = [[line for line in text if not (but and re.search(but, line))] for text in (old, new)]
    first = next((at for at, pair in enumerate(zip(*kept, strict=False)) if len({*pair}) > 1), min(map(len, kept)))
    before, after = (text[max(0, first - 1) : first + 500] for text in kept)
    diff = unified_diff(before, after, f"old, from line {first} on", "new", lineterm="", n=1)
    return [line[:SHOWN_COLUMNS] for line in islice(diff, SHOWN_LINES)]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories.compare", description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout, whose text is the old one")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--but", default="", metavar="PATTERN")
    told = parser.parse_args(argv)
    odd = 0
    for seed in range(1, told.seeds + 1):
        old, new = written((told.other.resolve(), CHECKOUT), seed, told.requests)
        found = differing(old, new, told.but)
        odd += bool(found)
        sys.stdout.write("\n".join([f"seed {seed}: {'differs' if found else 'equal'}", *found, ""]))
    return int(odd > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
