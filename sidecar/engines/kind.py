"""The interface of an engine: everything that the sidecar knows about one kind, filled in by one file per engine.

A kind states how it is recognised and described (`probe/` asks), how its own metrics name its state, what may be asked of a
request, what is read from the response in-band, from spans and from elsewhere (`reports/` fetches), and which flags make it
report more. The defaults fit a server of an unknown kind: no state and no report. An engine is complete with a file, a line
in `kinds.py` and, if its API is new, a dialect: config, metrics, diagnosis and docs read from here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sidecar.engines.probe.replies import Answers, Identity
from sidecar.engines.probe.state_names import StateNames
from sidecar.engines.reports.report_sources import Source
from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport, KeyedReport
from sidecar.timeline.events import Dialect
from sidecar.timeline.marks import Marks


class Ran(StrEnum):
    """The things that a channel was tried against."""

    REAL = "the real engine"
    FIXTURES = "fixtures"


@dataclass(frozen=True, slots=True)
class Channel:
    """One way in which an engine tells: one row of the table in docs/engines.md, which is generated from these."""

    source: str
    """The place of the report, e.g. "usage chunk `metrics`"."""
    version: str
    """From which version on, and in which version it was read or seen."""
    flags: str
    """The flags that make it speak; "" for none."""
    exact: str
    """The times that it states exactly."""
    missing: str
    """The times that it does not state, or only as a bound."""
    ran: Ran
    follows: str = ""
    """Which of the engine's own files, in which version, the fixtures follow; "" where it was the real engine."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One response as the sidecar itself saw it: for reports that are only a part, and need the rest from here."""

    marks: Marks
    streaming: bool
    fields: Sequence[tuple[bytes, bytes]]
    """The response's header fields."""
    choices: int = 0
    """Choices that were seen: with output, or with their finish. Whole answers have only finishes; 0 where none was told apart."""


class Assembler(Protocol):
    """Puts reports together that come in several spans. One a process; bounded; knows no clock: instants are told."""

    lost: int
    """Reports given up so far: a table was full, or nothing told two of them apart."""

    def span(self, span: Span, at: float) -> Sequence[KeyedReport] | None:
        """The reports that this span makes whole; None where it is none of this engine's. Must not raise."""
        ...

    def due(self, at: float) -> Sequence[KeyedReport]:
        """Reports that were held back until now. Told once a second."""
        ...


class EngineKind:
    """An engine of which nothing is known. One stateless instance serves the process."""

    name = "none"
    """The label value of `llm_engine_info{engine}` and the value of `engine.kind`."""
    title = "any other OpenAI-like server"
    channels: tuple[Channel, ...] = ()

    # --- recognised by (`probe/detect.py`)
    owned_by = ""
    """`owned_by` of every model in its /v1/models."""
    owner_is_shared = False
    """Others name that owner too: only the names on /metrics prove it."""
    server = ""
    """The beginning of its Server header, in lower case."""
    page = ""
    """The path of a page that it alone has."""
    page_turn = 9
    """When that page is asked for: the lowest first."""
    metric_prefix = b""
    """The beginning of the names on its /metrics."""
    shows_engine_inside = False
    """Its /metrics shows the names of an engine inside it beside its own."""
    reading_resets = False
    """Each reading of its /metrics resets gauges for all who read them: it is not read unless the config allows it."""

    # --- asked about itself (`probe/identity.py`, `probe/scrape.py`)
    asks: tuple[str, ...] = ()
    """The pages that are asked for beside /v1/models, once it is recognised."""
    state: StateNames | None = None
    """The names of its state on its own page of metrics; None where it has no page."""

    # --- its requests
    paths: Mapping[bytes, Dialect] = {}
    """Paths that generate on this engine alone, and their dialects: they count once the engine is known."""
    takes_include_usage_on: tuple[str, ...] = ()
    """Dialects on which it is proven to accept `stream_options.include_usage`, and to answer it with one chunk at the end and nothing else."""
    reads_spans = False
    """Its spans, sent to our receiver, say more than its answers do: a span is minted for each request, and its report is waited for."""
    source: Source | None = None
    """The place that its reports are fetched from, beside its answers and its spans."""
    late_report_seconds = 0.0
    """How long after the stream its report may come; 0 where it reports in-band or not at all."""

    # --- flags that operators are told of (`probe/advice.py`)
    advice = ""
    """The exact flag that would make it report on requests, in one sentence for the log and the status page; "" where there is none."""
    cached_advice = ""
    """The flag that makes it state cached prompt tokens."""
    page_advice = ""
    """The flag that makes it expose its page of metrics."""
    slots_flag = ""
    """The flag that says how many sequences run at once: for `sidecar capacity`."""
    cache_info = ""
    """The name on /metrics that states the blocks of its KV cache (`num_gpu_blocks`, `block_size`, `cache_dtype`)."""
    flags_column = 0
    """The column of the runbooks' tables that has its flags, from 1; 0 where they have none (`diagnosis/interventions/`)."""

    @property
    def short_title(self) -> str:
        """The title without its maker, for the head of a column."""
        return self.title.rpartition(" ")[2]

    def is_own(self, body: bytes) -> bool:  # noqa: ARG002  the interface
        """Whether this is the body of its own `page`. Must not raise, whatever it is."""
        return False

    def describes(self, answers: Answers) -> Identity:  # noqa: ARG002  the interface
        """Its description of itself as it writes it, models left out. Must not raise, whatever the answers."""
        return Identity()

    def advice_for(self, version: str | None) -> str:  # noqa: ARG002  the interface
        """The advice for this version of it, as far as that is known."""
        return self.advice

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """The report in the response itself; None where there is none. Must not raise, whatever the values."""
        return None

    def span(self, span: Span) -> KeyedReport | None:  # noqa: ARG002  the interface
        """The report in one span, or None: not one that says anything. Must not raise, whatever the attributes."""
        return None

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler | None:  # noqa: ARG002  the interface
        """The one that is asked in place of `span` where one span does not say everything. `is_minted`: a span id of the sidecar's own."""
        return None

    def reports_on(self, choices: int) -> int:
        """How many reports come out-of-band on a request with so many choices; 0: none that could be told from others'."""
        return 1 if choices <= 1 else 0


UNKNOWN = EngineKind()
