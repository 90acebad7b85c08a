"""Every query of every dashboard, asked of a real Prometheus that scraped real sidecars through an incident.

No Grafana server runs here, so this stands in for one: what a panel would show is there, has the labels that its legend or columns
need, and is plausible for its unit. The commonest fault of dashboards in the field is "No data".
"""

import math
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.grafana.boards import GRAFANA, UIDS, Json, board, label_values, panels, query_variables, targets, unit_of
from tests.grafana.query_rules import tree_of
from tests.grafana.series import known, labels_of
from tests.grafana.world import LANES, NAMESPACE, PODS, Series, World, lived_through


pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

RATE_INTERVAL = "8s"
EVERYTHING = dict.fromkeys(("namespace", "pod", "model", "lane", "prompt_bucket"), ".*") | {
    "baseline": "v1",
    "canary": "v2",
}
_WEEK = "the demo is a minute old"
_NEVER = "nothing of the kind happens in the demo"

NOT_DUE = {
    ("Mean prompt tokens, now and a week ago", "B"): _WEEK,
    ("Seconds of prefill for each that was expected, by pod", "B"): _WEEK,
    ("The quiet gap: p10 between tokens, by lane", "B"): _WEEK,
    ("What has grown: now over what is usual, by pod", "A"): "what is usual is learned for three minutes",
    ("KV transfer p50, p95", "A"): "the simulated engine is not disaggregated",
    ("KV transfer p50, p95", "B"): "the simulated engine is not disaggregated",
    ("Dropped observations", "A"): _NEVER,
    ("Constant labels that no longer hold", "A"): "the simulated engine states neither label",
    ("Failures, by the word in x-sidecar-error", "A"): _NEVER,
    ("Spans", "A"): "the simulated engine sends none",
    ("Found no room, by budget", "A"): _NEVER,
    ("Sent once more", "A"): _NEVER,
    ("Logins at the admin port", "A"): "its pages ask for no password",
    ("Loads of the web config", "A"): "there is none",
}
"""Where no data is due, and why. What stands here and has data is a fault too."""
SOMETIMES = {
    **{
        (
            f"Cost of {part}: now over what is usual, by pod",
            query,
        ): "a usual cost is learned from 200 steps or 20 prompts"
        for part in ("prefill", "decode")
        for query in "ABC"
    },
    ("Cost of one step of a fixed shape, by pod", "A"): "as above",
    ("Pods with a page of their own", "A"): "the pods share their fault, and one computes prompts more slowly",
}
"""Where it depends on the last seconds."""

BOUNDS = {
    "s": (0.0, 600.0),
    "percentunit": (-1e-9, 1.0 + 1e-9),
    "reqps": (0.0, 500.0),
    "cps": (0.0, 100_000.0),
    "short": (0.0, 100_000.0),
    "bytes": (10e6, 2e9),
    "none": (0.0, 1000.0),
}
"""What is plausible for a unit here."""
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


def filled_in(expr: str, world: World, chosen: dict[str, str] = EVERYTHING) -> str:
    """A query as Grafana sends it: durations and variables put in."""
    expr = expr.replace("$__rate_interval", RATE_INTERVAL).replace(
        "$__range", f"{round(world.ended_at - world.began_at)}s"
    )
    for name, value in chosen.items():
        expr = re.sub(rf"\${name}\b", value, expr)
    assert "$" not in re.sub(r'"\$1"|-\$1"', "", expr), expr
    return expr


def asked(target: Json, world: World, chosen: dict[str, str] = EVERYTHING) -> list[Series]:
    expr = filled_in(target["expr"], world, chosen)
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
    """As reckoned from the query's tree; a legend or column with an empty name tells nobody apart."""
    wrong = []
    for panel, target in targets(board(uid)):
        expected = labels_of(tree_of(target), known())
        legend = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
        for one in asked(target, world):
            present = set(one.labels) - {"__name__"}
            if not legend <= present <= expected:
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
    expected = {
        "namespace": {NAMESPACE},
        "pod": set(PODS),
        "lane": {*LANES, "other"},
        "baseline": {"v1", "v2"},
        "canary": {"v1", "v2"},
    }
    for variable in query_variables(board(uid)):
        selector, label = label_values(variable)
        found = world.label_values(filled_in(selector, world), label)

        assert found == expected.get(variable["name"], found), variable["name"]
        assert found, variable["name"]


def test_the_alerts_are_drawn_where_they_fired(world: World) -> None:
    """Pages and tickets, each with its phase; that the phase is the truth is for the incidents' own tests to show."""
    drawn = {
        (one.labels["severity"], one.labels["alertname"], one.labels["phase"])
        for annotation in board("llm-anatomy")["annotations"]["list"]
        for one in world.over_time(filled_in(annotation["expr"], world))
    }
    fired = {
        (one.labels["severity"], one.labels["alertname"], one.labels["phase"])
        for one in world.over_time('ALERTS{alertstate="firing",alertname!="Watchdog"}')
    }

    assert drawn == fired
    assert "page" in {severity for severity, _, _ in drawn}


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
    """
    stacks = [panel for panel in panels(board("llm-anatomy")) if panel["title"].startswith("$lane")]
    for lane in LANES:
        phases, whole = (
            sum(finite(world.at_the_end(filled_in(_of_totals(target["expr"]), world, EVERYTHING | {"lane": lane}))))
            for target in stacks[0]["targets"]
        )

        assert phases == pytest.approx(whole, rel=1e-6)
        assert phases > 0


def _of_totals(expr: str) -> str:
    return re.sub(r"rate\((\w+\{[^}]*\})\[\$__rate_interval\]\)", r"\1", expr)


def test_a_slow_first_token_leads_to_its_trace(world: World) -> None:
    """The exemplars that the panel asks for are there, under the label that the data source knows."""
    ttft = next(target for panel, target in targets(board("llm-anatomy")) if target.get("exemplar"))
    found = world.exemplars(filled_in(ttft["expr"], world))

    assert found != []
    assert {name for labels in found for name in labels} == {"trace_id"}


def _canary_queries() -> Iterator[tuple[str, str]]:
    flagger = yaml.safe_load_all((GRAFANA / "canary" / "flagger-metric-template.yaml").read_text())
    for template in flagger:
        query = template["spec"]["query"]
        for name, value in (
            ("target", "llm"),
            ("namespace", NAMESPACE),
            ("interval", "50s"),
            ("variables.lane", "interactive"),
        ):
            query = query.replace(f"{{{{ {name} }}}}", value)
        yield f"flagger {template['metadata']['name']}", query
    argo = yaml.safe_load((GRAFANA / "canary" / "argo-analysis-template.yaml").read_text())
    given = {"namespace": NAMESPACE, "lane": "interactive", "canary-hash": "6f7c9d", "stable-hash": "5d8f6c"}
    for metric in argo["spec"]["metrics"]:
        query = metric["provider"]["prometheus"]["query"].replace("[5m]", "[50s]")
        for name, value in given.items():
            query = query.replace(f"{{{{args.{name}}}}}", value)
        yield f"argo {metric['name']}", query


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
        nobody = query.replace("llm-[0-9a-z]+-[0-9a-z]+", "gone-.+").replace("6f7c9d", "gone")
        assert finite(world.at_the_end(nobody)) == []


def test_where_no_data_is_due_is_said_of_panels_that_exist() -> None:
    places = {(panel["title"], target["refId"]) for uid in UIDS for panel, target in targets(board(uid))}

    assert set(NOT_DUE) | set(SOMETIMES) <= places
