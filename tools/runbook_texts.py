"""Writes what `interventions/*.yml` says into the runbooks: `python -m sidecar.diagnosis.runbook_texts`.

In each runbook two places are written here and are not edited by hand: the table under "Fixes", and the list under
"What not to do". A test holds the runbooks to it. Knows Markdown tables and headings; all else of a runbook is left as it is.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from sidecar.diagnosis.interventions import ENGINES, Chapter, chapters


RUNBOOKS = Path(__file__).parents[1] / "sidecar" / "runbooks"
HEAD = ("fix", "targets", "cost", "works when", "vLLM", "SGLang", "TensorRT-LLM", "TGI")


def table(chapter: Chapter) -> str:
    """The fixes as a Markdown table; `-` where an engine has no flag."""
    rows = [
        (
            fix.fix,
            ", ".join(fix.targets),
            fix.cost.value,
            fix.works_when,
            *(fix.flags.get(engine, "-") for engine in ENGINES),
        )
        for fix in chapter.fixes
    ]
    lines = [f"| {' | '.join(row)} |" for row in (HEAD, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(HEAD), *lines[1:]]) + "\n"


def bullets(chapter: Chapter) -> str:
    """What not to do, as a Markdown list."""
    return "".join(f"- **{item.do}.** {item.why}\n" for item in chapter.not_to_do)


def written(text: str, chapter: Chapter) -> str:
    """The runbook with both places as they should be. Raises ValueError where one is missing."""
    text = _replaced(text, "Fixes", r"(?:\|.*\n)+", lambda _: table(chapter))
    return _replaced(text, "What not to do", r"(?:- .*\n)+", lambda _: bullets(chapter))


def _replaced(text: str, heading: str, pattern: str, write: Callable[[object], str]) -> str:
    found, times = re.subn(rf"(?<=^## {heading}\n\n){pattern}", write, text, flags=re.MULTILINE)
    if times != 1:
        raise ValueError(f"nothing to replace under {heading!r}")
    return found


def main() -> None:
    """Write them all; says which changed."""
    for name, chapter in chapters().items():
        file = RUNBOOKS / f"{name}.md"
        before = file.read_text("utf-8")
        after = written(before, chapter)
        if after != before:
            file.write_text(after, "utf-8")
            sys.stdout.write(f"{file.name}\n")


if __name__ == "__main__":
    main()
