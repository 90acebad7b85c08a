"""Judges the rules in Prometheus: loaded, once, of this version; evaluated in time and without an error; Watchdog; alerts sent.

Pure: reads `/api/v1/rules`, `/api/v1/alertmanagers` and the pages of metrics of both servers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from sidecar.commands.doctor.expected_rules import WATCHDOG, expected, ours, severities_of
from sidecar.commands.doctor.gathered import MetricsPage, Read
from sidecar.commands.doctor.links import Chain, Finding, Link, broken, not_asked, ok, unknown, unread
from sidecar.commands.doctor.page_routes import lost_on_the_way
from sidecar.commands.export.expression_names import left_out, metrics_in, undeclared
from sidecar.commands.export.shipped_files import DASHBOARD_RULES


OVERDUE_SECONDS = 60.0
OVERDUE_INTERVALS = 4
"""An evaluation is overdue after so many intervals, but not before `OVERDUE_SECONDS`."""
FIRST_SEND_SECONDS = 90.0
"""Prometheus needs 5 s to find Alertmanager, and sends again what it could not send after a minute (--rules.alert.resend-delay)."""
_NAMES_SHOWN = 5
_ERROR_CHARACTERS = 200
_LOAD = "load llm-recording.yml and llm-alerts.yml, or the PrometheusRule: `sidecar export rules --out DIR` writes them"


def _needs_rules(read: Read, chain: Chain, link: Link) -> Finding | None:
    if waits := chain.waits(link, Link.PROMETHEUS):
        return waits
    if not read.evidence.prometheus:
        return not_asked(link, "--prometheus.url")
    return None


def rules(read: Read, chain: Chain) -> Finding:
    if missing := _needs_rules(read, chain, Link.RULES):
        return missing
    wanted, alerts = expected().counts, expected().alerts
    loaded = ours(read.groups)
    counts = Counter(rule["name"] for rule in loaded)
    lost = sorted((name for name, count in wanted.items() if counts[name] < count), key=lambda name: name not in alerts)
    if not loaded:
        return broken(
            Link.RULES, f"none of the {sum(wanted.values())} rules is loaded", f"{_LOAD}; then check rule_files"
        )
    bare = [rule["name"] for rule in loaded if rule["type"] == "alerting" and _lost_a_label(rule)]
    if bare:
        return broken(
            Link.RULES,
            f"{len(bare)} alerts lack the label phase or severity, or have another phase than the shipped ones: {_few(bare)}",
            f"routes and texts know them by these labels; {_LOAD}",
        )
    if lost:
        return broken(Link.RULES, f"{len(lost)} rules are not loaded: {_few(lost)}", _LOAD)
    often = [name for name, count in wanted.items() if counts[name] > count]
    if often:
        return broken(
            Link.RULES,
            f"{len(often)} rules are loaded more than once: {_few(often)}",
            "keep one copy: rule files or PrometheusRule, of one version",
        )
    if moved := _of_other_severity(loaded):
        return broken(
            Link.RULES,
            f"{len(moved)} alerts are pages or tickets where the shipped ones are not: {_few(moved)}",
            f"routes know a page by its label severity; {_LOAD}, with other words by --severity.page and --severity.ticket",
        )
    strange = undeclared({name for rule in loaded for name in metrics_in(rule["query"])})
    if strange:
        return broken(
            Link.RULES,
            f"they read series that this version does not expose: {_few(strange)}",
            f"the rules are of another version; {_LOAD}",
        )
    if read.is_lean and (idle := _idle(read)):
        return broken(
            Link.RULES,
            f"this pod's metrics.profile is lean, and {len(idle)} rules read what it leaves out: {_few(idle)}",
            f"take {DASHBOARD_RULES} and rules of your own off that read it, or set metrics.profile: full",
        )
    return ok(Link.RULES, f"all {len(loaded)} rules are loaded")


def _lost_a_label(rule: Mapping[str, Any]) -> bool:
    labels = rule["labels"]
    return labels.get("phase", "") not in expected().alerts[rule["name"]] or not labels.get("severity")


def _of_other_severity(loaded: Sequence[Mapping[str, Any]]) -> list[str]:
    """The alerts that have another severity than the shipped ones, in the words that most loaded rules have for pages and for tickets."""
    shipped = expected().severities
    found = severities_of((rule["name"], rule["labels"]) for rule in loaded if rule["type"] == "alerting")
    words: dict[str, str] = {}
    for severity in ("page", "ticket"):
        of_one = (found[name] for name, wanted in shipped.items() if wanted.keys() == {severity})
        words[severity] = sum(of_one, Counter[str]()).most_common(1)[0][0]
    if words["page"] == words["ticket"]:
        words["page"] = ""
    return [
        name
        for name, wanted in shipped.items()
        if found[name] != Counter({words.get(severity, severity): count for severity, count in wanted.items()})
    ]


def _idle(read: Read) -> list[str]:
    """The names of all loaded rules that read what a lean page leaves out. Shipped ones do without: a page then tells no latency."""
    read_by = [rule["name"] for group in read.groups for rule in group["rules"] if left_out(rule["query"])]
    return [name for name in dict.fromkeys(read_by) if name not in expected().counts]


def evaluation(read: Read, chain: Chain) -> Finding:
    if missing := _needs_rules(read, chain, Link.EVALUATION):
        return missing
    loaded = ours(read.groups)
    if not loaded:
        return chain.waits(Link.EVALUATION, Link.RULES) or unknown(Link.EVALUATION, "no rule is loaded", _LOAD)
    failing = [rule for rule in loaded if rule["health"] == "err"]
    if failing:
        return broken(
            Link.EVALUATION,
            f"{len(failing)} rules fail: {_few([rule['name'] for rule in failing])}: {failing[0].get('lastError', '')[:_ERROR_CHARACTERS]}",
            "read the error: two series with the same labels are mostly a missing label or a second copy of the rules",
        )
    waiting = [rule["name"] for rule in loaded if rule["health"] == "unknown"]
    if waiting:
        return unknown(
            Link.EVALUATION,
            f"{len(waiting)} rules were not evaluated yet: {_few(waiting)}",
            "run the doctor again in a minute",
        )
    late = [
        rule["name"]
        for rule in loaded
        if read.prometheus_now - instant(rule["lastEvaluation"])
        > max(OVERDUE_SECONDS, OVERDUE_INTERVALS * rule["interval"])
    ]
    if late:
        return broken(
            Link.EVALUATION,
            f"{len(late)} rules were not evaluated for a minute or more: {_few(late)}",
            "Prometheus is overloaded, or its clock jumped: read its log, and prometheus_rule_group_iterations_missed_total",
        )
    slow = [
        f"{group['name']} ({group['evaluationTime']:.1f} s of {float(group['interval']):.0f} s)"
        for group in read.groups
        if group["name"] in {rule["group"] for rule in loaded}
        and float(group["evaluationTime"]) > float(group["interval"])
    ]
    if slow:
        return broken(
            Link.EVALUATION, f"groups take longer than their interval: {_few(slow)}", "give Prometheus more CPU"
        )
    return ok(Link.EVALUATION, f"{len(loaded)} rules are evaluated in time, without an error")


def watchdog(read: Read, chain: Chain) -> Finding:
    if missing := _needs_rules(read, chain, Link.WATCHDOG):
        return missing
    found = [rule for rule in ours(read.groups) if rule["name"] == WATCHDOG]
    if not found:
        return chain.waits(Link.WATCHDOG, Link.RULES) or unknown(Link.WATCHDOG, "it is not loaded", _LOAD)
    if found[0]["health"] == "unknown":
        return unknown(Link.WATCHDOG, "it was not evaluated yet", "run the doctor again in a minute")
    if found[0].get("state") != "firing":
        return chain.waits(Link.WATCHDOG, Link.EVALUATION) or broken(
            Link.WATCHDOG,
            f"its state is {found[0].get('state')}",
            "its expression must be vector(1), without `for`: load the shipped rule",
        )
    return ok(Link.WATCHDOG, "it fires")


def sent(read: Read, chain: Chain) -> Finding:
    """The alert that always fires is the probe: Alertmanager has it, or alerts do not reach it."""
    if missing := _needs_rules(read, chain, Link.SENT):
        return missing
    if lost := lost_on_the_way(read):
        return broken(Link.SENT, *lost)
    known = read.evidence.prometheus["alertmanagers"].data["activeAlertmanagers"]
    hosts = [urlsplit(one["url"]).netloc for one in known]
    if not known:
        return broken(
            Link.SENT,
            "Prometheus knows no Alertmanager",
            "name one under alerting.alertmanagers; with the operator: spec.alerting of the Prometheus object",
        )
    if waits := chain.waits(Link.SENT, Link.ALERTMANAGER) if chain.is_broken(Link.ALERTMANAGER) else None:
        return waits
    alerts = read.evidence.alertmanager.get("alerts")
    if alerts is None or not alerts.good or not chain.is_ok(Link.WATCHDOG):
        return _by_counters(read, hosts)
    if not any(alert["labels"].get("alertname") == WATCHDOG for alert in alerts.json):
        if _just_began(read):
            return unknown(
                Link.SENT,
                f"{WATCHDOG} fires since less than {FIRST_SEND_SECONDS:.0f} s",
                "run the doctor again in a minute",
            )
        return broken(
            Link.SENT,
            f"{WATCHDOG} fires in Prometheus, and {urlsplit(alerts.where).netloc} does not have it; Prometheus sends to"
            f" {', '.join(hosts)}",
            "let Prometheus send to the Alertmanager that you ask here: compare the addresses, and read Prometheus' log",
        )
    if missing := unread(Link.SENT, [read.evidence.prometheus["config"]]):
        return missing
    return ok(Link.SENT, f"{WATCHDOG} is at {urlsplit(alerts.where).netloc}")


def _just_began(read: Read) -> bool:
    """Whether Prometheus may not have sent its first alert yet: it drops alerts until it has found Alertmanager."""
    reply = read.evidence.prometheus["metrics"]
    if reply.good and (MetricsPage(reply.body).value("prometheus_notifications_sent_total") or 0) > 0:
        return False
    fired = [alert for rule in ours(read.groups) if rule["name"] == WATCHDOG for alert in rule["alerts"]]
    return all(read.prometheus_now - instant(alert["activeAt"]) < FIRST_SEND_SECONDS for alert in fired)


def _by_counters(read: Read, hosts: list[str]) -> Finding:
    """Without an Alertmanager to ask: what Prometheus itself counts."""
    reply = read.evidence.prometheus["metrics"]
    if not reply.good:
        return unknown(
            Link.SENT, f"sent to {', '.join(hosts)}; nothing shows whether they arrive", "give --alertmanager.url"
        )
    page = MetricsPage(reply.body)
    dropped = page.value("prometheus_notifications_dropped_total") or 0
    errors = page.value("prometheus_notifications_errors_total") or 0
    told = page.value("prometheus_notifications_sent_total") or 0
    if told and dropped >= told:
        return broken(
            Link.SENT,
            f"Prometheus sent {told:.0f} alerts to {', '.join(hosts)}, and dropped as many",
            "correct the address under alerting.alertmanagers; read Prometheus' log",
        )
    return unknown(
        Link.SENT,
        f"Prometheus sent {told:.0f} alerts to {', '.join(hosts)}, {errors:.0f} times with an error",
        "give --alertmanager.url, to see whether they arrive",
    )


def instant(text: str) -> float:
    """Unix seconds of an instant as Go writes it: RFC 3339 with up to nine digits."""
    head, dot, rest = text.partition(".")
    if dot:
        digits = rest.rstrip("Z").partition("+")[0].partition("-")[0]
        text = f"{head}.{digits[:6]}{rest[len(digits) :]}"
    return datetime.fromisoformat(text).timestamp()


def _few(names: list[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
