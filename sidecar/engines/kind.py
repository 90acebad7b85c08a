"""What a kind of engine is, as far as the sidecar cares: one small interface, filled in by one file per engine.

Four questions: what may be asked of the request, what is read from the response in-band, what comes out-of-band (spans
here; files and polls are tasks of their own, `outside`), and what the engine's /metrics page means (`state.py`). The
defaults answer "nothing", which is the truth about a server that nobody has looked into.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport, KeyedReport
from sidecar.timeline.marks import Marks


class Ran(StrEnum):
    """What a channel was tried against."""

    REAL = "the real engine"
    FIXTURES = "fixtures"


@dataclass(frozen=True, slots=True)
class Channel:
    """One way in which an engine tells: one row of the table in docs/engines.md, which is generated from these."""

    source: str
    """Where the word stands, e.g. "usage chunk `metrics`"."""
    version: str
    """From which version on, and in which version it was read or seen."""
    flags: str
    """What must be set for it to speak; "" for nothing."""
    exact: str
    """What it states exactly."""
    missing: str
    """What it does not state, or only as a bound."""
    ran: Ran
    follows: str = ""
    """Which of the engine's own files, in which version, the fixtures follow; "" where it was the real engine."""


@dataclass(frozen=True, slots=True)
class Wire:
    """What the sidecar itself saw of one response: for reports that are only a part, and need the rest from here."""

    marks: Marks
    streaming: bool
    fields: Sequence[tuple[bytes, bytes]]
    """The response's header fields."""
    choices: int = 0
    """Choices that were seen: with output, or with their finish. Whole answers have only finishes; 0 where none was told apart."""


class Assembler(Protocol):
    """Puts words together that come in several spans. One a process; bounded; knows no clock: instants are told."""

    lost: int
    """Words given up so far: a table was full, or nothing told two of them apart."""

    def span(self, span: Span, at: float) -> Sequence[KeyedReport] | None:
        """The words that this span makes whole; None where it is none of this engine's. Must not raise."""
        ...

    def due(self, at: float) -> Sequence[KeyedReport]:
        """Words that were held back until now. Told once a second."""
        ...


class EngineKind:
    """An engine of which nothing is known. One stateless instance serves the process."""

    name = "none"
    """The label value of `llm_engine_info{engine}` and the word in `engine.kind`."""
    title = "any other OpenAI-like server"
    channels: tuple[Channel, ...] = ()
    accepts_include_usage = False
    """Proven to accept `stream_options.include_usage`, and to answer it with one chunk at the end and nothing else."""
    reads_spans = False
    """Its spans, sent to our receiver, say more than its answers do: a span is minted for each request, and its word is waited for."""
    late_report_seconds = 0.0
    """How long after the stream its word may come; 0 where it speaks in-band or not at all."""
    advice = ""
    """The exact flag that would make it tell more, in one sentence for the log and the status page; "" where there is none."""

    def takes_include_usage(self, dialect: str) -> bool:  # noqa: ARG002  the interface
        """Whether it is proven so on the API of this dialect (`sidecar/timeline/dialects/`): an engine's APIs may differ."""
        return self.accepts_include_usage

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """The report in the response itself; None where there is none. Must not raise, whatever the values."""
        return None

    def span(self, span: Span) -> KeyedReport | None:  # noqa: ARG002  the interface
        """The word in one span, or None: not one that says anything. Must not raise, whatever the attributes."""
        return None

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler | None:  # noqa: ARG002  the interface
        """Where one span does not say everything: what is asked in place of `span`. `is_minted`: a span id of the sidecar's own."""
        return None

    def reports_on(self, choices: int) -> int:
        """How many words come out-of-band on a request with so many choices; 0: none that could be told from others'."""
        return 1 if choices <= 1 else 0


UNKNOWN = EngineKind()
