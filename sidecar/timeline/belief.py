"""A belief about an engine: learned from several answers in a row, and unlearned by as many. Pure.

What an engine does with each answer (sets a mark at its end, states usage without being asked, compresses in spite of `identity`, is of
another kind) is read from its answers. One answer proves nothing: it may have broken off, or a server in between may have made it. So a belief has
three states: nothing is known; it holds; the contrary holds. Each change takes LEARNED_FROM answers in a row that say the same, and one that
says otherwise begins the row anew.

The caller leaves out each answer that cannot be a sign: one that broke off, was not read whole, or was judged to have ended too
early. The one exception is the missing mark itself (`proof.py`): its absence is what unlearns it.
"""

LEARNED_FROM = 20
"""Answers in a row that say the same, from which a belief is learned and by which it is unlearned."""


class Belief:
    """One belief, and the answers in a row that speak for a change."""

    __slots__ = ("holds", "row")

    def __init__(self) -> None:
        self.holds: bool | None = None
        """None: too few answers have said the same."""
        self.row = 0
        """The last answers in a row that said yes (above 0) or no (below), counted up to LEARNED_FROM."""

    def seen(self, says_yes: bool) -> bool:
        """One more answer was read. Returns whether the belief is another one now."""
        row = max(self.row, 0) + 1 if says_yes else min(self.row, 0) - 1
        self.row = max(-LEARNED_FROM, min(row, LEARNED_FROM))
        if abs(row) < LEARNED_FROM or self.holds is says_yes:
            return False
        self.holds = says_yes
        return True
