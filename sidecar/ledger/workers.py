"""Puts together what several workers report on one request, and keeps one of them from speaking for the others. Pure.

Behind a router one request may be computed by a worker for its prompt, which is asked for a single token, by another one for the rest, and
by further ones for its images. Each reports as if the request were its own. They are told apart by what they made: the worker of the decode
made all tokens, that of the prefill one, of the same prompt; an encoder's prompt is another. A router reports the wait in it, and nothing else.

So a report settles a request alone only if it fits what the client saw: it made all of the tokens, and it began with the request. Else others
are waited for. It refuses to guess: where reports cannot be told apart, or one is missing, there is no split. A worker that seems to have
begun late may also be the only one, behind a slow hop: it is believed when the wait is over, and after BELIEVED_AFTER waits in vain at once,
unless workers share requests here. The queue that the worker of the decode states holds the move of the KV cache: nothing tells how much, so
it is neither queue nor first token.
"""

from collections import OrderedDict
from collections.abc import Sequence
from math import inf

from msgspec.structs import replace

from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, RequestKey, of_choices
from sidecar.timeline.marks import Marks


HOP_SECONDS, HOP_RATIO = 0.020, 0.2
"""A server's TTFT may be shorter than the wire's by the larger of both: that is the way to it, or a worker that made no difference."""
SHARED_SECONDS = 3600.0
"""After a request that workers shared, a report of one alone is doubted for so long."""
BELIEVED_AFTER = 20
"""So many reports in a row that seemed to have begun late were the only one on their request: then such a report is believed at once."""
MOST_HEARD = 512
"""Requests that are remembered for the second report on them."""


class Workers:
    """Remembers of one process whether its reports showed that workers share requests."""

    def __init__(self) -> None:
        self._shared_at = -inf
        self._alone = 0
        """Reports in a row that were waited with in vain for another worker's."""
        self._asked_for_one: OrderedDict[RequestKey, bool] = OrderedDict()

    def heard(self, keyed: KeyedReport, at: float) -> None:
        """A report came. Two on one request, of which one worker alone was asked for a single token, are of workers that share it."""
        if keyed.request is None or not keyed.keys:
            return
        asked_for_one = keyed.request.max_tokens == 1
        if self._asked_for_one.setdefault(keyed.keys[0], asked_for_one) != asked_for_one:
            self._share(at)
        if len(self._asked_for_one) > MOST_HEARD:
            self._asked_for_one.popitem(last=False)

    def _share(self, at: float) -> None:
        self._shared_at, self._alone = at, 0

    def are_doubted(self, report: EngineReport, marks: Marks, at: float) -> bool:
        """Whether workers share requests here, and there was time for another one before this one, whose report came in the answer."""
        if at - self._shared_at >= SHARED_SECONDS or report.queue_seconds is None or report.prefill_seconds is None:
            return False
        return began_late(replace(report, ttft_seconds=report.queue_seconds + report.prefill_seconds), marks)

    def put_together(
        self, reports: Sequence[EngineReport], parts: int, marks: Marks, at: float, *, last: bool
    ) -> EngineReport | None:
        """The report on the whole request; None to wait for others. `parts`: its choices, each with a report by a worker that did all of it.

        `last`: no further report is expected. If those that came cannot be put together, the answer is then a report without times.
        """
        before = sum(report.least_queue_seconds for report in reports if is_router(report))
        reports = [report for report in reports if not is_router(report)]
        if len(reports) < parts:
            return None
        one = of_choices(reports)
        if len(reports) > parts or (parts == 1 and made_less(one, marks)):
            self._share(at)
        shared, late = at - self._shared_at < SHARED_SECONDS, began_late(one, marks, before)
        self._alone += last and late and not shared
        believed = not late or not (shared or (self._alone < BELIEVED_AFTER and not last))
        found = None
        if len(reports) > parts:
            found = _of_pair(reports, marks) if parts == 1 else None
            one = replace(one, usage=one.usage and one.usage._replace(completion_tokens=None))
        elif believed and not made_less(one, marks):
            found = one
        if found is None:
            return replace(NO_REPORT, usage=one.usage) if last else None
        return _behind(before, found) if before else found


def made_less(report: EngineReport, marks: Marks) -> bool:
    """Whether its worker made fewer tokens than the client got. An event is not a token, so of events only several say so of one token."""
    made = None if report.usage is None else report.usage.completion_tokens
    if made is None:
        return False
    got = None if marks.usage is None else marks.usage.completion_tokens
    return made <= 1 < marks.output_events if got is None else made < got


def began_late(report: EngineReport, marks: Marks, before: float = 0.0) -> bool:
    """Whether there was time for another worker before it, beside `before`, in seconds. Of a report without its server's TTFT that is not known."""
    stated, until = report.ttft_seconds, marks.first_token_at
    if until is None and stated is not None and report.decode_seconds is not None:
        stated, until = stated + report.decode_seconds, marks.ended_at
    if stated is None or until is None or marks.received_at is None:
        return False
    seconds = until - marks.received_at
    return seconds - before - stated > max(HOP_SECONDS, HOP_RATIO * seconds)


def is_router(report: EngineReport) -> bool:
    """Whether it states the wait before all workers, and nothing else."""
    return bool(report.parts) and report == EngineReport(parts=report.parts)


def _behind(router_seconds: float, report: EngineReport) -> EngineReport:
    """The report, with the wait before all workers as a part of the queue."""
    if report.queue_seconds is None:
        return report
    parts = (StatedPart(Part.ROUTER, router_seconds), *report.parts)
    return replace(report, queue_seconds=router_seconds + report.queue_seconds, parts=parts)


def _of_pair(reports: Sequence[EngineReport], marks: Marks) -> EngineReport | None:
    """The report of the worker that made the tokens and of the one that made one token of the same prompt; None if they are not these."""
    told = [(report.usage, report) for report in reports if report.usage is not None]
    decodes = [(usage, report) for usage, report in told if usage.completion_tokens != 1]
    if len(told) < len(reports) or len(decodes) != 1:
        return None
    ((whole, decode),) = decodes
    prefills = [report for usage, report in told if usage.prompt_tokens == whole.prompt_tokens and report is not decode]
    if whole.prompt_tokens is None or len(prefills) != 1 or made_less(decode, marks):
        return None
    queue, prefill = prefills[0].queue_seconds, prefills[0].prefill_seconds
    if queue is None or prefill is None:
        return None
    return replace(
        decode,
        queue_seconds=queue,
        prefill_seconds=prefill,
        untold_seconds=decode.queue_seconds or 0.0,
        parts=(StatedPart(Part.PREFILL_QUEUE, queue), StatedPart(Part.COMPUTE, prefill)),
    )
