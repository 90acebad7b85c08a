"""Every story of every book, as promtool judges it: what the series do, which alerts come of it, and which do not."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.alert_rules import promtool
from tests.alert_rules.books import BOOKS
from tests.alert_rules.promtool import RULES, Book, Story, complaints, run


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run, the same one in all processes of pytest-xdist, however it deals out the tests."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "promtool"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize(
    ("book", "story"),
    [pytest.param(book, story, id=f"{book.name}-{story.name}") for book in BOOKS for story in book.stories],
)
def test_promtool_finds_what_the_story_tells(book: Book, story: Story, answers: Path) -> None:
    found = "".join(complaints(book, story, answers))

    assert found == "", f"{story.promise}\n{found}"


def test_the_books_are_written_for_whoever_has_promtool(tmp_path: Path) -> None:
    """One file per book, by a command, and promtool takes it where it lies: here the book of the fewest stories."""
    folder = tmp_path / "books"
    command = [sys.executable, "-m", "tests.alert_rules.books", str(folder)]
    subprocess.run(command, check=True, timeout=60, cwd=RULES.parent)
    written = {path.name: path.read_text() for path in folder.iterdir()}

    assert written == {book.file_name: book.text() for book in BOOKS}
    assert run(folder / "llm-turned-away_test.yml") == ""


# --- how promtool is asked --------------------------------------------------------------------------------------------------


SAID = """
  FAILED:
    name: toy,
    expr: "up{namespace=\\"first\\"}", time: 1m,
        exp: nil
        got: {namespace="first"} 1E+00
    rule: a, time: 0s, err: found duplicate series for the match group {namespace="first"}
"""


def toy() -> Book:
    """Two stories of one series each."""
    book = Book("toy")

    @book.story(1)
    def first(story: Story) -> None:
        """A series that is there."""
        story.yields("up", 1)

    book.stories.append(book.stories[0].again("second"))
    return book


def test_promtool_is_asked_once_about_a_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whichever process is first; the others wait for its answer."""
    asked: list[Path] = []

    def slow(test_file: Path) -> str:
        asked.append(test_file)
        time.sleep(0.05)
        return ""

    monkeypatch.setattr(promtool, "run", slow)
    book = toy()
    with ThreadPoolExecutor(2) as workers:
        found = list(workers.map(lambda story: complaints(book, story, tmp_path), book.stories))

    assert (found, asked) == ([[], []], [tmp_path / "llm-toy_test.yml"])


def test_a_story_hears_what_is_said_of_it_and_what_is_said_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample has the namespace of its story. After a rule that cannot be evaluated, nothing was judged."""
    monkeypatch.setattr(promtool, "run", lambda _: SAID)
    book = toy()
    heard = [[text.split(maxsplit=1)[0] for text in complaints(book, story, tmp_path)] for story in book.stories]

    assert heard == [["expr:", "rule:"], ["rule:"]]
