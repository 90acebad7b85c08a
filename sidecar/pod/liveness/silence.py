"""How long the engine has sent no output although it has work, and whether its work explains that. Pure.

A silence is not always a hang: during the prefill of a long prompt there is no output for seconds, a client that does
not read gets none, and a non-streamed answer has none until its end. So a silence counts only while the sidecar reads a
stream. It is a stall when it is longer than 8 s and longer than 3 x the prefill work that was pending when it began,
unseen requests included. Work that came later does not excuse it (design section 7).

Prompts that wait one behind the other explain no silence: each ends with a first output. So they excuse as much as the longest of them, or as one
batch of prompts that are computed together (`BATCH_SECONDS`).

The output of an unseen request cannot be read as it comes (non-streamed or compressed). The engine may work on it
while the streams wait for their first output. So the silence starts again when such a request is answered, and each
unseen request that was in flight when the silence began excuses as many seconds as its own answer may take. It never
excuses a stream that has begun: that stream gets a token at every step of the engine, or waits for a prompt in prefill.

A stream that probably comes whole, because something holds it back, is both: it is read, so its silence counts, and until
its output comes it excuses as an unseen request does.
"""

from collections.abc import Hashable
from math import inf
from typing import NamedTuple


STALL_SECONDS = 8.0
EXCUSE = 3.0
"""A silence of up to this many times the pending prefill work is explained by that work."""
UNKNOWN_SECONDS = 20.0
"""Assumed seconds of prefill of a prompt where no cost of any was ever known: long, so that a guess reports a stall late rather than wrongly."""
BATCH_SECONDS = 8.0
"""Assumed seconds of a prompt of unknown cost where another cost was ever known, and the most of all prompts of one batch together, unless one
of them takes longer. A hang is told after EXCUSE times that."""
LATE_LOOK_SECONDS = 2.0
"""Looks come once a second. A time without a look that is longer than this is the sidecar's own, and no silence."""
UNKNOWN_ANSWER_SECONDS = EXCUSE * UNKNOWN_SECONDS
"""Assumed duration of a whole answer without an E2E objective."""
GRAMMAR_BYTES_PER_SECOND = 1000.0
"""Assumed speed at which an engine prepares the grammar of a structured output before the first output. vLLM 0.32 took 86 s
for 278 kB on two CPU cores (measured once by hand); slower is assumed, since a guess should report a stall late rather than
wrongly."""


class Silent(NamedTuple):
    """Seconds since the engine's last output, and seconds of prefill work that were pending then."""

    seconds: float
    expected_seconds: float
    unseen_seconds: float = 0.0
    """Silence, in seconds, that pending prompts do not explain, and that a request whose output is not seen may explain:
    `seconds` is 0 then. An answer that comes whole waits for itself alone, and explains no silence of others."""


class Flow(NamedTuple):
    """The engine's silence, its last output, and the numbers of requests that show it or do not."""

    silent: Silent
    quiet_seconds: float = 0.0
    """Seconds since the last output while a stream was read, explained or not."""
    spoke_at: float = -inf
    """Instant of the last output of any request."""
    read: int = 0
    """Streams that the sidecar reads."""
    paused: int = 0
    """Streams whose clients do not read."""
    unseen: int = 0
    """Requests whose output is not seen before they end."""
    begun: int = 0
    """Streams that the sidecar reads and that have had output."""
    behind_unseen: bool = False
    """Whether such an unseen request was there when the silence began: the engine may still work on it alone."""
    unseen_since: float = inf
    """When the first of the unseen requests that are in flight came."""
    work_seconds: float = 0.0
    """Seconds of prefill work that may be pending now."""
    cost_known: bool = False
    """Whether it was ever known what some prompt costs."""


def excused_seconds(silent: Silent) -> float:
    """Seconds of a silence that are no stall, by the work that was pending when it began."""
    return max(STALL_SECONDS, EXCUSE * silent.expected_seconds)


class _Unseen(NamedTuple):
    """A request with output that cannot be read as it comes. It excuses the silences that began at `at` or later."""

    at: float
    cost_seconds: float
    answer_seconds: float


class Silence:
    """The silence of one engine. Each call is a few dictionary steps."""

    def __init__(self) -> None:
        self._pending: dict[Hashable, float] = {}
        """Streams without output yet, and the seconds of each one's prefill."""
        self._weighed = True
        """`_work_seconds` is of the requests that are there now."""
        self._work_seconds = 0.0
        """Seconds of prefill work that may be pending, as `_weigh` has added them up."""
        self._pending_seconds = self._longest = 0.0
        """Their sum, and the largest of them."""
        self._unknown_seconds = UNKNOWN_SECONDS
        """Assumed of a prompt of unknown cost."""
        self._heard: set[Hashable] = set()
        """Streams that the sidecar reads, with output or without."""
        self._paused: set[Hashable] = set()
        """Streams that the sidecar does not read now: their clients are slow."""
        self._opaque: dict[Hashable, _Unseen] = {}
        self._pausing: set[Hashable] = set()
        """Requests whose streams may stand still for tools that run on the server: their output is a sign of life, and
        their silence is none of a hang. They stay opaque to their end."""
        self._since: float | None = None
        """Set exactly while a stream is being read."""
        self._expected_seconds = 0.0
        self._checked_at = 0.0
        self._spoke_at = -inf
        self._looked_at = inf
        """Instant of the last call of `flow`."""
        self.stalled_seconds = 0.0
        """Total seconds of silence that no work explains; never decreases."""

    # --- requests begin and end ------------------------------------------------------------------------------------------

    def received(
        self,
        key: Hashable,
        at: float,
        *,
        streaming: bool,
        cost_seconds: float | None,
        grammar_bytes: int = 0,
        answer_seconds: float | None = None,
        whole: bool = False,
        pauses: bool = False,
    ) -> None:
        """A request is on its way to the engine. `cost_seconds`: its prefill alone, or what that takes at most; None if unknown. `grammar_bytes`:
        of a grammar that the engine prepares first.

        `streaming`: its output will be seen as it comes; False if unknown. `answer_seconds`: the threshold for its
        whole answer; None if it has none. `whole`: if it is a stream, it will probably come all at once. `pauses`: it may
        stand still for tools that run on the server.
        """
        since = self._since
        if at - self._looked_at > LATE_LOOK_SECONDS or (since is not None and at > since + STALL_SECONDS):
            self.check(at)
        self._checked_at = at
        if pauses:
            self._pausing.add(key)
            streaming = False
        cost = cost_seconds
        if cost is None:
            cost = self._unknown_seconds
        else:
            self._unknown_seconds = BATCH_SECONDS
        if grammar_bytes:
            cost = max(self._unknown_seconds, grammar_bytes / GRAMMAR_BYTES_PER_SECOND) + (cost_seconds or 0.0)
        if streaming:
            self._await(key, cost, at)
        if whole or not streaming:
            # The prefill of a stream is pending already.
            self._opaque[key] = _Unseen(at, 0.0 if streaming else cost, answer_seconds or UNKNOWN_ANSWER_SECONDS)
            self._weighed = False

    def answering(self, key: Hashable, at: float, *, streaming: bool) -> None:
        """The head of the answer shows whether its output will be seen as it comes."""
        if key in self._pausing:
            return
        if streaming and key in self._opaque and key not in self._pending:
            self._await(key, self._opaque[key].cost_seconds, at)
            self._seen(key, at)
        elif not streaming and (key in self._heard or key in self._paused):
            cost = self._pending.get(key, self._unknown_seconds)
            self.given_up(key, at)
            self._opaque[key] = _Unseen(at, cost, UNKNOWN_ANSWER_SECONDS)
            self._weighed = False
            self._begin(at)

    def left(self, key: Hashable, at: float) -> None:
        """The engine has sent the whole answer. A second call changes nothing."""
        since = self._since
        if at - self._looked_at > LATE_LOOK_SECONDS or (since is not None and at > since + STALL_SECONDS):
            self.check(at)
        self._checked_at = at
        if at > self._spoke_at and (key in self._heard or key in self._opaque or key in self._paused):
            self._spoke_at = at
        if key in self._opaque:
            self._seen(key, at)
        self._forget(key)

    def given_up(self, key: Hashable, at: float) -> None:
        """The request ended before its answer was complete: this is no output, and it excuses nothing from now on."""
        self.check(at)
        self._forget(key)

    def _forget(self, key: Hashable) -> None:
        if key in self._pending:
            self._unawait(key)
        if key in self._opaque:
            del self._opaque[key]
            self._weighed = False
        self._heard.discard(key)
        self._paused.discard(key)
        self._pausing.discard(key)
        if not self._heard:
            self._since = None  # no stream is left that the sidecar reads

    # --- output ----------------------------------------------------------------------------------------------------------

    def began(self, key: Hashable, at: float) -> None:
        """The first output of this request was read."""
        since = self._since
        if since is not None and at - since >= STALL_SECONDS:
            self.check(at)
        self._spoke_at = max(self._spoke_at, at)
        if key not in self._pausing:
            if key in self._pending:
                self._unawait(key)
            if key in self._opaque:  # it streams, although it was taken as unseen, or it has come whole
                del self._opaque[key]
                self._weighed = False
                if key not in self._paused:
                    self._heard.add(key)
        self._begin(at)

    def spoke(self, at: float) -> None:
        """Output of any request was read."""
        since = self._since
        if since is not None and at - since >= STALL_SECONDS:
            self.check(at)
        self._spoke_at = max(self._spoke_at, at)
        self._begin(at)

    def paused(self, key: Hashable, at: float) -> None:
        """The sidecar stops reading this stream: its client is slow."""
        if key in self._heard:
            self.check(at)
            self._heard.discard(key)
            self._paused.add(key)
            if not self._heard:
                self._since = None

    def resumed(self, key: Hashable, at: float) -> None:
        """The sidecar reads this stream again."""
        if key in self._paused:
            self.check(at)
            self._paused.discard(key)
            self._heard.add(key)
            if self._since is None:
                self._begin(at)

    # --- the result ------------------------------------------------------------------------------------------------------

    def check(self, at: float) -> Silent:
        """The silence at this instant. The part of it that is a stall is added to `stalled_seconds`."""
        if at - self._looked_at > LATE_LOOK_SECONDS:
            self._wake(at)
        checked_at, self._checked_at = self._checked_at, at
        since = self._since
        if since is None:
            return Silent(0.0, 0.0)
        excused_until = since + max(STALL_SECONDS, EXCUSE * self._expected_seconds)
        if self._opaque and self._begun <= 0:
            in_time = (each.answer_seconds for each in self._opaque.values() if each.at <= since)
            unseen_until = since + max(in_time, default=0.0)
            if at <= unseen_until:
                others = any(key not in self._opaque for key in self._pending)
                return Silent(0.0, 0.0, max(0.0, at - since - EXCUSE * self._expected_seconds) if others else 0.0)
            excused_until = max(excused_until, unseen_until)
        if at > excused_until:
            self.stalled_seconds += at - max(excused_until, checked_at)
        return Silent(at - since, self._expected_seconds)

    def flow(self, at: float) -> Flow:
        """The silence at this instant, and the streams that show the engine's output or do not. Once it was called, it has to
        be called once a second: a longer time without a call is one in which the sidecar itself stood still.
        """
        silent = self.check(at)
        self._looked_at = at
        quiet = 0.0 if self._since is None else at - self._since
        behind = self._since is not None and any(each.at <= self._since for each in self._opaque.values())
        unseen_since = min((each.at for each in self._opaque.values()), default=inf)
        numbers = len(self._heard), len(self._paused), len(self._opaque), self._begun
        known = self._unknown_seconds == BATCH_SECONDS
        self._weigh()
        return Flow(silent, quiet, self._spoke_at, *numbers, behind, unseen_since, self._work_seconds, known)

    def _wake(self, at: float) -> None:
        """If the sidecar itself stood still, that is no silence: what the engine sent meanwhile is not read yet."""
        stood_seconds = at - self._looked_at
        self._looked_at = at
        self._checked_at = at
        if self._since is not None:
            self._since = min(at, self._since + stood_seconds)

    def _await(self, key: Hashable, cost_seconds: float, at: float) -> None:
        self._pending[key] = cost_seconds
        self._pending_seconds += cost_seconds
        self._longest = max(self._longest, cost_seconds)
        self._weighed = False
        self._heard.add(key)
        if self._since is None:
            self._begin(at)

    def _unawait(self, key: Hashable) -> None:
        taken = self._pending.pop(key)
        self._weighed = False
        if not self._pending:  # float sums drift: now they are exactly 0
            self._pending_seconds = self._longest = 0.0
            if not self._opaque:
                self._work_seconds, self._weighed = 0.0, True
            return
        self._pending_seconds = max(0.0, self._pending_seconds - taken)
        if 0.0 < self._longest <= taken:
            self._longest = 0.0
            for each in self._pending.values():
                self._longest = max(self._longest, each)
                if self._longest >= taken:  # none was more than that
                    return

    def _seen(self, key: Hashable, at: float) -> None:
        """The unseen request shows that the engine works: the silence starts again without it."""
        del self._opaque[key]
        self._weighed = False
        self._begin(at)

    def _begin(self, at: float) -> None:
        """The silence starts again, if the sidecar reads a stream."""
        if self._heard:
            if not self._weighed:
                self._weigh()
            self._since, self._expected_seconds = at, self._work_seconds

    @property
    def _begun(self) -> int:
        """Streams that the sidecar reads and that have begun. (Only such a stream can be paused.)"""
        return len(self._heard) - len(self._pending)

    def _weigh(self) -> None:
        """Add up the prefill work that may be pending now. An unseen request counts: its prefill may be over or not."""
        seconds, longest = self._pending_seconds, self._longest
        for each in self._opaque.values():
            seconds += each.cost_seconds
            longest = max(longest, each.cost_seconds)
        self._work_seconds = max(longest, min(seconds, BATCH_SECONDS))
        self._weighed = True
