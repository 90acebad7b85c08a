"""The rule files of `alert_rules/`, and the same rules as an object for Kubernetes, as texts.

Knows which group goes into which file, and no folder: `export_command.py` writes them. A test finds the committed files unchanged.
"""

from dataclasses import replace
from functools import partial

from sidecar.commands.export.identity_labels import SHIPPED_IDENTITY, Identity
from sidecar.commands.export.rules.annotations import DASHBOARDS, RUNBOOKS
from sidecar.commands.export.rules.burn import BURN_TIERS, INSTANCES, NUMBERS, SUMS
from sidecar.commands.export.rules.dashboard_rules import GROUPS
from sidecar.commands.export.rules.evaluation import laid_out, without_questions
from sidecar.commands.export.rules.operator import as_yaml, prometheus_rule
from sidecar.commands.export.rules.page_facts import FACTS, NUMBERS_TOLD
from sidecar.commands.export.rules.pages import pages, tickets
from sidecar.commands.export.rules.root_rules import (
    LATER_POD_SUMS,
    ODD,
    POD_ROOTS,
    POD_SUMS,
    ROOT_RECORDS,
    SHARE,
    WAITED,
    WAITED_IN,
    WARMS_UP,
    WORSE,
)
from sidecar.commands.export.rules.rule import Alert, Group, Record, written
from sidecar.commands.export.rules.rulers import PROMETHEUS, Ruler
from sidecar.commands.export.rules.severity import SHIPPED_SEVERITIES, Severities
from sidecar.commands.export.rules.sidecar_alerts import sidecar_alerts
from sidecar.commands.export.rules.state_alerts import engine_alerts, traffic_alerts
from sidecar.commands.export.rules.target_alerts import DOWN, SEEN, WANTED, target_alerts
from sidecar.commands.export.shipped_files import DASHBOARD_RULES
from sidecar.config.quick_yaml import read_yaml
from sidecar.metrics.histogram_forms import classic_only


_WORKS = "Works alike on Prometheus 2.42 and 3.x."
_WITHIN_A_WAIT = "5s"
"""Interval of groups that have pages: shorter than the `group_wait` of pages (15 s), so that a pod's page and that of its lanes
are sent, or muted, together."""


def files(
    bases: tuple[str, str] = (RUNBOOKS, DASHBOARDS),
    severities: Severities = SHIPPED_SEVERITIES,
    *,
    identity: Identity = SHIPPED_IDENTITY,
    ruler: Ruler = PROMETHEUS,
    interval_seconds: int = 0,
    keep_firing: bool = True,
    classic_histograms: bool = False,
) -> dict[str, str]:
    """Path below alert_rules/ to text. `bases`: where runbooks and dashboards are found. `interval_seconds`: no group is evaluated more
    often; 0: as shipped. `classic_histograms`: without native ones.
    """
    identified = partial(_identified, identity=identity)
    recording: tuple[Group, ...] = (
        Group(
            "llm-phase-sums",
            (*INSTANCES, POD_ROOTS, POD_SUMS, WARMS_UP, ODD, *SUMS, ROOT_RECORDS),
            why="Growth of the sidecars' counters, by pod and by lane.",
        ),
        Group(
            "llm-phase-tiers",
            (BURN_TIERS, SHARE),
            interval="5s",
            why="Cheap, and evaluated often, so that a page waits for no group.",
        ),
        Group(
            "llm-phase-numbers",
            (*NUMBERS, LATER_POD_SUMS, WORSE, WAITED, WAITED_IN, *NUMBERS_TOLD),
            why="For messages, dashboards, diagnosis and the tickets of pods.",
        ),
    )
    down_pages, down_tickets = target_alerts(bases)
    alerts: tuple[Group, ...] = (
        Group(
            "llm-phase-pages",
            (*FACTS, *pages(bases)),
            interval=_WITHIN_A_WAIT,
            why="First what the texts ask for: rules of one group are evaluated in order.",
        ),
        Group("llm-phase-tickets", tickets(bases), interval="30s"),
        Group("llm-phase-engine", engine_alerts(bases), interval=_WITHIN_A_WAIT),
        Group("llm-phase-traffic", traffic_alerts(bases), interval="30s"),
        Group("llm-phase-targets", (SEEN, WANTED, *down_tickets), interval="30s"),
        Group("llm-phase-sidecar", (DOWN, *down_pages, *sidecar_alerts(bases)), interval=_WITHIN_A_WAIT),
    )
    recording, alerts = laid_out(recording, alerts, interval_seconds)
    if ruler.most_text_characters:
        alerts = without_questions(alerts)
    header = f"Written by `sidecar export rules`; write it anew, do not change it. {_WORKS}"
    if ruler != PROMETHEUS:
        header = f"Written by `sidecar export rules --ruler={ruler.name}` for {ruler.title}; write it anew, do not change it."
    texts = {
        "llm-recording.yml": written(
            tuple(map(identified, recording)),
            f"{header}\nRecording rules: burn rates, tiers, and the share of each root per lane and objective.",
        ),
        "llm-alerts.yml": written(
            tuple(identified(_renamed(group, severities)) for group in alerts),
            f"{header}\nAlerts: the phase that burns, the engine's state, the traffic, the sidecar itself.",
        ),
    }
    rules = prometheus_rule([read_yaml(text) for text in texts.values()], of=ruler.rules_object)
    texts["kubernetes/prometheus-rule.yaml"] = as_yaml(rules, source="the rule files", command="sidecar export rules")
    texts[DASHBOARD_RULES] = written(
        tuple(map(identified, map(_of_classic, GROUPS) if classic_histograms else GROUPS)),
        f"{header}\nOptional: for pictures alone. Dashboards draw without it, slower; no alert reads it.",
    )
    for_pictures = prometheus_rule(
        [read_yaml(texts[DASHBOARD_RULES])], name="llm-phase-sidecar-dashboards", of=ruler.rules_object
    )
    texts["kubernetes/dashboard-rule.yaml"] = as_yaml(
        for_pictures, source=DASHBOARD_RULES, command="sidecar export rules"
    )
    return texts if keep_firing else {name: _without_keep_firing(text) for name, text in texts.items()}


def _renamed(group: Group, severities: Severities) -> Group:
    """The group with the team's names of severities, in labels and where an expression asks for pages that fire."""
    page = 'severity="{}"'.format
    rules = tuple(
        replace(
            rule,
            expr=rule.expr.replace(page(SHIPPED_SEVERITIES.page), page(severities.page)),
            labels={**rule.labels, "severity": severities.named(rule.labels["severity"])},
        )
        if isinstance(rule, Alert)
        else rule
        for rule in group.rules
    )
    return replace(group, rules=rules)


def _identified(group: Group, identity: Identity) -> Group:
    """The group with the fleet's own labels of a cluster, in expressions and in texts."""
    return replace(group, rules=tuple(_identified_rule(rule, identity) for rule in group.rules))


def _identified_rule(rule: Alert | Record, identity: Identity) -> Alert | Record:
    if identity.is_shipped:
        return rule
    if isinstance(rule, Record):
        return replace(rule, expr=identity.in_rule(rule.expr))
    annotations = {name: identity.in_rule(text) for name, text in rule.annotations.items()}
    return replace(rule, expr=identity.in_rule(rule.expr), annotations=annotations)


def _of_classic(group: Group) -> Group:
    """For VictoriaMetrics, which refuses the functions of native histograms."""
    return replace(group, rules=tuple(replace(rule, expr=classic_only(rule.expr)) for rule in group.rules))


def _without_keep_firing(text: str) -> str:
    """For a ruler that refuses `keep_firing_for`, such as vmalert 1.79."""
    return "".join(line for line in text.splitlines(keepends=True) if "keep_firing_for:" not in line)
