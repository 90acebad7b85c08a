"""The outcome of a TEST page: what it shows of the delivery and of the templates, and what it leaves open."""

import json
import re
from collections.abc import Callable

import pytest

from sidecar.commands.doctor.examination import examine
from sidecar.commands.doctor.gathered import Evidence
from sidecar.commands.doctor.links import Link, State
from tests.commands.doctor.one_change import alertmanager, drilled, prometheus, routed, said, states
from tests.commands.doctor.sound_evidence import COUNTED, TARGET, api, groups, routes, sound, status


def of_the_operator(namespace: str) -> Callable[[Evidence], None]:
    """The shipped routes as an AlertmanagerConfig in this namespace, behind a root that sends nothing."""
    shipped = routes()
    inner = {**shipped["route"], "matchers": [f'namespace="{namespace}"', 'alertname=~"LLM.+|Watchdog"']}
    dog = shipped["route"]["routes"][0]
    return routed(
        route={"receiver": "null", "routes": [dog, inner]}, receivers=[*shipped["receivers"], {"name": "null"}]
    )


def test_an_alertmanager_config_that_cannot_see_the_engine_is_found() -> None:
    evidence = sound()
    of_the_operator("monitoring")(evidence)

    assert states(evidence)[State.BROKEN] == ["routes"]
    assert said(evidence, Link.ROUTES) == (
        "the routes take pages of namespace monitoring alone, as the operator writes those of an AlertmanagerConfig, and this engine"
        " is in llm -> put an AlertmanagerConfig into namespace llm; or set alertmanagerConfigMatcherStrategy to None in the spec of"
        " Alertmanager, or give it the routes as a Secret: docs/chart.md"
    )


def test_an_alertmanager_config_beside_the_engine_is_right() -> None:
    evidence = sound()
    of_the_operator(TARGET["namespace"])(evidence)

    assert states(evidence)[State.BROKEN] == []


def test_whether_it_sees_an_engine_of_an_unknown_namespace_is_unknown() -> None:
    """Prometheus was not asked."""
    evidence = sound()
    of_the_operator("monitoring")(evidence)
    evidence.prometheus = {}

    assert "routes" in states(evidence)[State.UNKNOWN]
    assert said(evidence, Link.ROUTES).endswith(
        "that of this engine is not known -> give --prometheus.url, which states it"
    )


def relabelling(*steps: dict[str, object], at_alertmanager: bool = False) -> Callable[[Evidence], None]:
    """Prometheus' `alert_relabel_configs`, for all Alertmanagers or for its one."""
    told = {"alert_relabel_configs": list(steps)}
    return prometheus(
        "config", api({"yaml": json.dumps({"alerting": {"alertmanagers": [told]} if at_alertmanager else told})})
    )


def to_critical(name: str = "severity") -> dict[str, object]:
    return {"source_labels": [name], "regex": "page", "target_label": name, "replacement": "critical"}


ON_THE_WAY: dict[str, tuple[dict[str, object], str]] = {
    "phase dropped": ({"action": "labeldrop", "regex": "phase|rank"}, "take the label phase off LLMQueueBurn"),
    "severity dropped": ({"action": "labelkeep", "regex": "alertname|phase|job"}, "take the label severity off"),
    "severity renamed": (to_critical(), "make severity=critical of severity=page on LLMQueueBurn"),
    "phase renamed": ({"target_label": "phase", "replacement": "llm"}, "make phase=llm of phase=queue on LLMQueueBurn"),
    "phase in capitals": ({"action": "uppercase", "source_labels": ["phase"], "target_label": "phase"}, "make phase=QUEUE of"),
    "phase emptied": ({"source_labels": ["nothing"], "target_label": "phase"}, "take the label phase off"),
    "moved": ({"action": "labelmap", "regex": "(p)hase", "replacement": "${1}"}, ""),
    "name changed": ({"source_labels": ["alertname"], "regex": "LLM(.+)", "target_label": "alertname"}, "make alertname=QueueBurn of"),
    "pages dropped": ({"action": "drop", "source_labels": ["alertname", "severity"], "regex": "LLM.+;page"}, "pages: LLMQueueBurn, LLMPrefillBurn"),
    "one page dropped": ({"action": "drop", "source_labels": ["phase"], "regex": "decode"}, "drop 1 pages: LLMDecodeBurn"),
    "page of an engine dropped": ({"action": "drop", "source_labels": ["alertname"], "regex": "LLMEngineDown"}, "drop 1 pages: LLMEngineDown"),
    "ticket dropped": ({"action": "drop", "source_labels": ["severity"], "regex": "ticket"}, ""),
    "others kept": ({"action": "keep", "source_labels": ["team"], "regex": "web"}, "pages: LLMQueueBurn, LLMPrefillBurn"),
    "one half kept": ({"action": "hashmod", "source_labels": ["phase"], "modulus": 4, "target_label": "half"}, ""),
    "replica dropped": ({"action": "labeldrop", "regex": "prometheus_replica"}, ""),
    "severity as it is": ({"source_labels": ["severity"], "regex": "warning", "target_label": "severity", "replacement": "ticket"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("at_alertmanager", [False, True])
@pytest.mark.parametrize("name", ON_THE_WAY)
def test_what_alert_relabelling_takes_off_a_page_is_named(name: str, at_alertmanager: bool) -> None:
    step, words = ON_THE_WAY[name]
    evidence = sound()
    relabelling(step, at_alertmanager=at_alertmanager)(evidence)

    assert states(evidence)[State.BROKEN] == (["alerts-sent"] if words else [])
    assert words in said(evidence, Link.SENT)


def test_a_severity_that_routes_ask_for_may_be_made_on_the_way() -> None:
    """The team's word for pages. With the shipped routes they would go to the chat."""
    evidence = sound()
    relabelling(to_critical())(evidence)
    routed(**json.loads(json.dumps(routes()).replace('severity=\\"page\\"', 'severity=\\"critical\\"')))(evidence)

    assert states(evidence)[State.BROKEN] == []


def test_a_relabelling_that_is_not_known_leaves_it_unknown() -> None:
    evidence = sound()
    relabelling({"action": "shuffle"})(evidence)

    assert {"alerts-sent", "routes"} <= {*states(evidence)[State.UNKNOWN]}
    assert "the action shuffle" in said(evidence, Link.SENT)


def without_label(name: str) -> Callable[[Evidence], None]:
    """The loaded rules lack a label that the shipped ones have."""
    kept = [
        {**group, "rules": [{**rule, "labels": {key: of for key, of in rule["labels"].items() if key != name}} for rule in group["rules"]]}
        for group in groups()
    ]  # fmt: skip
    return prometheus("rules", api({"groups": kept}))


@pytest.mark.parametrize("change", [without_label("phase"), without_label("severity")])
def test_alerts_without_the_labels_that_routes_ask_for_are_named(change: Callable[[Evidence], None]) -> None:
    evidence = sound()
    change(evidence)

    assert "rules" in states(evidence)[State.BROKEN]
    assert "alerts lack the label phase or severity" in said(evidence, Link.RULES)


def with_severity(severity: str, *alerts: str) -> Callable[[Evidence], None]:
    """The loaded pages of these names, or of all, have another severity."""
    loaded = groups()
    for rule in (rule for group in loaded for rule in group["rules"]):
        if rule.get("labels", {}).get("severity") == "page" and (not alerts or rule["name"] in alerts):
            rule["labels"] = {**rule["labels"], "severity": severity}
    return prometheus("rules", api({"groups": loaded}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_severity("ticket", "LLMQueueBurn"), "1 alerts are pages or tickets where the shipped ones are not: LLMQueueBurn ->"),
        (with_severity("critical", "LLMEngineDown"), "shipped ones are not: LLMEngineDown ->"),
        (with_severity("ticket", "LLMPodBurn"), "shipped ones are not: LLMPodBurn ->"),
        (with_severity("ticket"), "14 alerts are pages or tickets"),
    ],
)  # fmt: skip
def test_a_page_that_was_made_a_ticket_is_named(change: Callable[[Evidence], None], words: str) -> None:
    evidence = sound()
    change(evidence)

    assert "rules" in states(evidence)[State.BROKEN]
    assert words in said(evidence, Link.RULES)


def test_pages_of_another_severity_than_routes_ask_for_are_named() -> None:
    """As rules of `--severity.page=critical` beside the shipped routes; routes that ask for it, or for none, are right."""
    of_others = {"receiver": "default-page", "matchers": ['severity="page"', 'team="web"']}
    asked = json.dumps(routes()).replace('severity=\\"page\\"', 'severity=\\"critical\\"')
    for config, broken in (
        (routes(), ["routes"]),
        (json.loads(asked), []),
        ({"route": {"receiver": "queue-page", "group_wait": "15s"}}, []),
        ({"route": {"receiver": "queue-page", "group_wait": "15s", "routes": [of_others]}}, []),
    ):
        evidence = sound()
        with_severity("critical")(evidence)
        routed(**config)(evidence)

        assert states(evidence)[State.BROKEN] == broken
        assert ("the page of queue has severity=critical" in said(evidence, Link.ROUTES)) == bool(broken)


@pytest.mark.parametrize("alert", ["LLMEngineDown", "LLMNothingComesBack", "LLMSidecarAbsent", "LLMPodBurn"])
@pytest.mark.parametrize("receiver", ["null", "engine-page"])
def test_the_way_of_each_page_of_a_pod_is_walked(alert: str, receiver: str) -> None:
    """A route of its own sends it nowhere, or late."""
    evidence, shipped = sound(), routes()
    own = {"receiver": receiver, "matchers": [f'alertname="{alert}"'], "group_wait": "1h"}
    routed(
        route={**shipped["route"], "routes": [own, *shipped["route"]["routes"]]},
        receivers=[*shipped["receivers"], {"name": "null"}],
    )(evidence)

    assert states(evidence)[State.BROKEN] == ["routes"]
    assert f"{alert} {'to' if receiver == 'null' else 'wait 3600 s'}" in said(evidence, Link.ROUTES)


def waiting(group_wait: str, *, archive: bool = False) -> Callable[[Evidence], None]:
    """All routes of pages wait so long; `archive`: a copy of each goes to a receiver that waits for an hour."""
    shipped = json.loads(json.dumps(routes()).replace('"group_wait": "15s"', f'"group_wait": "{group_wait}"'))
    first = [{"receiver": "queue-ticket", "continue": True, "group_wait": "1h"}] if archive else []
    return routed(route={**shipped["route"], "routes": [*first, *shipped["route"]["routes"]]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (waiting("1h"), "pages of queue wait 3600 s before they are sent to 'queue-page': its group_wait"),
        (waiting("90s"), "pages of queue wait 90 s"),
        (waiting("1m"), ""),
        (waiting("15s", archive=True), ""),
    ],
)
def test_a_page_that_waits_above_a_minute_for_its_group_is_named(
    change: Callable[[Evidence], None], words: str
) -> None:
    evidence = sound()
    change(evidence)

    assert states(evidence)[State.BROKEN] == (["routes"] if words else [])
    assert words in said(evidence, Link.ROUTES)


@pytest.mark.parametrize("name", ["lane", "model", "job", "namespace"])
def test_an_inhibition_across_engines_lanes_or_models_is_named(name: str) -> None:
    """As the routes of 0.1.0 had it: prefill of one lane hid decode of another."""
    evidence = sound()
    rules = json.loads(re.sub(f', "{name}"(?=[],])', "", json.dumps(routes()["inhibit_rules"])))
    routed(inhibit_rules=rules)(evidence)

    assert states(evidence)[State.BROKEN] == ["routes"]
    assert f"of one {name} mutes the page of " in said(evidence, Link.ROUTES)


ACCEPTED = COUNTED.replace("} 3", "} 4")


def after_a_test_page(grown: str, *receivers: dict[str, object]) -> Evidence:
    """A TEST page of the phase queue went to the first of these receivers; template files are not shown."""
    evidence = sound()
    queue = {"matchers": ["phase=queue"], "receiver": receivers[0]["name"]}
    config = {
        "route": {"receiver": receivers[-1]["name"], "routes": [queue]},
        "receivers": [*receivers],
        "templates": ["t/*.tmpl"],
    }
    alertmanager("status", status(config))(evidence)
    evidence.template_texts = None
    drilled(grown)(evidence)
    return evidence


def sends(name: str, template: str) -> dict[str, object]:
    return {"name": name, "slack_configs": [{"title": f'{{{{ template "{template}" . }}}}'}]}


@pytest.mark.parametrize(
    ("template", "state", "words"),
    [
        ("llm.title", State.OK, "with all 1 templates"),
        ("llm.other", State.UNKNOWN, "with 1 of them"),
    ],
)
def test_a_test_page_proves_the_templates_of_its_own_receivers(template: str, state: State, words: str) -> None:
    evidence = after_a_test_page(ACCEPTED, sends("queue", "llm.title"), sends("rest", template))
    (found,) = [one for one in examine(evidence) if one.link is Link.TEMPLATES]

    assert (found.state, words in found.said) == (state, True)


def test_a_test_page_that_no_receiver_sends_proves_nothing() -> None:
    evidence = after_a_test_page(COUNTED, {"name": "queue"}, sends("rest", "llm.title"))

    assert {"templates", "delivery"} <= {*states(evidence)[State.UNKNOWN]}
    assert states(evidence)[State.BROKEN] == ["routes"]
    assert said(evidence, Link.TEMPLATES).startswith("receivers name 1 templates")


@pytest.mark.parametrize(
    ("grown", "state"),
    [
        (ACCEPTED, State.OK),
        (COUNTED + 'alertmanager_notifications_failed_total{integration="slack"} 1\n', State.BROKEN),
        (COUNTED, State.UNKNOWN),
    ],
)
def test_what_a_test_page_shows_is_told_though_the_routes_of_other_pages_are_broken(grown: str, state: State) -> None:
    """A page that was not sent waits: the broken routes may be the cause."""
    evidence = after_a_test_page(grown, sends("queue", "llm.title"), {"name": "rest"})
    found = {one.link: one.state for one in examine(evidence)}

    assert (found[Link.ROUTES], found[Link.DELIVERY]) == (State.BROKEN, state)
