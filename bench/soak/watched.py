"""The sidecar under test as the soak watches it: its page of metrics, its probes, its memory and its files.

It reads the page with Prometheus' own parser, so that a page which that parser refuses is a broken invariant.
"""

import math
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bench.bounds.memory import resident_kib
from tests.support.sidecar_process import SidecarProcess


PROBE_SECONDS = 5.0
"""The manifest's timeoutSeconds of the liveness probe."""
Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass(frozen=True, slots=True)
class Page:
    """One reading of /metrics."""

    samples: Samples

    def total(self, name: str, **labels: str) -> float:
        """The sum over the series of this name that have these labels."""
        return sum(
            value
            for (found, said), value in self.samples.items()
            if found == name and labels.items() <= dict(said).items()
        )

    def by(self, name: str, label: str) -> dict[str, float]:
        """The sums by the values of one label."""
        sums: dict[str, float] = {}
        for (found, said), value in self.samples.items():
            if found == name:
                key = dict(said)[label]
                sums[key] = sums.get(key, 0.0) + value
        return sums

    @property
    def impossible(self) -> list[str]:
        """The series that no page may have: negative gauges of things that are counted, or no numbers."""
        return [
            f"{name} is {value}"
            for (name, _), value in self.samples.items()
            if name.startswith("llm_requests_in_flight") and (value < 0 or math.isnan(value))
        ]


def page_in(text: str) -> Page:
    """Raises ValueError where Prometheus could not read the page."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            if key in found:
                raise ValueError(f"{key} stands on the page twice")
            found[key] = sample.value
    return Page(found)


class Watched:
    """Reads the sidecar once a second, and keeps what was bad."""

    def __init__(self, sidecar: SidecarProcess) -> None:
        self._sidecar = sidecar
        self.page = page_in(sidecar.page("/metrics"))
        self.broken: list[str] = []
        self.scrapes = 0
        self.probes = 0
        self.failed_probes = 0
        self.peak_kib = 0

    def look(self) -> None:
        """One scrape and one probe."""
        self.probes += 1
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._sidecar.web_port}/-/healthy", timeout=PROBE_SECONDS):
                pass
        except (OSError, urllib.error.URLError) as error:
            self.failed_probes += 1
            self.broken.append(f"a liveness probe failed: {error!r}")
        try:
            self.page = page_in(self._sidecar.page("/metrics"))
            self.scrapes += 1
            self.broken += self.page.impossible
        except (OSError, ValueError) as error:
            self.broken.append(f"a scrape failed: {error!r}")
        self.peak_kib = max(self.peak_kib, self.resident_kib())

    def resident_kib(self) -> int:
        return resident_kib(self._sidecar.process.pid)

    def files(self) -> int:
        """Files that the process has open, sockets included."""
        return len(list(Path(f"/proc/{self._sidecar.process.pid}/fd").iterdir()))

    @property
    def outcomes(self) -> dict[str, float]:
        return self.page.by("llm_requests_total", "outcome")

    @property
    def lines_held_back(self) -> int:
        return int(self.page.total("llm_sidecar_dropped_total", reason="log_limited"))

    @property
    def in_flight(self) -> float:
        return self.page.total("llm_requests_in_flight")

    def left(self) -> dict[str, float]:
        """Counts that must return to 0 once no client is there."""
        return {
            "requests in flight": self.in_flight,
            "open connections of clients": self.page.total("llm_sidecar_open_connections", side="client"),
            "open ledgers": self.page.total("llm_sidecar_open_ledgers"),
        }
