"""An interrupted bench goes on where it stood, and never reads what another tree gave."""

from pathlib import Path

import pytest

from bench.incidents.kept import Kept


_done: list[int] = []


def _twice(number: int) -> int:
    _done.append(number)
    return 2 * number


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    _done.clear()


def test_what_was_done_before_is_read_and_not_done_again(tmp_path: Path) -> None:
    assert [Kept(_twice, tmp_path / "a-commit")(number) for number in (3, 4)] == [6, 8]
    assert [Kept(_twice, tmp_path / "a-commit")(number) for number in (3, 4, 5)] == [6, 8, 10]
    assert _done == [3, 4, 5]


def test_another_commit_and_another_work_begin_anew(tmp_path: Path) -> None:
    def thrice(number: int) -> int:
        return 3 * number

    assert Kept(_twice, tmp_path / "a-commit")(3) == 6
    assert Kept(_twice, tmp_path / "the-next")(3) == 6
    assert Kept(thrice, tmp_path / "a-commit")(3) == 9
    assert _done == [3, 3]


def test_a_tree_that_is_not_committed_keeps_nothing(tmp_path: Path) -> None:
    assert [Kept(_twice, None)(3), Kept(_twice, None)(3)] == [6, 6]
    assert _done == [3, 3]
    assert list(tmp_path.iterdir()) == []
