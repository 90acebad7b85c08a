"""The labels with their closed sets, and the bucket edges, that metrics are declared with.

Knows every label value that the code decides. Refuses to know values that a client could invent: lanes, prompt buckets
and models come from the config or the engine, and every other value becomes their fallback.
"""

from enum import StrEnum

from sidecar.engines.usage_asking import WHY_NOT
from sidecar.ledger.account import Phase, Reason, Source
from sidecar.ledger.pending import Lost
from sidecar.ledger.phase_parts import PARTED, PHASE_OF_PART, REST, Part
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.metrics.declaration import Label
from sidecar.objectives.attribution import VOTES, Blame
from sidecar.objectives.latency_parts import PARTS
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import ROOT_PHASES, ROOTS, SIZED_PER, Per
from sidecar.timeline.finish import Finish
from sidecar.timeline.outcome import Outcome, Stage


# --- buckets: the same layout in every pod and version, or `sum by (le)` is wrong ----------------------------------------

_UP_TO_300 = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
SHORT_BUCKETS = (*_UP_TO_300, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0)
"""Seconds of what is over in minutes, such as a connect or an upload."""
LATENCY_BUCKETS = (*SHORT_BUCKETS, 600.0, 1200.0)
"""Seconds of a request and of its parts: a batch waits for twenty minutes, and no part may end at a lower edge than its whole."""
_GAPS = (0.0001, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075)
INTER_TOKEN_BUCKETS = (*_GAPS, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The first bucket isolates events that came in one read: something upstream merges or buffers."""
TOKEN_BUCKETS = (
    1.0,
    8.0,
    32.0,
    128.0,
    256.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    8192.0,
    16384.0,
    32768.0,
    65536.0,
    131072.0,
)
EVENTS_PER_READ_BUCKETS = (1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 100.0)
OVERHEAD_BUCKETS = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25)
LOOP_LAG_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)

# --- limits of the plain counters that alerts read in a histogram's place; the first two are edges ------------------------

FEW_EVENTS = 5.0
"""Most output events of a read that is not one of many."""
LATE_READ_SECONDS = 0.005
LATE_TIMER_SECONDS, VERY_LATE_TIMER_SECONDS = 0.05, 0.25

LONGEST_SCRAPE_INTERVAL_SECONDS = 60.0
"""The rules read windows of two minutes, and a rate needs two samples. A page that is not scraped for so long is reported."""
WHOLE_PAGE = "/metrics?profile=full"
"""The page of metrics for those who read more than a lean one has. An older sidecar does not know the question, and has no other page."""
DOCTOR_AGENT = "sidecar-doctor"
"""User-Agent of `sidecar doctor`: a look of its own at the page is no scrape."""

# --- labels and their closed sets ----------------------------------------------------------------------------------------

MODEL = Label(
    "model",
    told_by="`engine.models`, else the engine's own list and what its answers prove, at most 16 in a process's life",
    most=16,
)
LANE = Label("lane", told_by="the lanes of the config", most=134)
PROMPT_BUCKET = Label("prompt_bucket", told_by="`prompt_buckets.edges` of the config", fallback=UNKNOWN, most=16)
PER_LANE = (MODEL, LANE)
PER_LENGTH = (*PER_LANE, PROMPT_BUCKET)
"""The labels of a request (`RequestLabels`) that most metrics have: a label added here is added to all of them."""
STREAMING = Label("streaming", ("true", "false"))
PHASE = Label("phase", tuple(Phase))
SOURCE = Label("source", tuple(Source))
OUTCOME = Label("outcome", tuple(Outcome))
STAGE = Label("stage", tuple(Stage))
FINISH_REASON = Label("finish_reason", tuple(Finish))
STATE = Label("state", ("waiting", "streaming"))
OBJECTIVE = Label("objective", tuple(Objective))
PER_OBJECTIVE = (LANE, PROMPT_BUCKET, OBJECTIVE)
PARTED_PHASE = Label("phase", PARTED)
PHASE_PART = Label("part", (*Part, REST))
PARTS_TOGETHER = (*((phase, part) for part, phase in PHASE_OF_PART.items()), *((phase, REST) for phase in PARTED))
BLAMED_PHASE = Label("phase", tuple(Blame))
MISSED_TOGETHER = tuple((objective, phase) for objective, phases in PARTS.items() for phase in phases)
BLAMED_TOGETHER = tuple((objective, phase) for objective, phases in VOTES.items() for phase in phases)
ROOT_PHASE = Label("phase", ROOT_PHASES)
ROOT_CAUSE = Label("cause", tuple(cause for _, cause in ROOTS))
PER = Label("per", tuple(Per))
RATIO_CAUSES = tuple(map(str, SIZED_PER))
"""Causes that are a ratio to a usual value."""

PHASES_TOGETHER = (
    *(("true", phase, "engine") for phase in ("queue", "prefill", "decode")),
    *(("true", phase, source) for phase in ("queue", "prefill") for source in ("derived", "estimated")),
    *(("true", phase, "derived") for phase in ("first_token", "stream")),
    *(("true", phase, "wire") for phase in ("unattributed", "decode", "stream")),
    ("true", "unattributed", "derived"),
    *(("false", phase, "engine") for phase in ("queue", "prefill", "decode")),
    *(("false", phase, "derived") for phase in ("queue", "prefill")),
    *(("false", "unattributed", source) for source in ("derived", "wire")),
)
"""All combinations that the ledger can produce; a test with arbitrary reports finds no other. The product has 48."""

_REPORTED = (Reason.IN_BAND, Reason.LATE_REPORT)
ATTRIBUTIONS_TOGETHER = (
    *((source, reason) for source in ("engine", "derived") for reason in _REPORTED),
    ("engine", Reason.SPAN_ALONE),
    ("estimated", Reason.ESTIMATED),
    *(("none", reason) for reason in Reason if reason not in (*_REPORTED, Reason.SPAN_ALONE, Reason.ESTIMATED)),
)


class BodyUnread(StrEnum):
    """Reasons why a compressed request body was not read, so that neither its length nor its model is known."""

    NO_PLACE = "body_no_place"
    """Others were decoded, and more waited, than the budget allows."""
    NO_MEMORY = "body_no_memory"
    """The memory that its decoder may take was not free in `held_bytes`."""
    TOO_LONG = "body_too_long"
    """It is longer than `proxy.look_in_bytes`, or what is in it than what is read."""
    UNREADABLE = "body_unreadable"
    """It is broken, has too many members or frames, or has a coding that is not read."""


DROP_REASONS = (
    *("observer_error", "event_too_long", "unreadable_event", "encoded_response", "unknown_stream", "not_a_duration"),
    *("report_unreadable", "report_source_failed", "report_file_skipped", *Lost, "report_not_assembled"),
    *("span_unknown", "span_rejected", "span_request_refused", "span_not_forwarded", "log_limited"),
    *("span_of_aborted", "span_incomplete"),
    *("baseline_failed", "request_unread"),
    *BodyUnread,
)
"""Reasons why something was not measured, or not written down. Traffic is not affected."""
NO_HOLES = ("log_limited", Lost.TWICE, Lost.UNNEEDED, "request_unread")
"""Those of them that leave no request measured in part."""


BY_SPANS_ALONE = (Reason.SPAN_ALONE, "span_of_aborted", "span_incomplete")
"""Label values that only a process without traffic (`--no-proxy`) gives: others have no series of them at 0."""
BEGUN_LATE = (Reason.NOT_TOLD_APART, Lost.UNNEEDED, "report_file_skipped", "request_unread", *BodyUnread)
"""Label values that few processes give: none has series of them at 0."""


class NotAsked(StrEnum):
    """Reasons for not asking for the usage chunk: a closed set, a counter's label."""

    ALREADY_ASKED = "already_asked"
    DECLINED = "declined"
    UNCLEAR = "unclear"
    NOT_STREAMED = "not_streamed"
    SEVERAL_CHOICES = "several_choices"
    """It is not known of this engine that it states the usage of several choices in one chunk at the end."""
    NOT_WHOLE = "not_whole"
    """The body is longer than the look-in bound, or no JSON object."""
    ENGINE_DEFAULT = "engine_default"
    """`stream_options` is there without include_usage. vLLM then sends the chunk (its default is true), OpenAI does
    not: with the key added, the sidecar could not know whether this client would have got the chunk."""


USAGE_RESULTS = ("asked", *NotAsked, "api_has_none", "encoded_request", *WHY_NOT, "off")
"""Results of asking for the usage chunk, one per inference request."""

UNKNOWN_LENGTHS = ("unread_body", "encoded_body", "not_text", "no_scale")
"""Reasons why the length of a prompt is not known: the body is longer than the look-in bound, or no JSON; it is compressed, and could not be
read; it has media, or refers to text that the server keeps; the engine has not counted enough prompts of this model."""

UNCOUNTED_KINDS = ("event_stream", "websocket", "media")
"""Inference by the looks of it, on a path or in a form that is not read; media: speech and pictures, which have no tokens."""

SPAN_RESULTS = ("taken", "unknown", "rejected", "forwarded")
"""Results for a span that an engine sent; a forwarded one is also one of the first two."""

ACKNOWLEDGED = "acknowledged"
"""The fate of a span that the user's collector took."""


class NotTaken(StrEnum):
    """Reasons why the user's collector did not take a span: the other fates."""

    QUEUE_FULL = "queue_full"
    REJECTED = "rejected"
    """The collector took the request, and rejected this span (`partial_success`)."""
    REFUSED = "refused"
    """It answered with a status after which nothing is sent again."""
    UNAVAILABLE = "unavailable"
    """At the last attempt it did not answer, or said that it was busy."""
    SHUTDOWN = "shutdown"
    """The process ended first."""
    UNWRITTEN = "unwritten"
    """The request could not be written: a mistake of this program."""


SPAN_FATES = (ACKNOWLEDGED, *NotTaken)

UNREAD_SIGNALS = ("logs", "metrics")
"""Signals of OpenTelemetry that exporters send beside spans."""

OVERFLOWING = (
    *("lane", "model", "prompt_bucket", "streaming", "phase", "source", "outcome", "stage", "state"),
    *("provisional", "api", "proof", "kind", "reason", "result", "side", "engine", "version"),
    *("python_version", "label", "objective", "part", "budget", "cause", "per", "finish_reason", "series"),
)
"""Every label of the catalogue whose values are not this process's alone, and `series`: the limit of series was reached."""
