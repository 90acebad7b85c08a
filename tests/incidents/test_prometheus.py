"""The bench reads alerts and values from promtool's output, by giving promtool expectations that are always wrong."""

from pathlib import Path

import pytest
import yaml

from bench.incidents.prometheus import RULE_FILES, Firing, ask, names_in, read
from bench.incidents.samples import Samples
from sidecar.metrics.registry import Metrics
from sidecar.observe.slo_counters import Slo
from sidecar.slo.objective import Objectives
from tests.support.tools import need_tool


PRINTED = """Unit Testing:  /tmp/run.yml
  FAILED:
    expr: "min_over_time(timestamp(ALERTS{alertstate=\\"firing\\"})[2h:15s])", time: 15m,
        exp: nil
        got: {alertname="Hot", alertstate="firing", lane="a", severity="page"} 3.75E+02, {alertname="Old", lane="b{c}"} 15
    expr: "x:rate", time: 14m,
        exp: nil
        got: {__name__="x:rate", lane="b"} 0E+00

"""


def test_what_promtool_got_is_the_answer() -> None:
    expressions = {
        "fired": 'min_over_time(timestamp(ALERTS{alertstate="firing"})[2h:15s])',
        "rate": "x:rate",
        "none": "y",
    }

    answers = read(PRINTED.replace("b{c}", "b"), expressions)

    fired = [(dict(labels)["alertname"], dict(labels)["lane"], value) for labels, value in answers["fired"]]
    assert fired == [("Hot", "a", 375.0), ("Old", "b", 15.0)]
    assert [value for _, value in answers["rate"]] == [0.0]
    assert answers["none"] == []


def test_promtool_that_fails_is_not_taken_for_silence() -> None:
    with pytest.raises(RuntimeError, match="promtool says"):
        read("Unit Testing:  run.yml\n  FAILED:\nrules.yml: yaml: line 3: nonsense\n", {})


def test_an_alert_is_heard_when_it_begins_to_fire(tmp_path: Path) -> None:
    """A counter of the product rises from the twentieth scrape on; the rule requires half a minute of it."""
    need_tool("promtool")
    metrics = Metrics(lanes=["chat"], prompt_buckets=["all"], models=["llama"])
    received = Slo(metrics, Objectives())._received.child("llama", "chat")
    samples = Samples(metrics, frozenset({"llm_requests_received_total"}), 15.0)
    for scrape in range(40):
        if scrape >= 20:
            received.inc(15)
        samples.take()
    rule = {
        "alert": "Hot",
        "expr": 'sum by (namespace, lane) (rate(llm_requests_received_total{lane="chat"}[1m])) > 0.4',
        "for": "30s",
        "labels": {"severity": "page", "phase": "queue"},
    }
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "hot", "rules": [rule]}]}))
    question = {"fired": ('min_over_time(timestamp(ALERTS{alertstate="firing"})[10m:15s])', 585.0)}

    (found,) = (Firing(at, dict(labels)) for labels, at in ask(samples, question, [rules])["fired"])

    assert (found.alert, found.labels["lane"], found.labels["phase"], found.lane) == ("Hot", "chat", "queue", None)
    assert 330 <= found.at <= 375


def test_every_metric_that_a_shipped_rule_reads_is_found() -> None:
    """Each metric is found under the name in the rule, suffix included. Recorded series are not metrics."""
    names = names_in(RULE_FILES)

    assert {"llm_slo_misses_total", "llm_slo_blamed_misses_total", "llm_inter_token_seconds_bucket", "up"} <= names
    assert not any(":" in name for name in names)
