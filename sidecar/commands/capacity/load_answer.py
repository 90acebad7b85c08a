"""The answer about several replicas: how many keep the mean queue wait below a target, and how busy each would be.

It gathers load and service from flags. The arithmetic is in `replicas.py` and `service.py`.
"""

from dataclasses import asdict, dataclass, field, replace
from math import isfinite

from sidecar.commands.capacity.answer import Answer, Fact, Origin, RefusedError
from sidecar.commands.capacity.flags import Asked
from sidecar.commands.capacity.replicas import Fleet, Line, Row, Slots, line_of
from sidecar.commands.capacity.service import fit_points
from sidecar.commands.capacity.units import say_rate, say_seconds


QUESTION = "How many replicas keep the mean queue wait below the target?"


@dataclass(slots=True)
class _Case:
    """The inputs of the answer while they are gathered."""

    facts: list[Fact] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    numbers: dict[str, object] = field(default_factory=dict)

    def fact(self, name: str, value: float, said: str, origin: Origin, source: str) -> None:
        self.facts.append(Fact(name, value, said, origin, source))


def replicas_answer(asked: Asked, room: int | None = None) -> Answer:
    """`room`: sequences that fit into a replica's cache, if known."""
    target = asked.number("wait")
    assert target is not None
    case = _Case()
    try:
        fleet = _fleet(asked, room, case)
        lines = _lines(case, fleet, target, fleet.fewest(target))
    except RefusedError as refusal:
        return Answer(
            "replicas", QUESTION, facts=tuple(case.facts), assumptions=tuple(case.assumptions), refusal=str(refusal)
        )
    case.assumptions += [
        "Requests come at random (Poisson) at a steady rate. Bursts wait longer: give the rate of the worst minutes, not of the day.",
        "Replicas are alike and independent, and none fails: add your spare replicas to the number.",
        (
            "The router picks a replica at random. A router that joins the shortest queue needs no more replicas;"
            " one that follows sessions or prefixes may need more."
        ),
    ]
    changes = (
        "Longer prompts or outputs, a lower share of cached prefixes and other engine flags change the service time: measure again.",
        "A mean does not show the tail: a few per cent of the requests wait several times as long.",
    )
    return Answer("replicas", QUESTION, tuple(lines), case.numbers, tuple(case.facts), tuple(case.assumptions), changes)


def _fleet(asked: Asked, room: int | None, case: _Case) -> Fleet:
    """The replicas as the flags describe them. Raises RefusedError if neither queue is known."""
    rate = asked.number("rate")
    assert rate is not None
    case.fact("rate", rate, say_rate(rate), Origin.GIVEN, "--rate")
    line, slots = _line(asked, case), _slots(asked, room, case)
    if line is None and slots is None:
        raise RefusedError(
            "the speed of a replica is not known: give --slots and --service (twice or more, from a load test) and --prefill"
        )
    return Fleet(rate, line, slots)


def _line(asked: Asked, case: _Case) -> Line | None:
    prompts = asked.prompts()
    if not prompts:
        case.assumptions.append(
            "The wait behind other prompts' prefill is left out, because no --prefill is given. It is often most of the queue."
        )
        return None
    line = line_of(prompts)
    said = f"{say_seconds(line.seconds)} per prompt"
    case.fact("prefill_seconds", line.seconds, said, Origin.GIVEN, "--prefill, weighted")
    return line


def _slots(asked: Asked, room: int | None, case: _Case) -> Slots | None:
    """The slots that count: no more than the cache has room for, or than requests ran at once in the load test."""
    count, points = asked.count("slots"), asked.points()
    if count is not None:
        case.fact("slots", count, f"{count} at one replica", Origin.GIVEN, "--slots")
    if not points:
        case.assumptions.append("The slots are assumed never to be all taken, because no --service is given.")
        return None
    assert count is not None, "flags: --service needs --slots"
    if room is not None and room < count:
        if not room:
            raise RefusedError("not one sequence of that length fits into the KV cache of a replica")
        case.fact("slots_in_cache", room, f"{room} fit into the cache", Origin.DERIVED, "the answer about memory")
        case.assumptions.append(f"The cache has room for {room} sequences, so only that many run at once, not {count}.")
        count = room
    service = fit_points(points)
    for n, seconds in points:
        case.fact(f"service_{n}_seconds", seconds, f"{say_seconds(seconds)} among {n}", Origin.GIVEN, "--service")
    alone, each = service.alone_seconds, service.each_seconds
    said = f"a request runs {say_seconds(alone)} + {say_seconds(each)} x (requests at once)"
    source = f"fitted to --service, which lies within {service.error:.0%} of it"
    case.fact("service_alone_seconds", alone, said, Origin.DERIVED, source)
    case.numbers |= {"service_alone_seconds": alone, "service_each_seconds": each}
    if service.known < count:
        case.assumptions.append(
            f"Only {service.known} of the {count} slots are counted, because --service states no time among more requests:"
            " test it under more load."
        )
        count = service.known
    case.assumptions.append(
        "A request that waits for a slot finds all others as slow as with all slots taken, so that wait is rather too long than too short."
    )
    return Slots(service, count)


def _lines(case: _Case, fleet: Fleet, target: float, row: Row) -> list[str]:
    """The sentences of the answer; its numbers go into `case`."""
    name = "replica" if row.replicas == 1 else "replicas"
    around = [fleet.row(replicas) for replicas in range(max(1, row.replicas - 1), row.replicas + 2)]
    try:
        more = f"{replace(fleet, rate=fleet.rate * 1.2).fewest(target).replicas:,}."
    except RefusedError:
        more = "the data do not support an answer."
    case.numbers |= {
        "target_seconds": target,
        "rate": fleet.rate,
        "replicas": row.replicas,
        "rows": [_numbers(each) for each in around],
    }
    return [
        f"{row.replicas:,} {name} for a mean queue wait of at most {say_seconds(target)} at {say_rate(fleet.rate)}.",
        *map(_table_line, around),
        f"With 20 % more requests: {more}",
    ]


def _table_line(row: Row) -> str:
    wait = say_seconds(row.wait_seconds) if isfinite(row.wait_seconds) else "grows without end"
    parts = []
    if row.slots_busy is not None:
        parts.append(f"{row.slots_busy:.0%} of what its slots can carry")
    if row.prefill_busy is not None:
        parts.append(f"{row.prefill_busy:.0%} of the time in prefill")
    return f"  {row.replicas:>5,}: wait {wait:<20} each at {', '.join(parts)}"


def _numbers(row: Row) -> dict[str, object]:
    """One row of the table as JSON values. An infinite wait is null: JSON has no infinity."""
    return asdict(row) | {"wait_seconds": row.wait_seconds if isfinite(row.wait_seconds) else None}
