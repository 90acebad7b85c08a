"""Every alert with its severities, its phases and the labels that it carries: the contract between rules, routes and runbooks.

test_routing.py holds it against alert_rules/llm-alerts.yml, so that it cannot say anything else than the rules do.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from sidecar.commands.export.rules.operator import alertmanager_config
from sidecar.metrics.target_labels import ONE_ENGINE, ONE_POD
from sidecar.objectives.attribution import SIDECAR, Blame
from tests.support.alertmanager import shipped


PHASES = (*(blame.value for blame in Blame), SIDECAR)
"""The closed set of an alert's `phase`."""

_LANE = (*ONE_ENGINE, "model", "lane")


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of one severity. `labels` are those beyond alertname, severity and phase."""

    name: str
    severity: str
    phase: str
    labels: tuple[str, ...]

    def example(self, **values: str) -> dict[str, str]:
        """A full set of labels; those that are not given have some value of their own."""
        filled = {label: values.get(label, f"some-{label}") for label in self.labels}
        return {"alertname": self.name, "severity": self.severity, "phase": self.phase, **filled}


def _burn(name: str, phase: str) -> Iterable[Alert]:
    return [Alert(name, severity, phase, (*_LANE, "objective")) for severity in ("page", "ticket")]


ALERTS = (
    *_burn("LLMQueueBurn", "queue"),
    *_burn("LLMPrefillBurn", "prefill"),
    *_burn("LLMFirstTokenBurn", "first_token"),
    *_burn("LLMUnattributedBurn", "unattributed"),
    *_burn("LLMDecodeBurn", "decode"),
    *_burn("LLMStreamBurn", "stream"),
    *_burn("LLMEngineBurn", "engine"),
    *_burn("LLMSidecarBurn", "sidecar"),
    *(Alert("LLMPodBurn", severity, phase, (*ONE_POD, "model")) for severity in ("page", "ticket") for phase in PHASES),
    Alert("LLMNothingComesBack", "page", "engine", ONE_POD),
    Alert("LLMEngineDown", "page", "engine", ONE_POD),
    Alert("LLMEngineRestarted", "ticket", "engine", ONE_POD),
    Alert("LLMEnginePreempting", "ticket", "queue", ONE_POD),
    Alert("LLMEngineKvCacheFull", "ticket", "queue", ONE_POD),
    Alert("LLMPrefixCacheCollapsed", "ticket", "prefill", ONE_POD),
    Alert("LLMPromptsGrowing", "ticket", "prefill", _LANE),
    Alert("LLMClientsGiveUp", "ticket", "queue", _LANE),
    Alert("LLMEventsInBursts", "ticket", "stream", (*ONE_POD, "lane")),
    Alert("LLMRequestsRejected", "ticket", "queue", _LANE),
    *(Alert("LLMSidecarAbsent", severity, "sidecar", ONE_ENGINE) for severity in ("page", "ticket")),
    *(Alert("LLMSidecarDown", severity, "sidecar", ONE_POD) for severity in ("page", "ticket")),
    Alert("LLMSidecarNeverScraped", "ticket", "sidecar", ONE_POD),
    Alert("LLMSidecarStarved", "page", "sidecar", ONE_POD),
    Alert("LLMSidecarBypassed", "ticket", "sidecar", ONE_POD),
    Alert("LLMSidecarDisagrees", "ticket", "sidecar", ONE_POD),
    Alert("LLMSidecarSlow", "ticket", "sidecar", ONE_POD),
    Alert("LLMSidecarDropsObservations", "ticket", "sidecar", ONE_POD),
    Alert("LLMAttributionLow", "ticket", "sidecar", (*ONE_ENGINE, "lane")),
    Alert("LLMLabelOverflow", "ticket", "sidecar", ONE_POD),
    Alert("LLMConfigReloadFailed", "ticket", "sidecar", ONE_POD),
    Alert("Watchdog", "none", "sidecar", ()),
)


def alert(name: str, severity: str | None = None, phase: str | None = None) -> Alert:
    """The one alert of this name, and of this severity or phase where it has several. Raises ValueError unless it is exactly one."""
    (found,) = [
        one for one in ALERTS if one.name == name and severity in (None, one.severity) and phase in (None, one.phase)
    ]
    return found


def matching(matchers: Iterable[Mapping[str, str]]) -> list[Alert]:
    """The alerts that all `matchers` (name, matchType, value) let through, judged by which labels an alert carries."""
    tests = list(matchers)
    return [one for one in ALERTS if all(_lets_through(matcher, one.example()) for matcher in tests)]


def _lets_through(matcher: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    has, wanted = labels.get(matcher["name"], ""), matcher["value"]
    match matcher["matchType"]:
        case "=":
            return has == wanted
        case "!=":
            return has != wanted
        case "=~":
            return re.fullmatch(wanted, has) is not None
        case other:
            raise ValueError(f"{other} is not used by the shipped rules")


# --- which holds which back ------------------------------------------------------------------------------------------------


INHIBITIONS = alertmanager_config(shipped())["spec"]["inhibitRules"]
"""The shipped inhibition rules with their matchers taken apart."""


@cache
def sides() -> list[tuple[list[Alert], list[Alert], frozenset[str]]]:
    """The alerts that each inhibition mutes with, those that it mutes, and the labels in which both must be equal."""
    return [
        (matching(rule["sourceMatch"]), matching(rule["targetMatch"]), frozenset(rule["equal"])) for rule in INHIBITIONS
    ]


def mutes(source: Alert, target: Alert, *differ: str) -> bool:
    """Whether one alert holds back another of the same engine, whose labels are equal but for those that `differ`."""
    return source != target and any(
        source in sources and target in targets and equal.isdisjoint(differ) for sources, targets, equal in sides()
    )
