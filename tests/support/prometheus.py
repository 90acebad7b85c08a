"""Queries to a running Prometheus, and an explanation of failed scenarios from its series and the sink's notifications.

Knows the query API and which series explain why something was paged or not. `sidecar/commands/demo/servers.py` starts the
server.
"""

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.sink import Sink


REASONS = (
    "ALERTS",
    "up",
    "lane:llm_slo_burn:tier",
    "lane:llm_slo_miss:ratio_rate5m",
    "lane:llm_slo_misses:increase2m",
    "lane:llm_slo_waited_in:ratio",
    "lane:llm_slo_root:share",
    "llm_slo_root_cause_misses_total > 0",
    "llm_slo_undecided_misses",
    "llm_evidence_ratio",
    "llm_incident_size_ratio",
    "llm_engine_cost_ratio",
    "pod:llm_slo:odd",
)


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that is ready."""

    url: str

    def ask(self, query: str) -> dict[str, float]:
        """An instant query now: each series as text (name and labels, without those of the target) to its value."""
        with urllib.request.urlopen(
            f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10
        ) as answer:
            found = json.load(answer)["data"]["result"]
        return {_text(series["metric"]): float(series["value"][1]) for series in found}

    def wait_for(self, query: str, *, patience_seconds: float = 60.0) -> dict[str, float]:
        """As `ask`, once there is an answer, or whatever there is when patience ends."""
        deadline = time.monotonic() + patience_seconds
        while not (found := self.ask(query)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def reasons(self) -> str:
        """The recorded series and the alerts that explain pages, as of now."""
        lines = []
        for name in REASONS:
            lines += [f"{series} = {value:.3g}" for series, value in sorted(self.ask(name).items())]
        return "\n".join(lines)


def _text(metric: Mapping[str, str]) -> str:
    labels = {name: value for name, value in metric.items() if name not in ("__name__", "instance", "job")}
    return metric.get("__name__", "") + "{" + ", ".join(f"{name}={value}" for name, value in labels.items()) + "}"


@contextmanager
def explained(prometheus: Prometheus, sink: Sink) -> Iterator[None]:
    """If the scenario within fails, its error gets a note with Prometheus's series and the notifications."""
    try:
        yield
    except AssertionError as error:
        told = "\n".join(
            f"{one.path}: {alert['status']} {alert['labels']} {alert['annotations'].get('summary')}"
            for one in list(sink.notifications)
            for alert in one.body.get("alerts", [])
            if alert["labels"]["alertname"] != "Watchdog"
        )
        error.add_note(f"Prometheus says:\n{prometheus.reasons()}\nThe receivers were told:\n{told}")
        raise
