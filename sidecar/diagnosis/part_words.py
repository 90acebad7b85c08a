"""The part of a phase that holds most of it, in words, with what to do about it. Spelled once.

An engine that states parts of a phase (`ledger/phase_parts.py`) tells more than that its requests wait: whose queue they wait in. No usual
value of a part is kept, so this is a share of now and says so: the part that holds most need not be the one that grew. Refuses to speak of a
phase without stated parts, and to take the rest for one of them.
"""

from collections.abc import Mapping

from sidecar.diagnosis.measured import Measured, PhaseParts
from sidecar.diagnosis.verdict import RootPhase
from sidecar.diagnosis.wording import digits, percent, phase_name, seconds
from sidecar.ledger.phase_parts import REST, Part
from sidecar.objectives.attribution import Blame


IS: Mapping[str, str] = {
    Part.ROUTER: "the wait in front of the workers",
    Part.PREFILL_QUEUE: "the prefill workers' queue",
    Part.DECODE_ADMISSION: "the wait for room at the decode workers, an estimate",
    Part.COMPUTE: "the prompt's own computation",
    Part.KV_TRANSFER: "the KV cache's move to the decode worker, at the most",
}
"""Each part as a clause."""
DO: Mapping[str, str] = {
    Part.ROUTER: "see whether every worker is full; if so add workers, else look at how the router chooses",
    Part.PREFILL_QUEUE: "add prefill workers, or send them fewer or shorter prompts",
    Part.DECODE_ADMISSION: "add decode workers, or give those that are there more room for the KV cache",
    Part.COMPUTE: "have more of each prompt cached, or shorter prompts",
    Part.KV_TRANSFER: "look at the network between the prefill and decode workers",
}
"""Each part to what to do about it, as a clause."""


def largest_part(m: Measured, phase: RootPhase) -> list[str]:
    """A line on the part that holds most of this phase now; empty where the engine states no part of it, and where it took no time."""
    parts = m.phase_parts.get(phase) if isinstance(phase, Blame) else None
    whole = 0.0 if parts is None else sum(parts.mean_seconds.values())
    if parts is None or whole <= 0.0:
        return []
    most = max(parts.mean_seconds, key=lambda part: (parts.mean_seconds[part], part != REST))
    of = f"Of the phase {phase_name(phase)}, {seconds(parts.mean_seconds[most])} of {seconds(whole)} per request are"
    many = round(parts.requests)
    over = f"over {digits(many)} request{'' if many == 1 else 's'} whose engine states parts of it"
    return [f"{of} {_held_by(most, parts)}. A share of now and no growth, {over}{_estimated(m, Blame(phase))}."]


def _held_by(most: str, parts: PhaseParts) -> str:
    """The part with its clauses; the bare name of one that only a later version knows."""
    if most != REST:
        return f"{most}, {IS[most]}: {DO[most]}" if most in IS else most
    stated = {part: mean for part, mean in parts.mean_seconds.items() if part != REST}
    largest = max(stated, key=stated.__getitem__, default=None)
    beside = "" if largest is None else f"; the largest of those is {largest}, {seconds(stated[largest])}"
    return f"in no part that the engine states{beside}"


def _estimated(m: Measured, phase: Blame) -> str:
    time = m.phases.get(phase)
    share = 0.0 if time is None else time.sources.get("estimated", 0.0)
    return f"; the phase is an estimate in {percent(share)} of the lane's" if share else ""
