"""The bench reads alerts and values from promtool's output, by giving promtool expectations that are always wrong."""

from pathlib import Path

import pytest
import yaml

from bench.incidents.prometheus import (
    RULE_FILES,
    Firing,
    Spell,
    annotations,
    ask,
    edges_in,
    hear,
    names_in,
    read,
    spells,
)
from bench.incidents.samples import Samples
from sidecar.commands.export.rules.annotations import most_on
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.catalogue import SLO_MISSES_TOTAL
from sidecar.metrics.registry import Metrics
from sidecar.objectives.objective import Objectives
from sidecar.observe.slo_counters import Slo
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
    questions = {
        "fired": ('min_over_time(timestamp(ALERTS{alertstate="firing"})[2h:15s])', 900.0),
        "rate": ("x:rate", 840.0),
        "rate, earlier": ("x:rate", 825.0),
        "none": ("y", 900.0),
    }

    answers = read(PRINTED.replace("b{c}", "b"), questions)

    fired = [(dict(labels)["alertname"], dict(labels)["lane"], value) for labels, value in answers["fired"]]
    assert fired == [("Hot", "a", 375.0), ("Old", "b", 15.0)]
    assert [value for _, value in answers["rate"]] == [0.0]
    assert answers["none"] == answers["rate, earlier"] == []


def test_the_alerts_that_promtool_got_are_read_with_their_annotations() -> None:
    """They stand before the answers, several under one heading; a quote and a percentage are part of the words."""
    printed = """Unit Testing:  /tmp/run.yml
  FAILED:
    alertname: LLMQueueBurn, time: 5m15s,
        exp:[],
        got:[
            0:
              Labels:{alertname="LLMQueueBurn", job="j", lane="chat", severity="page"}
              Annotations:{cause="slots", confidence="0.85", summary="the \\"small\\" one: 85%, since 10:15"},
            1:
              Labels:{alertname="LLMQueueBurn", job="j", lane="code", severity="page"}
              Annotations:{cause="none"}
            ]
    expr: "x:rate", time: 14m,
        exp: nil
        got: {__name__="x:rate", lane="b"} 0E+00
"""
    labels = {"alertname": "LLMQueueBurn", "job": "j", "lane": "chat", "severity": "page"}

    found = annotations(printed)

    assert found == {
        (315.0, tuple(labels.items())): {
            "cause": "slots",
            "confidence": "0.85",
            "summary": 'the "small" one: 85%, since 10:15',
        },
        (315.0, tuple((labels | {"lane": "code"}).items())): {"cause": "none"},
    }
    assert read(printed, {"rate": ("x:rate", 840.0)})["rate"] == [((("__name__", "x:rate"), ("lane", "b")), 0.0)]


def test_promtool_that_fails_is_not_taken_for_silence() -> None:
    with pytest.raises(RuntimeError, match="promtool says"):
        read("Unit Testing:  run.yml\n  FAILED:\nrules.yml: yaml: line 3: nonsense\n", {})


def test_a_question_that_promtool_cannot_evaluate_is_not_taken_for_an_empty_answer() -> None:
    printed = """  FAILED:
    expr: "y", time: 15m, err: query processing would load too many samples into memory in query execution
"""
    with pytest.raises(RuntimeError, match="too many samples"):
        read(printed, {"none": ("y", 900.0)})


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

    (found,) = (Firing(at, dict(labels)) for labels, at in ask([samples], question, [rules])["fired"])

    assert (found.alert, found.labels["lane"], found.labels["phase"], found.lane) == ("Hot", "chat", "queue", None)
    assert 330 <= found.at <= 375


def test_alerts_of_all_pods_are_heard_with_their_intervals_and_annotations(tmp_path: Path) -> None:
    """Two pods miss for five minutes, the second one three times as often: a page names it, and ends with the misses."""
    need_tool("promtool")
    pods = [misses_of(pod, a_scrape) for pod, a_scrape in enumerate((1, 3))]
    rule = {
        "alert": "Burns",
        "expr": "sum by (namespace, job, model, lane, objective) (increase(llm_slo_misses_total[1m])) > 5",
        "labels": {"severity": "page", "phase": "queue"},
        "annotations": {
            "confidence": "0.75",
            "worst_pod": most_on("llm_slo_misses_total", "", "5m", ("namespace", "job", "lane"), bare=True),
        },
    }
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "burns", "rules": [rule]}]}))

    heard = hear(pods, 300.0, 885.0, 885.0, [rules])

    (spell,) = heard.firing
    assert spell.labels == {
        "alertname": "Burns",
        "severity": "page",
        "phase": "queue",
        "namespace": "serving",
        "job": "llm-phase-sidecar",
        "model": "llama",
        "lane": "chat",
        "objective": "ttft",
    }
    assert 300 < spell.began_at <= 345
    assert 600 < spell.ended_at <= 675
    assert [firing.at for firing in heard.during] == [spell.began_at]
    assert heard.during[0].annotations == {"confidence": "0.75", "worst_pod": "llm-1"}


def misses_of(pod: int, a_scrape: int) -> Samples:
    """Fifteen minutes of one pod that misses so many requests between any two scrapes from 300 s to 600 s."""
    metrics = Metrics(lanes=["chat"], prompt_buckets=["all"], models=["llama"])
    misses = metrics.counter(SLO_MISSES_TOTAL).of[RequestLabels("llama", "chat", "all"), "ttft"]
    samples = Samples(metrics, frozenset({"llm_slo_misses_total"}), 15.0, pod=pod)
    for scrape in range(60):
        if 20 < scrape <= 40:
            misses.inc(a_scrape)
        samples.take()
    return samples


def test_a_spell_begins_and_ends_with_the_evaluations_at_which_an_alert_fires() -> None:
    """An alert that fires at the first evaluation, stops and fires until the end has two spells."""
    hot = (("__name__", "ALERTS"), ("alertname", "Hot"), ("alertstate", "firing"))

    found = spells([(15.0, [hot]), (30.0, []), (45.0, [hot]), (60.0, [hot])], 60.0)

    assert found == [Spell({"alertname": "Hot"}, 15.0, 30.0), Spell({"alertname": "Hot"}, 45.0, 60.0)]


def test_buckets_of_which_rules_read_single_edges_are_found(tmp_path: Path) -> None:
    """A quantile needs every edge of its histogram; a share needs one edge. The shipped rules read no histogram."""
    share = 'sum(rate(llm_a_bucket{le="5.0"}[10m])) / sum(rate(llm_a_count[10m]))'
    quantile = 'histogram_quantile(0.9, rate(llm_b_bucket[5m])) > 2 and rate(llm_b_bucket{le="2.0"}[5m])'
    rules = [{"record": "a", "expr": share}, {"record": "b", "expr": quantile}]
    file = tmp_path / "own.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "own", "rules": rules}]}))

    assert (edges_in([file]), edges_in(RULE_FILES)) == ({"llm_a_bucket": frozenset({"5.0"})}, {})


def test_every_metric_that_a_shipped_rule_reads_is_found() -> None:
    """Each metric is found under the name in the rule or its words, suffix included. Recorded series are not metrics. The bench asks for
    the ratios of now beside them.
    """
    names = names_in(RULE_FILES)

    assert {"llm_slo_misses_total", "llm_slo_blamed_misses_total", "llm_incident_size_ratio", "up"} <= names
    assert "llm_evidence_ratio" in names
    assert not any(":" in name for name in names)
