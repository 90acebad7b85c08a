"""The interface of an engine: everything that the sidecar knows about one kind, filled in by one file per engine.

A kind states how it is recognised and described (`probe/` asks), how its own metrics name its state, what may be asked of a
request, what is read from the response in-band, from spans and from elsewhere (`reports/` fetches), and which flags make it
report more. The defaults fit a server of an unknown kind: no state and no report. An engine is complete with a file, a line
in `kinds.py` and, if its API is new, a dialect: config, metrics, diagnosis and docs read from here.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from sidecar.engines.probe.replies import Answers, Identity, text_at
from sidecar.engines.probe.state_names import StateNames
from sidecar.engines.reports.report_sources import Source
from sidecar.engines.span import Span, report_of_any
from sidecar.ledger.report import EngineReport, KeyedReport
from sidecar.timeline.events import Dialect
from sidecar.timeline.marks import Marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One way in which an engine reports: one row of the table in docs/engines.md, which is generated from these."""

    name: str
    """By which tests say that they prove it (`tests/support/proofs.py`): one word, alone in its kind."""
    source: str
    """The place of the report, e.g. "usage chunk `metrics`"."""
    version: str
    """From which version on, and in which version it was read or seen."""
    flags: str = ""
    """The flags that switch it on; "" for none."""
    exact: str
    """The times that it states exactly."""
    missing: str
    """The times that it does not state, or only as a bound."""
    follows: str = ""
    """The engine's own file, with its version, that it was read in; "" if the real engine alone was looked at."""


class Wire(msgspec.Struct, frozen=True):
    """One response as the sidecar itself saw it: for reports that are only a part, and need the rest from here."""

    marks: Marks
    streaming: bool
    fields: Sequence[tuple[bytes, bytes]]
    """The response's header fields."""
    choices: int = 0
    """Choices that were seen: with output, or with their finish. Whole answers have only finishes; 0 where none was told apart."""

    def field(self, name: bytes) -> str | None:
        """The value of a header field that stands exactly once; several would contradict each other. `name` in lower case."""
        found = [value for stated, value in self.fields if stated.lower() == name]
        return found[0].decode("ascii", "replace").strip() if len(found) == 1 else None

    def list_of(self, name: bytes) -> str | None:
        """The value of a header field that is a list: of all its lines (RFC 9110 5.3); None if there is none. `name` in lower case."""
        found = [value.decode("ascii", "replace") for stated, value in self.fields if stated.lower() == name]
        return ", ".join(found) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReport:
    """A field of a request that makes the engine report in its answer, and what the answer has then that is not its client's."""

    field: tuple[bytes, bytes]
    """The field's name and value. A client that sends it by itself, whatever its value, has decided, and its answer passes as it is."""
    caused: re.Pattern[bytes]
    """The lines `name: value` that it adds to the head of the answer."""
    event: bytes
    """The first line of the event that it adds to a stream, behind the API's end mark; one line of data follows, and a blank one."""


class Assembler(Protocol):
    """Assembles reports from several spans. One per process; bounded; instants are passed in."""

    lost: int
    """Number of reports dropped so far: a table was full, or two reports could not be told apart."""

    def span(self, span: Span, at: float) -> Sequence[KeyedReport] | None:
        """The reports that this span completes; None if it is not a span of this engine. Must not raise."""

    def due(self, at: float) -> Sequence[KeyedReport]:
        """Reports whose hold has ended. Called once per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a container starts the engine, as far as a Kubernetes manifest shows it: `sidecar inject` reads it there.

    Ports, flags and hosts were read in ServerArgs of SGLang's srt/server_args.py (469c63e5), the options of TensorRT-LLM's
    commands/serve.py (00209af1), launcher/src/main.rs and Dockerfile of TGI (3000, which the image's PORT makes 80; 00873331), SubCliServe of
    LMDeploy's cli/serve.py (00596da9), getOllamaHost of Ollama's envconfig/config.go and its Dockerfile, whose OLLAMA_HOST is 0.0.0.0
    (000ce020), and Triton's command_line_parser.cc (5fd6bc48).
    """

    known_by: str
    """A regular expression that its image, or the words that start it, contain; capital letters or not."""
    port: int
    """The port on which it listens unless it is told another."""
    image: str = ""
    """Its project's image, if that starts it with no words of its own, which those of a manifest would replace."""
    flags: tuple[str, ...] = ()
    """The flags that state the port; the first one is added where none is."""
    variable: str = ""
    """A variable of the environment that states it."""
    variable_has_host: bool = False
    """It is an address: host, host:port or either behind a scheme, without which the port is the usual one."""
    on_loopback: bool = False
    """It listens on loopback unless it is told a host."""
    metrics_port: int | None = None
    """The port of its metrics unless it is told another; None if they are on the port of its API."""
    metrics_flag: str = ""
    """The flag that states it."""
    tls_flags: tuple[str, ...] = ()
    """Flags that make it serve by TLS."""
    socket_flags: tuple[str, ...] = ()
    """Flags that make it listen on a Unix socket."""
    drains_with: str = ""
    """A tool that its project's Dockerfile installs, and that can send a request to the sidecar: `curl` or `python3`; "" if none is known.

    Read in vLLM's docker/Dockerfile (stage vllm-base) at 0000977e of 2025, in SGLang's docker/Dockerfile at 004740a9 (0.5.5), in Triton's
    build.py (dockerfile_prepare_container_linux) at e1db8a60, in component_frontend.go of Dynamo's operator, which starts the frontend by
    python3, in llama.cpp's .devops/cuda.Dockerfile at 00d69466, in LMDeploy's docker/Dockerfile at 0588993b, in TGI's Dockerfile at
    00873331, and in TensorRT-LLM's docker/Dockerfile.multi (stage release, which runs python3) at 00f74add. Ollama's (000ce020) has neither.
    """


class EngineKind:
    """An engine of unknown kind. One stateless instance serves the process."""

    name = "none"
    """The label value of `llm_engine_info{engine}` and the value of `engine.kind`."""
    title = "any other OpenAI-like server"
    channels: tuple[Channel, ...] = ()

    # --- recognised by (`probe/detect.py`)
    owned_by = ""
    """`owned_by` of every model in its /v1/models."""
    owner_is_shared = False
    """Other servers name the same owner: only the metric names on /metrics prove this kind."""
    server = ""
    """The beginning of its Server header, in lower case."""
    page = ""
    """The path of a page that only this kind has."""
    page_turn = 9
    """The order in which such pages are asked for: the lowest first."""
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
    worker_states: tuple[StateNames, ...] = ()
    """The names on the page of a worker, for each engine that may be one behind it: read where the config names these pages."""

    # --- started by (`commands/inject/`)
    started: Start | None = None
    """None: a manifest does not show that it is this engine."""

    # --- its requests
    paths: Mapping[bytes, Dialect] = {}
    """Paths that generate on this engine alone, and their dialects: they count once the engine is known."""
    takes_include_usage_on: tuple[str, ...] = ()
    """Dialects on which it is proven to accept `stream_options.include_usage`, and to answer it with one chunk at the end and nothing else."""
    is_estimated = True
    """A prompt that meets an idle engine costs all of its TTFT, so that requests without a report can be estimated."""
    usual_tokens_per_byte: float | None = None
    """The tokens in a byte of prompt text that the label `prompt_bucket` takes where it counts none unasked; None: it counts them."""
    usage_of_choices = False
    """Asked for usage, it answers several choices or prompts with one such chunk too, once each of them has its finish reason."""
    null_usage_on: tuple[str, ...] = ()
    """Dialects on which each of its chunks has `usage: null`, whether it was asked for usage or not: that proves nothing."""
    refuses_unknown_models = False
    """It is known to refuse a model that it does not have, on each of its APIs, so that its answer proves the name."""
    answers_prove_models = True
    """False: it takes any name and may answer with it, or with another model's."""
    asked_report: AskedReport | None = None
    """How it is asked to report in its answers; None: it needs no asking, or does not report there."""
    reads_spans = False
    """Its spans report more than its answers: the sidecar mints a span for each request and waits for the report."""
    spans_tell_requests = False
    """Its spans state each request that ended well by itself, so that requests are counted where no hop sees them."""
    source: Source | None = None
    """The source that its reports are fetched from, besides its answers and its spans."""
    older_source: Source | None = None
    """The one of older releases: read where the config allows it, and not `source`."""
    unloads_after_seconds: float | None = None
    """After so long without a request it unloads a model by default, and loads it again for the next one; None where none does that."""
    late_report_seconds = 0.0
    """Longest time from the stream's end to its report; 0 if it reports in-band or not at all."""

    # --- flags that operators are told of (`probe/advice.py`)
    advice = ""
    """The exact flag that would make it report on requests, in one sentence for the log and the status page; "" where there is none."""
    cached_advice = ""
    """The flag that makes it state cached prompt tokens."""
    page_advice = ""
    """The flag that makes it expose its page of metrics."""
    slots_flag = ""
    """The flag for the number of sequences that run at once: for `sidecar capacity`."""
    cache_info = ""
    """The name on /metrics that states the blocks of its KV cache (`num_gpu_blocks`, `block_size`, `cache_dtype`)."""
    flags_column = 0
    """The column of its flags in the runbooks' tables, from 1; 0 if there is none (`diagnosis/interventions/`)."""

    @property
    def short_title(self) -> str:
        """The title without its maker, for the head of a column."""
        return self.title.rpartition(" ")[2]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Both sources, as far as it has them, the newer one first."""
        return tuple(source for source in (self.source, self.older_source) if source is not None)

    def is_own(self, body: bytes) -> bool:  # noqa: ARG002  the interface
        """Whether this is the body of its own `page`. Must not raise for any body."""
        return False

    def describes(self, answers: Answers) -> Identity:
        """Its description of itself, without the models: by default the version on its `page`.

        Must not raise for any answers.
        """
        return Identity(text_at(answers, self.page, "version"))

    def shows_forced_usage(self, version: str | None) -> bool:  # noqa: ARG002  the interface
        """A setting that makes it state usage to all is seen in a stream's first events, or there is none: so what is asked for and
        cut is never the client's own. False: that is not known of this version.
        """
        return False

    def same_model(self, name: str) -> str:
        """One text for all names that it takes for the same model."""
        return name

    def advice_for(self, version: str | None, *, reports: bool = False, states_usage: bool = True) -> str:  # noqa: ARG002  the interface
        """The advice for this version, or for a version that is not known. `reports`: some answers state their times, so that the flag for
        that is set. `states_usage`: those without them state usage at least.
        """
        return self.advice

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """The report in the response itself; None if there is none. Must not raise for any values."""
        return None

    def span(self, span: Span) -> KeyedReport | None:  # noqa: ARG002  the interface
        """The report in one span; None if it has none. Must not raise for any attributes."""
        return None

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler | None:  # noqa: ARG002  the interface
        """The one that is asked in place of `span` where one span does not say everything. `is_minted`: a span id of the sidecar's own."""
        return None

    def reports_on(self, choices: int) -> int:
        """Number of out-of-band reports on a request with this many choices; 0 if they cannot be told from other requests'."""
        return 1 if choices <= 1 else 0


class UnknownKind(EngineKind):
    """Its spans are read only where the config asks for it (`spans.any_engine`), and where they are all that is known (`--no-proxy`)."""

    late_report_seconds = 10.0
    """An exporter's batch of 5 s, and again where that failed."""

    def span(self, span: Span) -> KeyedReport | None:
        return report_of_any(span)


UNKNOWN_KIND = UnknownKind()
