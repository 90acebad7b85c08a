"""The canary's gate, as Flagger and Argo Rollouts are told it: the dashboard's questions, with no answer for no traffic."""

import math
import re
import urllib.parse
from collections.abc import Callable
from itertools import chain

import promql_parser as promql
import pytest
import yaml

from grafana.colours import RED
from grafana.gate_query import FAILS_BELOW
from grafana.rollouts import LONGEST_NAMES
from sidecar.commands.compare.gate_questions import GATE_QUESTIONS
from tests.grafana.boards import GRAFANA, Json, board, targets
from tests.grafana.gate import choice_of, gates, is_gate, sentinel
from tests.grafana.series import known, selectors


ARGO: list[Json] = list(yaml.safe_load_all((GRAFANA / "canary" / "argo-analysis-template.yaml").read_text()))
FLAGGERS_FILE = (GRAFANA / "canary" / "flagger-metric-template.yaml").read_text()
FLAGGER: list[Json] = list(yaml.safe_load_all(FLAGGERS_FILE))
METRICS: list[Json] = [metric for template in ARGO for metric in template["spec"]["metrics"]]


def decided(condition: str, result: list[float]) -> bool:
    """A condition of Argo's, which has Go's operators and the function isNaN."""
    python = condition.replace("&&", "and").replace("||", "or").replace("!isNaN", "not isNaN")
    functions: dict[str, Callable[..., object]] = {"len": len, "isNaN": math.isnan}
    return bool(eval(python, {"__builtins__": {}}, {**functions, "result": result}))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["name"])
@pytest.mark.parametrize(
    ("p", "passes"), [(1.0, True), (FAILS_BELOW, True), (FAILS_BELOW * 0.99, False), (1e-12, False)]
)
def test_below_the_limit_it_is_failed(metric: Json, p: float, *, passes: bool) -> None:
    verdicts = [decided(metric[condition], [p]) for condition in ("successCondition", "failureCondition")]

    assert verdicts == [passes, not passes]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["name"])
@pytest.mark.parametrize("result", [[], [math.nan], [0.0, 0.0]], ids=["nothing", "NaN", "two series"])
def test_what_is_no_answer_neither_passes_nor_fails(metric: Json, result: list[float]) -> None:
    """Inconclusive: a person is asked."""
    assert not decided(metric["successCondition"], result)
    assert not decided(metric["failureCondition"], result)


def test_the_limit_is_the_same_everywhere() -> None:
    """In the words of the dashboard, in Argo's conditions, and at the head of Flagger's file, whose limits stand in the Canary object; the page
    for people shows one.
    """
    tiles = [panel for panel, target in targets(board("llm-canary")) if is_gate(target)]
    worse = [
        (one["options"]["to"], one["options"]["result"]["color"])
        for panel in tiles
        for one in panel["fieldConfig"]["defaults"]["mappings"]
        if one["type"] == "range" and one["options"]["result"]["text"] == "worse"
    ]

    assert worse == [(FAILS_BELOW, RED)] * len(METRICS)
    assert re.findall(r"thresholdRange min ([\d.]+\d)", FLAGGERS_FILE) == [f"{FAILS_BELOW:g}"]
    assert re.findall(r"thresholdRange: {min: ([\d.]+)}", (GRAFANA / "README.md").read_text()) == [f"{FAILS_BELOW:g}"]


def test_a_tile_without_an_answer_has_no_colour() -> None:
    """Neither the gate's nor any other tile that is painted by its value."""
    painted = [
        panel
        for panel, _ in targets(board("llm-canary"))
        if panel["type"] == "stat" and panel["options"]["colorMode"] == "background"
    ]
    words = [
        one["options"]
        for panel in painted
        for one in panel["fieldConfig"]["defaults"]["mappings"]
        if one["type"] == "special"
    ]

    assert len(painted) == len(METRICS)
    assert {(one["match"], one["result"]["color"], one["result"]["text"]) for one in words} == {
        ("null+nan", "transparent", "unknown: one version, or no traffic"),
        ("null+nan", "transparent", "unknown: no such objective, one version, or no traffic"),
    }


def test_all_ask_the_same_questions() -> None:
    """The queries differ only in the words for the namespace, the lane, the pods and the window."""
    flagger = {
        "{{ namespace }}": "NAMESPACE",
        "{{ variables.lane }}": "LANE",
        r"{{ target }}(-primary)?-\\w+-\\w+": "BOTH",
        r"{{ target }}-\\w+-\\w+": "CANARY",
        "[2h:": "[WINDOW:",
    }
    argo = {
        "{{args.namespace}}": "NAMESPACE",
        "{{args.lane}}": "LANE",
        ".+-({{args.canary-hash}}|{{args.stable-hash}})-.+": "BOTH",
        ".+-{{args.canary-hash}}-.+": "CANARY",
        "{{args.window}}": "WINDOW",
    }
    grafana = {
        **{choice_of(question): 'namespace="NAMESPACE",lane="LANE"' for question in GATE_QUESTIONS.values()},
        'app_version=~"$baseline|$canary"': 'pod=~"BOTH"',
        'app_version="$canary"': 'pod=~"CANARY"',
        " by (cluster, namespace, model, lane) ": "",
        "$__range": "WINDOW",
    }
    flaggers = {neutral(template["spec"]["query"].strip(), flagger) for template in FLAGGER}
    argos = {neutral(metric["provider"]["prometheus"]["query"].strip(), argo) for metric in METRICS}

    assert len(argos) == len(METRICS) == len(FLAGGER)
    assert flaggers == argos == {neutral(expr, grafana) for expr in gates()}
    assert {target["expr"] for _, target in targets(board("llm-canary"))} >= gates() | {sentinel()}
    assert {template["metadata"]["name"] for template in FLAGGER} == {f"llm-{metric['name']}" for metric in METRICS}


def test_a_question_that_streamed_lanes_cannot_answer_is_a_template_of_its_own() -> None:
    """Argo asks every metric of a template, and no answer holds the rollout. Both templates take the same arguments."""
    asked = {one["metadata"]["name"]: [metric["name"] for metric in one["spec"]["metrics"]] for one in ARGO}
    streamed, other = ARGO

    assert asked["llm-canary-e2e"] == ["e2e-misses"]
    assert sorted(chain(*asked.values())) == sorted(GATE_QUESTIONS)
    assert streamed["spec"]["args"] == other["spec"]["args"]


def test_flagger_can_send_them_in_an_address() -> None:
    """It asks by GET; nginx and others refuse a request line above 8 KiB. The file states how long names may be."""
    name = "x" * (LONGEST_NAMES // 3)
    queries = [re.sub(r"\{\{ [\w. ]+ \}\}", name, template["spec"]["query"]) for template in FLAGGER]
    longest = max(len(f"GET /api/v1/query?query={urllib.parse.quote(query)} HTTP/1.1\r\n") for query in queries)

    assert 7000 < longest < 8192
    assert f"may have {LONGEST_NAMES} characters together" in FLAGGERS_FILE


def neutral(query: str, words: dict[str, str]) -> str:
    """The query without its tool's own words."""
    for own, neutral_word in words.items():
        query = query.replace(own, neutral_word)
    return query


def filled(query: str) -> str:
    """A name of usual length in the place of each of the tools' own variables."""
    return re.sub(r"\{\{ ?[\w. -]+?\}\}", "interactive", query.replace("{{args.window}}", "2h"))


def test_their_queries_name_series_labels_and_arguments_that_exist() -> None:
    declared = {argument["name"] for argument in ARGO[0]["spec"]["args"]}
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
    canary, both = sorted({said.replace(r"\\", "\\") for said in re.findall(r'pod=~"([^"]+)"', query)}, key=len)

    assert (bool(re.fullmatch(canary, pod)), bool(re.fullmatch(both, pod))) == (
        version == "canary",
        version != "neither",
    )
