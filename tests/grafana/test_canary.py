"""The canary's gate, as Flagger and Argo Rollouts are told it: the same questions as the dashboard's, with no answer for no traffic."""

import math
import re
from collections.abc import Callable

import promql_parser as promql
import pytest
import yaml

from grafana.canary import GATE
from tests.grafana.boards import GRAFANA, Json, board, panels
from tests.grafana.series import known, selectors


ARGO: Json = yaml.safe_load((GRAFANA / "canary" / "argo-analysis-template.yaml").read_text())
FLAGGERS_FILE = (GRAFANA / "canary" / "flagger-metric-template.yaml").read_text()
FLAGGER: list[Json] = list(yaml.safe_load_all(FLAGGERS_FILE))
METRICS: list[Json] = ARGO["spec"]["metrics"]
LIMITS = {name: float(limit) for name, limit in re.findall(r"llm-([\w-]+) max (\d+\.\d+)", FLAGGERS_FILE)}
"""From the head of Flagger's file: a MetricTemplate has no limit, the Canary object that names it has."""


def decided(condition: str, result: list[float]) -> bool:
    """A condition of Argo's, which has Go's operators and the function isNaN."""
    python = condition.replace("&&", "and").replace("||", "or").replace("!isNaN", "not isNaN")
    functions: dict[str, Callable[..., object]] = {"len": len, "isNaN": math.isnan}
    return bool(eval(python, {"__builtins__": {}}, {**functions, "result": result}))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["name"])
@pytest.mark.parametrize(
    ("times_the_limit", "passes", "fails"),
    [(0.0, True, False), (1.0, True, False), (1.01, False, True), (-1.0, True, False)],
)
def test_up_to_the_limit_it_goes_out(metric: Json, times_the_limit: float, *, passes: bool, fails: bool) -> None:
    result = [LIMITS[metric["name"]] * times_the_limit]

    assert (decided(metric["successCondition"], result), decided(metric["failureCondition"], result)) == (passes, fails)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["name"])
@pytest.mark.parametrize("result", [[], [math.nan], [0.0, 0.0]], ids=["nothing", "NaN", "two series"])
def test_what_is_no_answer_neither_passes_nor_fails(metric: Json, result: list[float]) -> None:
    """Inconclusive: a person is asked."""
    assert not decided(metric["successCondition"], result)
    assert not decided(metric["failureCondition"], result)


def test_the_gate_is_ten_percent_everywhere() -> None:
    """On the dashboard in red, and in both templates."""
    gates = [panel for panel in panels(board("llm-canary")) if "p99: canary over baseline" in panel["title"]]
    reds = [panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1] for panel in gates]

    assert GATE == 0.10
    assert reds == [{"value": 0.10, "color": "red"}] * 2
    assert {name: limit for name, limit in LIMITS.items() if name.endswith("p99-regression")} == {
        "ttft-p99-regression": 0.10,
        "tpot-p99-regression": 0.10,
    }


def test_both_tools_ask_the_same_questions() -> None:
    """The queries differ only in each tool's own words for the namespace, the lane, the pods and the window."""
    flagger = {
        "{{ namespace }}": "NAMESPACE",
        "{{ variables.lane }}": "LANE",
        "{{ target }}-primary-[0-9a-z]+-[0-9a-z]+": "BASELINE",
        "{{ target }}-[0-9a-z]+-[0-9a-z]+": "CANARY",
        "{{ interval }}": "WINDOW",
    }
    argo = {
        "{{args.namespace}}": "NAMESPACE",
        "{{args.lane}}": "LANE",
        ".+-{{args.stable-hash}}-.+": "BASELINE",
        ".+-{{args.canary-hash}}-.+": "CANARY",
        "[5m]": "[WINDOW]",
    }
    asked = {
        template["metadata"]["name"].removeprefix("llm-"): neutral(template["spec"]["query"], flagger)
        for template in FLAGGER
    }

    assert asked == {metric["name"]: neutral(metric["provider"]["prometheus"]["query"], argo) for metric in METRICS}
    assert set(asked) == set(LIMITS)
    assert [words for query in asked.values() for words in ("CANARY", "BASELINE") if words not in query] == []


def neutral(query: str, words: dict[str, str]) -> str:
    """The query without its tool's own words."""
    for own, neutral_word in words.items():
        query = query.replace(own, neutral_word)
    return query


def filled(query: str) -> str:
    """Something in the place of each of the tools' own variables."""
    return re.sub(r"\{\{ ?[\w. -]+?\}\}", "x", query.replace("{{ interval }}", "1m"))


def test_their_queries_name_series_labels_and_arguments_that_exist() -> None:
    declared = {argument["name"] for argument in ARGO["spec"]["args"]}
    for metric in METRICS:
        query = metric["provider"]["prometheus"]["query"]

        assert set(re.findall(r"\{\{args\.([\w-]+)\}\}", query)) <= declared
        for selector in selectors(promql.parse(filled(query))):
            assert {matcher.name for matcher in selector.matchers.matchers} <= known()[selector.name or ""]


@pytest.mark.parametrize(
    ("pod", "version"),
    [
        ("llm-6f7c9d-abcde", "canary"),
        ("llm-primary-5d8f6c-x7k2p", "baseline"),
        ("llm-canary-x-6f7c9d-abcde", "neither"),
    ],
)
def test_flagger_tells_the_old_pods_from_the_new(pod: str, version: str) -> None:
    """TARGET-primary-HASH-ID is the old version; a selector that also took these for new would compare the old with itself."""
    query = FLAGGER[0]["spec"]["query"].replace("{{ target }}", "llm")
    canary, baseline = dict.fromkeys(re.findall(r'pod=~"([^"]+)"', query))

    assert (bool(re.fullmatch(canary, pod)), bool(re.fullmatch(baseline, pod))) == (
        version == "canary",
        version == "baseline",
    )
