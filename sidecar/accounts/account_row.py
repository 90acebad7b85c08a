"""One closed account as a row of bytes: its layout, and how a row is read back.

Knows the order of the fields and how an unknown value is written: NaN for seconds, UNKNOWN_TOKENS for tokens, never 0. Instants are seconds of
one monotonic clock; durations have the 24 bits of a float32, which is 0.06 us in a second. Refuses to hold text: a lane and a model
are numbers of a table (`account_ring.py`), and so are all words of closed sets.
"""

from collections.abc import Sequence
from math import isnan, nan
from mmap import mmap
from struct import Struct
from typing import NamedTuple

from sidecar.ledger.account import Phase, Reason
from sidecar.objectives.objective import Objective
from sidecar.timeline.outcome import Outcome


PHASES_KEPT = tuple(Phase)
OUTCOMES = tuple(Outcome)
REASONS = tuple(Reason)
OBJECTIVES_KEPT = tuple(Objective)

ROW = Struct(f"<d{len(PHASES_KEPT)}f3f3IH4B")
"""arrived_at; phases; TTFT, whole, output; tokens of prompt, cached, completion; lane; model, outcome, flags, reason."""
ARRIVAL = Struct(f"<d{ROW.size - 8}x")
"""Out of each ROW arrived_at alone."""
LATENCIES = Struct("<24xf4x3f8xIHxxBB")
"""Out of each ROW what the latencies need, at a third of the time: decode; TTFT, whole, output; completion; lane; flags, reason."""
UNKNOWN_TOKENS = (1 << 32) - 1
NO_SECONDS: Sequence[float] = (nan,) * len(PHASES_KEPT)
PLACE_OF = {phase: place for place, phase in enumerate(PHASES_KEPT)}
NUMBER_OF_OUTCOME = {outcome: number for number, outcome in enumerate(OUTCOMES)}
NUMBER_OF_REASON = {reason: number for number, reason in enumerate(REASONS)}
NO_REASON = 255
"""Instead of the number of a reason: there is no ledger, because the request did not end well."""
MISSED = {objective: 1 << place for place, objective in enumerate(OBJECTIVES_KEPT)}
"""Flag of each objective: the request missed it."""
STREAMED = 1 << len(OBJECTIVES_KEPT)
ONE_CHOICE = STREAMED << 1
"""Flag: output of one choice was seen, so that its tokens came one after the other."""


Rows = bytes | bytearray | memoryview | mmap


class AccountRow(NamedTuple):
    """One closed account as it was kept. None: unknown, or without meaning for such a request."""

    arrived_at: float
    """Instant at which the request was whole; of one that never was, the first byte of its head."""
    lane: str
    model: str
    streaming: bool
    outcome: Outcome
    phases: dict[Phase, float]
    """The ledger in seconds; empty without one, because the request did not end well. A phase that is absent is unknown."""
    reason: Reason | None
    """How the split was obtained, or why there is none; None without a ledger."""
    whole_seconds: float | None
    """From `arrived_at` to the last byte of the answer, or to another end."""
    ttft_seconds: float | None
    output_seconds: float | None
    """From the first to the last output event of a stream of one choice."""
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    missed: tuple[Objective, ...]
    """Objectives that the request missed; empty also where it has none."""


def row_of(rows: Rows, offset: int, lanes: Sequence[str], models: Sequence[str]) -> AccountRow:
    """The row that begins at this byte. `lanes`, `models`: the tables of names."""
    arrived_at, *rest = ROW.unpack_from(rows, offset)
    seconds, (ttft, whole, output) = rest[: len(PHASES_KEPT)], rest[len(PHASES_KEPT) : len(PHASES_KEPT) + 3]
    prompt, cached, completion, lane, model, outcome, flags, reason = rest[len(PHASES_KEPT) + 3 :]
    return AccountRow(
        arrived_at=arrived_at,
        lane=lanes[lane],
        model=models[model],
        streaming=bool(flags & STREAMED),
        outcome=OUTCOMES[outcome],
        phases={phase: part for phase, part in zip(PHASES_KEPT, seconds, strict=True) if not isnan(part)},
        reason=None if reason == NO_REASON else REASONS[reason],
        whole_seconds=None if isnan(whole) else whole,
        ttft_seconds=None if isnan(ttft) else ttft,
        output_seconds=None if isnan(output) or not flags & ONE_CHOICE else output,
        prompt_tokens=None if prompt == UNKNOWN_TOKENS else prompt,
        cached_tokens=None if cached == UNKNOWN_TOKENS else cached,
        completion_tokens=None if completion == UNKNOWN_TOKENS else completion,
        missed=tuple(objective for objective, flag in MISSED.items() if flags & flag),
    )
