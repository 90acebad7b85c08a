"""Whether an engine is asked for usage in the name of clients that did not ask, and why not. Pure.

What the asking adds to an answer is cut out again, so that no client sees it. Three things may stand against that, and answers show each:

- **The engine states usage by itself.** What would be cut is the client's own. A release in which that shows in a stream's first events, or
  that has no such setting (`EngineKind.shows_forced_usage`), is asked from its first stream on; of others, streams have to show first that they
  state none. That is one belief for each API (`timeline/belief.py`).
- **What the asking adds cannot be cut**: `usage: null` in each chunk, usage in the middle, a stated length. The client of such a stream gets
  what it did not ask for: a sign for the same belief.
- **The answer comes compressed although `identity` was asked for.** No chunk is found in it. One such answer stops the asking at once, on all
  APIs. From then on one request each PLAIN_EVERY_SECONDS asks for `identity` alone; as many plain streams in a row as a belief takes start the
  asking again.

Once stopped, it starts again at most once in STARTS_AGAIN_SECONDS, so that an engine whose answers change with the asking shows it to few clients.
Only whole streams that were read from end to end are told to this class, but for the compressed ones.
"""

from collections.abc import Callable
from math import inf

from sidecar.timeline.belief import Belief


PLAIN_EVERY_SECONDS = 60.0
STARTS_AGAIN_SECONDS = 600.0
EVERY_API = "every API"


WHY_NOT = NOT_PROVEN, SHOWS, COMPRESSED = "engine_not_proven", "usage_shows", "compressed_answers"
"""Reasons of the engine's for which it is not asked, values of a counter's label: it is not known to take the option on this API, or has not
shown yet that it states no usage by itself; streams in a row stated usage to clients that did not ask for it; an answer came compressed
although `identity` was asked for."""
STOPS = {
    SHOWS: "its streams state usage to clients that did not ask for it, and nothing of it can be cut",
    COMPRESSED: "its answers come compressed although `identity` is asked for: turn compression off between engine and sidecar",
}
"""Those that stop an asking that had begun, in words for operators."""


class UsageAsking:
    """The asking of one engine, as it runs now."""

    def __init__(self) -> None:
        self.told: Callable[[str, str | None], None] = lambda _api, _why: None
        """Called when the asking stops or starts: the API, and why it is not asked; None: it is."""
        self.why_not: dict[str, str | None] = {}
        """API, the name of a dialect, to why it is not asked there; None: it is. Where an API is not in it: `otherwise`."""
        self.otherwise: str | None = NOT_PROVEN
        self.stopped: dict[str, str] = {}
        """The APIs on which it was asked and is not now, and why; EVERY_API is one."""
        self.comes_compressed = False
        """An answer came compressed although `identity` was asked for, and nothing has shown otherwise since."""
        self.doubted = False
        """The last whole stream of some API showed usage to a client that did not ask."""
        self._shows_at_once = False
        self._shows: dict[str, Belief] = {}  # API to whether its streams state usage to clients that did not ask
        self._plain = Belief()
        self._probed_at = self._started_at = -inf

    def is_of_release(self, *, shows_at_once: bool) -> None:
        """Its release is known. `shows_at_once`: that it states usage by itself shows in a stream's first events, or it never does."""
        self._shows_at_once = shows_at_once
        self._decide()

    def ended(self, api: str, at: float, *, shows: bool) -> None:
        """A stream ended whole whose client did not ask for usage. `shows`: the client got usage, or a null one."""
        before = self.why_not.get(api, self.otherwise)
        if not shows and before is SHOWS and at - self._started_at < STARTS_AGAIN_SECONDS:
            return
        changed = self._shows.setdefault(api, Belief()).seen(shows)
        self.doubted = any(belief.row > 0 for belief in self._shows.values())
        if changed:
            self._decide()
            why = self.why_not[api]
            if (why is None) != (before is None):
                self._change(api, why, at)

    def compressed(self, at: float) -> None:
        """An answer came compressed although `identity` was asked for."""
        self._plain = Belief()
        if not self.comes_compressed:
            self._probed_at = at
            self._change(EVERY_API, COMPRESSED, at)

    def probes(self, at: float) -> bool:
        """Whether this request asks for `identity` alone, once the asking was stopped by a compressed answer."""
        due = self.comes_compressed and at - self._probed_at >= PLAIN_EVERY_SECONDS
        self._probed_at = at if due else self._probed_at
        return due

    def came_plain(self, at: float) -> None:
        """A stream that asked for `identity` alone came plain and whole."""
        self._plain.seen(True)
        if self._plain.holds and self.comes_compressed and at - self._started_at >= STARTS_AGAIN_SECONDS:
            self._change(EVERY_API, None, at)

    def forget(self) -> None:
        """Another process answers, or an engine of another kind: nothing is known of it."""
        stopped, self.stopped, self._shows = self.stopped, {}, {}
        self.doubted = False
        self.is_of_release(shows_at_once=False)
        for api in stopped:
            self.told(api, self.otherwise)

    def _change(self, api: str, why: str | None, at: float) -> None:
        """The asking stops, or starts."""
        if why is None:
            self.stopped.pop(api, None)
            self._started_at = at
        else:
            self.stopped[api] = why
        self._decide()
        self.told(api, why)

    def _decide(self) -> None:
        self.comes_compressed = EVERY_API in self.stopped
        asked = COMPRESSED if self.comes_compressed else None
        self.otherwise = asked if self._shows_at_once else NOT_PROVEN
        learned = {api: belief.holds for api, belief in self._shows.items() if belief.holds is not None}
        self.why_not = {api: SHOWS if shows else asked for api, shows in learned.items()}
