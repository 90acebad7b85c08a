"""The bench reads alerts from promtool's output, by giving promtool expectations that are always wrong."""

from pathlib import Path

import pytest
import yaml

from bench.incidents.prometheus import (
    hear,
    read,
)
from bench.incidents.samples import Samples
from sidecar.commands.export.rules.annotations import most_on
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.catalogue import SLO_MISSES_TOTAL
from sidecar.metrics.registry import Metrics
from tests.support.tools import need_tool


def test_promtool_that_fails_is_not_taken_for_silence() -> None:
    with pytest.raises(RuntimeError, match="promtool says"):
        read("Unit Testing:  run.yml\n  FAILED:\nrules.yml: yaml: line 3: nonsense\n", {})


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
