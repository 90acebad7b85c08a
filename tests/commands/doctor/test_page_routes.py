"""The outcome of a TEST page: what it shows of the delivery and of the templates, and what it leaves open."""

from collections.abc import Callable

import pytest

from sidecar.commands.asking import Reply
from sidecar.commands.doctor.examination import examine
from sidecar.commands.doctor.gathered import Evidence
from sidecar.commands.doctor.links import Link, State
from tests.commands.doctor.one_change import NO_ANSWER, alertmanager, drilled, routed, said, states
from tests.commands.doctor.sound_evidence import COUNTED, TARGET, routes, sound, status


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


LOCKED = Reply("http://am/metrics", 401, failure="asks for a user and a password")
OVER = "; it could not be resolved, and ends by itself within ten minutes"
LATE = "the TEST page was not sent by pagerduty, slack, webhook within 20 s"


@pytest.mark.parametrize(
    ("grown", "replies", "state", "words"),
    [
        (
            COUNTED,
            {"posted": Reply("http://am", 400, b"bad")},
            State.BROKEN,
            "did not take the TEST alert: http://am answers 400: bad",
        ),
        (COUNTED, {"posted": NO_ANSWER}, State.UNKNOWN, f"is not known to have taken the TEST alert: {NO_ANSWER.told}"),
        (COUNTED, {"posted": NO_ANSWER, "resolved": NO_ANSWER}, State.UNKNOWN, OVER),
        (COUNTED, {"before": LOCKED, "after": LOCKED}, State.UNKNOWN, LOCKED.told),
        (ACCEPTED, {"after": NO_ANSWER}, State.UNKNOWN, NO_ANSWER.told),
        (COUNTED, {"resolved": NO_ANSWER}, State.BROKEN, f"{LATE}{OVER}"),
        (ACCEPTED, {"resolved": NO_ANSWER}, State.OK, OVER),
        (COUNTED, {"posted": Reply("", 400), "resolved": Reply("", 400)}, State.BROKEN, "answers 400"),
    ],
)
def test_each_outcome_of_a_test_page_is_told(grown: str, replies: dict[str, Reply], state: State, words: str) -> None:
    evidence = sound()
    drilled(grown, **replies)(evidence)
    (found,) = [one for one in examine(evidence) if one.link is Link.DELIVERY]

    assert (found.state, found.said.endswith(words)) == (state, True), found.said


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
