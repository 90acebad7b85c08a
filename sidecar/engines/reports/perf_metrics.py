"""The records that TensorRT-LLM's `trtllm-serve` keeps on finished requests and gives to whoever asks first. Pure.

`GET /perf_metrics` answers an array and empties it (`return_perf_metrics: true`, `perf_metrics_max_requests` above 0). It
knows three vintages of a record: `perf_metrics.timing_metrics` with a numeric `request_id` (`serve/openai_server.py` at
00057725), the same with a text id, nulls and a `status` (`serve/_perf_metrics_schema.py` at 4856bb73), and
`phases.server.timing_metrics` (`serve/perf_metrics.py` of late 2026). Instants are seconds of one steady clock; one of 0
was never taken, and only differences are used. The answer's id is `chatcmpl-` or `cmpl-` and the `request_id`: builds
before `_ensure_stream_metadata` made up ids of their own, and their records are nobody's.
The transfer of the KV cache is stated apart; on a generation worker it lies before the first scheduling, that is in the
queue. It refuses the records of a disaggregated front end (`ctx_server`, `gen_server`): each of its workers numbers
its requests by itself, so that two of them may have the same id.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from sidecar.engines.durations import between, instant_of
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, response_key


PATH = "/perf_metrics"
MAX_BODY_BYTES = 1 << 20
"""Decoded in one step of 1 ms: 2,400 records, or six of 1,000 tokens each where every step of the engine is written down too."""
RECORDS_A_STEP = 32
"""Made into words and joined between two turns of the loop."""
MAX_ID_CHARACTERS = 128


class _Timing(msgspec.Struct, frozen=True):
    arrival_time: Any = None
    first_scheduled_time: Any = None
    first_token_time: Any = None
    last_token_time: Any = None
    kv_cache_transfer_start: Any = None
    kv_cache_transfer_end: Any = None


class _Part(msgspec.Struct, frozen=True):
    timing_metrics: _Timing | None = None


class _Phases(msgspec.Struct, frozen=True):
    server: _Part | None = None


class Record(msgspec.Struct, frozen=True):
    """One finished request, as far as it is read."""

    request_id: Any = None
    perf_metrics: _Part | None = None
    phases: _Phases | None = None


_RECORDS = msgspec.json.Decoder(list[Record])
_RECORD = msgspec.json.Decoder(Record)
_EACH = msgspec.json.Decoder(list[msgspec.Raw])
_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


def records_of(body: bytes) -> Sequence[Record | msgspec.Raw | None]:
    """The records in one answer, for `word_of`; a body that is no array is one that cannot be read. Never raises."""
    try:
        return _RECORDS.decode(body)
    except _ERRORS:
        # One record of another shape must not cost the others: they are decoded one by one.
        try:
            return _EACH.decode(body)
        except _ERRORS:
            return [None]


def _one(raw: msgspec.Raw) -> Record | None:
    try:
        return _RECORD.decode(raw)
    except _ERRORS:
        return None


def word_of(record: Record | msgspec.Raw | None) -> KeyedReport | None:
    """The word in one record; None where it is no request's, or states none of its times. Never raises."""
    if isinstance(record, msgspec.Raw):
        record = _one(record)
    if record is None:
        return None
    request_id = _id_of(record.request_id)
    part = record.perf_metrics or (record.phases.server if record.phases is not None else None)
    timing = part.timing_metrics if part is not None else None
    if request_id is None or timing is None:
        return None
    arrived, scheduled, first, last = (
        instant_of(instant)
        for instant in (
            timing.arrival_time,
            timing.first_scheduled_time,
            timing.first_token_time,
            timing.last_token_time,
        )
    )
    moving, moved = (instant_of(instant) for instant in (timing.kv_cache_transfer_start, timing.kv_cache_transfer_end))
    report = EngineReport(
        queue_seconds=between(arrived, scheduled),
        prefill_seconds=between(scheduled, first),
        decode_seconds=between(first, last),
        kv_transfer_seconds=between(moving, moved),
    )
    if report == NO_REPORT:
        return None
    return KeyedReport((response_key(f"chatcmpl-{request_id}"), response_key(f"cmpl-{request_id}")), report)


def _id_of(value: object) -> str | None:
    if isinstance(value, str):
        return value if 0 < len(value) <= MAX_ID_CHARACTERS else None
    return str(value) if type(value) is int and value >= 0 else None
