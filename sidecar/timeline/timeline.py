"""The timeline of one request: instants and stream events in, marks out. It does no IO.

Its caller moves the bytes and tells it each happening with its instant; it never reads a clock. It knows no bytes
either: a dialect has already turned each event into a `StreamEvent`. Design section 2 defines what counts as output and
which instant is which mark. An instant is the time at which the sidecar's read or write returned.
"""

from collections.abc import Callable, Iterable

from sidecar.timeline.events import DONE, NOTHING, OUTPUT, REASONING, StreamEvent, Usage
from sidecar.timeline.finish import NO_FINISH, TOOL_CALLS
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Stage


MAX_CHOICES = 128
"""Most choice indexes that are kept apart; further ones are ignored, to bound memory. Precedent: OpenAI's `n` ends at
128."""

SOCKET_TAKES_SECONDS = 0.01
"""A client's socket that has room takes the last bytes at once; this is a turn of a busy loop."""


class Timeline:
    """One request's instants, in the order in which they happen.

    `on_gap` is called with each gap between two output events of one choice, in seconds, at its end. A mark is set
    once: a second call changes nothing, except for that of the last token, which moves.
    """

    __slots__ = (
        "_first_choice",
        "_first_choice_at",
        "_flows",
        "_last_at",
        "_other_choices",
        "_paused_since",
        "_paused_unconfirmed_seconds",
        "_resumed_at",
        "accepted",
        "accepted_at",
        "cancelled",
        "done_at",
        "ended_at",
        "error_seen",
        "extras",
        "finish",
        "finished",
        "first_answer_at",
        "first_token_at",
        "flushed_at",
        "headers_at",
        "held_open_seconds",
        "on_gap",
        "output_events",
        "paused_seconds",
        "received_at",
        "says",
        "sent_at",
        "usage",
        "wordless",
    )

    def __init__(self, accepted_at: float, on_gap: Callable[[float], None] = lambda _gap_seconds: None) -> None:
        self.accepted_at = accepted_at
        self.on_gap = on_gap
        self.received_at: float | None = None
        """The last byte of the request body was read: set from outside, once."""
        self.sent_at: float | None = None
        self.headers_at: float | None = None
        self.first_answer_at: float | None = None
        self.first_token_at: float | None = None
        self.ended_at: float | None = None
        self.done_at: float | None = None
        self.held_open_seconds = self._resumed_at = 0.0  # the first is known once the marks were asked for
        self.flushed_at: float | None = None
        """The client's socket accepted the last byte: set from outside, once."""
        self.paused_seconds = 0.0
        self.output_events = 0
        self.usage: Usage | None = None
        self.extras: dict[str, object] = {}
        self.finished: set[int] = set()
        self.finish = NO_FINISH  # the first reason that was stated
        self.says: bool | None = None  # a whole answer that is not streamed has a text; None: no such answer was read
        self.wordless = 0  # output events that are no more than the end of an answer
        self.error_seen = self.cancelled = self.accepted = False  # as events say: `StreamEvent`
        # Choice 0 has no place in a table: hardly any stream has another one, and a token then touches this object alone.
        self._first_choice = False
        self._first_choice_at = self._last_at = 0.0
        self._other_choices: dict[int, float] = {}
        self._flows = False  # choice 0 has begun, its answer too, and no pause is to be counted
        self._paused_since: float | None = None
        self._paused_unconfirmed_seconds = 0.0

    # --- the request -------------------------------------------------------------------------------------------------

    def sent(self, at: float) -> None:
        """The last byte of the request was handed to the engine's socket."""
        if self.sent_at is None:
            self.sent_at = at

    # --- the response ------------------------------------------------------------------------------------------------

    def headers(self, at: float) -> None:
        """The response head was read."""
        if self.headers_at is None:
            self.headers_at = at

    def read(self, at: float, stream_events: Iterable[StreamEvent]) -> int:
        """Events of a stream arrived together in one read. Returns how many of them carried output."""
        before = self.output_events
        for stream_event in stream_events:
            if stream_event.output:
                self.output(at, stream_event.output, reasons=stream_event.reasons)
            if (
                stream_event is not OUTPUT
                and stream_event is not REASONING
                and stream_event is not NOTHING
                and stream_event is not DONE
            ):
                self._notice(stream_event)
        return self.output_events - before

    def read_body(self, stream_event: StreamEvent) -> None:
        """A whole non-streamed answer was read: its usage, extras and error count, but it has no first token."""
        self._notice(stream_event)
        if stream_event is not NOTHING:
            self.says = bool(stream_event.output) and not stream_event.wordless

    def output(self, at: float, choices: tuple[int, ...], *, reasons: bool = False) -> None:
        """One event carried output of these choices. `reasons`: reasoning alone."""
        if not reasons and self.first_answer_at is None:
            self.first_answer_at = at
        if self.first_token_at is None:
            self.first_token_at = at
        elif self._paused_unconfirmed_seconds or self._paused_since is not None:
            # A pause counts only after a later output shows that it lies before the last token.
            self.paused_seconds += self._paused_unconfirmed_seconds
            self._paused_unconfirmed_seconds = 0.0
            # Output that was read before the pause may be passed in after it.
            if self._paused_since is not None and at > self._paused_since:
                self.paused_seconds += at - self._paused_since
                self._paused_since = at
        self._last_at = at
        self.output_events += 1
        for choice in choices:
            if choice == 0:
                if self._first_choice:
                    self.on_gap(at - self._first_choice_at)
                self._first_choice, self._first_choice_at = True, at
                continue
            before = self._other_choices.get(choice)
            if before is not None:
                self.on_gap(at - before)
            elif len(self._other_choices) >= MAX_CHOICES - 1:
                continue
            self._other_choices[choice] = at
        self._flows = self._first_choice and self._paused_since is None and self.first_answer_at is not None

    def token(self, at: float) -> None:
        """One event carried output of choice 0 alone, as nearly every event does: `output(at, (0,))` in short."""
        if not self._flows:
            self.output(at, (0,))
            return
        self._last_at = at
        self.output_events += 1
        before, self._first_choice_at = self._first_choice_at, at
        self.on_gap(at - before)

    def _notice(self, stream_event: StreamEvent) -> None:
        if stream_event.finished:
            self.finished.update(stream_event.finished[: MAX_CHOICES - len(self.finished)])
            if self.finish is NO_FINISH and stream_event.finish is not None:
                self.finish = stream_event.finish
            self.wordless += stream_event.wordless
        if stream_event.usage is not None:
            self.usage = stream_event.usage if self.usage is None else _merged(self.usage, stream_event.usage)
        if stream_event.extras:
            self.extras.update(stream_event.extras)
        if stream_event.error:
            self.error_seen = True
            self.cancelled = self.cancelled or stream_event.cancelled
        if stream_event.accepted:
            self.accepted = True

    # --- the client's pace -------------------------------------------------------------------------------------------

    def paused(self, at: float) -> None:
        """Reading from the engine was paused because this client does not keep up."""
        self._flows = False
        if self._paused_since is None:
            self._paused_since = at

    def resumed(self, at: float) -> None:
        """Reading from the engine was resumed."""
        if self._paused_since is not None:
            if self.first_token_at is not None:
                self._paused_unconfirmed_seconds += at - max(self._paused_since, self.first_token_at)
            self._paused_since = None
            self._resumed_at = at

    # --- the end -----------------------------------------------------------------------------------------------------

    def done(self, at: float) -> None:
        """The API's own end mark was read."""
        if self.done_at is None:
            self.done_at = at

    def ended(self, at: float) -> None:
        """The engine's message is complete, or failed."""
        if self.ended_at is None:
            self.ended_at = at

    def finished_all(self) -> bool:
        """Each choice that had output, and at least one, has its finish reason."""
        finished = self.finished
        if len(finished) >= MAX_CHOICES:
            return True
        if not finished or (self._first_choice and 0 not in finished):
            return False
        return finished.issuperset(self._other_choices)

    def stage(self) -> Stage:
        """The stage of the request now: the label if its client leaves at this moment."""
        if self.first_token_at is not None:
            return Stage.STREAMING
        return Stage.UPLOAD if self.received_at is None and self.headers_at is None else Stage.WAITING

    def _held_open_seconds(self) -> float:
        """Seconds for which the engine left the message open although the client had the API's end mark. 0 if it did not keep up."""
        done_at, ended_at = self.done_at, self.ended_at
        if done_at is None or ended_at is None or self._paused_since is not None:
            return 0.0
        if self.flushed_at is not None and self.flushed_at - ended_at > SOCKET_TAKES_SECONDS:
            return 0.0  # bytes waited for the client: it had not got the mark
        return max(0.0, ended_at - max(done_at, self._last_at, self._resumed_at))

    def marks(self) -> Marks:
        """The instants of the answer. For a client it ends with the API's end mark: what the engine holds open behind that is left out."""
        held_open_seconds = self.held_open_seconds = self._held_open_seconds()
        silent = self.output_events == self.wordless if self.says is None else not self.says
        return Marks(
            accepted_at=self.accepted_at,
            received_at=self.received_at,
            sent_at=self.sent_at,
            headers_at=self.headers_at,
            first_token_at=self.first_token_at,
            first_answer_at=self.first_answer_at,
            last_token_at=self._last_at if self.output_events else None,
            ended_at=None if self.ended_at is None else self.ended_at - held_open_seconds,
            flushed_at=None if self.flushed_at is None else self.flushed_at - held_open_seconds,
            paused_seconds=self.paused_seconds,
            output_events=self.output_events,
            is_silent=silent and self.finish is not TOOL_CALLS,
            choices=max(len(self._other_choices) + self._first_choice, len(self.finished)),
            usage=self.usage,
        )


def _merged(earlier: Usage, later: Usage) -> Usage:
    """Later values replace earlier ones. Anthropic states the prompt at the start and the output at the end."""
    stated = {
        name: value
        for name in ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
        if (value := getattr(later, name)) is not None
    }
    return earlier._replace(**stated)
