"""The gate of uploads: requests whose body has not come whole. When it is full, the slowest of them makes room.

An unfinished request costs the engine nothing, so it takes no place of `proxy.max_in_flight`; it has a budget of its own
here. Else 68 KB of heads without bodies would keep all other clients out. Knows how fast each upload came. Refuses to
know what is uploaded, and how an upload ends: the `Exchange` (`relay.py`) answers its client.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Generic, Protocol, TypeVar

from sidecar.budgets.budgets import Budget
from sidecar.proxy.client import Client
from sidecar.proxy.errors import Failure


COMPARED = 32
"""Members that are compared at once to find the lowest one: 11 us of 1,024, 14 us of 8,192 (all of them: 194 us, 1.5 ms)."""
CREDIT_BYTES = 1024
"""Bytes that each upload has ahead, so that a new one is not slow before its first byte can be here: for 4 s it counts as
faster than one at the lowest rate that is allowed (240 B/s). So little that uploads that are opened again and again never
count as faster than one that sends 1 KiB/s."""
LEAST_AGE_SECONDS = 1.0
"""A rate is taken over at least this time."""

M = TypeVar("M")


class Members(Generic[M]):
    """A set of which a low member is found without a look at all.

    The first COMPARED are compared. The lower half of them stays in front for the next time, the others go to the end:
    so all are looked at in turn, and the lowest ones gather in front (as in the eviction pool of Redis).
    """

    def __init__(self) -> None:
        self._all: dict[M, None] = {}

    def __contains__(self, member: M) -> bool:
        return member in self._all

    def add(self, member: M) -> None:
        """Take in a member."""
        self._all[member] = None

    def discard(self, member: M) -> None:
        """Let a member go; one that is not in changes nothing."""
        self._all.pop(member, None)

    def lowest(self, key: Callable[[M], tuple[bool, float]]) -> M | None:
        """The lowest of those looked at; of equal ones that which has been in front for longest. None: there is none."""
        looked_at = sorted(islice(self._all, COMPARED), key=key)
        if len(looked_at) < len(self._all):
            for member in looked_at[COMPARED // 2 :]:
                del self._all[member]
                self._all[member] = None
        return looked_at[0] if looked_at else None


class Sized(Protocol):
    """An unfinished request, as far as it has come."""

    size: int
    """Bytes of its body."""


class Uploading(Protocol):
    """An exchange whose request is not complete."""

    began_at: float
    """When its head was complete."""

    @property
    def upload(self) -> Sized: ...
    @property
    def client(self) -> Client:
        """Its sender; `reading_paused`: it stands still because the sidecar does not read it."""
        ...

    def fail(self, failure: Failure, at: float) -> None:
        """End it because of `failure`."""
        ...


class Gate:
    """All uploads that run now."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._inside = Members[Uploading]()

    def enter(self, upload: Uploading, at: float) -> None:
        """Let an upload in; if the gate is full, another one goes. One that comes is never refused."""
        budget = self.budget
        if budget.used >= budget.limit:
            budget.exceeded += 1
            self.make_room(at)
        self._inside.add(upload)
        budget.used += 1

    def leave(self, upload: Uploading) -> None:
        """The upload is complete, or over. A second call changes nothing."""
        if upload in self._inside:
            self._inside.discard(upload)
            self.budget.used -= 1

    def make_room(self, at: float) -> bool:
        """End the slowest upload, by its mean rate; of several, the oldest. False: there is none.

        The rate and not the last byte decides: a byte now and then costs a client nothing, and an honest upload pauses
        for each round trip. Those that the sidecar itself does not read go last. With more than COMPARED of them it is
        the slowest of those looked at.
        """
        slowest = self._inside.lowest(partial(_held_back_and_rate, at))
        if slowest is None:
            return False
        self.leave(slowest)
        slowest.fail(Failure.MADE_ROOM, at)
        return True


def _held_back_and_rate(at: float, upload: Uploading) -> tuple[bool, float]:
    rate = (CREDIT_BYTES + upload.upload.size) / max(at - upload.began_at, LEAST_AGE_SECONDS)
    return upload.client.reading_paused, rate
