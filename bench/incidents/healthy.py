"""Plays healthy stretches on which no page is allowed: busy days, a fleet's day, deploys, drains, busy machines, and days with hardly any request.

The engines are the named ones and drawn ones in turn, each in an unkind world: noisy steps, odd lengths, merged reads.
At noon a busy day reaches 90 % of what the engine can do there. Objectives are fair ones (`saturation.py`). The product
and the rules run from the first minute, and pages are not allowed in the first minutes either. Scrapes and evaluations
are 15 s apart, as in production. It knows the daily curve. It refuses to judge tickets: it only counts them.

A busy day costs about four minutes of CPU (50 s to play, 65 s in the product, 115 s in promtool) and 2 GB. It is asked
in one piece: promtool's time grows with the number of evaluations, so that pieces with an overlap would cost more. A fleet's
day costs some twenty minutes, more than half of it the looks of twenty products once a second.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import cos, pi

from bench.incidents.drawn import drawn
from bench.incidents.engines import ENGINES, EngineConfig
from bench.incidents.fault import Episode, Fault
from bench.incidents.play import (
    HEALTHY_SECONDS,
    LUNCH_BEGINS_WITH,
    LUNCH_SECONDS,
    LUNCH_STEP_SECONDS,
    Incident,
    healthy,
    play,
)
from bench.incidents.product import sampled
from bench.incidents.prometheus import RULE_FILES, Firing, ask, names_in, spells
from bench.incidents.replica import of_world
from bench.incidents.request import Run
from bench.incidents.samples import Samples
from bench.incidents.sampling import NO_REQUEST
from bench.incidents.saturation import alone, fair, saturates_at
from bench.incidents.shapes import LATE
from bench.incidents.traffic import Day
from bench.incidents.world import Mode, World, unkind_world


HEALTH = {
    "healthy_days": 7,
    "fleet_days": 1,
    "rolling_restarts": 20,
    "drains": 10,
    "busy_machines": 5,
    "quiet_days": 0,
    "growths": 1,
}
"""Numbers of each in the part `health` of `make thorough`. A growth is none of them (`growth.py`), but it is played beside them."""
DAY_SECONDS = 86_400.0
STEP_SECONDS = 15.0
LOWEST = 0.08
"""Load in the middle of the night, as a share of the highest load."""
NOON_UTILISATION = 0.9
LUNCH_HOURS = (11.75, 13.25)
"""From the first requests of lunch to the last."""
DAY_SEED, RESTART_SEED, QUIET_SEED = 1_000, 2_000_000, 3_000_000
MODES = (Mode.REPORTS, Mode.ESTIMATOR, Mode.BLIND)
"""Modes of the product, in turn."""

RESTARTED_PODS = (2, 3, 4, 6)
"""Numbers of pods, in turn."""
RESTART_UTILISATION = 0.6
BETWEEN_RESTARTS_SECONDS = 150.0
"""From the start of one new process to that of the next."""
WARM_UP_SECONDS = 60.0
"""A planned restart has warmed its engine before it takes traffic, up to the rest that these knobs last for."""
WARMING = {"prefill_factor": 1.5, "decode_factor": 1.2}

FLEET_SEED, FLEET_PODS = 6_000_000, 20
FLEET_LANES = ("interactive", "code")
"""Each lane more costs promtool some minutes."""
FLEET_PROMPT_TOKENS, SHORT_ANSWER_TOKENS = 9_000, 24

FIRING = 'ALERTS{alertstate="firing",severity=~"page|ticket"}'

DRAIN_SEED, BUSY_SEED = 4_000_000, 5_000_000
DRAIN_UTILISATION, BUSY_UTILISATION = 0.4, 0.6
BUSY = Fault(merged=0.6, throttle=LATE)
"""Three reads of five hold the next event too, and the sidecar runs two fifths of the time."""
BUSY_SECONDS = 1200.0

QUIET_PER_SECOND = 1 / 60
"""Requests of all lanes on a quiet day."""
QUIET_TOGETHER = 10
"""Quiet days that one Prometheus evaluates at once."""


@dataclass(frozen=True, slots=True)
class HealthyDay:
    """Alerts that fired on one healthy stretch. An alert that fires again after a break counts again."""

    number: int
    engine: str
    requests: int
    pages: list[Firing]
    tickets: list[Firing]
    stretch: str = "healthy day"
    """Its kind, such as a healthy day or a drain of one pod of so many."""
    mode: Mode = Mode.REPORTS


def told(day: HealthyDay) -> str:
    """One healthy stretch as a line of text, with the counts of its pages and tickets."""
    return (
        f"{day.stretch} {day.number + 1} on {day.engine} ({day.mode}): {day.requests:,} requests,"
        f" pages: {_named(day.pages)}; tickets: {_named(day.tickets)}"
    )


def summed(days: Sequence[HealthyDay]) -> str:
    """All stretches as a table, one row for each kind."""
    rows = ["| stretch | played | requests | pages | tickets |\n|---|---|---|---|---|\n"]
    for stretch in sorted({day.stretch for day in days}):
        same = [day for day in days if day.stretch == stretch]
        pages = _named([each for day in same for each in day.pages])
        tickets = _named([each for day in same for each in day.tickets])
        rows.append(f"| {stretch} | {len(same)} | {sum(day.requests for day in same):,} | {pages} | {tickets} |\n")
    return "".join(rows)


def _named(fired: Sequence[Firing]) -> str:
    counts = Counter(f"{each.alert} {'/'.join(each.lane or ())}".strip() for each in fired)
    return f"{len(fired)}" + "".join(f", {name} {count}" for name, count in counts.most_common())


# --- the stretches ----------------------------------------------------------------------------------------------------


def curve() -> Day:
    """Daily curve: quiet at night, busiest in the afternoon, with a step at nine in the morning."""
    hours = [hour / 4 for hour in range(96)]
    wave = [0.5 - 0.5 * cos(2 * pi * (hour - 3.0) / 24) for hour in hours]
    office = [1.0 if 9.0 <= hour < 18.0 else 0.6 for hour in hours]
    return Day([LOWEST + (1 - LOWEST) * w * o for w, o in zip(wave, office, strict=True)], DAY_SECONDS / 96)


def healthy_day(number: int, seconds: float = DAY_SECONDS) -> HealthyDay:
    """Play one day, from midnight on."""
    engine, world = placed(number, DAY_SEED + number)
    factor = NOON_UTILISATION * saturates_at(engine, world)
    engine = fair(engine, world, factor)
    run = healthy(engine, DAY_SEED + number, seconds, curve(), world=world, factor=factor)
    return _heard(number, engine, run, "healthy day")


def lunch_peak() -> Day:
    """The daily curve of a fleet, with its highest load at lunch: in twenty minutes to twice the morning's and more, for most of an hour."""
    usual = curve()
    return Day([_at_lunch(usual, LUNCH_STEP_SECONDS * minute) for minute in range(1440)], LUNCH_STEP_SECONDS)


def _at_lunch(usual: Day, instant: float) -> float:
    load = LUNCH_BEGINS_WITH * usual.at(instant)
    begins, ends = LUNCH_HOURS[0] * 3600.0, LUNCH_HOURS[1] * 3600.0
    risen = min((instant - begins) / LUNCH_SECONDS, (ends - instant) / LUNCH_SECONDS, 1.0)
    return load + (1.0 - load) * max(0.0, risen)


def fleet_day(number: int, seconds: float = DAY_SECONDS, pods: int = FLEET_PODS) -> HealthyDay:
    """Play one day of a fleet, from midnight on: at lunch each pod reaches 90 % of what its engine can do."""
    engine, world = placed(number, FLEET_SEED + number)
    world = replace(world, pods=pods)
    engine = of_long_prompts(engine, FLEET_PROMPT_TOKENS)
    factor = NOON_UTILISATION * saturates_at(engine, alone(world))
    engine = fair(engine, world, factor)
    run = healthy(engine, FLEET_SEED + number, seconds, lunch_peak(), world=world, factor=factor)
    return _heard(number, engine, run, f"day of a fleet of {pods} pods")


def of_long_prompts(engine: EngineConfig, prompt_tokens: int) -> EngineConfig:
    """The engine with two lanes, of prompts of so many tokens that share nothing, and of short answers: few requests fill it, so that
    long stretches are cheap to play.
    """
    lanes = (
        replace(load, prompt_tokens=prompt_tokens, output_tokens=SHORT_ANSWER_TOKENS, shared_tokens=0)
        for load in engine.lanes
        if load.lane in FLEET_LANES
    )
    return replace(engine, lanes=tuple(lanes))


def rolling_restart(number: int) -> HealthyDay:
    """Replace the processes of all pods of a model one after the other, as planned, or add a pod: one of the ways of `DEPLOYS`, in turn.

    Each new process is warm within a minute, its cache is empty, and the old one finishes its requests.
    """
    return DEPLOYS[number // len(RESTARTED_PODS) % len(DEPLOYS)](number, RESTARTED_PODS[number % len(RESTARTED_PODS)])


def _engines_restart(number: int, pods: int) -> HealthyDay:
    """The engines alone: each sidecar lives on. The other pods do not get more traffic."""
    engine, run = _in_turn(number, pods)
    return _heard(number, engine, run, f"rolling restart of {pods} pods")


def _pods_are_replaced(number: int, pods: int) -> HealthyDay:
    """Each sidecar begins with its engine, and knows nothing of the usual yet."""
    engine, run = _in_turn(number, pods)
    restarts = {pod: run.fault_at + pod * BETWEEN_RESTARTS_SECONDS for pod in range(pods)}
    return _heard(number, engine, replace(run, sidecar_restarts_at=restarts), f"rolling deploy of {pods} pods")


def _in_turn(number: int, pods: int) -> tuple[EngineConfig, Run]:
    engine, world = placed(number, RESTART_SEED + number)
    factor = RESTART_UTILISATION * saturates_at(engine, world)
    engine = fair(engine, world, factor)
    runs = [
        play(engine, RESTART_SEED + 100 * number + pod, restart(pod, pods), world=world, factor=factor)
        for pod in range(pods)
    ]
    return engine, merged(runs)


def _pod_is_added(number: int, pods: int) -> HealthyDay:
    """One more pod takes its whole share at once, engine and sidecar both new; until then the others had its traffic."""
    engine, world = placed(number, RESTART_SEED + number)
    factor = DRAIN_UTILISATION * saturates_at(engine, world)
    engine = fair(engine, world, factor * pods / (pods - 1))
    runs = [
        play(engine, RESTART_SEED + 100 * number + pod, added(engine, pod, pods), world=world, factor=factor)
        for pod in range(pods)
    ]
    run = merged(runs)
    return _heard(number, engine, replace(run, sidecar_restarts_at={0: run.fault_at}), f"scale-out to {pods} pods")


DEPLOYS = (_engines_restart, _pods_are_replaced, _pod_is_added)


def drain(number: int) -> HealthyDay:
    """Take one pod out, as planned: it gets no more requests and ends those that it has; the others share its traffic."""
    engine, world = placed(number, DRAIN_SEED + number)
    factor = DRAIN_UTILISATION * saturates_at(engine, world)
    pods = RESTARTED_PODS[number % len(RESTARTED_PODS)]
    engine = fair(engine, world, factor * pods / (pods - 1))
    runs = [
        play(engine, DRAIN_SEED + 100 * number + pod, drained(engine, pod, pods), world=world, factor=factor)
        for pod in range(pods)
    ]
    return _heard(number, engine, merged(runs), f"drain of one pod of {pods}")


def busy_machine(number: int) -> HealthyDay:
    """Other processes take the CPU that reads need: reads hold several events, and come late by less than any threshold."""
    engine, world = placed(number, BUSY_SEED + number)
    factor = BUSY_UTILISATION * saturates_at(engine, world)
    engine = fair(engine, world, factor)
    busy = Incident((Episode(BUSY),), seconds=BUSY_SECONDS)
    return _heard(number, engine, play(engine, BUSY_SEED + number, busy, world=world, factor=factor), "busy machine")


def drained(engine: EngineConfig, pod: int, pods: int) -> Incident:
    """The drain of the first pod, as one of so many pods meets it."""
    load = NO_REQUEST if pod == 0 else pods / (pods - 1)
    return Incident((Episode(Fault(load={each.lane: load for each in engine.lanes})),))


def added(engine: EngineConfig, pod: int, pods: int) -> Incident:
    """The coming of the first pod, as one of so many pods meets it."""
    before = NO_REQUEST if pod == 0 else pods / (pods - 1)
    until = Episode(Fault(load={each.lane: before for each in engine.lanes}), -HEALTHY_SECONDS, 0.0)
    return Incident((until,) if pod else (until, _fresh(0.0)))


def quiet_days(numbers: Sequence[int], seconds: float = DAY_SECONDS) -> list[HealthyDay]:
    """Play these days with one request a minute, in all lanes together, at any hour.

    Each is a namespace of its own, and one Prometheus evaluates the rules for all of them: much of the cost of a day is
    that of the rules, whatever the number of series. Five days at once cost 2.4 times as much as one.
    """
    played, samples = [], []
    for number in numbers:
        engine, world = placed(number, QUIET_SEED + number)
        factor = QUIET_PER_SECOND / sum(load.per_second for load in engine.lanes)
        engine = fair(engine, world, factor)
        run = healthy(engine, QUIET_SEED + number, seconds, Day([1.0], seconds), world=world, factor=factor)
        played.append((number, engine.name, len(run.requests)))
        samples += [
            _in_namespace(each, str(number))
            for each in sampled(engine, run, _mode(number), names_in(), every_seconds=STEP_SECONDS)
        ]
    began = fired(samples, seconds)

    def of(number: int) -> list[Firing]:
        return [each for each in began if each.labels.get("namespace", str(number)) == str(number)]

    return [_day(number, name, requests, of(number), "quiet day") for number, name, requests in played]


def quiet_batches(count: int) -> list[tuple[int, ...]]:
    """The numbers of so many quiet days, in groups that are evaluated together."""
    return [tuple(range(first, min(first + QUIET_TOGETHER, count))) for first in range(0, count, QUIET_TOGETHER)]


def merged(runs: Sequence[Run]) -> Run:
    """The runs of single pods as one run of all of them, with the pods numbered in this order."""
    requests = []
    for pod, run in enumerate(runs):
        for request in run.requests:
            request.pod = pod
        requests += run.requests
    requests.sort(key=lambda each: each.received_at)
    for number, request in enumerate(requests):
        request.number = number
    states = [replace(state, pod=pod) for pod, run in enumerate(runs) for state in run.states]
    states.sort(key=lambda each: each.at)
    return replace(runs[0], requests=requests, states=states, pods=len(runs), at_fault=tuple(range(len(runs))))


def placed(number: int, seed: int) -> tuple[EngineConfig, World]:
    """The engine of this number in the world of this seed."""
    world = _world(seed)
    return of_world(_engine(number), world), world


def _engine(number: int) -> EngineConfig:
    """The named engines at even numbers, drawn ones at odd numbers."""
    return drawn("healthy", number) if number % 2 else ENGINES[number // 2 % len(ENGINES)]


def _world(seed: int) -> World:
    """The seed's unkind world for one pod, always with noise, odd lengths and merged reads."""
    world = alone(unkind_world(seed))
    return replace(
        world,
        step_noise=max(world.step_noise, 0.05),
        length_sigma=world.length_sigma or 0.4,
        coalesced=max(world.coalesced, 0.1),
    )


def restart(pod: int, pods: int) -> Incident:
    """The restart of one pod. The incident lasts until the last pod of all is warm."""
    return Incident((_fresh(pod * BETWEEN_RESTARTS_SECONDS),), seconds=pods * BETWEEN_RESTARTS_SECONDS)


def _fresh(begins: float) -> Episode:
    """A new process with an empty cache, which still compiles its kernels for a minute."""
    return Episode(Fault(fresh=True, knobs=WARMING), begins, begins + WARM_UP_SECONDS)


# --- the rules --------------------------------------------------------------------------------------------------------


def _heard(number: int, engine: EngineConfig, run: Run, stretch: str) -> HealthyDay:
    """Pass a run through the product and the rules."""
    samples = sampled(engine, run, _mode(number), names_in(), every_seconds=STEP_SECONDS)
    return _day(number, engine.name, len(run.requests), fired(samples, run.ends_at), stretch)


def _mode(number: int) -> Mode:
    return MODES[number % len(MODES)]


def _in_namespace(samples: Samples, namespace: str) -> Samples:
    """The same samples, scraped in another namespace."""
    samples.columns = {
        (name, (("namespace", namespace), *labels)): column for (name, labels), column in samples.columns.items()
    }
    return samples


def fired(samples: Sequence[Samples], ends_at: float) -> list[Firing]:
    """Every beginning of a page or a ticket, from the first minute to the last."""
    instants = [STEP_SECONDS * number for number in range(int(ends_at / STEP_SECONDS) + 1)]
    got = ask(samples, {f"at {at:g}": (FIRING, at) for at in instants}, RULE_FILES)
    found = spells([(at, [labels for labels, _ in got[f"at {at:g}"]]) for at in instants], ends_at)
    return [Firing(each.began_at, each.labels) for each in found]


def _day(number: int, engine: str, requests: int, fired: Sequence[Firing], stretch: str) -> HealthyDay:
    return HealthyDay(
        number,
        engine,
        requests,
        [each for each in fired if each.labels["severity"] == "page"],
        [each for each in fired if each.labels["severity"] == "ticket"],
        stretch,
        _mode(number),
    )
