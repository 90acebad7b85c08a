"""The commands that the pages show, each with its mark: how a test runs it, or why none does.

A mark is an HTML comment on the line directly above the fence. `CLAUSES` has its forms. Knows the pages' text and runs
nothing; `doc_stories.py` does.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


CHECKOUT = Path(__file__).parents[2]
COMMANDS = ("sh", "shell", "bash", "console")
"""The languages of a fence that holds commands."""
CLAUSES: Mapping[str, str] = {
    "by": r"\S+",
    "as": r"[a-z-]+",
    "after": r"[a-z-]+",
    "in": r"a copy of the checkout|a new environment",
    "beside": r"an engine|a sidecar|a demo|Prometheus and Alertmanager",
    "with": r"[\w./-]+",
    "typing": r"\S+",
    "until": r"http://\S+",
    "then": r"stop",
    "exit": r"\d( or \d)*",
}
"""The clauses of `<!-- run: CLAUSE, CLAUSE -->`: first word, and a pattern for the rest.

by: another part of CI runs it, `.ci/run` or a test module, which names it. as, after: a name, and the earlier block of
the page in whose folder this one goes on. in: the folder is a copy of the checkout; `pip`, `python3` and `sidecar` are
those of a new environment. beside: a program that a reader has running already. with: the YAML block of the same page
that is marked `<!-- file: NAME -->` lies there as a file. typing: what is typed at the one question. until: the last
command goes on, as a server, and answers there. then stop: it ends before the next block. exit: the exit codes that are right, if not 0 alone.
"""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^ *<!-- (run|not run|file)(?:: (.+))? -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page, and the mark above it."""

    page: Path
    line: int
    language: str
    text: str
    kind: str = ""
    """run, not run or file; empty: no mark."""
    said: str = ""
    """The text of the mark behind its kind: a reason, a file's name, or clauses."""
    clauses: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return (
            f"{self.page.relative_to(CHECKOUT) if self.page.is_relative_to(CHECKOUT) else self.page.name}:{self.line}"
        )

    def first(self, clause: str) -> str:
        """The rest of the mark's first clause of this word; empty without one."""
        return next(iter(self.clauses.get(clause, ())), "")

    @property
    def is_live(self) -> bool:
        """Whether it has ports or minutes to itself."""
        return any(self.clauses.get(word) for word in ("until", "beside", "in"))


def pages() -> list[Path]:
    """Every page that shows commands to a reader of the project."""
    front = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    folders = ("docs", "alert_rules", "grafana", "deploy", "sidecar")
    return [*front, *(page for folder in folders for page in sorted((CHECKOUT / folder).rglob("*.md")))]


def blocks_of(page: Path) -> Iterator[Block]:
    """Every fenced block of the page, in order."""
    whole = page.read_text()
    for found in _FENCE.finditer(whole):
        line = whole.count("\n", 0, found.start()) + 1
        above = whole[: found.start()].rstrip("\n") if whole[: found.start()].endswith("\n") else ""
        mark = _MARK.match(above.rpartition("\n")[2]) if not whole[: found.start()].endswith("\n\n") else None
        kind, said = (mark[1], mark[2] or "") if mark else ("", "")
        text = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        yield Block(page, line, found["language"], text, kind, said, _clauses(said) if kind == "run" else {})


def commands_of_page(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in COMMANDS]


def _clauses(said: str) -> dict[str, list[str]]:
    parsed: dict[str, list[str]] = {}
    for clause in said.split(", ") if said else ():
        word, _, rest = clause.partition(" ")
        parsed.setdefault(word, []).append(rest)
    return parsed


def faults(page: Path) -> list[str]:
    """Each mark of the page that is missing or wrong, with its place and what to write."""
    found, named = [], {block.said for block in blocks_of(page) if block.kind == "file"}
    earlier: set[str] = set()
    for block in commands_of_page(page):
        wrong = _fault(block, named, earlier)
        if wrong:
            found.append(f"{block.place}: {wrong}")
        earlier.add(block.first("as"))
    return found


def _fault(block: Block, files: set[str], earlier: set[str]) -> str:
    if block.kind not in ("run", "not run"):
        return "no mark; write `<!-- run -->` or `<!-- not run: REASON -->` on the line above (tests/support/doc_blocks.py)"
    if block.language != "sh":
        return f"the fence says {block.language}; commands are written as sh, so that they can be pasted"
    if block.kind == "not run":
        return (
            ""
            if len(block.said.split()) >= 3
            else "a reason of three words at least: `<!-- not run: needs a cluster -->`"
        )
    for word, rests in block.clauses.items():
        if word not in CLAUSES:
            return f"no clause begins with {word!r}; allowed are {', '.join(CLAUSES)}"
        for rest in rests:
            if re.fullmatch(CLAUSES[word], rest) is None:
                return f"{word} {rest!r} does not match {CLAUSES[word]}"
    if missing := set(block.clauses.get("with", ())) - files:
        return f"no block of this page is marked `<!-- file: {missing.pop()} -->`"
    if missing := set(block.clauses.get("after", ())) - earlier:
        return f"no earlier block of this page is marked `as {missing.pop()}`"
    return ""


def stories(page: Path) -> list[Sequence[Block]]:
    """The blocks that run, in order; those that build on one another are one story."""
    told: dict[str, list[Block]] = {}
    found: list[Sequence[Block]] = []
    for block in commands_of_page(page):
        if block.kind != "run" or block.first("by"):
            continue
        story = told.get(block.first("after"))
        if story is None:
            story = []
            found.append(story)
        story.append(block)
        told[block.first("as") or f"line {block.line}"] = story
    return found
