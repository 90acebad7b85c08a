"""The words of metrics that other rooms count by: closed sets of reasons and results, the limits of plain counters, and the page's address.

Knows every such label value that the code decides. Refuses to know metrics and their labels, which are in `catalogue.py`.
"""

from enum import StrEnum

from sidecar.engines.usage_asking import WHY_NOT
from sidecar.ledger.account import Reason
from sidecar.ledger.pending import Lost


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

UNCOUNTED_KINDS = ("event_stream", "websocket", "media")
"""Inference by the looks of it, on a path or in a form that is not read; media: speech and pictures, which have no tokens."""

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
