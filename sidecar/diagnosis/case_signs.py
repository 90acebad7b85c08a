"""The signs that a case shows: facts beyond phase and cause on which the effect of a fix depends (`levers.Sign`). Pure.

A sign is shown or it is not known to be: an unknown number shows none. Knows which number makes which sign. Refuses to know which fix
asks for it: `interventions/*.yml` say so.
"""

from collections.abc import Iterator, Mapping

from sidecar.diagnosis import bound
from sidecar.diagnosis.findings import Number, State
from sidecar.diagnosis.judging import NEAR_THE_FLOOR
from sidecar.diagnosis.levers import Sign
from sidecar.diagnosis.measured import Measured
from sidecar.ledger.account import Source
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import DEARER, Cause, is_worth_naming


FULL_BATCH_KV = 0.95
"""Usage of the KV cache from which no request gets in before another ends: the batch is full, however many run."""
KV_HAS_ROOM = 0.8
"""Usage of the KV cache below which more requests find room."""
ALL_SLOTS = 0.95
"""Share of the batch limit from which all slots count as taken: the number is a mean over a minute."""
ROOM = 0.5
"""Share of its threshold below which a latency may be lengthened for another."""
ALL_BUT = 0.1
"""Share of requests without the engine's own split, at which its reports leave nothing to be asked for."""
MOSTLY_CACHED = 0.8
"""Share of cached prompt tokens from which a prefix cache has little left to give."""


def signs(m: Measured, numbers: Mapping[Objective, Number]) -> frozenset[str]:
    """The signs that these numbers show."""
    return frozenset(str(sign) for shown in (_of_load(m), _of_engine(m), _of_latencies(m, numbers)) for sign in shown)


def _of_load(m: Measured) -> Iterator[Sign]:
    load = m.load
    if (bound.load(m) or 0.0) > 1.0:
        yield Sign.OVERFULL
    if load.kv_usage is not None and load.kv_usage >= FULL_BATCH_KV:
        yield Sign.KV_FULL
    if load.kv_usage is not None and load.kv_usage < KV_HAS_ROOM:
        yield Sign.KV_ROOM
    if load.running is not None and load.slots is not None:
        yield Sign.SLOTS_FULL if load.running >= ALL_SLOTS * load.slots else Sign.SLOTS_FREE
    if load.preempted or load.preemptions_per_second:
        yield Sign.PREEMPTING
    if (m.rejected or 0.0) >= 1.0:
        yield Sign.REJECTING
    if is_worth_naming(Cause.PROMPT_MIX, m.ratios.get(Cause.PROMPT_MIX, 0.0)):
        yield Sign.PROMPTS_GREW
    if load.cached is not None and load.cached >= MOSTLY_CACHED:
        yield Sign.CACHED_MOST


def _of_engine(m: Measured) -> Iterator[Sign]:
    if any(pod.odd for pods in m.pods.values() for pod in pods):
        yield Sign.ODD_POD
    if all(part in m.costs and m.costs[part].low > DEARER for part in ("decode", "prefill")):
        yield Sign.BOTH_COSTS
    if m.by_spans:
        yield Sign.BY_SPANS
    queue = m.phases.get(Blame.QUEUE)
    if queue is not None and queue.sources.get(Source.ENGINE):
        yield Sign.REPORTING
    if queue is not None and sum(m.unsplit.values()) + queue.sources.get(Source.ESTIMATED, 0.0) <= ALL_BUT:
        yield Sign.ALL_SPLIT
    if Cause.KV_TRANSFER in m.ratios:
        yield Sign.SEPARATE_PREFILL
    if m.machine.gpu is not None and m.machine.gpu not in bound.WITH_8_BIT_UNITS:
        yield Sign.NO_8_BIT_UNITS


def _of_latencies(m: Measured, numbers: Mapping[Objective, Number]) -> Iterator[Sign]:
    ttft, tokens = numbers[Objective.TTFT], numbers[Objective.TPOT]
    if ttft.state is State.BROKEN:
        yield Sign.TTFT_BROKEN
    if ttft.state is State.BROKEN and tokens.state is State.BROKEN:
        yield Sign.BOTH_BROKEN
    if ttft.state is State.MET and ttft.over is not None and ttft.over <= ROOM:
        yield Sign.TTFT_HAS_ROOM
    floor, p99 = m.machine.floor, m.inter_token.p99_seconds
    if floor is not None and p99 is not None:
        if p99 <= NEAR_THE_FLOOR * floor.weights_seconds:
            yield Sign.NEAR_FLOOR
        if floor.most_seconds is not None and p99 > floor.most_seconds:
            yield Sign.ABOVE_FLOOR
