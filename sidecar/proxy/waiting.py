"""The bytes of one connection that wait: requests behind the one being answered, tunnel bytes, a head or read half done.

Counts what they cost in memory, as bytes that the process holds, and says when no more may wait. Refuses to know when
their turn comes: the connection (`accept.py`) takes them in order.
"""

from collections import deque

from sidecar.budgets.budgets import Budget
from sidecar.proxy.requests import FIELD_COST_BYTES, Part


PIPELINE_BYTES = 65536
"""Bytes of requests that may wait behind the one being answered; past that the connection is not read."""
PIPELINE_SHARE_BYTES = 8192
"""Bytes that may wait on a connection even where the process holds as much as it may."""
FREE_HEAD_BYTES = 8192
"""Bytes of an unfinished head that belong to the cost of its connection; those beyond are counted as held."""
PIECE_COST_BYTES = 64
"""Bytes that a piece costs beside its content."""
HEAD_COST_BYTES = 1024


class Waiting:
    """The bytes that wait on one connection. `budget`: of the bytes that the process holds."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.parts: deque[Part] = deque()
        """In the order in which they came; the connection takes them by `next`."""
        self.behind_upgrade = False
        """Bytes are held as they come, because only the engine's answer says what they are."""
        self._behind_upgrade: list[bytes] = []
        self.bytes = 0
        self.head_bytes = 0
        """Bytes of an unfinished head that are counted."""
        self._unread_bytes = 0

    @property
    def full(self) -> bool:
        """Whether no more may wait: the connection must not be read."""
        if self.bytes <= PIPELINE_SHARE_BYTES:
            return False
        return self.bytes > PIPELINE_BYTES or self._budget.used > self._budget.limit

    def add(self, part: Part) -> None:
        """Add a part behind all others."""
        self.parts.append(part)
        self._count(_weight(part))

    def next(self) -> Part:
        """Take the first part. Raises IndexError if none waits."""
        part = self.parts.popleft()
        self._count(-_weight(part))
        return part

    def drop(self) -> None:
        """Forget everything: the connection is closing."""
        self.parts.clear()
        self._behind_upgrade = []
        self.behind_upgrade = False
        self._count(-self.bytes)
        self.count_head(0)
        self.count_unread(0)

    # --- behind a request for a websocket ----------------------------------------------------------------------------

    def hold(self, data: bytes) -> None:
        """Hold bytes behind a websocket request: tunnel bytes if the engine agrees, else the next request."""
        self.behind_upgrade = True
        if data:
            self._behind_upgrade.append(data)
            self._count(PIECE_COST_BYTES + len(data))

    def release(self) -> bytes:
        """The bytes behind the websocket request; a second call returns none."""
        if not self.behind_upgrade:
            return b""
        held, self._behind_upgrade, self.behind_upgrade = self._behind_upgrade, [], False
        early = b"".join(held)
        self._count(-len(early) - PIECE_COST_BYTES * len(held))
        return early

    # --- an unfinished head ------------------------------------------------------------------------------------------

    def count_head(self, size: int) -> bool:
        """Count an unfinished head of this many bytes; 0: none. False: there is no room for bytes that were added."""
        counted = max(0, size - FREE_HEAD_BYTES)
        grown, self.head_bytes = counted - self.head_bytes, counted
        self._budget.used += grown
        if grown > 0 and self._budget.used > self._budget.limit:
            self._budget.exceeded += 1
            return False
        return True

    def count_unread(self, size: int) -> None:
        """Count a read of this many bytes that is not parsed while its connection is not read; 0: none."""
        self._budget.used += size - self._unread_bytes
        self._unread_bytes = size

    def _count(self, size: int) -> None:
        self.bytes += size
        self._budget.used += size


def _weight(part: Part) -> int:
    """Bytes that a waiting part counts for; it costs more memory than its text."""
    if isinstance(part, bytes):
        return PIECE_COST_BYTES + len(part)
    if part is None:
        return PIECE_COST_BYTES
    return HEAD_COST_BYTES + len(part.target) + sum(FIELD_COST_BYTES + len(n) + len(v) for n, v in part.fields)
