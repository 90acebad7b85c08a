"""Judges Alertmanager: whether it answers, and whether a page of each phase would reach a receiver, unmuted and rendered.

By default nothing is sent: the routes in force are walked with the labels that the loaded rules give their pages. Pure; `drill.py`
sends the alert marked TEST, and its outcome is judged here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sidecar.commands.doctor.alert_relabelling import relabelled, relabelling
from sidecar.commands.doctor.clusters_apart import (
    LOAD_ROUTES,
    external_labels,
    identity_of_alerts,
    merged_in_alerts,
    mutes,
)
from sidecar.commands.doctor.expected_rules import PAGES_GROUP, WATCHDOG, expected, ours
from sidecar.commands.doctor.gathered import UNKNOWN_FORM, Drilled, Evidence, MetricsPage, Read
from sidecar.commands.doctor.links import Chain, Finding, Link, broken, not_asked, ok, unknown, unread
from sidecar.commands.doctor.route_walk import (
    Labels,
    Matcher,
    Way,
    conditions,
    integrations,
    muted_by,
    silenced_by,
    ways,
)
from sidecar.commands.doctor.scraped_targets import own_targets
from sidecar.config.values import is_http_address
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.metrics.target_labels import ONE_ENGINE
from sidecar.objectives.attribution import SIDECAR, Blame


PAGE = "page"
"""The severity of pages in the shipped rules; loaded rules may have another word for it."""
_PAGE_LABELS = ("alertname", "phase", "severity")
"""Labels by which routes and templates know a page."""
LONGEST_WAIT_SECONDS = 60.0
"""A page has two minutes from an outage to the receiver, and scrape, evaluation and the alert's own window take half of them."""
_API = "/api/v2/alerts"
_NAMED = re.compile(r'{{-?\s*template\s+"([^"]+)"')
_DEFINED = re.compile(r'{{-?\s*define\s+"([^"]+)"')
_BUILT_IN = re.compile(r"__|\w+\.default\.")
"""Templates that Alertmanager brings along (`template/default.tmpl`, `email.tmpl`)."""


def alertmanager_of(evidence: Evidence) -> str | None:
    """The address of the Alertmanager to which Prometheus sends; None if it states none that can be asked."""
    try:
        active = evidence.prometheus["alertmanagers"].data["activeAlertmanagers"]
        urls = [str(one["url"]).removesuffix(_API) for one in active]
    except UNKNOWN_FORM:
        return None
    return next(filter(is_http_address, urls), None)


def pages(read: Read) -> dict[str, Labels]:
    """Phase to the labels of its page as they reach Alertmanager, and name to those of a page that is no lane's; as they are written
    where something is lost on the way.
    """
    written = _written(read)
    return written if lost_on_the_way(read) else {phase: _sent(read, one) or one for phase, one in written.items()}


def _sent(read: Read, labels: Labels) -> Labels | None:
    """The labels with which Prometheus sends an alert; None: it drops it."""
    return relabelled({**external_labels(read), **labels}, relabelling(read))


def lost_on_the_way(read: Read) -> tuple[str, str] | None:
    """Pages, or labels of them that routes ask for, that `alert_relabel_configs` take away or rename: what, and what to do."""
    written, do = [*_written(read).values()], "correct alerting.alert_relabel_configs of Prometheus"
    sent = [(one, _sent(read, one)) for one in written]
    if dropped := dict.fromkeys(one["alertname"] for one, arrived in sent if arrived is None):
        return f"alert_relabel_configs drop {len(dropped)} pages: {', '.join([*dropped][:5])}", do
    for one, arrived in sent:
        for name in (name for name in _PAGE_LABELS if name in one):
            was, now = one[name], (arrived or {}).get(name, "")
            if now == was or (now and _asks_for(read, name, now, was)):
                continue
            what = f"make {name}={now} of {name}={was} on" if now else f"take the label {name} off"
            return f"alert_relabel_configs {what} {one['alertname']}, and no route asks for that", do
    return None


def _asks_for(read: Read, name: str, now: str, was: str) -> bool:
    """Whether a route is meant for a label's new value."""
    try:
        asked = [one for one in _conditions_of(read.alertmanager_config["route"]) if one.name == name]
    except UNKNOWN_FORM:
        return False
    return any(one.holds({name: now}) and not one.holds({name: was}) for one in asked)


def _written(read: Read) -> dict[str, Labels]:
    """Phase to the labels of its page: those of the loaded rule and, where they are known, of this process's target. And name to those
    of each other page, of a pod or of a job.

    Without the rules of a phase the shipped name and severity stand in.
    """
    loaded = [rule for rule in _loaded(read) if rule["type"] == "alerting"]
    found: dict[str, dict[str, str]] = {phase: {} for phase in (*map(str, Blame), SIDECAR)}
    for rule in loaded:
        phase = rule["labels"].get("phase")
        if rule["group"] == PAGES_GROUP and phase in found and not found[phase]:
            found[phase] = {"alertname": rule["name"], **rule["labels"]}
    severity = next((one["severity"] for one in found.values() if one.get("severity")), PAGE)
    from_target = _of_target(read)
    for phase, labels in found.items():
        found[phase] = {**from_target, "alertname": CHAPTERS[phase], "phase": phase, "severity": severity, **labels}
    others = [rule for rule in loaded if rule["labels"].get("severity") == severity and not _is_of_lane(rule["name"])]
    # The page of a pod that misses has the phase of its root.
    return {
        **found,
        **{
            one["name"]: {**from_target, "alertname": one["name"], "phase": str(Blame.DECODE), **one["labels"]}
            for one in others
        },
    }


def _is_of_lane(alert: str) -> bool:
    return alert in CHAPTERS.values()


def _loaded(read: Read) -> Sequence[Mapping[str, Any]]:
    try:
        return ours(read.groups)
    except UNKNOWN_FORM:
        return ()


def _of_target(read: Read) -> dict[str, str]:
    try:
        mine = own_targets(read)
    except UNKNOWN_FORM:
        return {}
    if not mine:
        return {}
    return identity_of_alerts(read, mine[0]) | {name: mine[0][name] for name in ONE_ENGINE if name in mine[0]}


def _named(read: Read) -> dict[str, str]:
    """The labels by which alerts about this process name its cluster; empty if they name none, or if its target is not known."""
    try:
        mine = own_targets(read)
    except UNKNOWN_FORM:
        return {}
    return identity_of_alerts(read, mine[0] if mine else {})


def alertmanager(read: Read, chain: Chain) -> Finding:
    replies, given = read.evidence.alertmanager, "alertmanager.url" in read.evidence.explicit
    if not replies:
        waits = chain.waits(Link.ALERTMANAGER, Link.PROMETHEUS)
        return waits or not_asked(Link.ALERTMANAGER, "--alertmanager.url")
    status = replies["status"]
    if not status.good and not given:
        return unknown(
            Link.ALERTMANAGER,
            f"{status.told} (the address that Prometheus sends to, asked from here)",
            "give --alertmanager.url, as it is reached from this machine",
        )
    if not status.good:
        return broken(Link.ALERTMANAGER, status.told, "start Alertmanager, or correct --alertmanager.url")
    receivers = len(read.alertmanager_config.get("receivers") or ())
    return ok(Link.ALERTMANAGER, f"{urlsplit(status.where).netloc} answers, with {receivers} receivers")


def _needs_it(read: Read, chain: Chain, link: Link) -> Finding | None:
    if waits := chain.waits(link, Link.ALERTMANAGER):
        return waits
    if not read.evidence.alertmanager:
        return not_asked(link, "--alertmanager.url")
    if not read.evidence.alertmanager["status"].good:
        return unknown(link, "Alertmanager was not reached", "give --alertmanager.url")
    return None


# --- routes --------------------------------------------------------------------------------------------------------------


def routes(read: Read, chain: Chain) -> Finding:
    if missing := _needs_it(read, chain, Link.ROUTES):
        return missing
    config, told = read.alertmanager_config, pages(read)
    taken = {phase: ways(config, _full(labels)) for phase, labels in told.items()}
    if lost := _sent_nowhere(config, told, taken):
        return lost
    if held := _held(read, config, told):
        return broken(Link.ROUTES, *held)
    full = {phase: _full(labels) for phase, labels in told.items()}
    if other := _by_another_severity(read, told):
        return chain.waits(Link.ROUTES, Link.RULES) or other
    if late := _late(config, taken):
        return late
    if merged := merged_in_alerts(read, full, config, _named(read)) or _across_lanes(config, full):
        return merged
    timed = sorted({interval for found in taken.values() for way in found for interval in way.muted_by})
    if timed:
        return unknown(
            Link.ROUTES,
            f"pages are held back at times: {', '.join(timed)}",
            "check that these time intervals are meant for pages; the doctor does not compute them",
        )
    dog = ways(config, {"alertname": WATCHDOG, "severity": "none", "phase": SIDECAR})[0].receiver
    if not integrations(config, dog):
        return broken(
            Link.ROUTES,
            f"{WATCHDOG} goes to {dog!r}, which sends nothing",
            "send it to a dead man's switch: a service that calls when it is not called",
        )
    replies = read.evidence.alertmanager
    if missing := unread(Link.ROUTES, (replies[name] for name in ("silences", "alerts"))):
        return missing
    receivers = dict.fromkeys(way.receiver for found in taken.values() for way in found)
    kinds = dict.fromkeys(kind for name in receivers for kind in integrations(config, name))
    return ok(Link.ROUTES, f"all {len(taken)} kinds of pages reach {', '.join(receivers)} (by {', '.join(kinds)})")


def _by_another_severity(read: Read, told: Mapping[str, Labels]) -> Finding | None:
    """The finding that routes know a page by the shipped severity alone, and that the loaded rules have another word for it."""
    for phase, labels in told.items():
        word, full = labels.get("severity", ""), _full(labels)
        otherwise = ways(read.alertmanager_config, {**full, "severity": PAGE})
        if ways(read.alertmanager_config, full) != otherwise and not _asks_for(read, "severity", word, PAGE):
            return broken(
                Link.ROUTES,
                f"the page of {phase} has severity={word}, and routes ask for {PAGE}: it goes where tickets go",
                f"let rules and routes have one word: sidecar export all --severity.page={word}",
            )
    return None


def _late(config: Mapping[str, Any], taken: Mapping[str, Sequence[Way]]) -> Finding | None:
    """The finding that each receiver of a phase's page waits too long for further alerts of the group."""
    for phase, found in taken.items():
        first = min(
            (way for way in found if integrations(config, way.receiver)), key=lambda way: way.group_wait_seconds
        )
        if first.group_wait_seconds > LONGEST_WAIT_SECONDS:
            return broken(
                Link.ROUTES,
                f"pages of {phase} wait {first.group_wait_seconds:.0f} s before they are sent to {first.receiver!r}: its group_wait",
                "set group_wait of the routes of pages to 15s, as the shipped ones have it, and to 1m at most",
            )
    return None


def _across_lanes(config: Mapping[str, Any], full: Mapping[str, Labels]) -> Finding | None:
    """The finding that a page mutes one of another engine, or of another lane or model, though no engine and no sidecar failed, which is
    every lane's.
    """
    lanes = {phase: labels for phase, labels in full.items() if "lane" in labels}
    own = {phase: labels for phase, labels in lanes.items() if phase not in (Blame.ENGINE, SIDECAR)}
    for name, of in (("namespace", full), ("job", full), ("lane", own), ("model", own)):
        if found := mutes(config, of, {name: f"another-{name}"}):
            return broken(
                Link.ROUTES,
                f"a page of {found[0]} of one {name} mutes the page of {found[1]} of another: inhibit_rules do not ask for {name} under equal",
                LOAD_ROUTES,
            )
    return None


def _sent_nowhere(
    config: Mapping[str, Any], told: Mapping[str, Labels], taken: Mapping[str, Sequence[Way]]
) -> Finding | None:
    """The finding that the pages of some phases reach no integration; None if all reach one."""
    nowhere: dict[str, list[str]] = {}
    for phase, found in taken.items():
        if not any(integrations(config, way.receiver) for way in found):
            nowhere.setdefault(found[0].receiver, []).append(phase)
    if not nowhere:
        return None
    receiver, phases = next(iter(nowhere.items()))
    if hidden := _hidden_by_namespace(config, told[phases[0]]):
        return hidden
    lost = "; ".join(f"{', '.join(of)} to {name!r}" for name, of in nowhere.items())
    shown = ", ".join(f"{name}={value}" for name, value in told[phases[0]].items())
    return broken(
        Link.ROUTES,
        f"pages go to a receiver that sends nothing: {lost} (labels {shown})",
        f"give receiver {receiver!r} an integration, or add the shipped routes: alert_rules/README.md",
    )


def _hidden_by_namespace(config: Mapping[str, Any], labels: Labels) -> Finding | None:
    """The finding that the routes take this page from other namespaces alone; None if no namespace would have it sent.

    prometheus-operator adds `namespace="..."`, that of the object, to the routes of an AlertmanagerConfig.
    """
    asked = _conditions_of(config["route"])
    named = dict.fromkeys(one.value for one in asked if (one.name, one.sign) == ("namespace", "="))
    taken = [name for name in named if _sends(config, {**_full(labels), "namespace": name})]
    if not taken:
        return None
    only = f"the routes take pages of namespace {', '.join(taken)} alone, as the operator writes those of an AlertmanagerConfig"
    if "namespace" not in labels:
        return unknown(
            Link.ROUTES, f"{only}; that of this engine is not known", "give --prometheus.url, which states it"
        )
    return broken(
        Link.ROUTES,
        f"{only}, and this engine is in {labels['namespace']}",
        f"put an AlertmanagerConfig into namespace {labels['namespace']}; or set alertmanagerConfigMatcherStrategy to None in the"
        " spec of Alertmanager, or give it the routes as a Secret: docs/chart.md",
    )


def _conditions_of(route: Mapping[str, Any]) -> Iterator[Matcher]:
    """Those of a route and of all below it."""
    yield from conditions(route)
    for child in route.get("routes") or ():
        yield from _conditions_of(child)


def _sends(config: Mapping[str, Any], labels: Labels) -> bool:
    return any(integrations(config, way.receiver) for way in ways(config, labels))


def _full(labels: Labels) -> dict[str, str]:
    """With an example of each label that a page has from its series: routes may ask whether it is there."""
    of_lane = {"lane": "chat", "model": "model", "objective": "ttft"}
    return {
        "namespace": "llm",
        "job": "llm",
        **(of_lane if _is_of_lane(labels["alertname"]) else {"pod": "llm-0"}),
        **labels,
    }


def _held(read: Read, config: Mapping[str, Any], told: Mapping[str, Labels]) -> tuple[str, str] | None:
    """A silence, or an alert that is no page of ours, which holds pages back now: what, and what to do."""
    replies = read.evidence.alertmanager
    silences = replies["silences"].json if replies["silences"].good else []
    for phase, labels in told.items():
        for silence in silenced_by(silences, labels):
            return (
                f"a silence holds pages of {phase} back until {silence['endsAt'][:19]}Z: {silence.get('comment', '')!r}",
                f"let it end: amtool silence expire {silence['id']}",
            )
    firing = [one["labels"] for one in _active(read) if not _is_ours(one["labels"])]
    for phase, labels in told.items():
        for other in muted_by(config, _full(labels), firing):
            return (
                f"{other.get('alertname')} fires, and inhibits pages of {phase}",
                "narrow inhibit_rules: ask on both sides for the labels that tell alerts apart (alert_rules/README.md)",
            )
    return None


def _active(read: Read) -> Iterator[Mapping[str, Any]]:
    reply = read.evidence.alertmanager["alerts"]
    yield from (one for one in (reply.json if reply.good else ()) if one["status"]["state"] == "active")


def _is_ours(labels: Labels) -> bool:
    """Whether it is a shipped alert, which may mute what follows from it. Watchdog may mute nothing."""
    name = labels.get("alertname", "")
    return name in expected().alerts and name != WATCHDOG


# --- templates -----------------------------------------------------------------------------------------------------------


def templates(read: Read, chain: Chain) -> Finding:
    if missing := _needs_it(read, chain, Link.TEMPLATES):
        return missing
    config, texts = read.alertmanager_config, read.evidence.template_texts
    named = _named_by(config.get("receivers"))
    files = config.get("templates") or []
    if not named:
        return ok(Link.TEMPLATES, "the receivers name only templates that Alertmanager brings along")
    if not files:
        return broken(
            Link.TEMPLATES,
            f"receivers name {', '.join(sorted(named))}, and no template file is configured",
            "add templates: [templates/*.tmpl] to Alertmanager's config, and put llm.tmpl there",
        )
    if texts is not None:
        lost = sorted(named - {name for text in texts for name in _DEFINED.findall(text)})
        if lost:
            return broken(
                Link.TEMPLATES,
                f"no file defines {', '.join(lost)}",
                "put llm.tmpl of this version beside Alertmanager's config",
            )
        return ok(Link.TEMPLATES, f"all {len(named)} templates that receivers name are defined")
    rendered = _rendered(read)
    if named <= rendered:
        return ok(Link.TEMPLATES, f"the TEST page was rendered and accepted, with all {len(named)} templates")
    some = f"; the TEST page was rendered with {len(rendered)} of them" if rendered else ""
    return unknown(
        Link.TEMPLATES,
        f"receivers name {len(named)} templates of {', '.join(map(str, files))}, which Alertmanager does not show{some}",
        "give --alertmanager.templates, a folder with these files, or --send-test-page, which renders them",
    )


def _named_by(receivers: object) -> set[str]:
    """The templates that these receivers name, without those that Alertmanager brings along."""
    return {name for name in _NAMED.findall(str(receivers)) if not _BUILT_IN.match(name)}


def _rendered(read: Read) -> set[str]:
    """The templates with which the TEST page was rendered and accepted: those of its own receivers."""
    test, config = read.evidence.test_page, read.alertmanager_config
    if test is None or _outcome(test, read)[0] != "ok":
        return set()
    taken = {way.receiver for way in ways(config, test.labels)}
    return _named_by([one for one in config["receivers"] if one["name"] in taken])


# --- delivery ------------------------------------------------------------------------------------------------------------

SENT_NAME, FAILED_NAME = "alertmanager_notifications_total", "alertmanager_notifications_failed_total"
"""Notifications that were begun, and those that were given up. A failing one is tried again for minutes before that."""
TRIED_NAME, REFUSED_NAME = "alertmanager_notification_requests_total", "alertmanager_notification_requests_failed_total"
"""The single attempts, counted when each has ended (`notify/notify.go` of 0.25)."""


def delivery(read: Read, chain: Chain) -> Finding:
    if missing := _needs_it(read, chain, Link.DELIVERY):
        return missing
    test = read.evidence.test_page
    if test is not None:
        return _of_test_page(test, read, chain)
    if waits := chain.waits(Link.DELIVERY, Link.ROUTES):
        return waits
    reply = read.evidence.alertmanager["metrics"]
    if not reply.good:
        return unknown(Link.DELIVERY, reply.told, "let the doctor read Alertmanager's /metrics")
    page = MetricsPage(reply.body)
    sent, failed = by_integration(page, TRIED_NAME), by_integration(page, REFUSED_NAME)
    dead = sorted(kind for kind, count in sent.items() if count and failed.get(kind, 0) >= count)
    if dead:
        return broken(
            Link.DELIVERY,
            f"every attempt to notify by {', '.join(dead)} failed: {sum(failed[kind] for kind in dead):.0f} since Alertmanager began",
            "read Alertmanager's log: it names the receiver and the error; check address, key and channel",
        )
    some = {kind: count for kind, count in sent.items() if count}
    if not some:
        return unknown(Link.DELIVERY, "no notification was sent since Alertmanager began", "give --send-test-page")
    config = read.alertmanager_config
    used = {kind for labels in pages(read).values() for kind in awaited(config, _full(labels))}
    untried = sorted(used - some.keys())
    counts = ", ".join(f"{kind} {count:.0f} ({failed.get(kind, 0):.0f} failed)" for kind, count in some.items())
    if untried:
        return unknown(
            Link.DELIVERY, f"accepted: {counts}; not tried yet: {', '.join(untried)}", "give --send-test-page"
        )
    return ok(Link.DELIVERY, f"accepted since Alertmanager began: {counts}")


def _of_test_page(test: Drilled, read: Read, chain: Chain) -> Finding:
    verdict, said = _outcome(test, read)
    if verdict == "ok":
        return ok(Link.DELIVERY, said)
    if verdict == "not shown":
        return unknown(Link.DELIVERY, said, "let the doctor read Alertmanager's /metrics; look at the receiver itself")
    # A page that was not sent at all has its cause in broken routes; one that was refused has not.
    waits = chain.waits(Link.DELIVERY, Link.ROUTES) if verdict == "not sent" else None
    return waits or broken(Link.DELIVERY, said, "read Alertmanager's log: it names the receiver and the error")


def by_integration(page: MetricsPage, name: str) -> dict[str, float]:
    """Kind of notification to the sum of its series: newer versions split them further, by reason or receiver."""
    sums: dict[str, float] = {}
    for labels, value in page.of(name):
        kind = labels.get("integration", "")
        sums[kind] = sums.get(kind, 0.0) + value
    return sums


def awaited(config: Mapping[str, Any], labels: Labels) -> dict[str, int]:
    """Kind of notification to the number of messages that an alert with these labels must send."""
    counts: dict[str, int] = {}
    for way in ways(config, labels):
        for kind in integrations(config, way.receiver):
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def grown(before: MetricsPage, after: MetricsPage, name: str) -> dict[str, float]:
    """Kind of notification to the growth of a counter between two pages of Alertmanager."""
    first = by_integration(before, name)
    return {kind: value - first.get(kind, 0.0) for kind, value in by_integration(after, name).items()}


def failed_by(before: MetricsPage, after: MetricsPage, wanted: Mapping[str, int]) -> list[str]:
    """The kinds of notification with an attempt that failed between the two pages."""
    failed = [grown(before, after, name) for name in (FAILED_NAME, REFUSED_NAME)]
    return [kind for kind in wanted if any(growth.get(kind, 0) > 0 for growth in failed)]


def ended_by(before: MetricsPage, after: MetricsPage, wanted: Mapping[str, int]) -> list[str]:
    """The kinds of notification of which as many were sent as are wanted, and whose attempts have ended."""
    sent, tried = (grown(before, after, name) for name in (SENT_NAME, TRIED_NAME))
    return [kind for kind, count in wanted.items() if min(sent.get(kind, 0), tried.get(kind, 0)) >= count]


def _outcome(test: Drilled, read: Read) -> tuple[str, str]:
    """One word, `ok`, `refused`, `not sent` or `not shown`, and the outcome of the TEST page in words."""
    posted = test.posted
    if posted.status is not None and not posted.good:
        return "refused", f"Alertmanager did not take the TEST alert: {posted.told}"
    verdict, said = _of_taken(test, read)
    over = "" if test.resolved.good else "; it could not be resolved, and ends by itself within ten minutes"
    return verdict, f"{said}{over}"


def _of_taken(test: Drilled, read: Read) -> tuple[str, str]:
    """The same for a TEST alert that Alertmanager has taken, or may have taken."""
    if not test.posted.good:
        return "not shown", f"Alertmanager is not known to have taken the TEST alert: {test.posted.told}"
    wanted = awaited(read.alertmanager_config, test.labels)
    if not wanted:
        return "not sent", "no receiver sends anything for the TEST page"
    unread = next((one for one in (test.before, test.after) if not one.good), None)
    if unread is not None:
        return "not shown", f"nothing shows whether the TEST page was delivered: {unread.told}"
    before, after = MetricsPage(test.before.body), MetricsPage(test.after.body)
    bad = failed_by(before, after, wanted)
    if bad:
        return "refused", f"the TEST page failed by {', '.join(bad)}"
    late = [kind for kind in wanted if kind not in ended_by(before, after, wanted)]
    if late:
        return "not sent", f"the TEST page was not sent by {', '.join(late)} within {test.waited_seconds:.0f} s"
    return "ok", f"the TEST page was accepted: {', '.join(f'{kind} {count}' for kind, count in wanted.items())}"
