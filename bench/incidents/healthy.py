"""Plays seven healthy virtual days: traffic with a daily curve, and no page allowed.

Each day has its own replica (the engine configurations in turn). The product and the rules run from its first minute,
and pages are not allowed in the first minutes either. Scrapes and evaluations are one minute apart. It knows the curve.
It refuses to judge tickets: it only counts them.
"""

from dataclasses import dataclass
from math import cos, pi

from bench.incidents.engines import ENGINES
from bench.incidents.play import healthy
from bench.incidents.prometheus import RULE_FILES, Firing, ask
from bench.incidents.run import sampled
from bench.incidents.traffic import Day


DAYS = 7
DAY_SECONDS = 86_400.0
STEP_SECONDS = 60.0
LOWEST = 0.08
"""Load in the middle of the night, as a share of the highest load."""


@dataclass(frozen=True, slots=True)
class HealthyDay:
    """Alerts that fired on one day."""

    number: int
    engine: str
    requests: int
    pages: list[Firing]
    tickets: list[Firing]


def curve() -> Day:
    """Daily curve: quiet at night, busiest in the afternoon, with a step at nine in the morning."""
    hours = [hour / 4 for hour in range(96)]
    wave = [0.5 - 0.5 * cos(2 * pi * (hour - 3.0) / 24) for hour in hours]
    office = [1.0 if 9.0 <= hour < 18.0 else 0.6 for hour in hours]
    return Day([LOWEST + (1 - LOWEST) * w * o for w, o in zip(wave, office, strict=True)], DAY_SECONDS / 96)


def healthy_day(number: int, seconds: float = DAY_SECONDS) -> HealthyDay:
    """Play one day."""
    engine = ENGINES[number % len(ENGINES)]
    run = healthy(engine, 1000 + number, seconds, curve())
    samples = sampled(engine, run, reports=True, every_seconds=STEP_SECONDS)
    firing = 'ALERTS{alertstate="firing"}'
    began = f"min_over_time(timestamp({firing} unless {firing} offset {STEP_SECONDS:g}s)"
    question = {"fired": (f"{began}[{seconds:g}s:{STEP_SECONDS:g}s])", seconds)}
    fired = [Firing(at, dict(labels)) for labels, at in ask(samples, question, RULE_FILES)["fired"]]
    return HealthyDay(
        number,
        engine.name,
        len(run.requests),
        [each for each in fired if each.labels.get("severity") == "page"],
        [each for each in fired if each.labels.get("severity") == "ticket"],
    )
