"""Counts the notifications that the alerts of a run cause, with a real Alertmanager and the shipped file.

All runs are replayed at once behind one Alertmanager, faster than life: each duration of its routes is divided by one
factor, and so are the instants of the alerts. Each run is a namespace of its own. This tells the runs apart because
every `group_by` and every inhibition rule of the shipped file contains `namespace`; `config_for` refuses a file in which
one does not. Every receiver keeps its name, and is a webhook.

Prometheus is imitated: it sends an alert when it begins to fire, again every minute, and once when it ends. An alert that
begins at the very instant at which its group is told is in this notification or in the next one, as in life. Two things
are not as in life. Alertmanager removes an empty group at most 30 s of real time after its last alert ended: a new
alert of that group may meanwhile wait for `group_interval` and not for `group_wait`. And each step of Alertmanager and
of this module takes real time, which counts `times` as much; `Replay.late_seconds` says how much that was.

It refuses to know the truth about a run, except the two instants between which notifications count.
"""

import json
import shutil
import time
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, NamedTuple, TypeVar

from bench.incidents.prometheus import Spell
from tests.support.alertmanager import at_sink, running_alertmanager, shipped
from tests.support.sink import Notification, listening_sink


TIMES = 60.0
"""Factor by which a replay is faster than life: a group's first wait of 15 s is a quarter of a second."""
RESEND_SECONDS = 60.0
"""Prometheus sends a firing alert again after this (`--rules.alert.resend-delay`)."""
VALID_SECONDS = 4 * RESEND_SECONDS
"""Prometheus lets a firing alert end by itself after four times the longer one of resend delay and evaluation."""
LINGER_SECONDS = 900.0
"""A replay goes on for this after the last alert of a run began or ended; the longest wait of a route is 10 minutes."""
COUNTED_SECONDS = 900.0
"""Notifications count until this after the heal."""
STAGGER_SECONDS = 0.1
"""Real seconds between the beginnings of two runs, so that not all of them are told at once."""
TICK_SECONDS = 0.01
NEVER_SENT = "Watchdog"
"""It fires always, and Alertmanager's file tells it every minute."""
PAGE_SUFFIX = "-page"

LabelSet = frozenset[tuple[str, str]]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Told:
    """One notification of one run."""

    at: float
    """Virtual instant at which it arrived."""
    receiver: str
    status: str
    """`firing`, or `resolved` if all its alerts are over."""
    group: LabelSet
    firing: frozenset[LabelSet]
    """Labels of each alert in it that fires; `namespace` is the replay's own."""
    resolved: frozenset[LabelSet]


@dataclass(frozen=True, slots=True)
class Replay(Generic[K]):
    """Notifications of all runs."""

    told: dict[K, list[Told]]
    """Run to its notifications, in order of arrival."""
    late_seconds: float
    """Longest virtual time by which an alert was sent too late."""


class Counted(NamedTuple):
    """Notifications of one run, from the injection to 15 minutes after the heal."""

    receivers: int
    """Number of receivers of pages that were told of a firing alert."""
    new: int
    new_pages: int
    """New notifications of receivers of pages."""


def counted(told: Sequence[Told], fault_at: float, heals_at: float) -> Counted:
    """Count the notifications of one run; earlier ones only say which alerts its receivers know already."""
    counts = [each for each in told if fault_at <= each.at <= heals_at + COUNTED_SECONDS]
    fresh = [each for each in new_of(told) if each in counts]
    pages = [each for each in counts if each.status == "firing" and each.receiver.endswith(PAGE_SUFFIX)]
    woken = {each.receiver for each in pages}
    new_pages = sum(each.receiver.endswith(PAGE_SUFFIX) for each in fresh)
    return Counted(len(woken), len(fresh), new_pages)


def new_of(told: Sequence[Told]) -> list[Told]:
    """The notifications that say something new, in the given order.

    A notification is new if it fires, and either opens its group (the group's first one at this receiver, or the first
    one since the group was resolved), or contains a firing alert that no earlier notification of this receiver did.
    Repeated ones, those that drop an alert and those that resolve a group are not new.
    """
    known: dict[str, set[LabelSet]] = defaultdict(set)
    open_groups: set[tuple[str, LabelSet]] = set()
    fresh = []
    for each in told:
        group = (each.receiver, each.group)
        if each.status != "firing":
            open_groups.discard(group)
            continue
        if group not in open_groups or each.firing - known[each.receiver]:
            fresh.append(each)
        open_groups.add(group)
        known[each.receiver] |= each.firing
    return fresh


def replay(
    runs: Mapping[K, Sequence[Spell]],
    *,
    times: float = TIMES,
    linger_seconds: float = LINGER_SECONDS,
    stagger_seconds: float = STAGGER_SECONDS,
) -> Replay[K]:
    """Replay the alerts of all runs. It takes the length of the longest run, divided by `times`, and the stagger.

    Raises RuntimeError if Alertmanager is not installed, and ValueError if the shipped file does not keep namespaces apart.
    """
    if not (shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")):
        raise RuntimeError("alertmanager is missing: install the Debian package prometheus-alertmanager")
    with TemporaryDirectory() as name, listening_sink() as sink:
        config = config_for(shipped(), sink.url, Path(name), times)
        with running_alertmanager(config, Path(name)) as alertmanager:
            # Alertmanager's clock is the wall clock; it is asked once, so that a step of it does no harm.
            unix = time.time() - time.monotonic()  # noqa: TID251  the API takes wall-clock instants
            began = time.monotonic() + 0.1
            tracks = {
                f"run-{number}": _Track(spells, began + number * stagger_seconds, times)
                for number, spells in enumerate(runs.values())
            }
            late = _play(tracks, alertmanager.url, unix, times)
            _sleep_until(
                max((each.real(each.last + linger_seconds) for each in tracks.values() if each.spells), default=0.0)
            )
    told: dict[str, list[Told]] = {namespace: [] for namespace in tracks}
    for notification in sorted(sink.notifications, key=lambda each: each.arrived_at):
        found = notification.body["groupLabels"]["namespace"]
        told[found].append(_told(notification, tracks[found]))
    return Replay(dict(zip(runs, told.values(), strict=True)), late * times)


def config_for(config: Mapping[str, Any], sink_url: str, folder: Path, times: float) -> dict[str, Any]:
    """The configuration with shorter waits and a webhook for each receiver.

    Raises ValueError if a route groups without `namespace`, or an inhibition rule holds across namespaces.
    """
    local = at_sink(config, sink_url, folder, waits_divided_by=times)
    for route in _routes(local["route"]):
        if "group_by" in route and not {"namespace", "..."} & {*route["group_by"]}:
            raise ValueError(f"a route groups by {route['group_by']}, without namespace")
    for rule in local.get("inhibit_rules", []):
        if "namespace" not in rule.get("equal", []):
            raise ValueError(f"an inhibition rule holds across namespaces: {rule}")
    local["templates"] = []
    local["receivers"] = [
        {"name": each["name"], "webhook_configs": [{"url": f"{sink_url}/{each['name']}", "send_resolved": True}]}
        for each in local["receivers"]
    ]
    return local


def _routes(route: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [route, *(found for child in route.get("routes", []) for found in _routes(child))]


class _Track:
    """The alerts of one run, and its clock."""

    def __init__(self, spells: Sequence[Spell], starts_at: float, times: float) -> None:
        """`starts_at`: monotonic instant of its first alert."""
        self.spells = [each for each in spells if each.labels.get("alertname") != NEVER_SENT]
        self.first = min((each.began_at for each in self.spells), default=0.0)
        self.last = max((each.ended_at for each in self.spells), default=0.0)
        self._starts_at = starts_at
        self._times = times

    def real(self, at: float) -> float:
        """Monotonic instant of a virtual one."""
        return self._starts_at + (at - self.first) / self._times

    def virtual(self, at: float) -> float:
        """Virtual instant of a monotonic one."""
        return self.first + (at - self._starts_at) * self._times


def _play(tracks: Mapping[str, _Track], url: str, unix: float, times: float) -> float:
    """Send every alert when it is due, until the last one is over. The longest real delay in seconds."""
    order = count()
    due: list[tuple[float, int, str, Spell, bool]] = []
    """Monotonic instant, order, namespace, alert, and whether it is over."""
    for namespace, track in tracks.items():
        for spell in track.spells:
            due.append((track.real(spell.began_at), next(order), namespace, spell, False))
            due.append((track.real(spell.ended_at), next(order), namespace, spell, True))
    heapify(due)
    connection = HTTPConnection(url.removeprefix("http://"), timeout=30)
    longest = 0.0
    while due:
        _sleep_until(due[0][0])
        now, alerts = time.monotonic(), []
        longest = max(longest, now - due[0][0])
        while due and due[0][0] <= now:
            at, _, namespace, spell, over = heappop(due)
            track = tracks[namespace]
            ends_at = track.real(spell.ended_at)
            valid_until = ends_at if over else now + VALID_SECONDS / times
            alerts.append(
                {
                    "labels": spell.labels | {"namespace": namespace},
                    "startsAt": _written(unix + track.real(spell.began_at)),
                    "endsAt": _written(unix + valid_until),
                }
            )
            again = at + RESEND_SECONDS / times
            if not over and again < ends_at:
                heappush(due, (again, next(order), namespace, spell, False))
        _post(connection, alerts)
        time.sleep(TICK_SECONDS)
    connection.close()
    return longest


def _post(connection: HTTPConnection, alerts: Sequence[Mapping[str, Any]]) -> None:
    connection.request("POST", "/api/v2/alerts", json.dumps(alerts), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    words = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"Alertmanager answers {answer.status}: {words[:500]!r}")


def _written(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).isoformat()


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))


def _told(notification: Notification, track: _Track) -> Told:
    body = notification.body
    alerts: dict[str, set[LabelSet]] = {"firing": set(), "resolved": set()}
    for each in body["alerts"]:
        alerts[each["status"]].add(frozenset(each["labels"].items()))
    return Told(
        track.virtual(notification.arrived_at),
        body["receiver"],
        body["status"],
        frozenset(body["groupLabels"].items()),
        frozenset(alerts["firing"]),
        frozenset(alerts["resolved"]),
    )
