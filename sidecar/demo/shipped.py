"""The alert rules and routes that this project ships, with shorter durations and with the demo's addresses.

It finds the files and changes three things in them: all durations by one factor (`Pace`), the receivers' addresses, and
the base of the links to runbooks. Expressions, thresholds, routes, groups, inhibition and texts stay as they are. The
programs that run them are started in `servers.py`.
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.config.quick_yaml import read_yaml
from sidecar.export.rules.annotations import RUNBOOKS
from sidecar.export.rules.rule import scaled
from sidecar.export.shipped_files import ALERT_RULES, NothingShippedError, shipped


NAMESPACE = "demo"


@dataclass(frozen=True, slots=True)
class Pace:
    """The factor by which rules run faster than in production. At most 15: intervals of 15 s must become whole seconds.

    Neither requests nor the sidecar become faster. So, relative to the shortened durations, baselines are learned and
    roots are decided later. No duration becomes shorter than a second.
    """

    times: float

    def __post_init__(self) -> None:
        if 15 / self.times != int(15 / self.times):
            raise ValueError("15 s must become whole seconds, as durations in rules are")

    @property
    def factor(self) -> float:
        """The factor by which durations are multiplied, at most 1."""
        return 1 / self.times

    def seconds(self, in_production: float) -> str:
        """A production duration in seconds, shortened, in Prometheus' notation."""
        return f"{round(in_production * self.factor)}s"


DEMO = Pace(7.5)
FASTEST = Pace(15)

_WAITS = ("group_wait", "group_interval", "repeat_interval")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RULES = ("llm-recording.yml", "llm-alerts.yml")


@dataclass(frozen=True, slots=True)
class Shipped:
    """The folder `alert_rules/`; durations are shortened by `pace` when it is read."""

    folder: Path
    pace: Pace

    def rules(self, runbooks_url: str | None = None) -> Mapping[str, str]:
        """File name to text with shortened durations. `runbooks_url`: base of the runbook links (None: as shipped)."""
        texts = {name: scaled((self.folder / name).read_text(), self.pace.factor) for name in _RULES}
        return {name: text.replace(RUNBOOKS, runbooks_url or RUNBOOKS) for name, text in texts.items()}

    def routes(self, sink_url: str, folder: Path) -> dict[str, Any]:
        """Alertmanager's configuration with shortened waits, all receivers at `sink_url`; its files go to `folder`."""
        config = read_yaml((self.folder / "alertmanager.yml").read_text())
        return at_sink(config, sink_url, folder, waits_divided_by=self.pace.times, templates=self.folder)


def find(pace: Pace) -> Shipped | None:
    """The shipped files; None if this package was built without them."""
    try:
        return Shipped(shipped(ALERT_RULES), pace)
    except NothingShippedError:
        return None


def prometheus_config(
    rule_files: Sequence[str], alertmanager: str, pods: Mapping[str, str], pace: Pace
) -> dict[str, Any]:
    """Prometheus' configuration. `alertmanager` and each address in `pods` (name to address) are host:port."""
    return {
        "global": {
            "scrape_interval": pace.seconds(15),
            "scrape_timeout": pace.seconds(15),
            "evaluation_interval": pace.seconds(15),
        },
        "rule_files": list(rule_files),
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [
            {
                "job_name": "llm-phase-sidecar",
                # The labels that Kubernetes pod discovery would set (docs/attach.md).
                "static_configs": [
                    {"targets": [address], "labels": {"namespace": NAMESPACE, "pod": pod}}
                    for pod, address in pods.items()
                ],
            }
        ],
    }


def at_sink(
    config: Mapping[str, Any], sink_url: str, folder: Path, *, waits_divided_by: float, templates: Path
) -> dict[str, Any]:
    """An Alertmanager configuration that sends everything to the sink: webhooks keep their path, Slack goes to /slack,
    PagerDuty to /pagerduty.

    PagerDuty's keys are files; they are written to `folder`, each with its own file name as content. `templates` is the
    folder to which the paths of templates are relative.
    """
    local = deepcopy(dict(config))
    local["templates"] = [str(templates / pattern) for pattern in local["templates"]]
    del local["global"]["slack_api_url_file"]
    local["global"] |= {"slack_api_url": f"{sink_url}/slack", "pagerduty_url": f"{sink_url}/pagerduty"}
    for receiver in local["receivers"]:
        for webhook in receiver.get("webhook_configs", []):
            webhook["url"] = re.sub(r"^https://[\w.]+", sink_url, webhook["url"])
        for pager in receiver.get("pagerduty_configs", []):
            key = folder / Path(pager["routing_key_file"]).name
            key.write_text(key.name)
            pager["routing_key_file"] = str(key)
    _hasten(local["route"], waits_divided_by)
    return local


def seconds_of(duration: str) -> float:
    """A duration such as `2m` in seconds. Only one unit is accepted, as in the shipped file."""
    return float(duration[:-1]) * _UNIT_SECONDS[duration[-1]]


def _hasten(route: dict[str, Any], divisor: float) -> None:
    for wait in _WAITS:
        if wait in route:
            milliseconds = seconds_of(route[wait]) * 1000 / divisor
            route[wait] = f"{round(milliseconds)}ms"
    for child in route.get("routes", []):
        _hasten(child, divisor)
