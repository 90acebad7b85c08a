"""The engine's steps, rebuilt from the instants at which its streams speak. Pure.

An engine gives each running sequence its next token at the end of a step, so the output of all streams comes in groups.
A group ends when a stream of it speaks again, or after a pause. Output that was read together counts as that many
steps. The time from one group to the next is the length of a step, if some stream spoke in both.

It knows instants and numbers of tokens. It refuses to know what a step costs (`step_model.py`), and to rebuild steps
from streams that do not speak at each step: the coverage of each step says how many did.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple


LONGEST_PAUSE_SECONDS = 0.002
"""A longer pause between two streams' output ends a group."""
PAUSE_SHARE = 0.25
"""So does a pause of this share of a recent step: an engine with steps of 4 ms has groups of less than 1 ms."""


class Prompt(NamedTuple):
    """One prompt, in tokens."""

    tokens: float
    uncached_tokens: float
    """The part that has to be computed."""


class Step(NamedTuple):
    """One step, or several of one read as their mean."""

    ended_at: float
    seconds: float | None
    """Length of each of these steps; None if no stream spoke at both ends."""
    steps: int
    sequences: int
    """Requests that were decoding, seen or unseen."""
    context_tokens: float
    """Tokens in the context of these requests, in sum."""
    coverage: float
    """Events of the streams over the number that one scheduler with an event per sequence and step would send."""
    pure: bool
    """No request waited for its first token at any time since the step began, so it computed no prompt."""
    prompts: tuple[Prompt, ...]
    """Prompts whose first token came at the end of this step."""


class _Unseen(NamedTuple):
    """A request with output that cannot be seen as it comes."""

    arrival: int
    prompt: Prompt


class _Stream:
    __slots__ = ("context_tokens", "events", "group")

    def __init__(self, context_tokens: float, group: int) -> None:
        self.context_tokens = context_tokens
        self.group = group
        """Number of the group in which it spoke last."""
        self.events = 0
        """Events in that group."""


class Steps:
    """All streams of one engine. Each call is a few dictionary steps; `on_step` gets every step, in order."""

    def __init__(self, on_step: Callable[[Step], None]) -> None:
        self._on_step = on_step
        self._arrivals = 0
        self._waiting: dict[Hashable, tuple[int, Prompt]] = {}
        """Streams without output, to the number of their arrival and their prompt."""
        self._unseen: dict[Hashable, _Unseen] = {}
        """Unseen requests that may wait for their prefill; oldest first."""
        self._running_unseen: dict[Hashable, Prompt] = {}
        """Unseen requests that are taken as decoding."""
        self._streams: dict[Hashable, _Stream] = {}
        self._context_tokens = 0.0
        self._group = 0
        self._began_at: float | None = None
        """First output of the group; None before the first one."""
        self._last_at = 0.0
        self._before_at: float | None = None
        """First output of the group before."""
        self._streaming = 0
        """Streams that were decoding when the group began."""
        self._events = 0
        self._members: list[_Stream] = []
        """Streams of the group that spoke in the group before as well."""
        self._prompts: list[Prompt] = []
        self._waited = False
        """A request has waited for its first token since the group before."""
        self._pause_seconds = LONGEST_PAUSE_SECONDS

    def arrived(self, key: Hashable, prompt: Prompt, *, seen: bool) -> None:
        """A request is on its way to the engine. `seen`: its output will be read as it comes.

        The prefill of an unseen one is taken as over when a request that came later gets its first token: schedulers
        take prompts in order. From then on it counts as decoding.
        """
        self._arrivals += 1
        self._waited = True
        if seen:
            self._waiting[key] = self._arrivals, prompt
        else:
            self._unseen[key] = _Unseen(self._arrivals, prompt)

    def spoke(self, key: Hashable, at: float, events: int) -> None:
        """Output of this stream was read: `events` tokens or groups of tokens, at least 1."""
        stream = self._streams.get(key)
        group = self._group
        if at - self._last_at > self._pause_seconds or (stream is not None and stream.group == group):
            self._close(at)
            group = self._group
        self._last_at = at
        if stream is None:
            self._begin(key, events)
            return
        if stream.group == group - 1:
            self._members.append(stream)
        stream.group = group
        stream.events = events
        stream.context_tokens += events
        self._context_tokens += events
        self._events += events

    def left(self, key: Hashable) -> None:
        """The request is over, in any way."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            self._context_tokens -= stream.context_tokens
        elif key in self._unseen:
            self._prompts.append(self._unseen.pop(key).prompt)
        elif key in self._running_unseen:
            self._context_tokens -= self._running_unseen.pop(key).tokens
        else:
            self._waiting.pop(key, None)

    def forget(self) -> None:
        """The engine was replaced: what its streams did says nothing about the next one."""
        self._began_at = self._before_at = None

    def _begin(self, key: Hashable, events: int) -> None:
        waited = self._waiting.pop(key, None)
        if waited is None:
            return
        arrival, prompt = waited
        self._take_unseen(arrival)
        self._prompts.append(prompt)
        stream = self._streams[key] = _Stream(prompt.tokens + events, self._group)
        stream.events = events
        self._context_tokens += stream.context_tokens

    def _take_unseen(self, arrival: int) -> None:
        """Unseen requests that came before this arrival have had their prefill."""
        while self._unseen:
            key = next(iter(self._unseen))
            if self._unseen[key].arrival > arrival:
                return
            prompt = self._running_unseen[key] = self._unseen.pop(key).prompt
            self._prompts.append(prompt)
            self._context_tokens += prompt.tokens

    def _close(self, at: float) -> None:
        """End the group, and begin the next one at `at`."""
        began_at, before_at = self._began_at, self._before_at
        if began_at is not None and before_at is not None:
            steps = min((stream.events for stream in self._members), default=1)
            seconds = (began_at - before_at) / steps if self._members else None
            if seconds is not None:
                self._pause_seconds = min(LONGEST_PAUSE_SECONDS, PAUSE_SHARE * seconds)
            pure = not self._waited and not self._prompts
            self._on_step(
                Step(
                    began_at,
                    seconds,
                    steps,
                    self._streaming + len(self._running_unseen),
                    self._context_tokens,
                    self._events / (steps * self._streaming) if self._streaming else 1.0,
                    pure,
                    tuple(self._prompts),
                )
            )
        self._before_at, self._began_at = began_at, at
        self._group += 1
        self._waited = bool(self._waiting or self._unseen)
        self._streaming = len(self._streams)
        self._events = 0
        self._members.clear()
        self._prompts.clear()
