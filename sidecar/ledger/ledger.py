"""The ledger: splits one request into phases that add up, from its marks and the engine's report (design section 3).

Pure arithmetic on durations. It knows no engine and no stream, and it never invents a number: time that cannot be split
is `unattributed`, and a report that contradicts the wire is refused whole, its decode included.
"""

from msgspec.structs import replace

from sidecar.ledger.account import Ledger, Phase, Reason, Share, Source
from sidecar.ledger.report import EngineReport, SpanRequest
from sidecar.timeline.held_back import held_back
from sidecar.timeline.marks import Marks


TOLERANCE_SECONDS = 0.002
TOLERANCE_RATIO = 0.01
"""A report may exceed the wire by the larger of 2 ms and 1 %: two clocks, two roundings, one scheduler tick."""
UNSEEN_QUEUE_SECONDS = 0.005
UNSEEN_QUEUE_RATIO = 0.02
"""A queue that a report does not state is at most what the wire leaves beside it: up to 5 ms or 2 % of the wire's time, which is about what
the server's HTTP takes, it makes no difference."""
_ROUNDING_SECONDS = 1e-6
"""A rest below this of times that add up is no time of its own: an engine's span states them as differences of larger numbers."""
_IN_QUEUE, _IN_PREFILL, _IN_FIRST_TOKEN = Phase.QUEUE, Phase.PREFILL, Phase.FIRST_TOKEN
_IN_UNATTRIBUTED, _IN_DECODE, _IN_STREAM = Phase.UNATTRIBUTED, Phase.DECODE, Phase.STREAM
_BY_ENGINE, _BY_WIRE, _BY_DIFFERENCE, _BY_ESTIMATE = Source.ENGINE, Source.WIRE, Source.DERIVED, Source.ESTIMATED
"""The members themselves, for each request: CPython 3.11 takes ten times as long to find them by name."""


# A streamed request has two parts on the wire. The engine's report splits the first and part of the second:
#
#   received_at             first_token_at                     flushed_at
#        |---------- TTFT ----------|----------- delivery ---------|
#        |  queue | prefill | rest  |  decode          |  stream   |
#
# Each step may refuse the report; the request is then `unattributed` (TTFT), decode and stream, all from the wire:
# 1. _with_prefill: if the report has queue and front end but no prefill, prefill = TTFT - queue - front end. Not where
#    the answer was held back.
# 2. _believed: queue and prefill must be stated, stated apart, and fit into TTFT (with a tolerance). An excess within
#    the tolerance is taken off prefill, then off queue, because the phases must add up to the wire's time exactly. A report that begins
#    behind a queue is believed only where no room is left for that queue (UNSEEN_QUEUE_SECONDS), and its rest is `unattributed`.
# 3. queue + prefill + decode must fit into E2E. If not, the report is refused whole, because nothing tells which
#    of its numbers is wrong.
# 4. _split_stream: `rest` is the phase first_token. But if the engine decoded for longer than delivery, its first token
#    existed before the sidecar saw one: something held output back. That excess (`held`, at most `rest`) moves from
#    first_token to stream, and decode is capped at delivery. The sum stays E2E.
#
# 5. If the engine states how long it decoded what it does not send (hidden reasoning), that part of `rest` and of decode is `unattributed`
#    too: it is neither the front end's nor held back by anything, and the wire sees no token of it. So is the part of `rest` that a report
#    knows to be a queue or the move of a KV cache, without knowing which.
#
# The tokens of an answer that was held back (timeline/held_back.py) were made before its first event, and its TTFT holds
# its decode. The wire then measures no decode: unless the engine states it, `unattributed` takes its place, and that of
# first_token, which cannot be told from it.
#
# A non-streamed request has no TTFT: the reported phases are taken off E2E, and the remainder is `unattributed`.


def close_ledger(
    marks: Marks, *, streaming: bool, report: EngineReport | None, reason: Reason = Reason.IN_BAND
) -> Ledger | None:
    """Split one whole request into phases. Returns None if the marks `received_at` or `flushed_at` are missing.

    `report`: the engine's report on this request. `reason`: how the report came or, if it is None, why there is none;
    `in_band` and `late_report` without a report become `no_report`.
    """
    if report is None and reason in (Reason.IN_BAND, Reason.LATE_REPORT):
        reason = Reason.NO_REPORT
    if marks.received_at is None or marks.flushed_at is None:
        return None
    e2e_seconds = marks.flushed_at - marks.received_at
    if not streaming:
        return _whole(e2e_seconds, report, reason)
    if marks.first_token_at is None or marks.last_token_at is None:
        return Ledger((Share(_IN_UNATTRIBUTED, e2e_seconds, _BY_WIRE),), e2e_seconds, None, 0.0, Reason.NO_TOKEN)
    wire = _Wire(
        e2e_seconds=e2e_seconds,
        ttft_seconds=marks.first_token_at - marks.received_at,
        delivery_seconds=marks.flushed_at - marks.first_token_at,
        decode_seconds=marks.last_token_at - marks.first_token_at - marks.paused_seconds,
        held_back=held_back(marks) > 0,
    )
    if report is not None and not wire.held_back:
        report = _with_prefill(report, wire.ttft_seconds)
    split, reason = _believed(report, wire.ttft_seconds, reason)
    if split is None or report is None:
        return _unsplit_stream(wire, reason)
    # Queue, prefill and decode follow each other, all of them between the body's last byte and the client's last byte.
    if exceeds(sum(split) + (report.decode_seconds or 0.0), e2e_seconds):
        return _unsplit_stream(wire, Reason.REPORT_EXCEEDS_WIRE)
    return _split_stream(wire, split, report, reason)


def ledger_of_span(request: SpanRequest, report: EngineReport) -> Ledger:
    """Split a request that no hop saw, by its engine's span alone: TTFT, whole and phases are as the span states them.

    What the engine's server did before its first token beside queue and prefill is `first_token`; what it did after that token beside
    decode is `unattributed`. There is no phase `stream`, because no span knows when a client got a token.
    """
    ttft_seconds, e2e_seconds = request.ttft_seconds, request.e2e_seconds
    split, reason = _believed(report, ttft_seconds, Reason.SPAN_ALONE)
    decode = report.decode_seconds
    if reason is not Reason.REPORT_EXCEEDS_WIRE and exceeds(sum(split or ()) + (decode or 0.0), e2e_seconds):
        split, reason = None, Reason.REPORT_EXCEEDS_WIRE
    queue, prefill = split or (0.0, 0.0)
    if reason is Reason.REPORT_EXCEEDS_WIRE:
        decode = None
    elif decode is not None:
        decode = min(decode, e2e_seconds - queue - prefill)
    shares = []
    if split is not None:
        # A front end that was late with the first token has less left for what it did after the last one.
        before = min(ttft_seconds, e2e_seconds - (decode or 0.0)) - queue - prefill
        shares.append(Share(_IN_QUEUE, queue, report.queue_source))
        shares.append(Share(_IN_PREFILL, prefill, report.prefill_source))
        shares.append(Share(_IN_FIRST_TOKEN, before, _BY_DIFFERENCE))
    if decode is not None:
        shares.append(Share(_IN_DECODE, decode, _BY_ENGINE))
    rest = e2e_seconds - sum(share.seconds for share in shares)
    if rest > _ROUNDING_SECONDS:
        shares.append(Share(_IN_UNATTRIBUTED, rest, _BY_DIFFERENCE))
    return Ledger(tuple(shares), e2e_seconds, ttft_seconds, 0.0, reason)


class _Wire:
    """Durations of a streamed request as measured on the wire alone, in seconds."""

    __slots__ = ("decode_seconds", "delivery_seconds", "e2e_seconds", "held_back", "ttft_seconds")

    def __init__(
        self,
        e2e_seconds: float,
        ttft_seconds: float,
        delivery_seconds: float,
        decode_seconds: float,
        *,
        held_back: bool,
    ) -> None:
        """`delivery_seconds`: first token until flushed. `decode_seconds`: first token until last, less the time for which
        reading was paused because of this client. `held_back`: the tokens came at once, so that the time between them is no
        decode.
        """
        self.e2e_seconds = e2e_seconds
        self.ttft_seconds = ttft_seconds
        self.delivery_seconds = delivery_seconds
        self.decode_seconds = decode_seconds
        self.held_back = held_back


def _unsplit_stream(wire: _Wire, reason: Reason) -> Ledger:
    decode = Share(_IN_DECODE, wire.decode_seconds, _BY_WIRE)
    held_seconds = wire.decode_seconds if wire.held_back else 0.0
    shares = (
        Share(_IN_UNATTRIBUTED, wire.ttft_seconds + held_seconds, _BY_WIRE),
        *(() if wire.held_back else (decode,)),
        Share(_IN_STREAM, wire.delivery_seconds - wire.decode_seconds, _BY_WIRE),
    )
    return Ledger(shares, wire.e2e_seconds, wire.ttft_seconds, 0.0, reason)


def _split_stream(wire: _Wire, split: tuple[float, float], report: EngineReport, reason: Reason) -> Ledger:
    queue, prefill = split
    rest = behind = wire.ttft_seconds - queue - prefill
    untold = 0.0
    if report.untold_seconds:  # of few reports: each number more costs all requests
        untold = min(report.untold_seconds, rest)
        rest -= untold
    unsent = min(report.unsent_seconds, rest)
    rest -= unsent
    if report.decode_seconds is None and wire.held_back:
        whole = (
            Share(_IN_QUEUE, queue, report.queue_source),
            Share(_IN_PREFILL, prefill, report.prefill_source),
            Share(_IN_UNATTRIBUTED, behind + wire.decode_seconds, _BY_DIFFERENCE),
            Share(_IN_STREAM, wire.delivery_seconds - wire.decode_seconds, _BY_WIRE),
        )
        return Ledger(whole, wire.e2e_seconds, wire.ttft_seconds, 0.0, reason)
    if report.decode_seconds is None:
        held, decode = 0.0, Share(_IN_DECODE, wire.decode_seconds, _BY_WIRE)
        stream_source = _BY_WIRE
    else:
        # If the engine decoded for longer than tokens passed here, it had output before the sidecar saw any.
        decode_seconds = max(0.0, report.decode_seconds - unsent)
        held = min(max(0.0, decode_seconds - wire.delivery_seconds), rest)
        decode = Share(_IN_DECODE, min(decode_seconds, wire.delivery_seconds), _BY_ENGINE)
        stream_source = _BY_DIFFERENCE
    shares = [Share(_IN_QUEUE, queue, report.queue_source), Share(_IN_PREFILL, prefill, report.prefill_source)]
    # An estimate states no first_token: its queue and prefill add up to TTFT, or to what the engine states of both.
    if report.queue_source is not _BY_ESTIMATE or rest > _ROUNDING_SECONDS:
        shares.append(Share(_IN_UNATTRIBUTED if report.behind_queue else _IN_FIRST_TOKEN, rest - held, _BY_DIFFERENCE))
    if untold or unsent:
        shares.append(Share(_IN_UNATTRIBUTED, untold + unsent, _BY_ENGINE))
    shares += [decode, Share(_IN_STREAM, wire.delivery_seconds - decode.seconds + held, stream_source)]
    return Ledger(tuple(shares), wire.e2e_seconds, wire.ttft_seconds, held, reason)


def _with_prefill(report: EngineReport, ttft_seconds: float) -> EngineReport:
    """Add prefill = TTFT - queue - front end if the engine states only those two; first_token is then the front end."""
    if report.prefill_seconds is not None or report.queue_seconds is None or report.front_end_seconds is None:
        return report
    stated = report.queue_seconds + report.front_end_seconds
    # A report that contradicts the wire must still do so: `_believed` then refuses it like any other.
    prefill = report.front_end_seconds if exceeds(stated, ttft_seconds) else max(0.0, ttft_seconds - stated)
    return replace(report, prefill_seconds=prefill, prefill_source=_BY_DIFFERENCE)


def _believed(report: EngineReport | None, ttft: float, reason: Reason) -> tuple[tuple[float, float] | None, Reason]:
    """Queue and prefill, cut to fit into `ttft`, or None and the reason."""
    if report is None:
        return None, reason
    if report.merged:
        return None, Reason.REPORT_EXCEEDS_WIRE if contradicts(report, ttft) else Reason.ENGINE_MERGES_PHASES
    if report.queue_seconds is None or report.prefill_seconds is None:
        return None, Reason.REPORT_INCOMPLETE
    queue, prefill = report.queue_seconds, report.prefill_seconds
    if exceeds(queue + prefill, ttft):
        return None, Reason.REPORT_EXCEEDS_WIRE
    if report.behind_queue and ttft - queue - prefill > max(UNSEEN_QUEUE_SECONDS, UNSEEN_QUEUE_RATIO * ttft):
        return None, Reason.REPORT_INCOMPLETE
    excess = queue + prefill - ttft
    if excess > 0:
        prefill = max(0.0, prefill - excess)
        queue = ttft - prefill
    return (queue, prefill), reason


def contradicts(report: EngineReport, ttft_seconds: float) -> bool:
    """Whether queue and prefill together, or the parts of the queue, are stated to be longer than the time to first token."""
    return exceeds(max(report.merged_seconds or 0.0, report.least_queue_seconds), ttft_seconds)


def _whole(e2e_seconds: float, report: EngineReport | None, reason: Reason) -> Ledger:
    """Ledger of a non-streamed request: the phases that the engine reports; the rest is unattributed."""
    reported = 0.0 if report is None or report.decode_seconds is None else report.decode_seconds
    if exceeds(reported, e2e_seconds):
        return _unsplit(e2e_seconds, Reason.REPORT_EXCEEDS_WIRE)
    decode = min(reported, e2e_seconds)
    if report is not None and report.queue_seconds is not None and report.splits_off_queue:
        return _queue_alone(e2e_seconds, report, report.queue_seconds, reason)
    split, reason = _believed(report, e2e_seconds - decode, reason)
    if split is None or report is None:
        return _unsplit(e2e_seconds, reason)
    queue, prefill = split
    shares = [Share(_IN_QUEUE, queue, report.queue_source), Share(_IN_PREFILL, prefill, report.prefill_source)]
    if report.decode_seconds is not None:
        shares.append(Share(_IN_DECODE, decode, _BY_ENGINE))
    shares.append(Share(_IN_UNATTRIBUTED, e2e_seconds - queue - prefill - decode, _BY_DIFFERENCE))
    return Ledger(tuple(shares), e2e_seconds, None, 0.0, reason)


def _queue_alone(e2e_seconds: float, report: EngineReport, queue: float, reason: Reason) -> Ledger:
    """Ledger of a non-streamed request if the engine states queue, but prefill only with decode (TGI's headers)."""
    if exceeds(queue, e2e_seconds):
        return _unsplit(e2e_seconds, Reason.REPORT_EXCEEDS_WIRE)
    queue = min(queue, e2e_seconds)
    shares = (
        Share(_IN_QUEUE, queue, report.queue_source),
        Share(_IN_UNATTRIBUTED, e2e_seconds - queue, _BY_DIFFERENCE),
    )
    return Ledger(shares, e2e_seconds, None, 0.0, reason)


def exceeds(reported_seconds: float, wire_seconds: float) -> bool:
    """Whether a reported duration is longer than the wire's by more than the tolerance."""
    return reported_seconds - wire_seconds > max(TOLERANCE_SECONDS, TOLERANCE_RATIO * wire_seconds)


def _unsplit(e2e_seconds: float, reason: Reason) -> Ledger:
    return Ledger((Share(_IN_UNATTRIBUTED, e2e_seconds, _BY_WIRE),), e2e_seconds, None, 0.0, reason)
