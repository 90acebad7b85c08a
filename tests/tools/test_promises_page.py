"""Each promise of docs/promises.md names what shows it, and that exists: a test of this checkout or a target of the Makefile."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

from tools.promises_page import CHAPTERS, Chapter, Promise, gate_parts, page, proofs, thorough_parts


CHECKOUT = Path(__file__).parents[2]
PROMISES = tuple(chain.from_iterable(chapter.promises for chapter in CHAPTERS))


def exists(shown: str) -> bool:
    """Whether this test, file of tests or target is in the checkout."""
    if shown.startswith("make "):
        return re.search(rf"^{re.escape(shown[5:])}:", (CHECKOUT / "Makefile").read_text(), re.MULTILINE) is not None
    path, _, name = shown.partition("::")
    if not (CHECKOUT / path).is_file():
        return False
    tree = ast.parse((CHECKOUT / path).read_text())
    tests = [each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return name in tests if name else any(each.startswith("test_") for each in tests)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.promise[:60])
def test_what_shows_a_promise_exists(promise: Promise) -> None:
    assert promise.shown_by
    assert [shown for shown in promise.shown_by if not exists(shown)] == []


def test_every_promise_has_a_figure_and_is_shown_without_a_person() -> None:
    """`.ci/run` and `make thorough` run every test, whatever its marker."""
    targets = gate_parts() | thorough_parts()
    markers = {
        *("make test", "make test-long", "make test-more", "make test-benches", "make test-live", "make test-engines"),
        "make dashboards-drawn",
    }
    by_hand_only = [
        each.promise
        for each in PROMISES
        if not any(shown.startswith("tests/") or shown in targets for shown in each.shown_by)
    ]

    assert markers <= targets.keys()
    assert by_hand_only == []
    assert [each.promise for each in PROMISES if not re.search(r"\d", each.figure)] == []


@pytest.mark.parametrize("shown", ["make nothing", "tests/no_such.py", "tests/test_abort.py::test_no_such"])
def test_what_does_not_exist_is_told(shown: str) -> None:
    assert not exists(shown)


def test_the_page_has_a_table_for_each_chapter() -> None:
    one = Chapter("The bytes", (Promise("They are the same.", "0 differ", ("tests/a.py::test_b", "make c")),))

    assert (
        page([one])
        .removesuffix(proofs())
        .endswith(
            "\n## The bytes\n\n| promise | figure | shown by |\n|---|---|---|\n"
            "| They are the same. | 0 differ | `tests/a.py::test_b`, `make c` |\n"
        )
    )
