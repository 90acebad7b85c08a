"""The gate of uploads: requests whose body has not come whole. When it is full, the one that stands still makes room.

An unfinished request costs the engine nothing, so it takes no place of `proxy.max_in_flight`; it has a budget of its own
here. Else 68 KB of heads without bodies would keep all other clients out. Knows when each upload last moved. Refuses to
know what is uploaded, and how an upload ends: the `Exchange` (`relay.py`) answers its client.
"""

from typing import Protocol

from sidecar.budgets.budgets import Budget
from sidecar.proxy.client import Client
from sidecar.proxy.errors import Failure


class Uploading(Protocol):
    """An exchange whose request is not complete."""

    moved_at: float
    """When the last byte of the request came."""

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
        self._inside: dict[Uploading, None] = {}

    def enter(self, upload: Uploading, at: float) -> None:
        """Let an upload in; if the gate is full, another one goes. One that comes is never refused."""
        budget = self.budget
        if budget.used >= budget.limit:
            budget.exceeded += 1
            self.make_room(at)
        self._inside[upload] = None
        budget.used += 1

    def leave(self, upload: Uploading) -> None:
        """The upload is complete, or over. A second call changes nothing."""
        if upload in self._inside:
            del self._inside[upload]
            self.budget.used -= 1

    def make_room(self, at: float) -> bool:
        """End the upload of which no byte has come for longest; of several, the oldest. False: there is none.

        Those that the sidecar itself does not read go last.
        """
        slowest = min(self._inside, key=_held_back_and_moved_at, default=None)
        if slowest is None:
            return False
        self.leave(slowest)
        slowest.fail(Failure.MADE_ROOM, at)
        return True


def _held_back_and_moved_at(upload: Uploading) -> tuple[bool, float]:
    return upload.client.reading_paused, upload.moved_at
