"""The questions to a fleet's Prometheus: each is PromQL, about its namespace, its job and its windows."""

import re
from collections.abc import Mapping

import promql_parser
import pytest

from sidecar.commands.export.rules.state_alerts import engine_alerts
from sidecar.diagnosis import promql
from sidecar.diagnosis.measured import EngineDown, PodShare
from sidecar.diagnosis.promql import Fleet, Samples
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.objectives.objective import Objective


_ENDS = ("_bucket", "_sum", "_count")
QUOTED = Fleet('o"dd\\name')


@pytest.mark.parametrize("of", [Fleet(), Fleet("llm"), QUOTED])
def test_every_question_is_promql(of: Fleet) -> None:
    asked = [
        promql.fleets(of),
        *promql.growth(of, 300).values(),
        *promql.gauges(of).values(),
        *promql.peaks(of, 300).values(),
        *promql.pods(of, 300).values(),
        promql.engine_up(of),
        promql.engine_stalled(of),
        promql.engines_coming_up(of),
    ]

    parsed = [promql_parser.parse(question) for question in asked]

    assert len(parsed) > 50


def test_every_question_is_about_the_fleet() -> None:
    of = Fleet("llm", "vllm")
    asked = [
        *promql.growth(of, 300).values(),
        *promql.gauges(of).values(),
        *promql.peaks(of, 300).values(),
        *promql.pods(of, 300).values(),
    ]

    assert [question for question in asked if 'namespace="llm",job="vllm"' not in question] == []


def test_only_series_that_a_sidecar_makes_are_asked_for() -> None:
    """And one that is recorded: the pods that have a page of their own."""
    of = Fleet("llm", "vllm")
    asked = [
        promql.fleets(of),
        *promql.growth(of, 300).values(),
        *promql.gauges(of).values(),
        *promql.peaks(of, 300).values(),
        *promql.pods(of, 300).values(),
        promql.engine_up(of),
        promql.engines_coming_up(of),
    ]
    known = {metric.name for metric in CATALOGUE} | {f"{metric.name}{end}" for metric in CATALOGUE for end in _ENDS}
    names = {name for question in asked for name in re.findall(r"[a-z:_0-9]+(?={)", question)}

    assert names - known == {"pod:llm_slo:odd", "process_start_time_seconds"}


def test_every_job_of_a_namespace_is_a_fleet_of_its_own() -> None:
    answer: Samples = [({"namespace": "llm", "job": "b"}, 1.0), ({"namespace": "llm", "job": "a"}, 1.0)]

    assert promql.fleets_of(answer, Fleet("llm")) == [Fleet("llm", "a"), Fleet("llm", "b")]
    assert promql.fleets_of([({}, 1.0)], Fleet()) == promql.fleets_of([], Fleet()) == [Fleet()]
    assert promql.fleets_of([], Fleet("llm", "a")) == [Fleet("llm", "a")]


def test_the_pods_of_a_lane_stand_worst_first_with_their_shares() -> None:
    """Pod c takes a quarter of the requests and has nine tenths of the misses."""
    who = {"model": "llama", "lane": "chat", "objective": "ttft"}
    answers: Mapping[str, Samples] = {
        "misses": [({**who, "pod": "a"}, 5.0), ({**who, "pod": "c"}, 45.0), ({**who, "lane": "rag", "pod": "b"}, 9.0)],
        "judged": [({**who, "pod": pod}, count) for pod, count in (("a", 75.0), ("b", 75.0), ("c", 50.0))],
        "odd": [({"model": "llama", "pod": "c"}, 1.0), ({"model": "other", "pod": "a"}, 1.0)],
    }

    assert promql.pod_shares(answers, "llama", "chat") == {
        Objective.TTFT: (
            PodShare("c", 45.0, 0.9, 0.25, True),
            PodShare("a", 5.0, 0.1, 0.375, False),
            PodShare("b", 0.0, 0.0, 0.375, False),
        )
    }


def test_a_longer_window_has_a_longer_past() -> None:
    spans = [tuple(promql.spans(window).values()) for window in (300.0, 3600.0)]

    assert spans == [(120.0, 300.0, 1800.0), (120.0, 3600.0, 21600.0)]


def test_the_pods_with_an_engine_that_is_down_are_named() -> None:
    answer: Samples = [({"pod": "b"}, 0.0), ({"pod": "c"}, 1.0), ({"pod": "a"}, 0.0)]

    assert promql.engines_down(answer, [], Fleet("llm")) == [EngineDown(namespace="llm", pods=("a", "b"), of_pods=3)]
    assert promql.engines_down(answer[1:2], [], Fleet("llm")) == []


def test_pods_with_a_stalled_engine_are_named_apart() -> None:
    answer: Samples = [({"pod": "b"}, 0.0), ({"pod": "c"}, 1.0), ({"pod": "a"}, 0.0)]

    assert promql.engines_down(answer, [], Fleet("llm"), [({"pod": "b"}, 1.0), ({"pod": "c"}, 1.0)]) == [
        EngineDown(namespace="llm", pods=("a",), of_pods=3),
        EngineDown(namespace="llm", pods=("b",), of_pods=3, stalled=True),
    ]


def test_a_pod_that_still_loads_its_model_is_not_down() -> None:
    answer: Samples = [({"pod": "b"}, 0.0), ({"pod": "c"}, 1.0), ({"pod": "a"}, 0.0)]

    assert promql.engines_down(answer, [({"pod": "a"}, 0.0)], Fleet("llm")) == [
        EngineDown(namespace="llm", pods=("b",), of_pods=3)
    ]


def test_a_pod_has_as_long_to_come_up_as_in_the_alert() -> None:
    (alert,) = [one for one in engine_alerts(("", "")) if one.name == "LLMEngineDown"]
    asked = promql.engines_coming_up(Fleet()).removeprefix("max by (pod) (").removesuffix(")")

    assert f"unless on (cluster, namespace, job, pod, instance) ({promql_parser.parse(asked)})" in str(
        promql_parser.parse(alert.expr)
    )
