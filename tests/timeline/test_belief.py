"""One answer is not believed. Twenty in a row are, until twenty in a row show the contrary."""

import pytest

from sidecar.timeline.belief import LEARNED_FROM, Belief


ALL, LESS = LEARNED_FROM, LEARNED_FROM - 1


@pytest.mark.parametrize(
    ("rows", "holds"),
    [
        ([(True, LESS)], None),
        ([(True, ALL)], True),
        ([(False, ALL)], False),
        ([(True, LESS), (False, 1), (True, LESS)], None),
        ([(True, ALL), (False, LESS)], True),
        ([(True, ALL), (False, LESS), (True, 1), (False, LESS)], True),
        ([(True, ALL), (False, ALL)], False),
        ([(False, ALL), (True, ALL)], True),
        ([(True, 3 * ALL), (False, ALL)], False),
    ],
)
def test_a_belief_changes_with_twenty_answers_in_a_row(rows: list[tuple[bool, int]], *, holds: bool | None) -> None:
    """And says so once for each change."""
    belief, changes, before = Belief(), 0, None
    for says_yes, times in rows:
        for _ in range(times):
            told = belief.seen(says_yes)
            assert told == (belief.holds is not before)
            changes, before = changes + told, belief.holds

    assert belief.holds is holds
    assert changes == sum(times >= ALL for _, times in rows)
