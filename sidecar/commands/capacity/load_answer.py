"""The answer about several replicas: how many keep the mean queue wait below a target, and how busy each would be.

It gathers load and service from flags. The arithmetic is in `replicas.py`, `service.py` and `chain.py`.
"""

from dataclasses import dataclass, field, replace
from math import isfinite

from sidecar.commands.capacity.answer import Answer, Fact, Origin, RefusedError
from sidecar.commands.capacity.flags import Asked
from sidecar.commands.capacity.replicas import Fleet, Row, Slots, line_of
from sidecar.commands.capacity.service import Service, fit_points
from sidecar.commands.capacity.units import say_rate, say_seconds


QUESTION = "How many replicas keep the mean queue wait below the target?"


@dataclass(slots=True)
class _Case:
    """The inputs and text of the answer while they are gathered."""

    fleet: Fleet
    variation: float | None = None
    facts: list[Fact] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    numbers: dict[str, object] = field(default_factory=dict)

    def fact(self, name: str, value: float, said: str, origin: Origin, source: str) -> None:
        self.facts.append(Fact(name, value, said, origin, source))


def replicas_answer(asked: Asked, room: int | None = None) -> Answer:
    """`room`: sequences that fit into a replica's cache, if known."""
    target = asked.number("wait")
    assert target is not None
    case = _Case(Fleet(0.0, None, None), asked.number("service.variation"))
    try:
        slots = _slot_count(asked, room, case)
        _by_hand(asked, slots, case)
        by_shortest = asked.word("router") == "shortest"
        row = case.fleet.fewest(target)
        best = case.fleet.fewest(target, shared=True) if by_shortest else row
    except RefusedError as refusal:
        return Answer(
            "replicas", QUESTION, facts=tuple(case.facts), assumptions=tuple(case.assumptions), refusal=str(refusal)
        )
    _say(case, target, row, best)
    case.assumptions += [
        "Requests come at random (Poisson) at a steady rate. Bursts wait longer: give the rate of the worst minutes, not of the day.",
        "Replicas are alike and independent, and none fails: add your spare replicas to the number.",
        "The router joins the shortest queue. The lower number is for one common queue, the upper for a random router."
        if by_shortest
        else "The router picks a replica at random. A router that joins the shortest queue needs fewer replicas"
        " (--router=shortest); one that follows sessions or prefixes may need more.",
    ]
    changes = (
        "Longer prompts or outputs, a lower share of cached prefixes and other engine flags change the service time: measure again.",
        "A mean does not show the tail: a few per cent of the requests wait several times as long.",
    )
    return Answer(
        "replicas", QUESTION, tuple(case.lines), case.numbers, tuple(case.facts), tuple(case.assumptions), changes
    )


def _slot_count(asked: Asked, room: int | None, case: _Case) -> int | None:
    slots = asked.count("slots")
    if slots is None:
        return None
    case.fact("slots", slots, f"{slots} at one replica", Origin.GIVEN, "--slots")
    if room is not None and room < slots:
        if not room:
            raise RefusedError("not one sequence of that length fits into the KV cache of a replica")
        case.fact("slots_in_cache", room, f"{room} fit into the cache", Origin.DERIVED, "the answer about memory")
        case.assumptions.append(f"The cache has room for {room} sequences, so only that many run at once, not {slots}.")
        return room
    return slots


def _service(asked: Asked, case: _Case) -> Service | None:
    points = asked.points()
    if not points:
        return None
    service = fit_points(points)
    for n, seconds in points:
        case.fact(f"service_{n}_seconds", seconds, f"{say_seconds(seconds)} among {n}", Origin.GIVEN, "--service")
    _said_service(case, service, f"fitted to --service, which lies within {service.error:.0%} of it")
    return service


def _said_service(case: _Case, service: Service, source: str) -> None:
    alone, each = service.alone_seconds, service.each_seconds
    said = f"a request runs {say_seconds(alone)} + {say_seconds(each)} x (requests at once)"
    case.fact("service_alone_seconds", alone, said, Origin.DERIVED, source)
    case.numbers |= {"service_alone_seconds": alone, "service_each_seconds": each}


def _by_hand(asked: Asked, slots: int | None, case: _Case) -> None:
    rate = asked.number("rate")
    assert rate is not None
    case.fact("rate", rate, say_rate(rate), Origin.GIVEN, "--rate")
    prompts, service = asked.prompts(), _service(asked, case)
    if not prompts and service is None:
        raise RefusedError(
            "the speed of a replica is not known: give --slots and --service (twice or more, from a load test) and --prefill"
        )
    line = line_of(prompts) if prompts else None
    if line is not None:
        said = f"{say_seconds(line.seconds)} per prompt"
        case.fact("prefill_seconds", line.seconds, said, Origin.GIVEN, "--prefill, weighted")
    else:
        case.assumptions.append(
            "The wait behind other prompts' prefill is left out, because no --prefill is given. It is often most of the queue."
        )
    if service is None:
        case.assumptions.append("The slots are assumed never to be all taken, because no --service is given.")
        case.fleet = Fleet(rate, line, None)
        return
    assert slots is not None, "flags: --service needs --slots"
    variation = case.variation
    said = f"the standard deviation of the running time is {1.0 if variation is None else variation:.2g} times its mean"
    origin = Origin.ASSUMED if variation is None else Origin.GIVEN
    case.fact("variation", 1.0 if variation is None else variation, said, origin, "--service.variation")
    case.fleet = Fleet(rate, line, Slots(service, slots, _scale(variation)))


def _scale(variation: float | None) -> float:
    """The wait relative to the wait with exponential service: Lee and Longton's (1 + cv^2) / 2."""
    return 1.0 if variation is None else (1 + variation**2) / 2


def _say(case: _Case, target: float, row: Row, best: Row) -> None:
    fleet = case.fleet
    name = "replica" if row.replicas == 1 else "replicas"
    count = f"{row.replicas:,}" if best.replicas == row.replicas else f"{best.replicas:,} to {row.replicas:,}"
    lines = [f"{count} {name} for a mean queue wait of at most {say_seconds(target)} at {say_rate(fleet.rate)}."]
    around = sorted({max(1, best.replicas - 1), *range(best.replicas, row.replicas + 2)})[:8]
    lines += [_line(fleet.row(replicas), shared=best is not row) for replicas in around]
    more = replace(fleet, rate=fleet.rate * 1.2)
    try:
        lines.append(f"With 20 % more requests: {more.fewest(target).replicas:,}.")
    except RefusedError:
        lines.append("With 20 % more requests: the data do not support an answer.")
    case.lines += lines
    case.numbers |= {
        "target_seconds": target,
        "rate": fleet.rate,
        "replicas": row.replicas,
        "replicas_at_best": best.replicas,
        "rows": [_numbers(fleet.row(replicas)) for replicas in around],
    }


def _line(row: Row, *, shared: bool) -> str:
    wait = say_seconds(row.random_seconds) if isfinite(row.random_seconds) else "grows without end"
    if shared and isfinite(row.random_seconds):
        wait = f"{say_seconds(row.shared_seconds)} to {wait}"
    parts = []
    if row.slots_busy is not None:
        parts.append(f"{row.slots_busy:.0%} of what its slots can carry")
    if row.prefill_busy is not None:
        parts.append(f"{row.prefill_busy:.0%} of the time in prefill")
    return f"  {row.replicas:>5,}: wait {wait:<20} each at {', '.join(parts)}"


def _numbers(row: Row) -> dict[str, object]:
    """One row of the table as JSON values. An infinite wait is null: JSON has no infinity."""
    return {
        "replicas": row.replicas,
        "wait_seconds": row.random_seconds if isfinite(row.random_seconds) else None,
        "wait_seconds_at_best": row.shared_seconds if isfinite(row.shared_seconds) else None,
        "prefill_busy": row.prefill_busy,
        "slots_busy": row.slots_busy,
    }
