"""The ledger: one request's marks and the engine's report on it become phases that add up (design section 3).

Pure arithmetic on durations. It knows no engine and no stream, and it never invents a number: what nobody can say is
`unattributed`, and a report that contradicts the wire is refused whole, its decode included.
"""

from dataclasses import dataclass, replace

from sidecar.ledger.account import Ledger, Phase, Reason, Share, Source
from sidecar.ledger.report import EngineReport
from sidecar.timeline.marks import Marks


TOLERANCE_SECONDS = 0.002
TOLERANCE_RATIO = 0.01
"""By how much a report may exceed the wire: two clocks, two roundings, one scheduler tick."""


def close_ledger(
    marks: Marks, *, streaming: bool, report: EngineReport | None, reason: Reason = Reason.IN_BAND
) -> Ledger | None:
    """Split one whole request into phases, or return None where its marks do not reach from body to flush.

    `report`: the engine's word on this very request. `reason`: how it came, or where it is None, why there is none; an
    absent report that came in-band is `no_report`.
    """
    if report is None and reason in (Reason.IN_BAND, Reason.LATE_REPORT):
        reason = Reason.NO_REPORT
    if marks.received_at is None or marks.flushed_at is None:
        return None
    e2e_seconds = marks.flushed_at - marks.received_at
    if not streaming:
        return _whole(e2e_seconds, report, reason)
    if marks.first_token_at is None or marks.last_token_at is None:
        return Ledger((Share(Phase.UNATTRIBUTED, e2e_seconds, Source.WIRE),), e2e_seconds, None, 0.0, Reason.NO_TOKEN)
    wire = _Wire(
        e2e_seconds=e2e_seconds,
        ttft_seconds=marks.first_token_at - marks.received_at,
        delivery_seconds=marks.flushed_at - marks.first_token_at,
        decode_seconds=marks.last_token_at - marks.first_token_at - marks.paused_seconds,
    )
    if report is not None:
        report = _with_prefill(report, wire.ttft_seconds)
    split, reason = _believed(report, wire.ttft_seconds, reason)
    if split is None or report is None:
        return _unsplit_stream(wire, reason)
    # Queue, prefill and decode follow each other, all of them between the body's last byte and the client's last byte.
    if _exceeds(sum(split) + (report.decode_seconds or 0.0), e2e_seconds):
        return _unsplit_stream(wire, Reason.REPORT_EXCEEDS_WIRE)
    return _split_stream(wire, split, report, reason)


@dataclass(frozen=True, slots=True)
class _Wire:
    """What the wire alone says of a streamed request."""

    e2e_seconds: float
    ttft_seconds: float
    delivery_seconds: float
    """First token until flushed."""
    decode_seconds: float
    """First token until last, less the time for which this client kept us from reading."""


def _unsplit_stream(wire: _Wire, reason: Reason) -> Ledger:
    shares = (
        Share(Phase.UNATTRIBUTED, wire.ttft_seconds, Source.WIRE),
        Share(Phase.DECODE, wire.decode_seconds, Source.WIRE),
        Share(Phase.STREAM, wire.delivery_seconds - wire.decode_seconds, Source.WIRE),
    )
    return Ledger(shares, wire.e2e_seconds, wire.ttft_seconds, 0.0, reason)


def _split_stream(wire: _Wire, split: tuple[float, float], report: EngineReport, reason: Reason) -> Ledger:
    queue, prefill = split
    rest = wire.ttft_seconds - queue - prefill
    if report.decode_seconds is None:
        held, decode = 0.0, Share(Phase.DECODE, wire.decode_seconds, Source.WIRE)
        stream_source = Source.WIRE
    else:
        # Where the engine decoded for longer than tokens were passing here, it had made output before we saw the first of it.
        held = min(max(0.0, report.decode_seconds - wire.delivery_seconds), rest)
        decode = Share(Phase.DECODE, min(report.decode_seconds, wire.delivery_seconds), Source.ENGINE)
        stream_source = Source.DERIVED
    shares = [Share(Phase.QUEUE, queue, report.queue_source), Share(Phase.PREFILL, prefill, report.prefill_source)]
    if (
        report.queue_source is not Source.ESTIMATED
    ):  # the estimator knows nothing of a first_token: its two add up to TTFT
        shares.append(Share(Phase.FIRST_TOKEN, rest - held, Source.DERIVED))
    shares += [decode, Share(Phase.STREAM, wire.delivery_seconds - decode.seconds + held, stream_source)]
    return Ledger(tuple(shares), wire.e2e_seconds, wire.ttft_seconds, held, reason)


def _with_prefill(report: EngineReport, ttft_seconds: float) -> EngineReport:
    """Where the engine states all but the prefill, the prefill is what they leave of the TTFT; first_token is then the front end."""
    if report.prefill_seconds is not None or report.queue_seconds is None or report.front_end_seconds is None:
        return report
    stated = report.queue_seconds + report.front_end_seconds
    # What contradicts the wire stays a contradiction, and is judged like any other report's.
    prefill = report.front_end_seconds if _exceeds(stated, ttft_seconds) else max(0.0, ttft_seconds - stated)
    return replace(report, prefill_seconds=prefill, prefill_source=Source.DERIVED)


def _believed(report: EngineReport | None, ttft: float, reason: Reason) -> tuple[tuple[float, float] | None, Reason]:
    """Queue and prefill as far as the wire allows, or None and why not."""
    if report is None:
        return None, reason
    if report.merged:
        return None, Reason.ENGINE_MERGES_PHASES
    if report.queue_seconds is None or report.prefill_seconds is None:
        return None, Reason.REPORT_INCOMPLETE
    queue, prefill = report.queue_seconds, report.prefill_seconds
    if _exceeds(queue + prefill, ttft):
        return None, Reason.REPORT_EXCEEDS_WIRE
    excess = queue + prefill - ttft
    if excess > 0:
        prefill = max(0.0, prefill - excess)
        queue = ttft - prefill
    return (queue, prefill), reason


def _whole(e2e_seconds: float, report: EngineReport | None, reason: Reason) -> Ledger:
    """A non-streamed request: what the engine reports, and the rest unattributed."""
    reported = 0.0 if report is None or report.decode_seconds is None else report.decode_seconds
    if _exceeds(reported, e2e_seconds):
        return _unsplit(e2e_seconds, Reason.REPORT_EXCEEDS_WIRE)
    decode = min(reported, e2e_seconds)
    if report is not None and not report.merged and report.queue_seconds is not None and report.prefill_seconds is None:
        return _queue_alone(e2e_seconds, report, report.queue_seconds, reason)
    split, reason = _believed(report, e2e_seconds - decode, reason)
    if split is None or report is None:
        return _unsplit(e2e_seconds, reason)
    queue, prefill = split
    shares = [Share(Phase.QUEUE, queue, report.queue_source), Share(Phase.PREFILL, prefill, report.prefill_source)]
    if report.decode_seconds is not None:
        shares.append(Share(Phase.DECODE, decode, Source.ENGINE))
    shares.append(Share(Phase.UNATTRIBUTED, e2e_seconds - queue - prefill - decode, Source.DERIVED))
    return Ledger(tuple(shares), e2e_seconds, None, 0.0, reason)


def _queue_alone(e2e_seconds: float, report: EngineReport, queue: float, reason: Reason) -> Ledger:
    """A non-streamed request whose engine states its queue and does not separate prefill from decode (TGI's headers)."""
    if _exceeds(queue, e2e_seconds):
        return _unsplit(e2e_seconds, Reason.REPORT_EXCEEDS_WIRE)
    queue = min(queue, e2e_seconds)
    shares = (
        Share(Phase.QUEUE, queue, report.queue_source),
        Share(Phase.UNATTRIBUTED, e2e_seconds - queue, Source.DERIVED),
    )
    return Ledger(shares, e2e_seconds, None, 0.0, reason)


def _exceeds(reported_seconds: float, wire_seconds: float) -> bool:
    """Whether a report says more than the wire can hold, past what two clocks may differ by."""
    return reported_seconds - wire_seconds > max(TOLERANCE_SECONDS, TOLERANCE_RATIO * wire_seconds)


def _unsplit(e2e_seconds: float, reason: Reason) -> Ledger:
    return Ledger((Share(Phase.UNATTRIBUTED, e2e_seconds, Source.WIRE),), e2e_seconds, None, 0.0, reason)
