"""Each check of the runbooks answers what a real Prometheus answers to its query, on the same series.

Half an hour of a pod is written twice: into the sidecar's history every 5 s, and into Prometheus as scrapes at the same
instants. Then each query of each runbook is asked of both.
"""

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from sidecar.diagnosis.confirming import CHECKS
from sidecar.history.growth import Labels
from sidecar.history.ring import PERIOD_SECONDS, History
from sidecar.history.rows import Moment
from sidecar.history.series import GAUGE_SERIES, GROWTH_SERIES, LONG_SECONDS
from sidecar.history.slices import run_now
from sidecar.metrics.catalogue import REQUEST_PHASE_SECONDS
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.registry import Metrics
from tests.admin.runbook_parts import CHECKED
from tests.support.backfilled import backfilled, sample_line, samples_of


pytestmark = pytest.mark.long


BEGAN_AT_UNIX = 1_790_000_000.0
TARGET = {"namespace": "llm", "job": "vllm", "pod": "vllm-0"}
PAGE = {"model": "llama", "lane": "chat"}
TOLERANCE = 0.04
"""Relative difference of two values. Both read the same samples, but the history keeps one snapshot a minute from five minutes on, so a window may
begin up to 65 s late, which is 3.6 % of half an hour; and a window of 5 min is exact to one period, 1.7 %."""
MADE = {
    "model": ("llama", "mistral"),
    "lane": ("chat", "batch"),
    "prompt_bucket": ("0-512", "512-4k"),
    "streaming": ("true", "false"),
    "source": ("engine", "none", "derived", "state"),
}
"""The values of these labels that the pod has; of each other label all that are possible."""

MADE_OF = {REQUEST_PHASE_SECONDS.name: {"phase": ("queue", "first_token"), "source": ("engine", "derived")}}
"""Fewer values for the largest family."""


@dataclass
class Written:
    """One pod, and what was scraped of it."""

    metrics: Metrics = field(
        default_factory=lambda: Metrics(lanes=MADE["lane"], prompt_buckets=MADE["prompt_bucket"], models=MADE["model"])
    )
    lines: list[str] = field(default_factory=list)

    def live(self, seconds: float) -> Moment:
        history = History(self.metrics, at=0.0)
        at = 0.0
        while at < seconds:
            at += PERIOD_SECONDS
            self._works(at)
            self._scraped(at)
            run_now(history.tick(at))
        now = run_now(history.now(at))
        return Moment(history=history, now=now, at_unix=BEGAN_AT_UNIX + at, labels=PAGE)

    def _works(self, at: float) -> None:
        """Each child grows, faster and faster, and each in its own way: another window or label gives another number."""
        for number, (metric, values) in enumerate(CHILDREN):
            amount = (1 + number % 7) * (1 + at / 200) ** (1 + number % 3)
            if isinstance(metric, Histogram):
                child = self.metrics.histogram(metric).child(*values)
                edges = metric.buckets
                for step in range(2 + number % 3 + round(at / 600)):
                    child.observe(edges[(number + step + round(at / 300)) % (len(edges) - 2)] * 0.9)
            else:
                self.metrics.counter(metric).child(*values).inc(amount)
        for number, series in enumerate(GAUGE_SERIES):
            labels = series.metric.labels
            for values in list(self.metrics.gauge(series.metric).combinations())[:12] if labels else [()]:
                if all(value in MADE.get(label.name, (value,)) for label, value in zip(labels, values, strict=True)):
                    gauge = self.metrics.gauge(series.metric).child(*values)
                    gauge.set(1.5 + number + len(str(values)) / 10 + math.sin(at / 70))

    def _scraped(self, at: float) -> None:
        for name in [series.metric.name for series in (*GROWTH_SERIES, *GAUGE_SERIES)]:
            family = self.metrics._by_name[name]
            names = [label.name for label in family.metric.labels]
            for values, child in family.children.items():
                for suffix, more, value in samples_of(child):
                    labels = {**dict(zip(names, values, strict=True)), **more, **TARGET}
                    self.lines.append(sample_line(f"{name}{suffix}", labels, value, BEGAN_AT_UNIX + at))


def _children() -> list[tuple[Any, Labels]]:
    metrics = Written().metrics
    found = []
    for series in GROWTH_SERIES:
        if series.metric.name in " ".join(query for _, _, query in CHECKED):
            for values in metrics._by_name[series.metric.name].combinations():
                named = zip((label.name for label in series.metric.labels), values, strict=True)
                made = MADE | MADE_OF.get(series.metric.name, {})
                if all(value in made.get(name, (value,)) for name, value in named):
                    found.append((series.metric, values))
    return found


CHILDREN = _children()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Moment]]:
    """The URL of a Prometheus, and the sidecar's moment at the same instant."""
    pod = Written()
    moment = pod.live(LONG_SECONDS + 120.0)
    with backfilled(tmp_path_factory.mktemp("prometheus"), pod.lines) as url:
        yield url, moment


def ask(url: str, query: str, at_unix: float, by: tuple[str, ...]) -> Mapping[Labels, float]:
    """The rows of Prometheus' answer by these labels; NaN, a division by 0, is no row."""
    asked = urllib.parse.urlencode({"query": query, "time": at_unix})
    with urllib.request.urlopen(f"{url}/api/v1/query?{asked}", timeout=10) as answer:
        rows = json.load(answer)["data"]["result"]
    found = [(tuple(row["metric"].get(name, "") for name in by), float(row["value"][1])) for row in rows]
    assert len(dict(found)) == len(found), "the query has rows that its check cannot tell apart"
    return {key: value for key, value in found if not math.isnan(value)}


@pytest.mark.parametrize(("name", "runbook", "query"), CHECKED, ids=[f"{one}-{name}" for name, one, _ in CHECKED])
def test_a_check_answers_as_prometheus_does(both: tuple[str, Moment], name: str, runbook: str, query: str) -> None:
    url, moment = both
    for label, value in {**TARGET, **PAGE}.items():
        query = query.replace(f"${label}", value)

    told = ask(url, query, moment.at_unix, CHECKS[name].by)

    assert told, f"the query of {runbook} finds nothing: nothing would be compared"
    assert dict(run_now(CHECKS[name].read(moment))) == pytest.approx(told, rel=TOLERANCE, abs=1e-9)


def test_the_comparison_sees_another_window_or_label(both: tuple[str, Moment]) -> None:
    """A query over another window, or about another lane, gives numbers that are further apart than the tolerance."""
    url, moment = both
    query = next(query for name, _, query in CHECKED if name == "outcomes-but-ok")
    for label, value in {**TARGET, **PAGE}.items():
        query = query.replace(f"${label}", value)
    own = dict(run_now(CHECKS["outcomes-but-ok"].read(moment)))

    for other in (query.replace("[5m]", "[10m]"), query.replace("chat", "batch")):
        assert own != pytest.approx(ask(url, other, moment.at_unix, ("outcome",)), rel=TOLERANCE)
