"""A real Alertmanager with the shipped file: what arrives where, and what is held back by what.

Every wait is a sixtieth of the shipped one, so that two minutes are two seconds; addresses are the sink's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.alert_rules.alert_table import ALERTS, PHASES, alert
from tests.support.alertmanager import Alertmanager, at_sink, running_alertmanager, shipped
from tests.support.sink import Notification, Sink, listening_sink


ANNOTATIONS = {
    "summary": "interactive: TTFT budget burns 14x, 83 % of misses waited in queue",
    "description": "The requests that missed their objective waited for the scheduler.",
    "runbook_url": "http://sidecar:9901/runbooks/LLMQueueBurn",
    "dashboard_url": "http://grafana/d/llm?var-lane=interactive&var-model=llama",
}


@dataclass(frozen=True, slots=True)
class AlertmanagerStack:
    """The running server and everybody whom it tells."""

    alertmanager: Alertmanager
    sink: Sink

    def fire(self, *alerts: dict[str, str], over: bool = False) -> None:
        self.alertmanager.fire(alerts, annotations=ANNOTATIONS, over=over)


def labels_in(told: Notification) -> list[dict[str, str]]:
    return [one["labels"] for one in told.body["alerts"]]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertmanagerStack]:
    """One server for all scenarios; each has a namespace of its own, and no rule reaches across namespaces."""
    folder = tmp_path_factory.mktemp("alertmanager")
    with listening_sink() as sink:
        config = at_sink(shipped(), sink.url, folder, waits_divided_by=60)
        with running_alertmanager(config, folder) as alertmanager:
            yield AlertmanagerStack(alertmanager, sink)


@pytest.fixture(scope="module")
def one_of_each(stack: AlertmanagerStack) -> dict[tuple[str, str], list[Notification]]:
    """What each receiver's webhook got after one alert of every phase and severity fired, each in a lane of its own."""
    kinds = [(phase, severity) for phase in PHASES for severity in ("page", "ticket")]
    # A page and a ticket of one phase in different lanes, so that none is muted.
    stack.fire(
        *(
            {
                "alertname": f"LLM{phase}",
                "phase": phase,
                "severity": severity,
                "lane": f"{phase}-{severity}",
                "objective": "ttft",
                "namespace": "one-of-each",
            }
            for phase, severity in kinds
        )
    )
    return {(phase, severity): stack.sink.wait_for(f"/{phase}/{severity}") for phase, severity in kinds}


@pytest.mark.parametrize("severity", ["page", "ticket"])
@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_arrives_at_its_own_receiver(
    one_of_each: dict[tuple[str, str], list[Notification]], phase: str, severity: str
) -> None:
    arrived = [one for told in one_of_each[phase, severity] for one in labels_in(told)]

    assert {one["lane"] for one in arrived if one["namespace"] == "one-of-each"} == {f"{phase}-{severity}"}


def test_the_chat_of_the_phase_gets_a_message_that_says_everything(stack: AlertmanagerStack) -> None:
    stack.fire(alert("LLMQueueBurn", "page").example(namespace="chat", lane="interactive", objective="ttft"))
    (told,) = stack.sink.wait_for("/slack", about="namespace chat")
    (attachment,) = told.body["attachments"]

    assert told.body["channel"] == "#llm-queue"
    assert attachment["title"] == "[FIRING:1] LLMQueueBurn queue interactive"
    assert attachment["color"] == "danger"
    assert [word for word in ANNOTATIONS.values() if word not in attachment["text"]] == []


def test_the_pager_of_the_phase_gets_an_incident_that_says_everything(stack: AlertmanagerStack) -> None:
    stack.fire(alert("LLMDecodeBurn", "page").example(namespace="pager", lane="batch", objective="tpot"))
    (told,) = stack.sink.wait_for("/pagerduty", about="namespace pager")
    event, incident = told.body, told.body["payload"]

    assert event["routing_key"] == "pagerduty-decode"
    assert incident["summary"] == f"[FIRING:1] LLMDecodeBurn decode batch: {ANNOTATIONS['summary']}"
    assert (incident["class"], incident["component"], incident["group"]) == ("decode", "batch", "pager")
    assert incident["severity"] == "critical"
    assert [link["href"] for link in event["links"]] == [ANNOTATIONS["runbook_url"], ANNOTATIONS["dashboard_url"]]
    assert incident["custom_details"]["runbook"] == ANNOTATIONS["runbook_url"]


def test_who_heard_that_it_began_hears_that_it_is_over(stack: AlertmanagerStack) -> None:
    page = alert("LLMStreamBurn", "page").example(namespace="over", lane="code", objective="tpot")
    stack.fire(page)
    stack.sink.wait_for("/stream/page", about="over")
    stack.fire(page, over=True)
    (webhook,) = stack.sink.wait_for("/stream/page", about='"status": "resolved"')
    (slack,) = stack.sink.wait_for("/slack", about="[RESOLVED] LLMStreamBurn stream code")
    (pager,) = stack.sink.wait_for("/pagerduty", about='"event_action": "resolve"')

    assert [one["namespace"] for one in labels_in(webhook)] == ["over"]
    assert [one["color"] for one in slack.body["attachments"]] == ["good"]
    assert pager.body["routing_key"] == "pagerduty-stream"


def test_a_stranger_is_told_to_the_default_receiver(stack: AlertmanagerStack) -> None:
    stack.fire({"alertname": "LLMWarp", "phase": "warp", "severity": "page", "namespace": "strangers"})
    (told,) = stack.sink.wait_for("/default/page", about="strangers")

    assert [one["alertname"] for one in labels_in(told)] == ["LLMWarp"]


def test_the_watchdog_is_told_at_once_and_again_and_again(stack: AlertmanagerStack) -> None:
    stack.fire(alert("Watchdog").example())
    heard = stack.sink.wait_for("/llm", at_least=2)

    assert len(heard) >= 2
    assert {one["alertname"] for told in heard for one in labels_in(told)} == {"Watchdog"}


def test_a_page_mutes_the_ticket_of_the_same_objective_and_no_other(stack: AlertmanagerStack) -> None:
    page, ticket = alert("LLMQueueBurn", "page"), alert("LLMQueueBurn", "ticket")
    here = {"namespace": "severities", "model": "llama", "lane": "interactive"}
    stack.fire(
        page.example(**here, objective="ttft"),
        ticket.example(**here, objective="ttft"),
        ticket.example(**here, objective="e2e"),
        ticket.example(**{**here, "lane": "batch"}, objective="ttft"),
        ticket.example(**{**here, "model": "qwen"}, objective="ttft"),
        alert("LLMPrefillBurn", "ticket").example(**here, objective="ttft"),
    )
    # Each of these is a group of its own; once all have been told, the muted one has had its time too.
    for words in ('"lane": "batch"', '"model": "qwen"', '"objective": "e2e"'):
        stack.sink.wait_for("/queue/ticket", about=("severities", words))
    stack.sink.wait_for("/prefill/ticket", about="severities")

    assert lanes_told(stack, "/queue/page", "severities") == {("llama", "interactive", "ttft")}
    assert lanes_told(stack, "/queue/ticket", "severities") == {
        ("llama", "interactive", "e2e"),
        ("llama", "batch", "ttft"),
        ("qwen", "interactive", "ttft"),
    }
    assert lanes_told(stack, "/prefill/ticket", "severities") == {("llama", "interactive", "ttft")}
    assert stack.alertmanager.muted(ticket.example(**here, objective="ttft"))


def lanes_told(stack: AlertmanagerStack, path: str, namespace: str) -> set[tuple[str, str, str]]:
    """Model, lane and objective of everything that `path` was told about this namespace."""
    arrived = [one for told in stack.sink.at(path) for one in labels_in(told)]
    return {(one["model"], one["lane"], one["objective"]) for one in arrived if one["namespace"] == namespace}


ENGINE_FAULTS = [
    "LLMEngineDown",
    "LLMEngineRestarted",
    "LLMEnginePreempting",
    "LLMEngineKvCacheFull",
    "LLMNothingComesBack",
]


@pytest.mark.parametrize("fault", ENGINE_FAULTS)
def test_a_broken_engine_mutes_its_own_pods_phases_and_nobody_elses(stack: AlertmanagerStack, fault: str) -> None:
    namespace = f"pods-{fault}".lower()
    cause = alert(fault).example(namespace=namespace, pod="llama-0")
    bursts = alert("LLMEventsInBursts").example(namespace=namespace, pod="llama-0")
    cold = alert("LLMPrefixCacheCollapsed").example(namespace=namespace, pod="llama-0")
    free = {
        "another pod": bursts | {"pod": "llama-1"},
        "another namespace": bursts | {"namespace": f"{namespace}-2"},
        "the lane's page": alert("LLMQueueBurn", "page").example(namespace=namespace),
        "the lane's ticket": alert("LLMPromptsGrowing").example(namespace=namespace),
        "another word about this engine": alert("LLMOutlierReplica").example(namespace=namespace, pod="llama-0"),
    }
    if fault == "LLMEngineDown":
        # It mutes those too, which is the next scenario.
        del free["another word about this engine"]
    stack.fire(cause, bursts, cold, *free.values())

    assert [stack.alertmanager.wait_until_muted(one) for one in (bursts, cold)] == [True, True]
    assert [name for name, one in free.items() if stack.alertmanager.muted(one)] == []
    assert not stack.alertmanager.muted(cause)


def test_an_engine_that_is_down_mutes_every_other_word_about_this_pods_engine(stack: AlertmanagerStack) -> None:
    down = alert("LLMEngineDown").example(namespace="down", pod="llama-0")
    others = [
        alert(name).example(namespace="down", pod="llama-0") for name in (*ENGINE_FAULTS[1:], "LLMOutlierReplica")
    ]
    elsewhere = [one | {"pod": "llama-1"} for one in others]
    stack.fire(down, *others, *elsewhere)

    assert [stack.alertmanager.wait_until_muted(one) for one in others] == [True] * 5
    assert [stack.alertmanager.muted(one) for one in elsewhere] == [False] * 5


def test_a_sidecar_that_is_down_mutes_this_pods_sidecar_tickets(stack: AlertmanagerStack) -> None:
    tickets = [one for one in ALERTS if one.phase == "sidecar" and one.severity == "ticket"]
    of_pods = [one.example(namespace="sidecars", pod="llama-0") for one in tickets if "pod" in one.labels]
    of_lanes = [one.example(namespace="sidecars") for one in tickets if "pod" not in one.labels]
    stack.fire(alert("LLMSidecarDown").example(namespace="sidecars", pod="llama-0"), *of_pods, *of_lanes)

    assert [one["alertname"] for one in of_pods if not stack.alertmanager.wait_until_muted(one)] == []
    assert [one["alertname"] for one in of_lanes] == ["LLMAttributionLow"]
    assert not stack.alertmanager.muted(of_lanes[0])


def test_an_alert_that_lost_its_pod_mutes_nobody(stack: AlertmanagerStack) -> None:
    """The footgun: for Alertmanager a label that is missing on both sides is equal."""
    lost, whole = (alert("LLMEngineDown").example(namespace="lost", pod=pod) for pod in ("", "llama-0"))
    bystanders = [
        alert("LLMQueueBurn", "page").example(namespace="lost"),
        alert("LLMPromptsGrowing").example(namespace="lost"),
        alert("LLMEventsInBursts").example(namespace="lost", pod=""),
    ]
    same_pod = alert("LLMEventsInBursts").example(namespace="lost", pod="llama-0")
    stack.fire(lost, whole, same_pod, *bystanders)

    assert stack.alertmanager.wait_until_muted(same_pod)
    assert [stack.alertmanager.muted(one) for one in bystanders] == [False] * 3
