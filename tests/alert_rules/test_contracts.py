"""The contracts around the rules: the table of alerts, runbooks, one closed set of phases, and series that begin at 0.

Each is one set that several files name; here they are held against each other. No rule is evaluated.
"""

import re
from pathlib import Path

import promql_parser as promql
import pytest

from sidecar.commands.export.rules.page_facts import LANE_FACTS, LATENCY_ASKED
from sidecar.commands.export.rules.pages import BURN_ALERTS
from sidecar.ledger.account import Phase
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.registry import Metrics
from sidecar.metrics.text_page import rendered
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.observe.in_flight import InFlight
from sidecar.observe.record import Recorder
from sidecar.observe.slo_counters import Slo
from sidecar.pod.causes import PHASE_OF, ROOT_PHASES, Cause
from tests.alert_rules.alert_table import ALERTS, PHASES
from tests.alert_rules.syntax import FOLDER, KNOWN, OF_ALERTS, PLATFORM, Labels, recorded, rules, selectors


CHECKOUT = FOLDER.parent
RULES = rules()
CLOSED = {*Blame, SIDECAR}
"""Every value that the label `phase` can have, anywhere."""
CAUSES = {
    "LLMNothingComesBack": Cause.SILENCE,
    "LLMEngineDown": Cause.DOWN,
    "LLMEngineRestarted": Cause.RESTART,
    "LLMEnginePreempting": Cause.PREEMPTION,
    "LLMEngineKvCacheFull": Cause.KV,
    "LLMPrefixCacheCollapsed": Cause.UNCACHED,
    "LLMPromptsGrowing": Cause.PROMPT_MIX,
    "LLMEventsInBursts": Cause.HOP,
    "LLMRequestsRejected": Cause.REJECTED,
    "LLMSidecarStarved": Cause.SIDECAR_LATE,
}
"""Alerts that stand for a cause."""


def test_the_alerts_are_those_of_the_table() -> None:
    """Names, severities, phases and labels."""
    shipped = {
        (rule.name, rule.labels["severity"], phase): Labels(KNOWN).of(promql.parse(rule.expr)) - {"phase"}
        for rule in RULES
        if not rule.is_record
        for phase in ([rule.labels["phase"]] if "phase" in rule.labels else PHASES)
    }

    assert shipped == {(one.name, one.severity, one.phase): frozenset(one.labels) for one in ALERTS}


@pytest.mark.parametrize(("name", "cause"), CAUSES.items())
def test_the_phase_of_an_alert_is_that_of_its_cause(name: str, cause: Cause) -> None:
    """By the closed table, so that a miss of that cause would page the same owner."""
    assert {one.phase for one in ALERTS if one.name == name} == {PHASE_OF[cause]}


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    runbooks = {path.stem for path in (CHECKOUT / "sidecar/runbooks").glob("*.md")} - {"README"}

    assert runbooks == {rule.name for rule in RULES if not rule.is_record}


# --- one closed set of phases ----------------------------------------------------------------------------------------------


def test_the_phases_of_ledgers_votes_alerts_and_routes_are_one_set() -> None:
    """The ledger's, the engine itself, and the sidecar where an alert is about it."""
    (votes,) = [
        set(label.values)
        for metric in CATALOGUE
        if metric.name == "llm_slo_blamed_misses_total"
        for label in metric.labels
        if label.name == "phase"
    ]

    assert {*Phase, Blame.ENGINE} == set(Blame) == votes
    assert set(PHASES) == CLOSED
    assert {rule.labels["phase"] for rule in RULES if "phase" in rule.labels and not rule.is_record} == CLOSED
    assert set(BURN_ALERTS) == CLOSED == set(ROOT_PHASES)


CATCH_ALL = "default"
"""The receivers of what no route knows."""


def texts_with_phases() -> list[Path]:
    kinds = (
        "alert_rules/*.yml",
        "alert_rules/*.md",
        "alert_rules/kubernetes/*.yaml",
        "sidecar/runbooks/*.md",
        "docs/*.md",
    )
    return [path for kind in kinds for path in sorted(CHECKOUT.glob(kind))]


@pytest.mark.parametrize("path", texts_with_phases(), ids=lambda path: path.name)
def test_no_text_names_a_phase_outside_the_set(path: Path) -> None:
    """As a matcher, a label or a receiver."""
    text = path.read_text()
    named = re.findall(r'\bphase(?:=~?|!=|!~|: )\\?"?([a-z_|]+)\b', text)
    named += re.findall(r"name: ([a-z_]+)-(?:page|ticket)\b", text)
    found = {value for group in named for value in group.split("|")}

    assert found - CLOSED - {CATCH_ALL} == set()


def test_phases_are_found_where_they_stand() -> None:
    """Or the promise above would be empty."""
    routes = (FOLDER / "alertmanager.yml").read_text()
    rules_text = (FOLDER / "llm-alerts.yml").read_text()

    assert set(re.findall(r"name: ([a-z_]+)-page\b", routes)) == {*CLOSED, CATCH_ALL}
    assert set(re.findall(r'\bphase(?:=~?|: )\\?"?([a-z_|]+)\b', rules_text)) == CLOSED


# --- what is a counter or a gauge in every form of the page ---------------------------------------------------------------


def texts_that_ask() -> dict[str, str]:
    """Expressions, and the words of alerts, whose templates ask too."""
    return {
        f"{rule.name}, {part}": text
        for rule in RULES
        for part, text in {"expr": rule.expr, **rule.fields.get("annotations", {})}.items()
    }


def test_no_rule_reads_a_histogram() -> None:
    """A native histogram has no bucket, sum or count of its own: with `web.native_histograms: only` such a rule reads nothing."""
    names = "|".join(metric.name for metric in CATALOGUE if isinstance(metric, Histogram))
    histogram = re.compile(rf"(?<![\w:])(?:{names})(?:_bucket|_sum|_count)?(?![\w:])|histogram_")

    asked = {where: text for where, text in texts_that_ask().items() if where not in OF_EITHER_FORM}

    assert {where: found for where, text in asked.items() if (found := histogram.findall(text))} == {}


OF_EITHER_FORM = {f"{LANE_FACTS.name}, expr"}
"""The part that holds the question for a page's latency, as a text: it asks for classic and for native histograms."""


def test_the_question_for_a_latency_asks_for_either_form_of_a_histogram() -> None:
    asked = LATENCY_ASKED.replace("${2}", "llm_request_seconds").replace("$1", "0.95").replace("$5", "1")
    named = {node.name for node in selectors(promql.parse(asked.replace("%[1]s$3", 'lane="a",').replace("$4", "2m")))}

    assert named == {"llm_request_seconds_bucket", "llm_request_seconds"}


# --- what stands at zero ---------------------------------------------------------------------------------------------------


LATER = {
    "llm_engine_up": "unknown before the first check",
    "llm_incident_age_seconds": "absent without an incident",
    "llm_incident_confidence_ratio": "as above",
    "llm_incident_size_ratio": "as above",
    "llm_engine_kv_cache_usage_ratio": "the engine's own gauge: absent while it does not tell",
    "llm_engine_requests_waiting": "the engine's own gauge",
    "llm_engine_traffic_seen_ratio": "absent until the engine counted enough to compare",
    "llm_engine_report_agreement_ratio": "as above",
    "llm_engine_preemptions_total": "the engine's own count: begins at 0 with its first reading",
    "llm_engine_prefix_cache_hits_total": "the engine's own count",
    "llm_engine_prefix_cache_queries_total": "the engine's own count",
    "llm_engine_restarts_total": "begins at 0 with the first reading of the engine's metrics",
    "llm_sidecar_config_last_reload_successful": "app.py sets it before it listens",
    "llm_sidecar_build_info": "app.py sets it before it listens",
    "llm_sidecar_time_seconds": "set at each scrape",
}
"""Series that rules read and a fresh page does not show, each with the reason why nothing is lost by it."""


def fresh_page() -> set[str]:
    """The names of all series that a sidecar shows before its first request, and before it has heard of its engine."""
    metrics = Metrics(lanes=["interactive"], prompt_buckets=["0-512"], models=["small"])
    Recorder(metrics)
    InFlight(metrics)
    aims = Aims(Aim(1.0, 0.95), Aim(0.1, 0.95), Aim(10.0, 0.95))
    Slo(metrics, Objectives({"interactive": {"0-512": aims, "unknown": aims}}))
    metrics.refresh(100.0)
    lines = [
        line
        for family in metrics.families
        for child in family.children.values()
        for line in rendered(family.metric, metrics.constants, child).decode().splitlines()
    ]
    return {re.split(r"[{ ]", line, maxsplit=1)[0] for line in lines if line}


EARLY = {
    "llm_answers_total": "the canary's questions read the first answer of each usual reason",
    "llm_empty_answers_total": "the canary's questions read the first one",
    "llm_good_requests_total": "a canary's gate compares exact counts since the rollout began",
    "llm_requests_in_flight": "a gauge, whose 0 is a word",
    "llm_slo_missed_phase_seconds_total": "a panel draws its growth, and a first miss may long be the only one",
    "llm_slo_undecided_misses": "misses = roots + undecided at every scrape",
}
"""Series of a lane that a fresh page shows though no rule reads them, each with its reason."""


def rules_read() -> set[str]:
    """The names of all series in the rules' expressions."""
    return {node.name or "" for rule in RULES for node in selectors(promql.parse(rule.expr))}


def test_a_series_of_a_lane_that_no_rule_reads_appears_when_it_is_used_or_has_a_reason_not_to_wait() -> None:
    """Lanes, models and prompt lengths multiply, and a series at 0 costs a scraper what any other does."""
    by_lane = {metric.name for metric in CATALOGUE if "lane" in {label.name for label in metric.labels}}

    assert (fresh_page() & by_lane) - rules_read() == set(EARLY)


def test_every_series_that_a_rule_reads_is_on_a_fresh_page_or_has_a_reason_not_to_be() -> None:
    """A counter that appears with its first count has not grown, as far as Prometheus knows."""
    read = rules_read()
    there = fresh_page()
    ours = read - set(recorded()) - {"up", "process_start_time_seconds", OF_ALERTS, *PLATFORM}

    assert {name for name in ours if name not in there} == set(LATER) & ours
    assert set(LATER) - ours == set()
