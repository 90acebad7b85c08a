"""Rules with one mistake in them, and who notices: a flipped comparison, a number twice or half as large, a guard that is gone.

A mutant is noticed when promtool says anything else about the stories than it does about the rules as they are. Each is played
with no more rules than its stories need. Knows how expressions are written; what they mean is the stories' business.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import promql_parser as promql
import yaml

from alert_rules.pages import NAMES
from sidecar.slo.attribution import Blame
from tests.alert_rules.books import BOOKS
from tests.alert_rules.promtool import ALERTS, RECORDING, Book, Story, run
from tests.alert_rules.syntax import Shipped, inside, operator, rules


CHAIN = ("llm-phase-verdict", "llm-phase-pages")
"""The groups of which each needs the one before; the others stand alone, rule by rule."""

RULES = tuple(rules())
WITNESSES = Path(__file__).with_name("witnesses.yml")

FLIPPED = {">=": "<", "<=": ">", ">": "<=", "<": ">=", "==": "!=", "!=": "=="}
_TOKEN = re.compile(
    r"""
    (?P<skip> "(?:[^"\\]|\\.)*" | \{[^}]*\} | \[[^\]]*\] | (?:offset\ )\S+ | [A-Za-z_:][\w:]* )
  | (?P<comparison> >= | <= | == | != | > | < )
  | (?P<number> \d+(?:\.\d+)? )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule with one mistake."""

    rule: Shipped
    mistake: str
    expr: str

    @property
    def spoiled(self) -> Shipped:
        """The rule with the mistake."""
        return replace(self.rule, fields={**self.rule.fields, "expr": self.expr})

    def __str__(self) -> str:
        return f"{self.rule}: {self.mistake}"


def mutants() -> list[Mutant]:
    """All of them, in the order of the rules. Of the pages of seven phases, which one function writes, those of one."""
    return [
        Mutant(rule, mistake, expr)
        for rule in RULES
        if rule.group != "llm-phase-pages" or rule.name == NAMES[Blame.QUEUE]
        for mistake, expr in dict(_mistakes(rule.expr)).items()
    ]


def _mistakes(text: str) -> Iterator[tuple[str, str]]:
    tree = promql.parse(text)
    written = str(tree)
    for found in _TOKEN.finditer(written):
        before, token, after = written[: found.start()], found[0], written[found.end() :]
        near = f"...{before[-40:]}[{token}]{after[:40]}..."
        if found["comparison"]:
            yield f"{FLIPPED[token]} in {near}", f"{before}{FLIPPED[token]}{after}"
        elif found["number"] and float(token):
            for factor in (2, 0.5):
                yield f"x{factor} in {near}", f"{before}{float(token) * factor:g}{after}"
    for node in inside(tree):
        if isinstance(node, promql.BinaryExpr) and operator(node) in {"and", "unless", "or"}:
            whole, left = str(node), str(node.lhs)
            at = written.index(whole)
            before, after = written[:at], written[at + len(whole) :]
            yield f"without {whole[len(left) :].strip()[:110]}", f"{before}{left}{after}"
            if operator(node) == "unless":
                kept = whole[len(left) :].replace("unless", "and", 1)
                yield f"and for {whole[len(left) :].strip()[:110]}", f"{before}{left}{kept}{after}"


# --- who notices -----------------------------------------------------------------------------------------------------------


def witness(mutant: Mutant, known: str = "") -> str:
    """The story that ends differently, as `book/story`; empty if none does. `known`: the one that was found last time.

    A story that is known is asked first and alone, which is ten times as fast as a book.
    """
    books = {book.name: book for book in BOOKS}
    book, _, story = known.partition("/")
    if book in books and any(_notices(mutant, books[book], one) for one in books[book].stories if one.name == story):
        return known
    for name in _books(mutant.rule):
        whole = books[name]
        before, after = (_said(whole, whole.stories, mutant.rule, rule) for rule in (mutant.rule, mutant.spoiled))
        if before == after:
            continue
        changed = "".join(set(before.splitlines()) ^ set(after.splitlines()))
        likely = sorted(whole.stories, key=lambda one: f'{one.name}\\"' not in changed)
        return next((f"{name}/{one.name}" for one in likely if _notices(mutant, whole, one)), f"{name}/")
    return ""


def _notices(mutant: Mutant, book: Book, story: Story) -> bool:
    before, after = (_said(book, [story], mutant.rule, rule) for rule in (mutant.rule, mutant.spoiled))
    return before != after


LIKELY = {
    "tiers": ("slo_burn", "slo_miss"),
    "lengths": ("prompt_tokens", "bursts", "waited_in", "full_ratio", "moved"),
    "evidence": ("evidence", "prompt_tokens"),
    "baseline": ("disturbed", "acute", "calm"),
    "chronic": ("chronic",),
    "provisional": ("waiting", "provisional", "by_state", "requests"),
    "votes": ("votes",),
    "faults": ("engine",),
    "hours": ("slow",),
}
"""Book to what is in the names or labels of the recorded series that it is about: whom to ask first."""

CHAIN_BOOKS = (
    "votes",
    "faults",
    "evidence",
    "lengths",
    "provisional",
    "baseline",
    "tiers",
    "plain",
    "hours",
    "words",
    "chronic",
)


def _books(rule: Shipped) -> list[str]:
    """Those that may notice, the likeliest first."""
    if rule.group not in CHAIN:
        return [name for name, text in _texts().items() if rule.name in text]
    said = f"{rule.name} {' '.join(rule.labels.values())}"
    return sorted(CHAIN_BOOKS, key=lambda book: not any(word in said for word in LIKELY.get(book, ())))


@cache
def _texts() -> dict[str, str]:
    return {book.name: book.text() for book in BOOKS}


def _kept(rule: Shipped) -> tuple[str, ...]:
    """The rules that are played: the whole chain, or the one alert."""
    return CHAIN if rule.group in CHAIN else (rule.group, rule.name)


def _said(book: Book, stories: Sequence[Story], rule: Shipped, instead: Shipped) -> str:
    """What promtool says of these stories with `instead` in the place of `rule`, and only the rules that are kept with it."""
    played: dict[str, list[Mapping[str, object]]] = {}
    for one in RULES:
        if _kept(one) == _kept(rule):
            played.setdefault(one.group, []).append(instead.fields if one == rule else one.fields)
    files = {RECORDING: CHAIN[:1], ALERTS: [group for group in played if group != CHAIN[0]]}
    texts = {
        name: yaml.safe_dump(
            {"groups": [{"name": group, "rules": played[group]} for group in chosen if group in played]}
        )
        for name, chosen in files.items()
    }
    book_text = book.text(".", stories)
    order = re.search(r"group_eval_order:\n(?:- .*\n)+", book_text)
    assert order is not None
    groups = "".join(f"- {group}\n" for group in played)
    return _played(book_text.replace(order[0], f"group_eval_order:\n{groups}"), *texts.items())


@lru_cache(maxsize=256)
def _played(book: str, *texts: tuple[str, str]) -> str:
    with TemporaryDirectory() as folder:
        for name, text in (*texts, ("llm_test.yml", book)):
            (Path(folder) / name).write_text(text)
        said = run(Path(folder) / "llm_test.yml").replace(folder, "")
    assert "parse error" not in said, f"a mutant that is no rule: {said}"
    return said


def each(some: Sequence[Mutant], known: Mapping[str, str]) -> Iterator[tuple[Mutant, str]]:
    """Every mutant with its witness, two at a time."""
    with ThreadPoolExecutor(2) as workers:
        yield from zip(some, workers.map(lambda one: witness(one, known.get(str(one), "")), some), strict=True)


def known_witnesses() -> dict[str, str]:
    """Who noticed which mutant when they were last sought."""
    written = yaml.safe_load(WITNESSES.read_text()) if WITNESSES.exists() else {}
    return {f"{rule}: {mistake}": seen_by for rule, found in written.items() for mistake, seen_by in found.items()}


def main() -> None:
    """Seek a witness for every mutant, and write down who it is: `python -m tests.alert_rules.mutants`."""
    found: dict[str, dict[str, str]] = {}
    for mutant, seen_by in each(mutants(), known_witnesses()):
        if seen_by:
            found.setdefault(str(mutant.rule), {})[mutant.mistake] = seen_by
        else:
            print(f"nobody notices {mutant}", flush=True)  # noqa: T201  a command's output
    head = "# Which story notices which mistake in a rule; written by `python -m tests.alert_rules.mutants`. Only a hint: see there.\n"
    WITNESSES.write_text(head + yaml.safe_dump(found, sort_keys=False, width=10_000))


if __name__ == "__main__":
    main()
