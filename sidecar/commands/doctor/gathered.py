"""Everything that the doctor asked and was answered, and readers of it: pages of metrics, Prometheus' and Alertmanager's JSON.

Pure: `gathering.py` fills it in, the files beside this one judge it. A server may answer anything: a reader raises one of
`UNKNOWN_FORM` for a form that it does not know, and the caller turns that into "unknown".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from sidecar.commands.asking import Reply
from sidecar.commands.inject.audit import Audit
from sidecar.config.notes import Note
from sidecar.config.quick_yaml import read_yaml
from sidecar.engines.probe.replies import Answers
from sidecar.metrics.catalogue import SIDECAR_BUILD_INFO


_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
UNKNOWN_FORM = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError, OSError)
"""Raised by a reader of an answer for a form that it does not know; OSError: the shipped rules to compare with are missing."""


class MetricsPage:
    """A page of metrics in Prometheus' text format."""

    def __init__(self, body: bytes) -> None:
        self._series: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        self.label_names: set[str] = set()
        for family in text_string_to_metric_families(body.decode("utf-8", "replace")):
            for sample in family.samples:
                self._series.setdefault(sample.name, []).append((sample.labels, sample.value))
                self.label_names |= sample.labels.keys()

    @property
    def names(self) -> set[str]:
        """Names of series, such as `llm_request_seconds_bucket`."""
        return set(self._series)

    def of(self, name: str, **labels: str) -> list[tuple[Mapping[str, str], float]]:
        """The series of this name with these labels."""
        found = self._series.get(name, [])
        return [one for one in found if labels.items() <= one[0].items()]

    def value(self, name: str, **labels: str) -> float | None:
        """The sum of these series; None if there are none or the value is not known (NaN)."""
        found = [value for _, value in self.of(name, **labels)]
        total = sum(found)
        return total if found and total == total else None  # noqa: PLR0124  NaN


@dataclass(frozen=True, slots=True)
class ConfigCheck:
    """The outcome of reading a config file as `serve` would."""

    file: str
    errors: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(slots=True)
class Drilled:
    """The alert marked TEST, and its delivery. `before`, `after`: Alertmanager's own page of metrics."""

    labels: Mapping[str, str]
    posted: Reply
    before: Reply
    after: Reply
    resolved: Reply
    waited_seconds: float


@dataclass(slots=True)
class Evidence:
    """The answers by source. None, or an empty mapping: that source was not asked."""

    explicit: frozenset[str] = frozenset()
    """Flags that the caller gave."""
    sidecar_url: str = ""
    """Without credentials."""
    config: ConfigCheck | None = None
    engine: Answers | None = None
    engine_where: str = ""
    healthy: Reply | None = None
    ready: Reply | None = None
    page: Reply | None = None
    page_after: Reply | None = None
    """The sidecar's page of metrics after the question to the traffic port."""
    diagnosis: Reply | None = None
    traffic: Reply | None = None
    prometheus: Mapping[str, Reply] = field(default_factory=dict)
    """By the name of the question (`gathering.py`)."""
    next_scrape_came: bool = True
    """False: series of the page were missing, and no further scrape came while the doctor waited for it."""
    alertmanager: Mapping[str, Reply] = field(default_factory=dict)
    template_texts: Sequence[str] | None = None
    """The texts of template files on this machine; None: no folder was named."""
    opened: Mapping[str, Reply] = field(default_factory=dict)
    """Links of pages that were opened."""
    test_page: Drilled | None = None
    attached: Audit | None = None
    """Read from the manifests; None: none were named."""


class Read:
    """The evidence with its larger parts read once. Each property raises one of `UNKNOWN_FORM` for a form that it does not know."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    @cached_property
    def page(self) -> MetricsPage:
        """The sidecar's page of metrics."""
        return MetricsPage(_body(self.evidence.page))

    @cached_property
    def page_after(self) -> MetricsPage:
        return MetricsPage(_body(self.evidence.page_after))

    @property
    def is_lean(self) -> bool:
        """Whether Prometheus gets a page of the pod that leaves out most of the catalogue, as far as the pod has told."""
        page = self.evidence.page
        return (
            page is not None
            and page.good
            and any(labels.get("profile") == "lean" for labels, _ in self.page.of(SIDECAR_BUILD_INFO.name))
        )

    @property
    def started_at(self) -> float | None:
        """Unix time at which the sidecar's process began, by its own clock."""
        return self.page.value("process_start_time_seconds")

    @cached_property
    def groups(self) -> list[dict[str, Any]]:
        """The groups of rules that Prometheus has loaded."""
        groups: list[dict[str, Any]] = self.evidence.prometheus["rules"].data["groups"]
        return groups

    @cached_property
    def prometheus_now(self) -> float:
        """Unix time of Prometheus."""
        return float(self.evidence.prometheus["now"].data["result"][1])

    @cached_property
    def prometheus_config(self) -> dict[str, Any]:
        """The config that Prometheus has in force; its secrets are masked."""
        return in_yaml(self.evidence.prometheus["config"].data["yaml"]) or {}

    @cached_property
    def alertmanager_config(self) -> dict[str, Any]:
        """The config that Alertmanager has in force; its secrets are masked."""
        config: dict[str, Any] = in_yaml(self.evidence.alertmanager["status"].json["config"]["original"])
        return config


def seconds(duration: str) -> float:
    """A duration in Prometheus' notation, such as `1m30s`, in seconds."""
    total, digits, unit = 0.0, "", ""
    for sign in f"{duration}0":
        if sign.isdigit() and unit:
            total += float(digits) * _DURATION_UNITS.get(unit, 0.0)
            digits, unit = "", ""
        if sign.isdigit():
            digits += sign
        else:
            unit += sign
    return total


def in_yaml(text: str) -> Any:
    """The value that a YAML has. Raises ValueError if it is none."""
    try:
        return read_yaml(text)
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from error


def _body(reply: Reply | None) -> bytes:
    if reply is None or not reply.good:
        raise ValueError("no page")
    return reply.body
