"""Fields of the log line of one ended request, all from its Account.

Pure. Marks are seconds since `accepted_at`, because instants of a monotonic clock mean nothing to a reader. An unknown value is
absent, never zero. Headers, bodies and paths are not known here; what may be logged of them is in the account's notes.
"""

from operator import attrgetter

from sidecar.ledger.account import Account, Ledger
from sidecar.ledger.request_labels import RequestLabels
from sidecar.timeline.held_back import held_back
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


EVENT_REQUEST = "request"

SPOILED = frozenset(
    {
        *(Outcome.REJECTED, Outcome.ENGINE_ERROR, Outcome.ENGINE_UNREACHABLE),
        *(Outcome.ENGINE_TIMEOUT, Outcome.ENGINE_TRUNCATED, Outcome.SIDECAR_ERROR),
    }
)
"""Outcomes caused by the server side: their lines are warnings, so that `log.level: warning` keeps them."""

_LABELS = sorted(RequestLabels._fields)
_LABELS_OF = attrgetter(*_LABELS)
_MARKS = ("received_at", "sent_at", "headers_at", "first_token_at", "last_token_at", "ended_at", "flushed_at")
_MARKS_OF = attrgetter(*_MARKS)
_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_COUNTS_OF = attrgetter(*_COUNTS)
_DIGITS = 6  # a microsecond; finer digits are noise of the clock


def request_fields(account: Account) -> dict[str, object]:
    """The fields of one request's line, in reading order. Times are in seconds."""
    fields: dict[str, object] = {"outcome": account.outcome._value_}
    fields.update(zip(_LABELS, _LABELS_OF(account.labels), strict=True))
    fields["streaming"] = account.streaming
    if account.cancelled_in is not None:
        fields["cancelled_in"] = account.cancelled_in._value_
    if account.ledger is not None:
        _add_ledger(account.ledger, fields)
    estimate = account.estimate
    if estimate is not None:
        fields["estimated_prefill_seconds"] = round(estimate.prefill_seconds, _DIGITS)
        fields["estimated_prefill_interval_seconds"] = [
            round(estimate.low_seconds, _DIGITS),
            round(estimate.high_seconds, _DIGITS),
        ]
    if account.kv_transfer_seconds is not None:
        fields["kv_transfer_seconds"] = round(account.kv_transfer_seconds, _DIGITS)
    if account.reasoning_seconds is not None:
        fields["reasoning_seconds"] = round(account.reasoning_seconds, _DIGITS)
    if account.parts:
        fields["parts"] = {f"{part.phase._value_}.{part.part}": round(part.seconds, _DIGITS) for part in account.parts}
    _add_wire(account.marks, fields)
    if account.marks.usage is not None:
        counts = zip(_COUNTS, _COUNTS_OF(account.marks.usage), strict=True)
        fields |= {name: count for name, count in counts if count is not None}
    if account.trace_id is not None:
        fields["trace_id"] = account.trace_id
    if account.notes:
        # In a field of their own, so that no note can overwrite a measurement.
        fields["notes"] = dict(account.notes)
    return fields


def fields_of_span(account: Account) -> dict[str, object]:
    """As `request_fields`, where the engine's span is all that is known: its events were not seen, nor the end of their delivery."""
    fields = request_fields(account)
    del fields["output_events"]
    marks = fields["marks"]
    assert isinstance(marks, dict)
    del marks["flushed_at"]
    return fields


def _add_ledger(ledger: Ledger, fields: dict[str, object]) -> None:
    fields["e2e_seconds"] = round(ledger.e2e_seconds, _DIGITS)
    if ledger.ttft_seconds is not None:
        fields["ttft_seconds"] = round(ledger.ttft_seconds, _DIGITS)
    phases: dict[str, float] = {}
    sources: dict[str, str] = {}
    for share in ledger.shares:
        phase = (
            share.phase._value_
        )  # the `value` of an Enum is a Python call, and this is once for each phase of each request
        phases[phase] = round(share.seconds, _DIGITS)
        sources[phase] = share.source._value_
    fields["phases"] = phases
    fields["sources"] = sources
    fields["source"] = ledger.source
    fields["reason"] = ledger.reason._value_
    if ledger.held_seconds:
        fields["held_seconds"] = round(ledger.held_seconds, _DIGITS)


def _add_wire(marks: Marks, fields: dict[str, object]) -> None:
    instants: dict[str, float] = {}
    accepted_at = marks.accepted_at
    for name, at in zip(_MARKS, _MARKS_OF(marks), strict=True):
        if at is not None:
            instants[name] = round(at - accepted_at, _DIGITS)
    fields["marks"] = instants
    fields["output_events"] = marks.output_events
    if held_back(marks):
        fields["held_back"] = True
    if marks.paused_seconds:
        fields["paused_seconds"] = round(marks.paused_seconds, _DIGITS)
    if marks.choices > 1:
        fields["choices"] = marks.choices
