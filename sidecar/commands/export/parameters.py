"""The parameters of `sidecar export`: what a team may name otherwise, with the values that are allowed.

It checks all of them and reports all errors at once. It knows no file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from sidecar.commands.export.identity_labels import SHIPPED_IDENTITY, Identity, identity_errors
from sidecar.commands.export.rules.annotations import DASHBOARDS, RUNBOOKS
from sidecar.commands.export.rules.operator import RELEASE
from sidecar.commands.export.rules.rulers import MOST_INTERVAL_SECONDS, PROMETHEUS, RULERS, Ruler
from sidecar.commands.export.rules.severity import NO_SEVERITY, SHIPPED_SEVERITIES, Severities
from sidecar.config.suggest import did_you_mean
from sidecar.config.written_durations import seconds_of_duration


RECEIVERS = ("slack", "pagerduty", "webhook", "opsgenie", "teams")
"""The kinds of notification; the shipped routes have the first three."""
OLDEST_ALERTMANAGER = "0.25"
"""The shipped routes work with this version and all newer ones."""
_SINCE = {"teams": (0, 28)}
"""Kinds that a newer Alertmanager has: `msteamsv2_configs`. Microsoft retired what the older `msteams_configs` sends to."""
SECRETS = "/etc/alertmanager/secrets"
"""The folder of the files with secrets, on the Alertmanager's machine."""
DASHBOARD_PATH = "/d"
"""Grafana's path of dashboards."""

_URL = re.compile(r"https?://[^\s\"'\\{}<>]+")
_BASE = re.compile(r"https?://[^\s\"'\\{}<>?#]+")
"""The beginning of links: a name and a query come behind it."""
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_CHANNEL = re.compile(r"#[\w-]{1,79}")
_PATH = re.compile(r"/[\w./-]*[\w.-]")
_ALERTMANAGER_VERSION = re.compile(r"\d{1,3}\.\d{1,3}")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The defaults write the committed files, byte by byte. An empty text: not given."""

    namespace: str = ""
    release: str = RELEASE
    runbook_base: str = ""
    grafana_base: str = DASHBOARDS.removesuffix(DASHBOARD_PATH)
    datasource: str = ""
    receivers: tuple[str, ...] = ()
    """Some of RECEIVERS; empty: the shipped routes, with a receiver for each phase."""
    alertmanager: str = OLDEST_ALERTMANAGER
    """The version that reads the routes, such as 0.28."""
    slack_channel: str = ""
    webhook_url: str = ""
    watchdog_url: str = ""
    secrets: str = SECRETS
    severities: Severities = SHIPPED_SEVERITIES
    ruler: str = PROMETHEUS.name
    """One of RULERS."""
    interval: str = ""
    identity: Identity = SHIPPED_IDENTITY
    keep_firing: bool = True
    """The ruler may refuse it nevertheless: `keeps_firing`."""
    classic_histograms: bool = False
    """Nothing that is exported reads a native histogram."""

    @property
    def alertmanager_version(self) -> tuple[int, ...]:
        """The version as numbers, to be compared."""
        return tuple(map(int, self.alertmanager.split(".")))

    @property
    def evaluated_by(self) -> Ruler:
        """The ruler that was named."""
        return RULERS[self.ruler]

    @property
    def interval_seconds(self) -> int:
        """No group is evaluated more often; 0: as shipped."""
        return interval_seconds(self.interval) if self.interval else self.evaluated_by.interval_seconds

    @property
    def keeps_firing(self) -> bool:
        """Whether alerts have `keep_firing_for`."""
        return self.keep_firing and self.evaluated_by.keeps_firing

    @property
    def runbooks(self) -> str:
        """The base of links to runbooks: as given, else the sidecars' own Service, with its namespace if that is known."""
        if self.runbook_base:
            return self.runbook_base.rstrip("/")
        host = urlsplit(RUNBOOKS).hostname
        return RUNBOOKS.replace(f"//{host}", f"//{host}.{self.namespace}.svc") if self.namespace else RUNBOOKS

    @property
    def dashboards(self) -> str:
        """The base of links to dashboards."""
        return self.grafana_base.rstrip("/") + DASHBOARD_PATH


def interval_seconds(text: str) -> int:
    """Whole seconds of an interval such as `15s` or `1m30s`. Raises ValueError for any other form."""
    try:
        seconds = seconds_of_duration(text)
    except ValueError:
        seconds = 0.0
    if seconds < 1 or not seconds.is_integer():
        raise ValueError(f"{text!r} is no interval: a whole number of seconds or minutes, such as 30s or 1m")
    return int(seconds)


def errors(given: Parameters) -> list[str]:
    """Each wrong value with its flag, the allowed values and what to do; empty if all are right."""
    return [
        *_wrong_words(given),
        *_wrong_receivers(given),
        *_wrong_alertmanager(given),
        *_wrong_severities(given.severities),
        *_wrong_evaluation(given),
        *identity_errors(given.identity),
    ]


def _wrong_words(given: Parameters) -> Iterator[str]:
    url = "is no http:// or https:// address"
    base = f"{url} that links can begin with: without ? and #"
    for flag, value, pattern, why in (
        ("--namespace", given.namespace, _DNS_LABEL, "is no namespace: a-z, 0-9 and -, at most 63 characters"),
        ("--release", given.release, _LABEL_VALUE, "is no value of a label: letters, digits, - _ and ., at most 63"),
        ("--runbook-base", given.runbook_base, _BASE, base),
        ("--grafana-base", given.grafana_base, _BASE, base),
        ("--datasource", given.datasource, _LABEL_VALUE, "is no uid of a data source: letters, digits, - and _"),
        ("--slack-channel", given.slack_channel, _CHANNEL, "is no channel: # and letters, digits, - or _"),
        ("--webhook-url", given.webhook_url, _URL, url),
        ("--watchdog-url", given.watchdog_url, _URL, url),
        ("--secrets", given.secrets, _PATH, "is no absolute path of a folder"),
    ):
        if value and pattern.fullmatch(value) is None:
            yield f"{flag}: {value!r} {why}"


def _wrong_receivers(given: Parameters) -> Iterator[str]:
    for name in given.receivers:
        if name not in RECEIVERS:
            near = did_you_mean(name, RECEIVERS)
            yield f"--receivers: {name!r} is not known; allowed are {', '.join(RECEIVERS)}, with commas between{near}"
    if "webhook" in given.receivers and not given.webhook_url:
        yield "--receivers: webhook needs --webhook-url=URL, the address that gets every page and ticket"
    for flag, value, kind in (
        ("--webhook-url", given.webhook_url, "webhook"),
        ("--slack-channel", given.slack_channel, "slack"),
    ):
        if value and kind not in given.receivers:
            yield f"{flag} has no effect: name {kind} in --receivers, such as --receivers={kind}"


def _wrong_alertmanager(given: Parameters) -> Iterator[str]:
    if _ALERTMANAGER_VERSION.fullmatch(given.alertmanager) is None:
        yield f"--alertmanager: {given.alertmanager!r} is no version of Alertmanager: two numbers, such as 0.28"
        return
    if given.alertmanager_version < Parameters().alertmanager_version:
        yield f"--alertmanager: the routes need {OLDEST_ALERTMANAGER} or newer"
        return
    for kind, since in _SINCE.items():
        if kind in given.receivers and given.alertmanager_version < since:
            first = ".".join(map(str, since))
            yield f"--receivers: {kind} needs Alertmanager {first} or newer: say yours, such as --alertmanager={first}"


def _wrong_severities(given: Severities) -> Iterator[str]:
    for flag, value in (("--severity.page", given.page), ("--severity.ticket", given.ticket)):
        if _LABEL_VALUE.fullmatch(value) is None or value == NO_SEVERITY:
            yield f"{flag}: {value!r} is no severity: letters, digits, - _ and ., and not {NO_SEVERITY!r} (the Watchdog's)"
    if given.page == given.ticket:
        yield f"--severity.page and --severity.ticket are both {given.page!r}: then nothing tells a page from a ticket"


def _wrong_evaluation(given: Parameters) -> Iterator[str]:
    ruler = RULERS.get(given.ruler)
    if ruler is None:
        near = did_you_mean(given.ruler, RULERS)
        yield f"--ruler: {given.ruler!r} is not known; allowed are {', '.join(RULERS)}{near}"
    if not given.interval:
        return
    try:
        seconds = interval_seconds(given.interval)
    except ValueError as error:
        yield f"--interval: {error}"
        return
    if seconds > MOST_INTERVAL_SECONDS:
        yield (
            f"--interval: {given.interval!r} is above {MOST_INTERVAL_SECONDS}s: the rules read windows of two minutes, and would"
            " find one number in them or none"
        )
    elif ruler is not None and seconds < ruler.least_interval_seconds:
        yield (
            f"--interval: {ruler.title} refuses groups that are evaluated more often than every"
            f" {ruler.least_interval_seconds} s: give --interval={ruler.least_interval_seconds}s or leave it out"
        )
