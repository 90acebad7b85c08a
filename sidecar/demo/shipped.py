"""The alert rules and routes that this project ships, in a hurry: every duration a fraction of itself, every address our own.

It knows where the files are and what is changed in them, which is three things: all durations by one factor (`Pace`), the
receivers' addresses, and the base of the links to runbooks. Expressions, thresholds, routes, groups, inhibition and texts stay
as they are. It refuses to know who runs them (`servers.py`).
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml


NAMESPACE = "demo"


@dataclass(frozen=True, slots=True)
class Pace:
    """How many times as fast as in production. Scrapes and evaluations every 15 s become whole seconds, so 15 is the fastest.

    What does not become faster are the requests: the longer an answer takes, the later, in such time, anybody knows how its wait
    splits, and the longer a page is provisional.
    """

    times: float

    def __post_init__(self) -> None:
        if 15 / self.times != int(15 / self.times):
            raise ValueError("15 s must become whole seconds, as durations in rules are")

    @property
    def factor(self) -> float:
        """What durations are multiplied by."""
        return 1 / self.times

    def seconds(self, in_production: float) -> str:
        """A duration in Prometheus' notation."""
        return f"{round(in_production * self.factor)}s"


DEMO = Pace(7.5)
FASTEST = Pace(15)

_WAITS = ("group_wait", "group_interval", "repeat_interval")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RULES = ("llm-recording.yml", "llm-alerts.yml")


@dataclass(frozen=True, slots=True)
class Shipped:
    """The folder `alert_rules/` of a checkout, read at a pace."""

    folder: Path
    pace: Pace

    def rules(self, runbooks_url: str | None = None) -> Mapping[str, str]:
        """File name to text, in a hurry. `runbooks_url`: what links to runbooks begin with (None: as shipped)."""
        from alert_rules.rule import scaled  # noqa: PLC0415  only a checkout has it
        from alert_rules.wording import RUNBOOKS  # noqa: PLC0415  as above

        texts = {name: scaled((self.folder / name).read_text(), self.pace.factor) for name in _RULES}
        return {name: text.replace(RUNBOOKS, runbooks_url or RUNBOOKS) for name, text in texts.items()}

    def routes(self, sink_url: str, folder: Path) -> dict[str, Any]:
        """Alertmanager's configuration, in a hurry, telling everything to `sink_url`; `folder` is for its files."""
        config = yaml.safe_load((self.folder / "alertmanager.yml").read_text())
        return at_sink(config, sink_url, folder, waits_divided_by=self.pace.times, templates=self.folder)


def find(pace: Pace) -> Shipped | None:
    """The shipped files; None where only the package is installed, which does not bring them."""
    spec = find_spec("alert_rules")
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    return Shipped(folder, pace) if folder is not None and (folder / _RULES[0]).exists() else None


def prometheus_config(
    rule_files: Sequence[str], alertmanager: str, pods: Mapping[str, str], pace: Pace
) -> dict[str, Any]:
    """Prometheus' configuration. `alertmanager` and each of `pods` (name to address) are host:port."""
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
                # What a pod's discovery would say (docs/attach.md).
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
    """An Alertmanager configuration with every address at the sink: webhooks keep their path, Slack is /slack, PagerDuty /pagerduty.

    Keys of PagerDuty, which are files, come to stand in `folder`; each holds its own file name. `templates`: the folder that
    paths of templates begin in.
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
    """`2m` in seconds. One unit, as the shipped file has it."""
    return float(duration[:-1]) * _UNIT_SECONDS[duration[-1]]


def _hasten(route: dict[str, Any], divisor: float) -> None:
    for wait in _WAITS:
        if wait in route:
            milliseconds = seconds_of(route[wait]) * 1000 / divisor
            route[wait] = f"{round(milliseconds)}ms"
    for child in route.get("routes", []):
        _hasten(child, divisor)
