"""The phases within the latency of one objective of one request: they add up to the latency, and not to the whole request. Pure.

Knows which phases lie within which latency. A time to first token may also hold output that something before the sidecar held back, and the
time from the first to the last token may also hold time in which the client did not read: both are `stream`. Refuses to know where
the ledger comes from: an account that closes now, or a row that was kept.
"""

from collections.abc import Mapping

from sidecar.ledger.account import Phase
from sidecar.objectives.objective import E2E, STALL, TTFT, Objective


BEFORE_FIRST_TOKEN = (Phase.QUEUE, Phase.PREFILL, Phase.FIRST_TOKEN, Phase.UNATTRIBUTED)
FROM_FIRST_TOKEN = (Phase.DECODE,)
BEYOND, UNSPLIT = Phase.STREAM, Phase.UNATTRIBUTED
"""Phase of a remainder, and of a latency without any phase."""
PARTS: Mapping[Objective, tuple[Phase, ...]] = {
    Objective.TTFT: (*BEFORE_FIRST_TOKEN, Phase.STREAM),
    Objective.TPOT: (Phase.DECODE, Phase.STREAM, Phase.UNATTRIBUTED),
    Objective.E2E: tuple(Phase),
    Objective.STALL: (),
}
"""Phases that can lie within the latency of each objective. A ledger does not tell in which phase one gap of an answer was."""
_ROUNDING = 1e-6
"""A remainder below this share of a latency is the rounding of a float32, and no phase."""


def latency_parts(
    objective: Objective, phases: Mapping[Phase, float], ttft_seconds: float | None, output_seconds: float | None
) -> dict[Phase, float]:
    """Seconds of each phase within the latency; empty where the request does not have it. `phases`: its ledger.

    `output_seconds`: from the first to the last output, which a time per token divides by the number of tokens less one.
    """
    found: dict[Phase, float] = {}
    add_latency_parts(found, objective, phases, ttft_seconds, output_seconds)
    return found


def add_latency_parts(
    sums: dict[Phase, float],
    objective: Objective,
    phases: Mapping[Phase, float],
    ttft_seconds: float | None,
    output_seconds: float | None,
) -> None:
    """Add the same seconds to `sums`: for code that runs for each request that missed."""
    if objective is E2E:
        for phase, part in phases.items():
            sums[phase] = sums.get(phase, 0.0) + (part if part > 0 else 0.0)
        return
    latency = ttft_seconds if objective is TTFT else output_seconds
    if latency is None or objective is STALL:
        return
    left, is_split = latency, False
    for phase in BEFORE_FIRST_TOKEN if objective is TTFT else FROM_FIRST_TOKEN:
        within = phases.get(phase)
        if within is None:
            continue
        # An answer that was held back has its decode in `unattributed` too: only what lies before the token counts.
        if within > left:
            within = left
        elif within < 0:
            within = 0.0
        left -= within
        sums[phase] = sums.get(phase, 0.0) + within
        is_split = True
    if not is_split:
        sums[UNSPLIT] = sums.get(UNSPLIT, 0.0) + latency
    elif left > _ROUNDING * latency:
        sums[BEYOND] = sums.get(BEYOND, 0.0) + left
