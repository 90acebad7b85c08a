"""Compressed bodies, decoded beside the traffic: how many at once, for how much memory, and for how long a request waits for it.

What a decoder takes does not follow from the length of its body: a client chooses it, with 58 bytes. So at most DECODED_AT_ONCE bodies
are decoded at once, in threads, and the memory that each may need is taken from the budget of bytes held before it begins. What came out
of a body is held until it is read, and so is its place. Others wait, MOST_BODIES_WAITING of them, for PLACE_WAIT_SECONDS each; what finds
no place or no memory meanwhile is not read, and its request goes on. Refuses to know codings (`classify/inflate.py`) and requests.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from sidecar.budgets.budgets import Budget
from sidecar.classify.inflate import MOST_INFLATED_BYTES, bytes_for, inflated
from sidecar.metrics.vocabulary import BodyUnread


DECODED_AT_ONCE = 2
MOST_BODIES_WAITING = 64
PLACE_WAIT_SECONDS = 0.05
"""The longest that a request waits because of others. Its own body takes up to 60 ms of one processor to decode, and 140 ms to read."""


class Threads:
    """The threads of the running loop; they start with the first body. Both methods call back in the loop."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], bytes | None], done: Callable[[bytes | None], None]) -> None:
        self._pool = self._pool or ThreadPoolExecutor(DECODED_AT_ONCE, "decoding")
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(lambda ended: done(ended.result()))

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, call)


@dataclass(eq=False, slots=True)
class Decoding:
    """One body. `plain`: what is in it, once it does not wait any more; None if it is not read."""

    body: bytes | bytearray
    coding: bytes | None
    needed_bytes: int
    taken_bytes: int | None = None
    """Bytes of the budget that it has; None: it has no place."""
    plain: bytes | None = None
    waits: bool = True
    """For a place, or for its thread; then `wake` is called."""
    wanted: bool = True
    wake: Callable[[], None] = lambda: None

    def on_end(self, wake: Callable[[], None]) -> None:
        """Call `wake` when it does not wait any more."""
        self.wake = wake

    def decoded(self) -> bytes | None:
        return inflated(self.body, self.coding, lambda: not self.wanted)


class Beside:
    """All bodies of one process that are decoded, or wait for it.

    `held`: the budget of bytes that the process holds. `dropped`: counts a body that is not read, by its reason.
    """

    def __init__(self, held: Budget, dropped: Callable[[BodyUnread], None]) -> None:
        self.held = held
        self.threads = Threads()
        self._dropped = dropped
        self._places = DECODED_AT_ONCE
        self._waiting: dict[Decoding, None] = {}

    def decode(self, body: bytes | bytearray, coding: bytes | None) -> Decoding:
        """Decode this body now or later. `over` is to be called when it is read, or not wanted any more."""
        needed = bytes_for(coding, len(body))
        asked = Decoding(body, coding, needed or 0)
        if needed is None:
            self._end(asked, None, BodyUnread.UNREADABLE)
            return asked
        self._waiting[asked] = None
        self._begin()
        if needed > self.held.limit or len(self._waiting) > MOST_BODIES_WAITING:
            self._waited(asked)
        elif asked in self._waiting:
            self.threads.later(PLACE_WAIT_SECONDS, partial(self._waited, asked))
        return asked

    def not_held(self) -> None:
        """A body passes unread, because it could not be held whole."""
        self._dropped(BodyUnread.NO_MEMORY if self.held.used > self.held.limit else BodyUnread.TOO_LONG)

    def over(self, decoding: Decoding) -> None:
        """The body has been read, or its client has left. A second call changes nothing."""
        decoding.wanted, decoding.plain = False, None
        self._waiting.pop(decoding, None)
        if not decoding.waits:  # else a thread has it, which ends first, and soon
            self._free(decoding)

    def _begin(self) -> None:
        """Give places to those that have waited longest, as far as there are places and memory."""
        for asked in list(self._waiting):
            if self._places and self.held.used + asked.needed_bytes <= self.held.limit:
                del self._waiting[asked]
                self._places -= 1
                self.held.used += asked.needed_bytes
                asked.taken_bytes = asked.needed_bytes
                self.threads.start(asked.decoded, partial(self._decoded, asked))

    def _waited(self, asked: Decoding) -> None:
        """It has waited long enough, or would have to: for a place if none is free, else for memory."""
        self._begin()  # other memory may have become free
        if asked in self._waiting:
            del self._waiting[asked]
            lacks_memory = asked.needed_bytes > self.held.limit or self._places > 0
            self.held.exceeded += lacks_memory
            self._end(asked, None, BodyUnread.NO_MEMORY if lacks_memory else BodyUnread.NO_PLACE)

    def _decoded(self, asked: Decoding, plain: bytes | None) -> None:
        if plain is None:
            self._end(asked, None, BodyUnread.UNREADABLE)
        elif len(plain) > MOST_INFLATED_BYTES:
            self._end(asked, None, BodyUnread.TOO_LONG)
        else:
            self._end(asked, plain)

    def _end(self, asked: Decoding, plain: bytes | None, unread: BodyUnread | None = None) -> None:
        """It waits no longer. Without `plain` it is not read, for this reason, and its place is free; else it needs less memory."""
        asked.waits = False
        if plain is None or not asked.wanted:
            self._free(asked)
        else:
            asked.plain = plain
            self.held.used += len(plain) - asked.needed_bytes
            asked.taken_bytes = len(plain)
            self._begin()
        if asked.wanted:
            if unread is not None:
                self._dropped(unread)
            asked.wake()

    def _free(self, asked: Decoding) -> None:
        """Give back its memory and its place, if it has them: to those that wait."""
        if asked.taken_bytes is not None:
            self._places += 1
            self.held.used -= asked.taken_bytes
            asked.taken_bytes = None
            self._begin()
