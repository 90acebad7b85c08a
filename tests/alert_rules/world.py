"""What a sidecar exposes, as far as rules read it, told in the words of a scenario: traffic that misses and votes, an engine, evidence.

Knows the names and labels of the metrics (sidecar/metrics/slo_metrics.py), and that they stand at 0 from the start. Knows no rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.slo.attribution import VOTES
from sidecar.slo.objective import Objective
from tests.alert_rules.promtool import LANE, MODEL, POD, Anew, Rate, Scenario


HEALTHY_PER_MINUTE = 120.0
EXPECTED_PREFILL_SECONDS = 30.0
"""Of prompts, a minute."""
PROMPT_TOKENS = 60_000.0
"""Of prompts, a minute."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """A lane's requests in one span."""

    missing: float = 0.0
    """Share of them that misses the objective."""
    votes: Mapping[str, float] = field(default_factory=dict)
    """Phase to the share of the misses that votes for it; what is left has no closed ledger."""
    per_minute: float = HEALTHY_PER_MINUTE
    anew: bool = False
    """The sidecar is another process: all its counters begin at 0."""

    def rate(self, share: float) -> Rate:
        """Of the requests, per minute."""
        return Anew(self.per_minute * share) if self.anew else self.per_minute * share


WELL = Traffic()
NOTHING = Traffic(per_minute=0)


def broken(phase: str, missing: float = 0.8, per_minute: float = HEALTHY_PER_MINUTE, **others: float) -> Traffic:
    """Traffic that misses. `phase` gets all the votes that are not for `others`."""
    return Traffic(missing, {phase: 1 - sum(others.values()), **others}, per_minute)


def voiceless(missing: float = 0.8, per_minute: float = HEALTHY_PER_MINUTE) -> Traffic:
    """It misses, and no ledger is closed yet."""
    return Traffic(missing, {}, per_minute)


def lane(
    scenario: Scenario,
    *spans: Traffic,
    lane: str = LANE,
    objective: str = "ttft",
    target: float = 0.95,
    model: str = MODEL,
    pod: str = POD,
    received: bool = True,
) -> None:
    """One lane's promises on one pod. `received`: its arrivals too; once per lane, whatever objectives it has."""
    who = {"model": model, "lane": lane}
    kept = {**who, "prompt_bucket": "512-4k", "objective": objective}
    scenario.counts("llm_slo_requests_total", *(span.rate(1) for span in spans), pod=pod, **kept)
    scenario.counts("llm_slo_misses_total", *(span.rate(span.missing) for span in spans), pod=pod, **kept)
    scenario.counts("llm_slo_allowed_misses_total", *(span.rate(1 - target) for span in spans), pod=pod, **kept)
    for phase in VOTES[Objective(objective)]:
        rates = [span.rate(span.missing * span.votes.get(phase, 0)) for span in spans]
        scenario.counts("llm_slo_blamed_misses_total", *rates, pod=pod, **who, objective=objective, phase=phase)
    if received:
        scenario.counts("llm_requests_received_total", *(span.rate(1) for span in spans), pod=pod, **who)


def in_flight(
    scenario: Scenario, *, waiting: tuple[float, ...], streaming: tuple[float, ...], lane: str = LANE
) -> None:
    """Requests inside the sidecar."""
    scenario.shows("llm_requests_in_flight", *waiting, model=MODEL, lane=lane, state="waiting")
    scenario.shows("llm_requests_in_flight", *streaming, model=MODEL, lane=lane, state="streaming")


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


def prefill_costs(scenario: Scenario, *times: float) -> None:
    """Seconds of prefill over those expected."""
    scenario.counts("llm_prefill_own_seconds_total", *(EXPECTED_PREFILL_SECONDS * one for one in times), model=MODEL)
    scenario.counts("llm_prefill_expected_seconds_total", EXPECTED_PREFILL_SECONDS, model=MODEL)


def uncached(scenario: Scenario, *shares: float, lane: str = LANE, prompts: float = HEALTHY_PER_MINUTE) -> None:
    """Share of the prompts' tokens that the engine computes, by the usage of so many requests a minute."""
    who = {"model": MODEL, "lane": lane}
    scenario.counts("llm_uncached_prompt_tokens_total", *(PROMPT_TOKENS * share for share in shares), **who)
    scenario.counts("llm_cached_prompt_tokens_total", *(PROMPT_TOKENS * (1 - share) for share in shares), **who)
    scenario.counts("llm_prompt_tokens_count", prompts, **who)


def uncached_by_engine(scenario: Scenario, *shares: float) -> None:
    """The same by the engine's own counters; its usage states nothing."""
    scenario.counts("llm_engine_prefix_cache_hits_total", *(PROMPT_TOKENS * (1 - share) for share in shares))
    scenario.counts("llm_engine_prefix_cache_queries_total", PROMPT_TOKENS)


def prompt_lengths(scenario: Scenario, *tokens: float, lane: str = LANE) -> None:
    """Mean tokens of the prompts that arrive; half of the requests can be measured."""
    who = {"model": MODEL, "lane": lane}
    measured = HEALTHY_PER_MINUTE / 2
    scenario.counts("llm_received_measured_requests_total", measured, **who)
    scenario.counts("llm_received_prompt_tokens_total", *(measured * one for one in tokens), **who)


EDGES = (0.005, 0.01, 0.015, 0.02, 0.1, 0.15)


def gaps(scenario: Scenario, *shares: Mapping[float, float]) -> None:
    """Gaps between tokens: bucket's upper edge, of `EDGES`, to the share of 6,000 a minute that lies in it."""
    for edge in (*EDGES, float("inf")):
        below = [6_000 * sum(share for top, share in span.items() if top <= edge) for span in shares]
        le = "+Inf" if edge == float("inf") else str(edge)
        scenario.counts("llm_inter_token_seconds_bucket", *below, model=MODEL, lane=LANE, le=le)
