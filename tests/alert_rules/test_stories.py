"""Every story of every book, as promtool judges it: what the series do, which alerts come of it, and which do not."""

import pytest

from tests.alert_rules.books import BOOKS
from tests.alert_rules.promtool import Book, Story, complaints


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
