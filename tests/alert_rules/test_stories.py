"""Every story of every book, as promtool judges it: what the series do, which alerts come of it, and which do not."""

import pytest

from tests.alert_rules.books import BOOKS, written
from tests.alert_rules.promtool import TESTS, Book, Story, complaints


def told() -> list[object]:
    return [
        pytest.param(
            book, story, id=f"{book.name}-{story.name}", marks=[pytest.mark.xfail(reason=story.bug)] * bool(story.bug)
        )
        for book in BOOKS
        for story in book.stories
    ]


@pytest.mark.parametrize(("book", "story"), told())
def test_promtool_finds_what_the_story_tells(book: Book, story: Story) -> None:
    found = "".join(complaints(book, story))

    assert found == "", f"{story.promise}\n{found}"


@pytest.mark.parametrize("name", sorted(written()))
def test_the_committed_book_is_the_one_that_is_told(name: str) -> None:
    """`python -m tests.alert_rules.books` writes it anew."""
    assert (TESTS / name).read_text() == written()[name]


def test_no_other_book_is_committed() -> None:
    assert {path.name for path in TESTS.iterdir()} == set(written())
