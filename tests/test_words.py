"""Plain words: a docstring names its subject, and only people are spoken of as people.

Many readers of this code have another first language. In seven codebases that are pleasant to read, h11 to attrs, 0 to 1.6 % of
the docstrings open with a question word, and none uses a pronoun for people.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest


CHECKOUT = Path(__file__).parents[1]
FOLDERS = ("sidecar", "tests", "bench", "tools", "alert_rules", "grafana")
OPENINGS = re.compile(r"(What|Who|Whose|Whom|Of|Where|Whatever|Whoever|Wherever)\b")
PERSONS = re.compile(r"\b(nobody|somebody|anybody|everybody|whoever|whom|whomever)\b", re.IGNORECASE)
EXEMPT = {
    "sidecar/diagnosis": "rewritten with the verdict (issue 10)",
    "tests/diagnosis": "rewritten with the verdict (issue 10)",
    "alert_rules": "rewritten with the rules (issue 10)",
    "tests/alert_rules": "rewritten with the rules (issue 10)",
    "grafana": "rewritten with the dashboards (issue 14)",
    "tests/grafana": "rewritten with the dashboards (issue 14)",
}
"""Folders whose texts are rebuilt, with the issue that does it; each issue takes its line away."""


def python_files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            name = str(path.relative_to(CHECKOUT))
            if not any(name.startswith(f"{exempt}/") for exempt in EXEMPT):
                yield path


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string that stands alone as a statement, with its line: of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or [] if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text.strip()


def unplain(text: str) -> str | None:
    """The word that makes a docstring unplain, or None."""
    found = OPENINGS.match(text) or PERSONS.search(text)
    return None if found is None else found.group()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("What each engine calls its state.", "What"),
        ("Of a word: what tells it from others.", "Of"),
        ("Samples that nobody reads.", "nobody"),
        ("Offsets of the members, in bytes.", None),
        ("The bucket that holds what was not counted.", None),
    ],
)
def test_the_lint_knows_a_riddle(text: str, word: str | None) -> None:
    assert unplain(text) == word


def test_docstrings_name_their_subject() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}:{line}: {word}"
        for path in python_files()
        for line, text in docstrings(ast.parse(path.read_text()))
        if (word := unplain(text)) is not None
    ]

    assert found == []


def test_each_exempt_folder_still_needs_its_exemption() -> None:
    """An exemption goes with the last riddle of its folder."""
    needed = {
        exempt
        for exempt in EXEMPT
        for path in sorted((CHECKOUT / exempt).rglob("*.py"))
        for _, text in docstrings(ast.parse(path.read_text()))
        if unplain(text) is not None
    }

    assert needed == set(EXEMPT)
