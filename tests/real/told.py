"""The sidecar's reports about its requests, as its users read them: canonical log lines and the scraped page."""

import os
from dataclasses import dataclass
from math import fsum
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from tests.support.sidecar_process import SidecarProcess


FIVE_PHASES = {"queue", "prefill", "first_token", "decode", "stream"}

Page = dict[str, list[tuple[dict[str, str], float]]]
"""The scraped page by sample name: `{"llm_request_seconds_sum": [(labels, value), ...], ...}`."""


@dataclass(frozen=True, slots=True)
class Line:
    """One canonical log line."""

    fields: dict[str, object]

    @property
    def request_id(self) -> str:
        notes = self.fields["notes"]
        assert isinstance(notes, dict)
        return str(notes["header.x-request-id"])

    @property
    def phases(self) -> dict[str, float]:
        return cast("dict[str, float]", self.fields["phases"])

    @property
    def sources(self) -> dict[str, str]:
        return cast("dict[str, str]", self.fields["sources"])

    @property
    def marks(self) -> dict[str, float]:
        return cast("dict[str, float]", self.fields["marks"])

    def number(self, name: str) -> float:
        value = self.fields[name]
        assert isinstance(value, int | float)
        return value


def page_of(sidecar: SidecarProcess) -> Page:
    """The page as it is now."""
    samples: Page = {}
    for family in text_string_to_metric_families(sidecar.page("/metrics")):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def total_of(page: Page, name: str, **labels: str) -> float:
    """The sum of a sample over all series that have these labels."""
    return fsum(value for found, value in page[name] if labels.items() <= found.items())


def uptime() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
