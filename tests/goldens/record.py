"""Goldens: texts that people see, recorded in one file for each surface, case by case, and compared as text.

`python -m tests.goldens.record` records them anew. A golden changes only in a commit that says what a user now sees instead.
"""

import os
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from functools import cache
from itertools import islice
from pathlib import Path

from tests.goldens.surfaces import CASES, Shown


FILES = Path(__file__).parent
COMMAND = "python -m tests.goldens.record"
HEAD = f"# Written by `{COMMAND}`.\n"
MARK = "\n=== "
SHOWN_LINES = 40
os.environ["COLUMNS"] = "80"  # as in tests


@cache
def recorded(surface: str) -> Mapping[str, str]:
    """Case to text. Raises FileNotFoundError."""
    _, *parts = (FILES / f"{surface}.txt").read_text().split(MARK)
    return {case: text for case, _, text in (part.partition("\n") for part in parts)}


def written(texts: Iterable[tuple[str, str]]) -> str:
    return HEAD + "".join(f"{MARK}{case}\n{clean(text)}" for case, text in texts)


def clean(text: str) -> str:
    """The text without blanks at the ends of lines, and with one end of line behind it."""
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").split("\n"))


def changed(case: str, shown: Shown) -> str:
    """The first lines of the unified diff between what is recorded and what is shown; empty if they are equal."""
    lines: list[str] = []
    for surface, text in shown.items():
        old, new = recorded(surface).get(case, "").splitlines(), clean(text).splitlines()
        lines += unified_diff(old, new, f"{surface}.txt, recorded: {case}", "now", lineterm="")
    return "\n".join([*islice(lines, SHOWN_LINES), f"`{COMMAND}` records it anew."]) if lines else ""


def main() -> None:
    found = {case: shown() for case, shown in CASES.items()}
    for surface in sorted({surface for shown in found.values() for surface in shown}):
        texts = ((case, shown[surface]) for case, shown in found.items() if surface in shown)
        (FILES / f"{surface}.txt").write_text(written(texts))


if __name__ == "__main__":
    main()
