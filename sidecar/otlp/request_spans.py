"""One request that is over, as OTLP spans: the request, and its phases below it. Written as protobuf. Pure.

Names follow OpenTelemetry's GenAI conventions as far as these go (open-telemetry/semantic-conventions-genai at 002c8a6, status
Development); all else has the prefix `llm_sidecar.`. The kind is SERVER, as of the engines' own spans, and not CLIENT, as the
conventions have it for a caller: this is the serving end of a call. A phase is a child with the ledger's seconds. The ledger has
durations and no instants between them, so the phases stand one after the other, in the ledger's order, from the last byte of the
request on; what they leave free before them is the upload.

A request that did not end well has no ledger. The wire alone then says how long it waited, and for how long tokens came; the
rest of its time has no child, because nothing tells whose it was. An unknown value is absent, never zero, and there is no text of a
client and none of a model: names of models and lanes come from closed sets, and the answer's id from the engine.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import unquote

from msgspec.structs import replace

from sidecar.ledger.account import Account, OwnSpan, Phase, Reason, Share, Source
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.request_labels import OTHER, UNKNOWN, RequestLabels
from sidecar.logs.request_line import SPOILED
from sidecar.otlp.wire_format import DOUBLE, FIXED64, I32, I64, VARINT, message, varint
from sidecar.timeline.events import NO_USAGE
from sidecar.timeline.finish import NO_FINISH, Finish


Value = str | bool | int | float | Sequence[str]
SCOPE_NAME = "llm-phase-sidecar"
SERVICE_NAME = "llm-phase-sidecar"
"""The resource's service.name, unless the environment states one."""
PLACE_ATTRIBUTES = {"pod": "k8s.pod.name", "namespace": "k8s.namespace.name", "node": "k8s.node.name"}
"""Fields of `logs/placement.py` as OpenTelemetry names them."""
_ROUNDED_SECONDS = 1e-9
"""Two instants subtracted twice may differ in the last bit. A phase below 0 by more than this stands before the request was whole:
the engine answered while the upload ran, and the phases are not spans of this time."""

_INTERNAL, _SERVER = varint(6 << 3 | VARINT) + varint(1), varint(6 << 3 | VARINT) + varint(2)
_ERROR = message(15, varint(3 << 3 | VARINT) + varint(2))
_BEGIN_NANOS, _END_NANOS, _SPAN_FLAGS = varint(7 << 3 | I64), varint(8 << 3 | I64), varint(16 << 3 | I32)
_LOCAL, _REMOTE = struct.pack("<I", 0x101), struct.pack("<I", 0x301)
"""Sampled, and it is known whether the parent is of another process (`SpanFlags`): it is not, it is."""
LABEL_ATTRIBUTES = tuple("" if name == "model" else f"llm_sidecar.{name}" for name in RequestLabels._fields)
"""The attribute of each label of the metrics; empty for the model, which the conventions name."""
_ON_SPAN = 9
"""The field of a Span that holds an attribute."""
_UNNAMED = ("", OTHER, UNKNOWN)
"""Labels that name nothing."""


def attribute(number: int, key: str, value: Value) -> bytes:
    """A KeyValue as the field of this number. A number is an int64 from 0 on, or a double."""
    return message(number, _key(key) + message(2, _any(value)))


@lru_cache(maxsize=256)
def _key(key: str) -> bytes:
    return message(1, key.encode("utf-8", "replace"))


def _any(value: Value) -> bytes:
    if isinstance(value, str):
        return message(1, value.encode("utf-8", "replace"))
    if isinstance(value, bool):
        return varint(2 << 3 | VARINT) + varint(value)
    if isinstance(value, int):
        return varint(3 << 3 | VARINT) + varint(value)
    if isinstance(value, float):
        return varint(4 << 3 | I64) + DOUBLE.pack(value)
    return message(5, b"".join(message(1, _any(each)) for each in value))


@lru_cache(maxsize=1024)
def _word(key: str, value: str) -> bytes:
    """An attribute of a span with a value from a closed set: most spans have the same few."""
    return attribute(_ON_SPAN, key, value)


@lru_cache(maxsize=256)
def _labelled(labels: RequestLabels) -> bytes:
    """The labels of the metrics that the conventions have no name for, as far as they are known."""
    named = zip(LABEL_ATTRIBUTES, labels, strict=True)
    return b"".join(attribute(_ON_SPAN, key, value) for key, value in named if key and value not in ("", UNKNOWN))


@lru_cache(maxsize=64)
def _phase(phase: Phase, source: Source) -> bytes:
    """The fields of a phase's span that are the same in all requests."""
    return (
        message(5, phase.value.encode())
        + _INTERNAL
        + attribute(_ON_SPAN, "llm_sidecar.phase", phase.value)
        + attribute(_ON_SPAN, "llm_sidecar.source", source.value)
        + _SPAN_FLAGS
        + _LOCAL
    )


def resource_of(version: str, placement: Mapping[str, str], environment: Mapping[str, str]) -> bytes:
    """The fields of a ResourceSpans beside its spans. OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME go before what is known here."""
    found: dict[str, Value] = {"service.name": SERVICE_NAME, "service.version": version}
    found |= {PLACE_ATTRIBUTES[field]: name for field, name in placement.items()}
    found |= _stated(environment.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if name := environment.get("OTEL_SERVICE_NAME", ""):
        found["service.name"] = name
    return message(1, b"".join(attribute(1, key, value) for key, value in found.items()))


def _stated(text: str) -> dict[str, str]:
    """`key=value,key=value`, with percent-encoding (OpenTelemetry, Resource SDK). Nothing of a text that has another form."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not all(equals and key.strip() for key, equals, _ in pairs):
        return {}
    return {unquote(key.strip()): unquote(value.strip()) for key, _, value in pairs}


def scope_of(version: str) -> bytes:
    """The fields of a ScopeSpans beside its spans."""
    return message(1, message(1, SCOPE_NAME.encode()) + message(2, version.encode()))


def phases_of(account: Account, span: OwnSpan) -> tuple[Share, ...]:
    """The phases that become spans, in order; without a ledger, those that the wire alone tells."""
    ledger, marks = account.ledger, account.marks
    if ledger is None:
        last_token_at = marks.last_token_at if account.streaming else None
        until_at = span.ended_at if last_token_at is None else last_token_at
        marks = replace(marks, flushed_at=until_at)
        ledger = close_ledger(marks, streaming=account.streaming, report=None, reason=Reason.NO_REPORT)
    shares = () if ledger is None else ledger.shares
    return () if any(share.seconds < -_ROUNDED_SECONDS for share in shares) else shares


def spans_of(
    account: Account,
    span: OwnSpan,
    phases: Sequence[Share],
    *,
    provider: str | None,
    unix_nanos: Callable[[float], int],
    random_hex: Callable[[int], str],
) -> list[bytes]:
    """The fields of each Span, the request's first. `unix_nanos`: Unix time in nanoseconds at an instant of the marks.

    `provider`: the kind of the engine, if it is known.
    """
    marks = account.marks
    trace, own = message(1, bytes.fromhex(span.trace_id)), bytes.fromhex(span.span_id)
    ended_at = span.ended_at if account.ledger is None or marks.flushed_at is None else marks.flushed_at
    written = [
        trace
        + message(2, own)
        + (message(4, bytes.fromhex(span.parent_id)) if span.parent_id else b"")
        + message(5, _name(account, span).encode("utf-8", "replace"))
        + _SERVER
        + _times(unix_nanos(marks.accepted_at), unix_nanos(ended_at))
        + _attributes(account, span, provider)
        + (_ERROR if account.outcome in SPOILED else b"")
        + _SPAN_FLAGS
        + (_REMOTE if span.parent_id else _LOCAL)
    ]
    begin_at = marks.received_at or 0.0  # without it there is no phase
    begin = unix_nanos(begin_at)
    for share in phases:
        begin_at += share.seconds
        end = max(begin, unix_nanos(begin_at))
        written.append(
            trace
            + message(2, bytes.fromhex(random_hex(8)))
            + message(4, own)
            + _phase(share.phase, share.source)
            + _times(begin, end)
        )
        begin = end
    return written


def _times(begin: int, end: int) -> bytes:
    return _BEGIN_NANOS + FIXED64.pack(begin) + _END_NANOS + FIXED64.pack(max(begin, end))


def _name(account: Account, span: OwnSpan) -> str:
    model = account.labels.model
    return span.operation if model in _UNNAMED else f"{span.operation} {model}"


def _attributes(account: Account, span: OwnSpan, provider: str | None) -> bytes:
    labels, marks, ledger = account.labels, account.marks, account.ledger
    words = {
        "gen_ai.operation.name": span.operation,
        "gen_ai.provider.name": provider or "",
        "gen_ai.request.model": "" if labels.model in _UNNAMED else labels.model,
        "error.type": _error(account),
        "llm_sidecar.outcome": account.outcome.value,
        "llm_sidecar.cancelled_in": "" if account.cancelled_in is None else account.cancelled_in.value,
        "llm_sidecar.split.source": "" if ledger is None else ledger.source,
        "llm_sidecar.split.reason": "" if ledger is None else ledger.reason.value,
    }
    usage = marks.usage or NO_USAGE
    status = account.notes.get("status", "")
    finish = account.finish if marks.choices <= 1 else NO_FINISH  # of several choices only the first one is known
    values: dict[str, Value | None] = {
        "gen_ai.request.stream": account.streaming,
        "gen_ai.response.id": span.response_id,
        "gen_ai.response.finish_reasons": None if finish in (NO_FINISH, Finish.OTHER) else (finish.value,),
        "gen_ai.usage.input_tokens": _count(usage.prompt_tokens),
        "gen_ai.usage.output_tokens": _count(usage.completion_tokens),
        "gen_ai.usage.cache_read.input_tokens": _count(usage.cached_tokens),
        "gen_ai.usage.reasoning.output_tokens": _count(usage.reasoning_tokens),
        "http.response.status_code": int(status) if status.isdecimal() else None,
        "llm_sidecar.ttft_seconds": account.ttft_seconds,
        "llm_sidecar.paused_seconds": marks.paused_seconds or None,
        "llm_sidecar.held_seconds": None if ledger is None else ledger.held_seconds or None,
        "llm_sidecar.kv_transfer_seconds": account.kv_transfer_seconds,
        "llm_sidecar.reasoning_seconds": account.reasoning_seconds,
    }
    named = b"".join(_word(key, value) for key, value in words.items() if value) + _labelled(labels)
    return named + b"".join(attribute(_ON_SPAN, key, value) for key, value in values.items() if value is not None)


def _count(stated: int | None) -> int | None:
    """A number of tokens that an engine states, if OTLP has room for it (int64)."""
    return stated if stated is not None and 0 <= stated < 1 << 63 else None


def _error(account: Account) -> str:
    """The class of an error of the server side: the sidecar's own reason, else the status, else the outcome; empty if there was none."""
    if account.outcome not in SPOILED:
        return ""
    status = account.notes.get("status", "")
    return account.notes.get("error") or (status if status >= "400" else account.outcome.value)
