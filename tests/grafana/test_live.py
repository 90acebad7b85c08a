"""Every query of every dashboard, asked of a real Prometheus that scraped real sidecars through an incident.

No Grafana server runs here, so this stands in for one: what a panel would show is there, has the labels that its legend or columns
need, and is plausible for its unit. The commonest fault of dashboards in the field is "No data".
"""

import math
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import yaml

from grafana.canary import NOT_COMPARED
from grafana.panel import AGE, PODS_UNIT, SAMPLES_UNIT
from sidecar.commands.compare.gate_questions import BLOCK_MINUTES, GATE_QUESTIONS, Asked
from tests.grafana.boards import (
    GRAFANA,
    UIDS,
    Json,
    board,
    label_values,
    panels,
    query_result,
    query_variables,
    targets,
    unit_of,
    with_traffic,
)
from tests.grafana.gate import is_gate, is_sequential
from tests.grafana.query_rules import tree_of
from tests.grafana.series import known, labels_of
from tests.grafana.world import LANES, NAMESPACE, PODS, SCRAPE_SECONDS, Series, World, lived_through


pytestmark = [pytest.mark.live, pytest.mark.timed, pytest.mark.timeout(240)]

RATE_INTERVAL = "8s"
EVERYTHING = dict.fromkeys(("cluster", "namespace", "pod", "model", "lane", "prompt_bucket"), ".*") | {
    "baseline": "v1",
    "canary": "v2",
    "computed": ".*",
}
"""The small world has no rules for pictures: all is computed."""
VERSIONS = ("baseline", "canary")
_WEEK = "the demo is a minute old"
_CLASSIC = "its histograms are classic"
_UNREASONED = "the simulated engine states no reasoning"
_NEVER = "nothing of the kind happens in the demo"

NOT_DUE = {
    ("Prompts and answers by lane", "B"): _WEEK,
    ("Prompts and answers by lane", "F"): _UNREASONED,
    ("$lane: time to first token p50, p95, p99", "H"): _UNREASONED,
    ("What has grown: now over what is usual, by cause", "A"): "what is usual is learned for three minutes",
    ("Parts of phases: mean seconds per request", "A"): "the simulated engine states none",
    ("KV transfer p95 by lane", "A"): "the simulated engine is not disaggregated",
    ("KV transfer p95 by lane", "B"): "the simulated engine is not disaggregated",
    ("Lost, refused or failed", "A"): _NEVER,
    ("Lost, refused or failed", "B"): _NEVER,
    ("Lost, refused or failed", "D"): _NEVER,
    ("Lost, refused or failed", "E"): _NEVER,
    ("Read, asked and passed through", "C"): "its pages ask for no password",
    ("Read, asked and passed through", "D"): "its pages are asked for by their own names",
    ("Read, asked and passed through", "E"): "there is no web config",
    ("Read, asked and passed through", "F"): "the simulated engine sends no spans",
    ("Read, asked and passed through", "G"): "it exports no spans of its own",
    ("Read, asked and passed through", "H"): "it exports no spans of its own",
    ("Read, asked and passed through", "J"): "`sidecar verify` does not ask here",
    ("Read, asked and passed through", "L"): _NEVER,
    ("Read, asked and passed through", "O"): "no lane depends on the length of a prompt",
    ("$lane: time to first token, distribution", "B"): _CLASSIC,
    ("Between tokens, distribution", "B"): _CLASSIC,
    ("Rejected, and gone while they waited", "A"): _NEVER,
    ("Room and work, by pod", "D"): "the simulated engine has room",
    ("Room and work, by pod", "E"): "it is never restarted",
    ("As it should be", "D"): "the simulated engine states neither label",
    ("Pods and answers of each version", "E"): "it filters nothing",
    ("Pods and answers of each version", "G"): "it does not speculate",
}
"""Targets without data, and why. One that stands here and has data is a fault too."""
_LEARNED = "a usual cost is learned from 200 steps or 20 prompts"
_FEW = "a quantile needs so many requests, and the demo is a minute old"
SOMETIMES = {
    **{(f"Cost of {part}: now over what is usual, by pod", "A"): _LEARNED for part in ("prefill", "decode")},
    **{("What work costs, and whether all is seen, by pod", query): _LEARNED for query in "ABCDEFGH"},
    **{("Time to first token by lane and prompt length", query): _FEW for query in "BCE"},
    **{("Queue and prefill by lane and prompt length", query): _FEW for query in "AC"},
    **{("$lane: time to first token p50, p95, p99", query): _FEW for query in "CF"},
    **{("Stream p95 by lane", query): _FEW for query in "AB"},
    **{("Beside the phases, p99", query): _FEW for query in "CDGH"},
    **dict.fromkeys(
        (
            ("Mean seconds by phase, of the lanes chosen", "D"),
            ("$lane: mean seconds by phase", "D"),
            ("Mean seconds by phase, not streamed", "C"),
        ),
        "the simulated engine reports on every request",
    ),
    ("Read, asked and passed through", "N"): "a length is not known before some prompts were counted",
    ("Pods with a page of their own", "A"): "the pods share their fault, and one computes prompts more slowly",
    ("Room and work, by pod", "J"): _NEVER,
    ("Verdict: what broke, where, for how long, and what to do first", "B"): "the pods share their fault",
}
"""Targets whose data depends on the last seconds."""

BOUNDS = {
    "s": (0.0, 600.0),
    "percentunit": (-1e-9, 1.0 + 1e-9),
    "reqps": (0.0, 500.0),
    "cps": (0.0, 100_000.0),
    "short": (0.0, 100_000.0),
    SAMPLES_UNIT: (0.0, 100_000.0),
    "bytes": (10e6, 2e9),
    "none": (0.0, 1000.0),
    AGE: (0.0, 600.0),
    PODS_UNIT: (1.0, 100_000.0),
}
"""The values that are plausible for a unit here."""
CLOSER = (
    (re.compile(r"quantile\(.*llm_(inter_token|time_per_output_token)_seconds"), "s", (1e-5, 5.0)),
    (re.compile(r"quantile\(.*llm_(time_to_first_token|request_phase|request)_seconds"), "s", (0.0, 60.0)),
    (re.compile(r"quantile\(.*llm_(sidecar_|engine_connect|request_upload)"), "s", (0.0, 5.0)),
    # Regressions, overspent budgets and losses go below 0 or above 1; so do seconds that many streams pause at once.
    (re.compile(r"- 1$"), "percentunit", (-1.0, 50.0)),
    (re.compile(r"^1 - .*allowed"), "percentunit", (-20.0, 1.0)),
    (re.compile(r"\) - \("), "percentunit", (-1.0, 1.0)),
    (
        re.compile(r"paused_seconds|threshold_seconds|process_cpu|traffic_seen|agreement|prefill_own"),
        "percentunit",
        (0.0, 64.0),
    ),
    # Two counters of the same requests that are written at other instants may fall into different scrapes.
    (re.compile(r"llm_good_requests_total|llm_client_cancels_total"), "percentunit", (0.0, 2.0)),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with lived_through(tmp_path_factory.mktemp("world")) as lived:
        yield lived


def sped_up(gate: str) -> str:
    """The gate with blocks as short as all else in this world: a block of minutes would outlast it."""
    return gate.replace(f"[{BLOCK_MINUTES}m1ms:", f"[{RATE_INTERVAL}1ms:").replace(
        f":{BLOCK_MINUTES}m]", f":{RATE_INTERVAL}]"
    )


def filled_in(expr: str, world: World, chosen: dict[str, str] = EVERYTHING) -> str:
    """A query as Grafana sends it: durations and variables put in."""
    expr = expr.replace("$__rate_interval", RATE_INTERVAL).replace(
        "$__range", f"{round(world.ended_at - world.began_at)}s"
    )
    for name, value in chosen.items():
        expr = re.sub(rf"\${name}\b", value, expr)
    assert "$" not in re.sub(r'"(…| · )?\$1"|-\$1"', "", expr), expr
    return expr


def asked(target: Json, world: World, chosen: dict[str, str] = EVERYTHING) -> list[Series]:
    expr = filled_in(sped_up(target["expr"]) if is_sequential(target) else target["expr"], world, chosen)
    return world.at_the_end(expr) if target.get("instant") else world.over_time(expr)


def finite(series: list[Series]) -> list[float]:
    return [value for one in series for value in one.values if math.isfinite(value)]


def bounds_of(expr: str, unit: str) -> tuple[float, float]:
    return next((closer for pattern, of, closer in CLOSER if of == unit and pattern.search(expr)), BOUNDS[unit])


@pytest.mark.parametrize("uid", UIDS)
def test_every_panel_has_what_it_is_to_show(world: World, uid: str) -> None:
    """Data where it is due, and none where the list says so."""
    empty, full = [], []
    for panel, target in targets(board(uid)):
        place = (panel["title"], target["refId"])
        has_data = bool(finite(asked(target, world)))
        if not has_data and place not in NOT_DUE | SOMETIMES:
            empty.append(f"{place}: {target['expr']}")
        if has_data and place in NOT_DUE:
            full.append(place)

    assert (empty, full) == ([], [])


@pytest.mark.parametrize("uid", UIDS)
def test_every_series_has_the_labels_that_its_legend_needs(world: World, uid: str) -> None:
    """As reckoned from the query's tree; a legend or column with an empty name tells no lines apart. The world is one cluster without a
    label for it, and a legend then ends with nothing.
    """
    wrong = []
    for panel, target in targets(board(uid)):
        expected = labels_of(tree_of(target), known())
        legend = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
        for one in asked(target, world):
            present = set(one.labels) - {"__name__"}
            if not legend - {"cluster"} <= present <= expected:
                wrong.append(f"{panel['title']} {target['refId']}: {sorted(present)}, not {sorted(expected)}")

    assert sorted(set(wrong)) == []


@pytest.mark.parametrize("uid", UIDS)
def test_every_value_is_plausible_for_its_unit(world: World, uid: str) -> None:
    """An inter-token time of 40 s, a share of 300 %, a negative rate: a wrong unit or a wrong query."""
    wrong = []
    for panel, target in targets(board(uid)):
        unit = unit_of(panel, target["refId"])
        values = finite(asked(target, world))
        if panel["type"] == "heatmap" or not values:
            continue
        low, high = bounds_of(target["expr"], str(unit))
        if not low <= min(values) <= max(values) <= high:
            wrong.append(f"{panel['title']} {target['refId']}: {min(values)} to {max(values)} {unit}")

    assert wrong == []


@pytest.mark.parametrize("uid", UIDS)
def test_every_panel_obeys_the_choice(world: World, uid: str) -> None:
    """One pod and one lane chosen: nothing of the others is shown."""
    pod = next(iter(PODS))
    chosen = EVERYTHING | {"pod": pod, "lane": "interactive", "namespace": NAMESPACE}
    shown = [
        (panel["title"], dict(one.labels))
        for panel, target in targets(board(uid))
        for one in asked(target, world, chosen)
        if one.labels.get("lane", "interactive") != "interactive" or one.labels.get("pod", pod) != pod
    ]

    assert shown == []


@pytest.mark.parametrize("uid", UIDS)
def test_every_variable_has_its_values(world: World, uid: str) -> None:
    """The world is one cluster without a label for it: that variable has none, and All is all."""
    expected = {"namespace": {NAMESPACE}, "pod": set(PODS), "lane": set(LANES)}  # without `other`, which had no traffic
    expected |= {"cluster": set()}
    for variable in query_variables(board(uid)):
        if variable["name"] in VERSIONS:
            continue
        selector, label = label_values(variable)
        asked_for = with_traffic(variable)
        found = (
            {one.labels[label] for one in world.at_the_end(filled_in(asked_for, world))}
            if asked_for
            else world.label_values(filled_in(selector, world), label)
        )

        assert found == expected.get(variable["name"], found), variable["name"]
        assert found or variable["name"] == "cluster", variable["name"]


def test_the_canary_dashboard_opens_with_two_versions(world: World) -> None:
    """Grafana takes the first value: the version of the oldest pods is the baseline, that of the youngest the canary."""
    first = {}
    for variable in query_variables(board("llm-canary")):
        if variable["name"] in VERSIONS:
            query, label = query_result(variable)
            found = [one.labels[label] for one in world.at_the_end(filled_in(query, world))]
            assert sorted(found) == ["v1", "v2"]
            first[variable["name"]] = found[0]

    assert first in ({"baseline": "v1", "canary": "v2"}, {"baseline": "v2", "canary": "v1"})


def test_with_one_version_the_gate_says_that_nothing_is_compared(world: World) -> None:
    """It gives no answer, and the tile's word for that is uncoloured."""
    tiles = [(panel, target) for panel, target in targets(board("llm-canary")) if is_gate(target)]
    one = EVERYTHING | {"canary": EVERYTHING["baseline"]}

    assert [asked(target, world, one) for _, target in tiles] == [[]] * len(GATE_QUESTIONS)
    assert {
        panel["fieldConfig"]["defaults"]["noValue"].removeprefix("unknown: ").rpartition("objective, ")[2]
        for panel, _ in tiles
    } == {NOT_COMPARED}


def test_the_alerts_are_drawn_where_they_fired(world: World) -> None:
    """Pages and tickets, each with its phase; that the phase is the truth is for the incidents' own tests to show."""
    drawn = {
        (one.labels["severity"], one.labels["alertname"], one.labels["phase"])
        for annotation in board("llm-anatomy")["annotations"]["list"]
        if annotation["name"] in {"Pages", "Tickets"}
        for one in world.over_time(filled_in(annotation["expr"], world))
    }
    fired = {
        (one.labels["severity"], one.labels["alertname"], one.labels["phase"])
        for one in world.over_time('ALERTS{alertstate="firing",alertname!="Watchdog"}')
    }

    assert drawn == fired
    assert "page" in {severity for severity, _, _ in drawn}


def test_a_deploy_is_drawn_with_the_pods_own_version(world: World) -> None:
    """Two pods, each of a version that was not there five minutes ago."""
    (deploys,) = [one for one in board("llm-anatomy")["annotations"]["list"] if one["name"] == "Deploys"]
    drawn = world.over_time(filled_in(deploys["expr"], world))

    assert {one.labels["app_version"] for one in drawn} == {"v1", "v2"}
    assert "{{app_version}}" in deploys["titleFormat"]


def test_the_verdict_on_the_front_page_is_the_one_that_pages(world: World) -> None:
    """The same series, and every phase leads to a dashboard that exists."""
    (table,) = [panel for panel in panels(board("llm-anatomy")) if panel["title"].startswith("Verdict: ")]
    rows = world.over_time(filled_in(table["targets"][0]["expr"], world))
    who = ("namespace", "job", "model", "lane", "objective", "phase")
    pages = world.over_time('ALERTS{alertstate="firing",objective!="",phase!="unattributed"}')

    assert {tuple(row.labels.get(name) for name in who) for row in rows} >= {
        tuple(page.labels.get(name) for name in who) for page in pages
    }
    assert {row.labels["lane"] for row in rows} >= {"interactive"}
    assert {row.labels["dashboard"] for row in rows} - set(UIDS) == set()


def test_the_stack_is_as_high_as_the_mean_request(world: World) -> None:
    """Phases add up to the whole, lane by lane: what the line over the stack is for.

    Asked of the totals: a rate misses the first observation of each new child, so over a few seconds the two may differ by a percent.
    And asked after the load: a page is written in slices, so that a request that ends meanwhile may be in one histogram alone.
    """
    time.sleep(2 * SCRAPE_SECONDS)
    after = replace(world, ended_at=time.time())  # noqa: TID251  Prometheus' own clock
    stacks = [panel for panel in panels(board("llm-anatomy")) if panel["title"].startswith("Mean seconds by phase")]
    for lane in LANES:
        *phases, whole = (
            sum(finite(after.at_the_end(filled_in(_of_totals(target["expr"]), world, EVERYTHING | {"lane": lane}))))
            for target in stacks[0]["targets"]
        )

        assert sum(phases) == pytest.approx(whole, rel=1e-6)
        assert whole > 0


def _of_totals(expr: str) -> str:
    return re.sub(r"rate\((\w+\{[^}]*\})\[\w+\]\)", r"\1", expr)


def test_a_slow_first_token_leads_to_its_trace(world: World) -> None:
    """The exemplars that the panel asks for are there, under the label that the data source knows."""
    ttft = next(target for panel, target in targets(board("llm-anatomy")) if target.get("exemplar"))
    found = world.exemplars(filled_in(ttft["expr"], world))

    assert found != []
    assert {name for labels in found for name in labels} == {"trace_id"}


def lane_that_answers(asked: str) -> str:
    """One lane of the small world has answers that are not streamed."""
    return "batch" if asked == Asked.E2E_MISSES else "interactive"


def _canary_queries() -> Iterator[tuple[str, str]]:
    flagger = yaml.safe_load_all((GRAFANA / "canary" / "flagger-metric-template.yaml").read_text())
    for template in flagger:
        query = template["spec"]["query"]
        lane = lane_that_answers(template["metadata"]["name"].removeprefix("llm-"))
        for name, value in (("target", "llm"), ("namespace", NAMESPACE), ("variables.lane", lane)):
            query = query.replace(f"{{{{ {name} }}}}", value)
        yield f"flagger {template['metadata']['name']}", sped_up(query)
    for template in yaml.safe_load_all((GRAFANA / "canary" / "argo-analysis-template.yaml").read_text()):
        given = {argument["name"]: argument.get("value", "") for argument in template["spec"]["args"]}
        given |= {"namespace": NAMESPACE, "canary-hash": "6f7c9d", "stable-hash": "5d8f6c"}
        for metric in template["spec"]["metrics"]:
            query = metric["provider"]["prometheus"]["query"]
            for name, value in (given | {"lane": lane_that_answers(metric["name"])}).items():
                query = query.replace(f"{{{{args.{name}}}}}", value)
            yield f"argo {metric['name']}", sped_up(query)


@pytest.mark.parametrize(
    ("name", "query"), list(_canary_queries()), ids=lambda value: value if " " in value and len(value) < 60 else ""
)
def test_a_rollout_gets_exactly_one_series(world: World, name: str, query: str) -> None:
    """Flagger takes the last of several, Argo the first: both must have no choice. The new version's prefill is slower."""
    assert "{{" not in query
    (series,) = world.at_the_end(query)

    assert math.isfinite(series.values[0]), name
    assert series.labels == {}


def test_a_version_without_traffic_is_no_answer(world: World) -> None:
    """Neither a pass nor a failure: both conditions are false for nothing and for NaN."""
    for _, query in _canary_queries():
        gone = query.replace(r'"llm-\\w+-\\w+"', '"gone-.+"').replace('".+-6f7c9d', '".+-gone')
        assert gone != query
        assert finite(world.at_the_end(gone)) == []


def test_where_no_data_is_due_is_said_of_panels_that_exist() -> None:
    places = {(panel["title"], target["refId"]) for uid in UIDS for panel, target in targets(board(uid))}

    assert set(NOT_DUE) | set(SOMETIMES) <= places
