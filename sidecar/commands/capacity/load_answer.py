"""The answer about several replicas: how many keep the mean queue wait below a target, and how busy each would be.

It gathers load and service from flags and from a watched sidecar, compares the model with the measured wait, and
refuses if they do not agree. The arithmetic is in `replicas.py`, `service.py` and `chain.py`.
"""

from dataclasses import dataclass, field, replace
from math import inf, isfinite

from sidecar.commands.capacity.answer import Answer, Fact, Origin, RefusedError
from sidecar.commands.capacity.flags import SLOTS_FLAGS, Asked
from sidecar.commands.capacity.observation import Observation
from sidecar.commands.capacity.replicas import Fleet, Line, Row, Slots, line_of
from sidecar.commands.capacity.service import Service, fit_observed, fit_points
from sidecar.commands.capacity.units import say_rate, say_seconds


QUESTION = "How many replicas keep the mean queue wait below the target?"
MOST_LEVEL = 3.0
"""Largest accepted factor between model and measured wait; the factor found is then applied. Waits of some hundred
requests are known to a factor of about 1.5, and the model to another. Beyond it, the queue has another cause."""
MOST_BUSY = 0.95
MOST_STEP = 2.0
"""An answer loads a replica with at most this multiple of the load at which it was watched."""


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


def replicas_answer(asked: Asked, seen: Observation | None, room: int | None = None) -> Answer:
    """`seen`: load and waits, if a sidecar was watched. `room`: sequences that fit into a replica's cache, if known."""
    target = asked.number("wait")
    assert target is not None
    case = _Case(Fleet(0.0, None, None), asked.number("service.variation"))
    try:
        slots = _slot_count(asked, room, case)
        if seen is None:
            _by_hand(asked, slots, case)
        else:
            _by_observing(asked, seen, slots, case)
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
            "the speed of a replica is not known: give --slots and --service (twice or more, from a load test) and --prefill,"
            " or --sidecar.url to measure them"
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


def _by_observing(asked: Asked, seen: Observation, slots: int | None, case: _Case) -> None:
    source = f"{seen.seconds:.0f} s of the sidecar's /metrics"
    now = asked.count("replicas.now") or 1
    case.fact(
        "replicas_now", now, f"{now}", Origin.GIVEN if asked.has("replicas.now") else Origin.ASSUMED, "--replicas.now"
    )
    said = f"{say_rate(seen.rate)} at one replica ({seen.received:,} requests)"
    case.fact("rate_at_one", seen.rate, said, Origin.MEASURED, source)
    queue = f"{say_seconds(seen.queue_seconds)} mean ({seen.queue_count:,} requests)"
    case.fact("queue_seconds", seen.queue_seconds, queue, Origin.MEASURED, source)
    for name, value, words in (
        ("running", seen.last.running, "{:.0f} run"),
        ("waiting", seen.last.waiting, "{:.0f} wait"),
        ("kv_usage", seen.last.kv_usage, "{:.0%} of the KV cache is in use"),
    ):
        if value is not None:
            case.fact(name, value, words.format(value), Origin.MEASURED, "the last page")
    if seen.estimated_share:
        case.assumptions.append(f"{seen.estimated_share:.0%} of the queue times are the sidecar's own estimates.")
    rate = asked.number("rate") or seen.rate * now
    origin = Origin.GIVEN if asked.has("rate") else Origin.DERIVED
    case.fact(
        "rate", rate, say_rate(rate), origin, "--rate" if asked.has("rate") else "all replicas as busy as this one"
    )
    if slots is None:
        raise RefusedError(
            f"the number of sequences that run at once is not known, and no metric states it: give --slots ({SLOTS_FLAGS})"
        )
    service = _service(asked, case)
    if service is None:
        service = fit_observed(seen.exposures, slots)
        _said_service(
            case,
            service,
            f"fitted to the measurements; the rate at {service.known} at once is known to {service.error:.0%}",
        )
        case.assumptions.append(
            "Requests in flight at the sidecar are the requests in the engine: no client bypasses the sidecar, and clients read at once."
        )
    line, full = _calibrated(seen, Slots(service, slots, _scale(case.variation)), case)
    case.fleet = Fleet(rate, line, full, seen.rate * MOST_STEP)


def _scale(variation: float | None) -> float:
    """The wait relative to the wait with exponential service: Lee and Longton's (1 + cv^2) / 2."""
    return 1.0 if variation is None else (1 + variation**2) / 2


def _calibrated(seen: Observation, slots: Slots, case: _Case) -> tuple[Line | None, Slots]:
    """Both queues, scaled so that at the measured load their waits add up to the measured wait."""
    predicted = slots.waiting(seen.rate).wait_seconds
    measured = seen.queue_seconds
    if not isfinite(predicted):
        raise RefusedError(
            f"this replica is overloaded: {say_rate(seen.rate)} come, and with all slots taken"
            f" {say_rate(slots.service.leaving(slots.count))} can leave. A growing queue has no steady wait to measure. Watch a"
            " replica that keeps up, or give --rate, --service and --prefill"
        )
    line = None
    expected = 0.0
    if seen.prefill_seconds is None or seen.residual_seconds is None:
        case.assumptions.append(
            "The wait behind other prompts' prefill is left out, because the engine reports no prefill times (docs/engines.md)."
        )
    else:
        line = Line(seen.prefill_seconds, seen.residual_seconds)
        expected = line.wait_seconds(seen.rate)
        busy = seen.rate * line.seconds
        if busy >= MOST_BUSY:
            raise RefusedError(
                f"prompts are in prefill {busy:.0%} of the time, so their queue has no steady wait to measure. Watch a replica that keeps up"
            )
        origin = (
            "llm_prefill_own_seconds_total"
            if seen.own_known
            else "the prefill phase; prompts computed together are counted twice"
        )
        said = f"{say_seconds(line.seconds)} per prompt, {busy:.0%} of the time"
        case.fact("prefill_seconds", line.seconds, said, Origin.MEASURED, origin)
    # If service varies less than an exponential, requests wait less for a slot. How much less can be measured only if
    # requests do wait for slots.
    scale = slots.scale
    if case.variation is None and predicted:
        scale = min(1.0, max(0.5, (measured - expected) / predicted)) if predicted > measured / 4 else 1.0
    level = measured / (expected + scale * predicted) if expected + predicted else inf
    if not 1 / MOST_LEVEL <= level <= MOST_LEVEL:
        raise RefusedError(
            f"the model does not describe this replica: at today's load it expects {say_seconds(expected)} of queue behind"
            f" other prompts and {say_seconds(scale * predicted)} for a slot, but {say_seconds(measured)} were measured. Watch"
            " longer. If the difference stays, the cause may be bursts, priorities, the KV cache or non-streamed requests"
        )
    case.assumptions.append(
        f"At today's load the model expects {say_seconds(expected)} of queue behind other prompts and"
        f" {say_seconds(scale * predicted)} for a slot. {say_seconds(measured)} were measured, so the model's waits are"
        f" multiplied by {level:.2f}."
    )
    case.numbers |= {"expected_seconds": expected + scale * predicted, "level": level}
    return (
        None if line is None else replace(line, residual_seconds=line.residual_seconds * level),
        replace(slots, scale=scale * level),
    )


def _say(case: _Case, target: float, row: Row, best: Row) -> None:
    fleet = case.fleet
    name = "replica" if row.replicas == 1 else "replicas"
    count = f"{row.replicas:,}" if best.replicas == row.replicas else f"{best.replicas:,} to {row.replicas:,}"
    lines = [f"{count} {name} for a mean queue wait of at most {say_seconds(target)} at {say_rate(fleet.rate)}."]
    if fleet.most_each is not None and row.replicas > 1 and fleet.rate / (row.replicas - 1) > fleet.most_each:
        lines.append(
            f"Fewer might be enough, but the measurements do not support more than {MOST_STEP:.0f} times today's load at one replica."
        )
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
