"""PromQL for a histogram finds it in either form, and reads each pod once."""

import promql_parser as promql
import pytest

from sidecar.metrics.histogram_forms import buckets, classic_only, of_any_form, quantile


NATIVELY = "unless on (cluster, namespace, job, pod, instance) increase(llm_sidecar_event_loop_lag_seconds[5m]))"


@pytest.mark.parametrize(
    ("asked", "both"),
    [
        (
            'rate(llm_request_seconds_sum{lane="chat"}[5m])',
            'rate(llm_request_seconds_sum{lane="chat"}[5m]) or histogram_sum(rate(llm_request_seconds{lane="chat"}[5m]))',
        ),
        (
            "increase(llm_prompt_tokens_count[1h] offset 1w)",
            "increase(llm_prompt_tokens_count[1h] offset 1w) or histogram_count(increase(llm_prompt_tokens[1h] offset 1w))",
        ),
        ("llm_output_tokens_sum", "llm_output_tokens_sum or histogram_sum(llm_output_tokens)"),
        # A phase's histogram has a name that begins as another's.
        (
            "llm_request_phase_seconds_count{}",
            "llm_request_phase_seconds_count{} or histogram_count(llm_request_phase_seconds{})",
        ),
    ],
)
def test_the_sum_and_the_count_of_a_histogram_are_asked_of_both_forms(asked: str, both: str) -> None:
    assert of_any_form(asked) == both
    assert promql.parse(both) is not None


@pytest.mark.parametrize(
    "asked",
    [
        "increase(llm_requests_total[5m])",
        "llm_engine_requests_waiting",
        # A recorded series is a number, whichever form it was recorded from.
        "increase(instance:llm_output_tokens_sum:sum[1h])",
        "lane:llm_request_seconds_count:rate5m",
    ],
)
def test_what_is_no_part_of_a_histogram_stays_as_it_is(asked: str) -> None:
    assert of_any_form(asked) == asked


def test_a_quantile_is_the_higher_of_both_forms_each_with_enough_samples() -> None:
    """The label keeps the one from standing in the place of the other, and `max` takes it away. A pod that has both is read once."""
    assert quantile(0.95, "llm_request_seconds", "5m", by="lane", matchers='{a="b"}', at_least=100) == (
        "max by (lane) ("
        'histogram_quantile(0.95, sum by (lane, le) (rate(llm_request_seconds_bucket{a="b"}[5m])'
        f" {NATIVELY})"
        ' and on (lane) sum by (lane) (increase(llm_request_seconds_count{a="b"}[5m])'
        f" {NATIVELY} >= 100"
        " or label_replace("
        'histogram_quantile(0.95, sum by (lane) (rate(llm_request_seconds{a="b"}[5m])))'
        ' and on (lane) sum by (lane) (histogram_count(increase(llm_request_seconds{a="b"}[5m]))) >= 100'
        ', "form", "native", "", ""))'
    )


def test_a_quantile_without_labels_or_condition() -> None:
    assert quantile(0.5, "llm_request_seconds", "1h", function="increase") == (
        "max(histogram_quantile(0.5, sum by (le) (increase(llm_request_seconds_bucket[1h])"
        " unless on (cluster, namespace, job, pod, instance) increase(llm_sidecar_event_loop_lag_seconds[1h])))"
        ' or label_replace(histogram_quantile(0.5, sum(increase(llm_request_seconds[1h]))), "form", "native", "", ""))'
    )


def test_the_processes_that_store_native_histograms_are_found_by_one_series_of_each() -> None:
    """A page that narrows its pods narrows them too; a lane is no matter of a process."""
    assert buckets("llm_request_seconds", '{lane="a,pod=b",pod=~"c|d", namespace!="e\\"}"}', "1h") == (
        'increase(llm_request_seconds_bucket{lane="a,pod=b",pod=~"c|d", namespace!="e\\"}"}[1h])'
        " unless on (cluster, namespace, job, pod, instance)"
        ' increase(llm_sidecar_event_loop_lag_seconds{pod=~"c|d",namespace!="e\\"}"}[1h])'
    )


@pytest.mark.parametrize("matchers", ["", '{lane="a) or } b"}', '{pod=~"(a|b)",phase="queue"}'])
def test_what_is_read_of_native_histograms_can_be_left_out(matchers: str) -> None:
    """However a label's value is written: for a server that refuses their functions."""
    total = f"rate(llm_request_seconds_sum{matchers}[5m])"
    edges = f"sum by (le) (increase(llm_request_seconds_bucket{matchers}[$__range]))"
    week = f"increase(llm_prompt_tokens_count{matchers}[1h] offset 1w)"
    counted = f"sum by (lane) (increase(llm_request_seconds_count{matchers}[5m])) >= 100"
    p95 = quantile(0.95, "llm_request_seconds", "5m", by="lane", matchers=matchers, at_least=100)

    assert classic_only(f"sum by (lane) ({of_any_form(total)}) > 0") == f"sum by (lane) ({total}) > 0"
    assert classic_only(f"sum({of_any_form(week)})") == f"sum({week})"
    assert classic_only(f"sum({of_any_form('llm_output_tokens_sum')})") == "sum(llm_output_tokens_sum)"
    assert classic_only(f"sum by (le) ({buckets('llm_request_seconds', matchers, '$__range')})") == edges
    assert classic_only(f"{p95} >= 0") == (
        f"max by (lane) (histogram_quantile(0.95, sum by (lane, le) (rate(llm_request_seconds_bucket{matchers}[5m])))"
        f" and on (lane) {counted}) >= 0"
    )


@pytest.mark.parametrize(
    "text",
    [
        "a unless on (cluster, namespace, job, pod, instance) increase(llm_requests_total[5m])",
        "a unless on (cluster, namespace, job, pod, instance) increase(llm_sidecar_event_loop_lag_seconds_sum[5m])",
        "a unless on (pod) increase(llm_sidecar_event_loop_lag_seconds[5m])",
    ],
)
def test_only_what_stands_for_a_native_histogram_is_left_out(text: str) -> None:
    assert classic_only(text) == text


def test_other_promql_stays_as_it_is() -> None:
    text = (
        'sum(rate(llm_requests_total[5m])) unless on (lane) label_replace(llm_slo_threshold_seconds, "a", "b", "", "")'
    )

    assert classic_only(text) == text
