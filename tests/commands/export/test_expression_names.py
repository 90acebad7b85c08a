"""Names of metrics and labels in expressions, and nothing that only looks like one."""

import pytest

from sidecar.commands.export.expression_names import (
    declared_as,
    grouped_by,
    labels_made,
    left_out,
    metrics_in,
    undeclared,
)
from sidecar.metrics.catalogue import CATALOGUE, LEAN


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("rate(llm_request_seconds_bucket[5m])", {"llm_request_seconds_bucket"}),
        ('count(llm_ready{a="llm_in_flight"})', {"llm_ready"}),
        (r'count(llm_ready{a="\"llm_in_flight"})', {"llm_ready"}),
        ("lane:llm_slo_miss:burn{window='5m'} / pod:llm_slo:rate", set()),
        ("$llm_variable + llm_in_flight", {"llm_in_flight"}),
        ("my_llm_metric", set()),
    ],
)
def test_series_are_found_outside_of_texts_recorded_names_and_variables(expression: str, names: set[str]) -> None:
    assert metrics_in(expression) == names


def test_a_series_is_declared_by_its_metric() -> None:
    assert declared_as("llm_request_seconds_bucket") == "llm_request_seconds"
    assert undeclared(["llm_request_seconds_sum", "llm_requests_total", "llm_no_such_sum"]) == ["llm_no_such_sum"]


def test_what_a_lean_page_leaves_out_is_read_from_the_expression_alone() -> None:
    """The parts of a histogram are its own; what stands in quotes, or is recorded, is no metric; a label counts where it groups."""
    assert left_out('sum(rate(llm_request_seconds_bucket{lane="llm_output_tokens"}[5m]))') == ["llm_request_seconds"]
    assert left_out("lane:llm_time_to_first_token_seconds:p95_rate5m > llm_engine_up") == []
    assert left_out("sum by (lane, prompt_bucket) (llm_slo_misses_total)") == ["prompt_bucket"]
    assert left_out('llm_slo_misses_total{prompt_bucket=~"$prompt_bucket"}') == []
    assert {metric.name for metric in CATALOGUE if left_out(metric.name)} == {
        metric.name for metric in CATALOGUE if metric not in LEAN
    }


def test_labels_of_by_and_on_are_found_however_they_are_set() -> None:
    expression = 'sum by(pod, lane) (x{by="(job)"}) / on (model) group_left () sum by () (y)'

    assert grouped_by(expression) == {"pod", "lane", "model"}


def test_the_labels_that_an_expression_writes_are_told_from_those_that_it_reads() -> None:
    expression = (
        'label_replace(count_values by (a) ("n", round(up{pod="x,)"}, 0.1)), "says", "$1 (of", "b", "(.*)")'
        ' * on (c) group_left (d) label_join(label_replace(up, "e", "", "", ""), "all", "|", "f", "g") + count_values ("m", up)'
    )

    assert labels_made(expression) == {"n", "says", "e", "all", "m"}
    assert labels_made('sum by (pod) (up{pod="label_replace("})') == set()
