"""The questions to a fleet's Prometheus: each is PromQL, about its namespace and its windows."""

import promql_parser
import pytest

from sidecar.diagnosis import promql
from sidecar.diagnosis.promql import Fleet


QUOTED = Fleet('o"dd\\name')


@pytest.mark.parametrize("of", [Fleet(), Fleet("llm"), QUOTED])
def test_every_question_is_promql(of: Fleet) -> None:
    asked = [
        promql.NAMESPACES,
        *promql.growth(of, 300).values(),
        *promql.gauges(of).values(),
        *promql.recorded(of).values(),
        *promql.faults(of, 300).values(),
    ]

    parsed = [promql_parser.parse(question) for question in asked]

    assert len(parsed) > 50


def test_every_question_is_about_the_namespace() -> None:
    asked = [*promql.growth(Fleet("llm"), 300).values(), *promql.recorded(Fleet("llm")).values()]

    assert [question for question in asked if 'namespace="llm"' not in question] == []


def test_a_longer_window_has_a_longer_past() -> None:
    spans = [tuple(promql.spans(window).values()) for window in (300.0, 3600.0)]

    assert spans == [(120.0, 300.0, 1800.0), (120.0, 3600.0, 21600.0)]
