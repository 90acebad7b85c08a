"""The page of a sidecar, as far as rules read it, told in the words of a scenario: traffic that misses, roots, an engine.

Knows the names and labels of the metrics (sidecar/metrics/catalogue.py), and that they stand at 0 from the start. Knows no rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.objectives.attribution import VOTES
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import CAUSES_BY_PHASE, ROOT_PHASES, Unknown
from tests.alert_rules.promtool import LANE, MODEL, POD, Rate, Scenario


HEALTHY_PER_MINUTE = 120.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """A lane's requests in one span."""

    missing: float = 0.0
    """Share of them that misses the objective."""
    roots: Mapping[str, float] = field(default_factory=dict)
    """Phase to the share of the misses whose root it is; what is left is not decided."""
    per_minute: float = HEALTHY_PER_MINUTE
    waited: str = ""
    """Phase in which the misses waited; empty: no ledger is closed."""
    scraped: bool = True
    """False: the scrapes of this span fail, so that no series has a sample."""

    def misses(self, share: float = 1.0) -> float:
        """Per minute."""
        return self.per_minute * self.missing * share

    def seen(self, rate: float) -> Rate:
        """A counter's growth per minute, as far as it is scraped."""
        return rate if self.scraped else None


WELL = Traffic()
NOTHING = Traffic(per_minute=0)


def broken(phase: str, missing: float = 0.8, per_minute: float = HEALTHY_PER_MINUTE, **others: float) -> Traffic:
    """Traffic that misses and waits in the queue. `phase` is the root of all misses but those of `others`."""
    return Traffic(missing, {phase: 1 - sum(others.values()), **others}, per_minute, "queue")


def undecided(missing: float = 0.8, per_minute: float = HEALTHY_PER_MINUTE) -> Traffic:
    """It misses, and no root is known."""
    return Traffic(missing, {}, per_minute)


def lane(
    scenario: Scenario,
    *spans: Traffic,
    lane: str = LANE,
    objective: str = "ttft",
    target: float = 0.95,
    model: str = MODEL,
    pod: str = POD,
) -> None:
    """One objective of one lane on one pod."""
    who = {"model": model, "lane": lane, "objective": objective}
    kept = {**who, "prompt_bucket": "512-4k"}
    scenario.counts("llm_slo_requests_total", *(span.seen(span.per_minute) for span in spans), pod=pod, **kept)
    scenario.counts("llm_slo_misses_total", *(span.seen(span.misses()) for span in spans), pod=pod, **kept)
    allowed = (span.seen(span.per_minute * (1 - target)) for span in spans)
    scenario.counts("llm_slo_allowed_misses_total", *allowed, pod=pod, **kept)
    for phase in ROOT_PHASES:
        rates = [span.seen(span.misses(span.roots.get(phase, 0))) for span in spans]
        scenario.counts("llm_slo_root_misses_total", *rates, pod=pod, **who, phase=phase)
    for phase in VOTES[Objective(objective)]:
        rates = [span.seen(span.misses() if span.waited == phase else 0) for span in spans]
        scenario.counts("llm_slo_blamed_misses_total", *rates, pod=pod, **who, phase=phase)


def causes(scenario: Scenario, *spans: Traffic, model: str = MODEL, pod: str = POD, **chosen: str) -> None:
    """The same roots by cause, over all lanes of a pod. `chosen`: phase to its cause; else the first one of the table."""
    first = {str(phase): str(some[0]) for phase, some in CAUSES_BY_PHASE.items()} | {
        "unattributed": str(Unknown.UNCLEAR)
    }
    for phase, cause in (first | chosen).items():
        rates = [span.seen(span.misses(span.roots.get(phase, 0))) for span in spans]
        scenario.counts("llm_slo_root_cause_misses_total", *rates, model=model, pod=pod, phase=phase, cause=cause)


def engine(
    scenario: Scenario,
    *,
    up: tuple[float | None, ...] = (1,),
    restarts: tuple[Rate, ...] = (0,),
    stalled: tuple[Rate, ...] = (0,),
    preemptions: tuple[Rate, ...] = (0,),
    kv: tuple[float | None, ...] = (),
    waiting: tuple[float | None, ...] = (),
    running: tuple[float | None, ...] = (),
    pod: str = POD,
) -> None:
    """One pod's engine as its sidecar knows it: counters per minute, gauges per span. Empty: it does not tell."""
    scenario.shows("llm_engine_up", *up, pod=pod)
    scenario.counts("llm_engine_restarts_total", *restarts, pod=pod)
    scenario.counts("llm_engine_stalled_seconds_total", *stalled, pod=pod)
    scenario.counts("llm_engine_preemptions_total", *preemptions, pod=pod)
    for name, values in (("kv_cache_usage_ratio", kv), ("requests_waiting", waiting), ("requests_running", running)):
        if values:
            scenario.shows(f"llm_engine_{name}", *values, pod=pod)
