"""Lanes whose streamed answers arrive whole of late, so that the output of a request there cannot be seen as it comes. Pure.

Whether one answer is held back is known at its end (`timeline/held_back.py`). What was seen of a lane's last answers is
expected of its next one. It refuses to expect anything of a lane after few answers, or where most come as they are made.
"""

from collections import deque


REMEMBERED_ANSWERS = 20
FEWEST_ANSWERS = 5
"""Answers of a lane before anything is expected of the next one."""
MOST_COME_WHOLE = 0.5


class WholeAnswers:
    """The last answers of all lanes of one process."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[bool]] = {}
        self.expected: set[str] = set()
        """Lanes of which a streamed answer will probably come whole."""

    def answered(self, lane: str, *, whole: bool) -> None:
        """A streamed answer is complete. `whole`: it was held back."""
        last = self._lanes.get(lane)
        if last is None:
            last = self._lanes[lane] = deque(maxlen=REMEMBERED_ANSWERS)
        last.append(whole)
        if whole or lane in self.expected or len(last) == FEWEST_ANSWERS:  # else nothing can be expected newly
            if len(last) >= FEWEST_ANSWERS and sum(last) >= MOST_COME_WHOLE * len(last):
                self.expected.add(lane)
            else:
                self.expected.discard(lane)
