"""The questions to a fleet's Prometheus: each is PromQL, about its namespace and its windows."""

from collections.abc import Mapping

import promql_parser
import pytest

from alert_rules.state import engine_alerts
from sidecar.diagnosis import promql
from sidecar.diagnosis.measured import EngineDown
from sidecar.diagnosis.promql import Fleet, Samples


QUOTED = Fleet('o"dd\\name')


@pytest.mark.parametrize("of", [Fleet(), Fleet("llm"), QUOTED])
def test_every_question_is_promql(of: Fleet) -> None:
    asked = [
        promql.NAMESPACES,
        *promql.growth(of, 300).values(),
        *promql.gauges(of).values(),
        *promql.recorded(of).values(),
        *promql.faults(of, 300).values(),
        promql.engine_up(of),
        promql.engines_coming_up(of),
    ]

    parsed = [promql_parser.parse(question) for question in asked]

    assert len(parsed) > 50


def test_every_question_is_about_the_namespace() -> None:
    asked = [*promql.growth(Fleet("llm"), 300).values(), *promql.recorded(Fleet("llm")).values()]

    assert [question for question in asked if 'namespace="llm"' not in question] == []


def test_a_longer_window_has_a_longer_past() -> None:
    spans = [tuple(promql.spans(window).values()) for window in (300.0, 3600.0)]

    assert spans == [(120.0, 300.0, 1800.0), (120.0, 3600.0, 21600.0)]


def test_the_pods_with_an_engine_that_is_down_are_named() -> None:
    answer: Samples = [({"pod": "b"}, 0.0), ({"pod": "c"}, 1.0), ({"pod": "a"}, 0.0)]

    assert promql.engines_down(answer, [], Fleet("llm")) == [EngineDown(namespace="llm", pods=("a", "b"), of_pods=3)]
    assert promql.engines_down(answer[1:2], [], Fleet("llm")) == []


def test_a_pod_that_still_loads_its_model_is_not_down() -> None:
    answer: Samples = [({"pod": "b"}, 0.0), ({"pod": "c"}, 1.0), ({"pod": "a"}, 0.0)]

    assert promql.engines_down(answer, [({"pod": "a"}, 0.0)], Fleet("llm")) == [
        EngineDown(namespace="llm", pods=("b",), of_pods=3)
    ]


def test_a_pod_has_as_long_to_come_up_as_in_the_alert() -> None:
    (alert,) = [one for one in engine_alerts(("", "")) if one.name == "LLMEngineDown"]
    asked = promql.engines_coming_up(Fleet()).replace("{}", "").replace("[1800s]", "[30m]")

    assert str(promql_parser.parse(asked.replace("(pod)", "(namespace, pod)"))) in str(promql_parser.parse(alert.expr))


@pytest.mark.parametrize(("misses", "seconds"), [([], 1800.0), ([9.9], 1800.0), ([10.0], 300.0)])
def test_recorded_votes_are_of_half_an_hour_if_few_requests_missed(misses: list[float], seconds: float) -> None:
    """The recording rules choose the window in the same way."""
    who = {"model": "llama", "lane": "chat", "objective": "ttft"}
    answers: Mapping[str, Samples] = {
        "phase": [({**who, "phase": "queue"}, 1.0)],
        "misses": [(who, value) for value in misses],
    }

    assert promql.recorded_votes_seconds(answers) == {("llama", "chat", "ttft"): seconds}
