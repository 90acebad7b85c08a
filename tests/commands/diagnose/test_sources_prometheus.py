"""A real Prometheus with half an hour of two pods, asked as `sidecar diagnose` asks it."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.diagnose.sources import fleet
from sidecar.diagnosis.part_words import IS
from sidecar.metrics import catalogue as c
from tests.diagnosis.life import Life
from tests.support.backfilled import backfilled, sample_line, samples_of


STEP_SECONDS = 15.0
PODS_ARE_SLOW_SECONDS = 3600.0
"""By which the clocks of both pods are behind Prometheus'."""
PARTS = {
    ("queue", "router"): 0.2,
    ("queue", "prefill_queue"): 1.5,
    ("queue", "rest"): 0.3,
    ("prefill", "compute"): 0.08,
    ("prefill", "rest"): 0.02,
}


class Written(Life):
    """A process whose series are written as if two pods of it were scraped."""

    def __init__(self, ends_at: float, minutes: float) -> None:
        super().__init__()
        self.offset = ends_at - self.at - minutes * 60
        self.lines: list[str] = []
        self.began_at: float | None = None

    def _pass(self, seconds: float, **told: Any) -> None:
        super()._pass(seconds, **told)
        self.metrics.gauge(c.SIDECAR_TIME_SECONDS).child().set(self.at + self.offset - PODS_ARE_SLOW_SECONDS)
        if self.began_at is not None:
            self.metrics.gauge(c.INCIDENT_AGE_SECONDS).child("prefill", "uncached").set(self.at - self.began_at)
        for family in self.metrics.families:
            names = [label.name for label in family.metric.labels]
            for values, child in family.children.items():
                labels = dict(zip(names, values, strict=True))
                for suffix, more, value in samples_of(child):
                    self._write(f"{family.metric.name}{suffix}", labels | more, value)

    def _write(self, name: str, labels: Mapping[str, str], value: float) -> None:
        for pod in ("a", "b"):
            target = {"namespace": "llm", "job": "vllm", "pod": pod}
            self.lines.append(sample_line(name, {**labels, **target}, value, self.at + self.offset))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A quarter of an hour of calm, then ten minutes in which prompts are less cached, requests wait in queue for them, and the engine states
    parts of both.
    """
    folder = tmp_path_factory.mktemp("prometheus")
    life = Written(time.time(), 25)  # noqa: TID251  Prometheus keeps wall-clock time
    life.minutes(15)
    life.metrics.gauge(c.EVIDENCE_RATIO).child("uncached").set(1.1)
    for metric, value in (
        (c.INCIDENT_SIZE_RATIO, 2.0),
        (c.INCIDENT_SIZE_RATIO_LOW, 1.8),
        (c.INCIDENT_SIZE_RATIO_HIGH, 2.2),
    ):
        life.metrics.gauge(metric).child("prefill", "uncached", "request").set(value)
    life.metrics.gauge(c.INCIDENT_CONFIDENCE_RATIO).child("prefill", "uncached").set(0.93)
    life.began_at = life.at
    life.minutes(10, missing=0.5, queue=2.0, root="prefill", cause="uncached", certain=0.9, parts=PARTS)
    with backfilled(folder, life.lines) as url:
        yield url


@pytest.mark.long
def test_a_real_prometheus_tells_the_same_as_the_ring(prometheus: str) -> None:
    answer = asyncio.run(fleet(prometheus, namespace=None, model=None, lane=None, window_seconds=300))

    (found,) = json.loads(json.dumps(answer, allow_nan=False))["diagnoses"]
    measured = found["measured"]
    assert (found["namespace"], found["model"], found["lane"]) == ("llm", "llama", "chat")
    assert (found["phase"], found["cause"], found["first"]) == ("prefill", "uncached", "ttft")
    assert measured["verdicts"]["ttft"]["waited_in"] == {"queue": 1.0}
    ten_minutes_ago = time.time() - 600  # noqa: TID251  Prometheus keeps wall-clock time
    assert (found["job"], found["since_timestamp_seconds"]) == ("vllm", pytest.approx(ten_minutes_ago, abs=100))
    assert (found["confidence"], found["size"]) == (0.93, {"ratio": 2.0, "low": 1.8, "high": 2.2, "per": "request"})
    assert measured["verdicts"]["ttft"]["confidence"] == pytest.approx(0.9, rel=0.01)
    assert measured["evidence_ratios"] == {"uncached": 1.1}
    assert [pod["pod"] for pod in measured["pods"]["ttft"]] == ["a", "b"]
    assert measured["pods"]["ttft"][0]["share"] == pytest.approx(0.5)
    assert measured["load"]["arrivals_per_second"] == pytest.approx(8.0, rel=0.1)
    assert measured["phases"]["queue"]["mean_seconds"] == pytest.approx(2.0, rel=0.02)
    assert found["time_to_first_token"]["burn"] == pytest.approx(10.0, rel=0.05)
    assert (found["time_to_first_token"]["state"], found["inter_token"]["state"]) == ("broken", "met")


@pytest.mark.long
def test_the_parts_of_a_phase_are_asked_for_and_the_largest_of_the_root_is_told(prometheus: str) -> None:
    """Two pods of four requests a second, for five minutes; the parts of the queue, in which the misses waited, are there as numbers."""
    answer = asyncio.run(fleet(prometheus, namespace=None, model=None, lane=None, window_seconds=300))

    (found,) = answer["diagnoses"]
    told = {
        (phase, part): mean
        for phase, parts in found["measured"]["phase_parts"].items()
        for part, mean in parts["mean_seconds"].items()
    }
    assert told == pytest.approx(PARTS)
    assert found["measured"]["phase_parts"]["prefill"]["requests"] == pytest.approx(2400, rel=0.02)
    (line,) = [line for line in found["evidence"] if line.startswith("Of the phase ")]
    assert line.startswith(f"Of the phase prefill, 80 ms of 100 ms per request are compute, {IS['compute']}: ")


class Page:
    """The page of a vLLM as it was scraped: two requests a second, prompts of a thousand tokens, answers of a hundred."""

    _NAMES = (
        "time_to_first_token",
        "request_queue_time",
        "request_prefill_time",
        "request_decode_time",
        "e2e_request_latency",
    )
    _EDGES: Mapping[str, tuple[float, ...]] = defaultdict(
        lambda: (0.5, 1.0, 2.5, 5.0, 10.0, 40.0), {"inter_token_latency": (0.025, 0.05, 0.075, 0.1, 0.2)}
    )

    def __init__(self, began_at: float) -> None:
        self.lines: list[str] = []
        self.began_at: float | None = None
        self._at = began_at
        self._counts: defaultdict[str, float] = defaultdict(float)

    def minutes(self, minutes: float, *, queue: float, gap: float, running: int, waiting: int) -> None:
        for scrape in range(round(minutes * 60 / STEP_SECONDS)):
            batch = running + scrape % 3
            times = (0.21 + queue, queue, 0.2, 100 * gap, 0.21 + queue + 100 * gap)
            for name, seconds in (*zip(self._NAMES, times, strict=True), ("inter_token_latency", gap + 0.0005 * batch)):
                self._observe(name, seconds, 3000.0 if name == "inter_token_latency" else 30.0)
            self._count("prefix_cache_queries_total", 30_000.0)
            self._count("prefix_cache_hits_total", 15_000.0)
            for name, value in (("running", batch), ("waiting", waiting)):
                self._write(f"num_requests_{name}", {}, value)
            self._write("kv_cache_usage_perc", {}, 0.5)
            self._at += STEP_SECONDS

    def _observe(self, name: str, seconds: float, count: float) -> None:
        for edge in (*self._EDGES[name], float("inf")):
            told = "+Inf" if edge == float("inf") else repr(edge)
            self._count(f"{name}_seconds_bucket", count if seconds <= edge else 0.0, le=told)
        self._count(f"{name}_seconds_count", count)
        self._count(f"{name}_seconds_sum", count * seconds)

    def _count(self, name: str, grown: float, **labels: str) -> None:
        self._counts[f"{name}{labels}"] += grown
        self._write(name, labels, self._counts[f"{name}{labels}"])

    def _write(self, name: str, labels: Mapping[str, str], value: float) -> None:
        target = {"namespace": "llm", "job": "llama", "instance": "a:8000", "model_name": "m"}
        self.lines.append(sample_line(f"vllm:{name}", {**labels, **target}, value, self._at))


@pytest.mark.long
@pytest.mark.parametrize(
    ("now", "phase"),
    [
        ({"queue": 6.0, "gap": 0.12, "running": 30, "waiting": 12}, "decode"),
        ({"queue": 6.0, "gap": 0.02, "running": 5, "waiting": 12}, "queue"),
    ],
)
def test_a_real_prometheus_without_a_sidecar_tells_a_slow_engine_from_few_slots(
    now: Mapping[str, Any], phase: str, tmp_path: Path
) -> None:
    """Half an hour of calm, then five minutes with the same queue: once behind slower tokens, once behind a batch of half the size."""
    page = Page(time.time() - 35 * 60)  # noqa: TID251  Prometheus keeps wall-clock time
    page.minutes(30, queue=0.02, gap=0.02, running=9, waiting=0)
    page.minutes(5, **now)
    with backfilled(tmp_path, page.lines) as url:
        answer = asyncio.run(fleet(url, namespace=None, model=None, lane=None, window_seconds=300))

    (found,) = json.loads(json.dumps(answer, allow_nan=False))["diagnoses"]
    assert (found["source"], found["job"], found["engine"], found["phase"]) == ("engine", "llama", "vllm", phase)
    assert found["confidence"] >= 0.6
    assert "by its page beside its own past" in " ".join(found["evidence"])
