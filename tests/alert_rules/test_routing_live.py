"""A real Alertmanager with the shipped file: what arrives where, and what is held back by what.

Every wait is a sixtieth of the shipped one, so that two minutes are two seconds; addresses are the sink's.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import pytest

from sidecar.commands.demo.shipped import seconds_of
from tests.alert_rules.alert_table import ALERTS, PHASES, alert
from tests.support.alertmanager import Alertmanager, at_sink, running_alertmanager, shipped
from tests.support.sink import Notification, Sink, listening_sink


pytestmark = [pytest.mark.long, pytest.mark.timed]

WAITS_DIVIDED_BY = 60
ANNOTATIONS = {
    "summary": "interactive: TTFT budget burns 14x, 83 % of misses waited in queue",
    "description": "The requests that missed their objective waited for the scheduler.",
    "runbook_url": "http://sidecar:9901/runbooks/LLMQueueBurn",
    "dashboard_url": "http://grafana/d/llm?var-lane=interactive&var-model=llama",
}


@dataclass(frozen=True, slots=True)
class AlertmanagerStack:
    """The running server and all its receivers."""

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
        config = at_sink(shipped(), sink.url, folder, waits_divided_by=WAITS_DIVIDED_BY)
        with running_alertmanager(config, folder) as alertmanager:
            yield AlertmanagerStack(alertmanager, sink)


@pytest.fixture(scope="module")
def one_of_each(stack: AlertmanagerStack) -> dict[tuple[str, str], list[Notification]]:
    """The notifications of each receiver's webhook after one alert of every phase and severity fired, each in a lane of its own."""
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
    stack.fire(
        alert("LLMQueueBurn", "page").example(cluster="", namespace="chat", lane="interactive", objective="ttft")
    )
    (told,) = stack.sink.wait_for("/slack", about="namespace chat")
    (attachment,) = told.body["attachments"]

    assert told.body["channel"] == "#llm-queue"
    assert attachment["title"] == "[FIRING:1] LLMQueueBurn queue interactive"
    assert attachment["color"] == "danger"
    assert [word for word in ANNOTATIONS.values() if word not in attachment["text"]] == []


def test_the_pager_of_the_phase_gets_an_incident_that_says_everything(stack: AlertmanagerStack) -> None:
    stack.fire(alert("LLMDecodeBurn", "page").example(cluster="", namespace="pager", lane="batch", objective="tpot"))
    (told,) = stack.sink.wait_for("/pagerduty", about="namespace pager")
    event, incident = told.body, told.body["payload"]

    assert event["routing_key"] == "pagerduty-decode"
    assert incident["summary"] == ANNOTATIONS["summary"]
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


def lines(stack: AlertmanagerStack, path: str, namespace: str) -> list[set[str]]:
    """The lanes of each message to `path` about this namespace."""
    told = [labels_in(one) for one in stack.sink.at(path)]
    return [{one["lane"] for one in labels} for labels in told if labels[0].get("namespace") == namespace]


def test_lanes_objectives_and_models_of_one_incident_are_lines_of_one_message(stack: AlertmanagerStack) -> None:
    page = alert("LLMQueueBurn", "page")
    stack.fire(
        *(
            page.example(namespace="lines", job="llm", lane=lane, objective=objective)
            for lane in ("chat", "code")
            for objective in ("ttft", "tpot")
        ),
        page.example(namespace="lines", job="llm", lane="batch", model="other"),
        page.example(namespace="lines", job="llm-2", lane="elsewhere"),
    )
    stack.sink.wait_for("/queue/page", about=("lines", "elsewhere"))
    stack.sink.wait_for("/queue/page", about=("lines", "batch"))

    assert sorted(lines(stack, "/queue/page", "lines"), key=len) == [{"elsewhere"}, {"chat", "code", "batch"}]


def test_an_earlier_phase_and_a_page_mute_what_follows_from_them(stack: AlertmanagerStack) -> None:
    """A queue that prefill made in the same lane, and tickets of both. Free are another lane, another model, a pod of its own, an earlier
    phase and another engine.
    """
    here = {"namespace": "order", "job": "llm"}
    prefill, queue = (alert(name, "page").example(**here) for name in ("LLMPrefillBurn", "LLMQueueBurn"))
    pod = alert("LLMPodBurn", "page", "decode").example(**here, pod="llama-0")
    tickets = [
        *(alert(name, "ticket").example(**here) for name in ("LLMQueueBurn", "LLMEngineKvCacheFull")),
        alert("LLMQueueBurn", "ticket").example(**here, lane="code"),
    ]
    free = [
        prefill,
        pod,
        *(alert("LLMQueueBurn", "page").example(**here, **other) for other in ({"lane": "code"}, {"model": "small"})),
        alert("LLMStreamBurn", "ticket").example(**here),
        alert("LLMQueueBurn", "page").example(namespace="order", job="llm-2"),
    ]
    stack.fire(queue, *tickets, *free)

    assert [stack.alertmanager.wait_until_muted(one) for one in (queue, *tickets)] == [True] * 4
    assert [stack.alertmanager.muted(one) for one in free] == [False] * 6


@pytest.mark.parametrize("phase", ["engine", "sidecar"])
def test_an_engine_or_a_sidecar_that_fails_mutes_what_follows_in_all_lanes(
    stack: AlertmanagerStack, phase: str
) -> None:
    here = {"namespace": f"of-all-lanes-{phase}", "job": "llm"}
    source = alert(f"LLM{phase.capitalize()}Burn", "page").example(**here, lane="chat")
    others = [
        alert(name, "page").example(**here, lane="code", model="small") for name in ("LLMStreamBurn", "LLMQueueBurn")
    ]
    stack.fire(source, *others)

    assert [stack.alertmanager.wait_until_muted(one) for one in others] == [True, True]


def test_who_silences_one_lane_still_hears_of_the_others(stack: AlertmanagerStack) -> None:
    """A known slow client of one lane, silenced for hours. The same lane's queue stays muted, and its page says so."""
    here = {"namespace": "silenced", "job": "llm"}
    stream = alert("LLMStreamBurn", "page").example(**here, lane="batch")
    own, other = (alert("LLMQueueBurn", "page").example(**here, lane=lane) for lane in ("batch", "interactive"))
    stack.alertmanager.silence(alertname="LLMStreamBurn", namespace="silenced", lane="batch")
    stack.fire(stream, own, other)

    assert stack.alertmanager.wait_until_muted(own)
    stack.sink.wait_for("/queue/page", about=("silenced", "interactive"))
    told = [one for told in stack.sink.notifications for one in told.body.get("alerts", [])]
    assert [one["labels"] for one in told if one["labels"].get("namespace") == "silenced"] == [
        {name: value for name, value in other.items() if value}
    ]


def test_a_page_that_was_muted_at_its_groups_first_flush_comes_with_the_next_one(stack: AlertmanagerStack) -> None:
    """Up to a `group_interval` after what muted it is over, as alert_rules/README.md says."""
    here = {"namespace": "late", "job": "llm", "lane": "chat"}
    prefill, queue = (alert(name, "page").example(**here) for name in ("LLMPrefillBurn", "LLMQueueBurn"))
    stack.fire(prefill)
    stack.sink.wait_for("/prefill/page", about='"namespace": "late"')
    began = time.monotonic()
    stack.fire(queue)
    assert stack.alertmanager.wait_until_muted(queue)
    time.sleep(1)
    stack.fire(prefill, over=True)
    (told,) = stack.sink.wait_for("/queue/page", about='"namespace": "late"')
    page = shipped()["route"]["routes"][1]["routes"][0]
    wait, interval = (seconds_of(page[each]) / WAITS_DIVIDED_BY for each in ("group_wait", "group_interval"))

    assert interval <= told.arrived_at - began <= wait + interval + 1.5


def test_one_cluster_mutes_nothing_of_another_and_is_told_by_itself(stack: AlertmanagerStack) -> None:
    """Two clusters whose namespaces and jobs have the same names, and one Alertmanager."""
    here = {"namespace": "clusters", "job": "llm"}
    engine, prefill, starved, pod = (
        alert(*one) for one in (("LLMEngineBurn", "page"), ("LLMPrefillBurn", "page"), ("LLMSidecarStarved",), ("LLMPodBurn", "page", "decode"))
    )  # fmt: skip
    muted = [one.example(**here, cluster="us") for one in (prefill, pod)]
    free = [one.example(**here, cluster="eu") for one in (prefill, pod)]
    stack.fire(*(one.example(**here, cluster="us") for one in (engine, starved)), *muted, *free)

    assert [stack.alertmanager.wait_until_muted(one) for one in muted] == [True, True]
    assert [stack.alertmanager.muted(one) for one in free] == [False, False]
    stack.fire(prefill.example(**here, cluster="ap"))
    told = [
        {one["cluster"] for one in labels_in(each)}
        for cluster in ("eu", "ap")
        for each in stack.sink.wait_for("/prefill/page", about=f'"cluster": "{cluster}"')
    ]
    assert told == [{"eu"}, {"ap"}]
    (chat,) = stack.sink.wait_for("/slack", about="LLMPrefillBurn prefill some-lane, cluster eu")
    assert "cluster eu, namespace clusters" in chat.body["attachments"][0]["text"]


def test_the_label_of_a_replica_parts_no_message_and_no_inhibition(stack: AlertmanagerStack) -> None:
    """An HA pair that leaves the label on its alerts: their lines are there twice, and nothing is told that would be muted."""
    here = {"namespace": "pair", "job": "llm"}
    engine, queue = (alert(name, "page").example(**here) for name in ("LLMEngineBurn", "LLMQueueBurn"))
    halves = [{"prometheus_replica": half} for half in ("a", "b")]
    stack.fire(*(engine | half for half in halves), queue | halves[1])

    assert stack.alertmanager.wait_until_muted(queue | halves[1])
    (told,) = stack.sink.wait_for("/engine/page", about='"namespace": "pair"')
    assert sorted(one["prometheus_replica"] for one in labels_in(told)) == ["a", "b"]


def test_a_starved_sidecar_mutes_its_own_pods_pages_and_nothing_elses(stack: AlertmanagerStack) -> None:
    here = {"namespace": "starved", "job": "llm"}
    mine = alert("LLMPodBurn", "page", "decode").example(**here, pod="llama-0")
    free = [mine | {"pod": "llama-1"}, alert("LLMDecodeBurn", "page").example(**here | {"job": "llm-2"})]
    stack.fire(alert("LLMSidecarStarved").example(**here, pod="llama-0"), mine, *free)

    assert stack.alertmanager.wait_until_muted(mine)
    assert [stack.alertmanager.muted(one) for one in free] == [False, False]


def test_an_alert_that_lost_its_job_or_pod_mutes_nothing(stack: AlertmanagerStack) -> None:
    """The footgun: for Alertmanager a label that is missing on both sides is equal."""
    here = {"namespace": "lost", "job": "llm"}
    bystanders = [
        alert("LLMQueueBurn", "page").example(namespace="lost", job=""),
        alert("LLMPodBurn", "page", "queue").example(**here, pod=""),
    ]
    same_pod = alert("LLMPodBurn", "page", "queue").example(**here, pod="llama-0")
    stack.fire(
        alert("LLMPrefillBurn", "page").example(namespace="lost", job=""),
        *(alert("LLMEngineDown").example(**here, pod=pod) for pod in ("", "llama-0")),
        same_pod,
        *bystanders,
    )

    assert stack.alertmanager.wait_until_muted(same_pod)
    assert [stack.alertmanager.muted(one) for one in bystanders] == [False, False]


def test_of_every_two_pages_at_once_at_least_one_is_told(stack: AlertmanagerStack) -> None:
    """On one engine and one pod, whatever the two faults are."""
    pages = [one for one in ALERTS if one.severity == "page" and one.labels]
    pairs = {f"pair-{at}": pair for at, pair in enumerate(combinations(pages, 2))}
    stack.fire(
        *(
            one.example(namespace=namespace, job="llm", pod="llama-0", lane="chat", objective="ttft", model="llama")
            for namespace, pair in pairs.items()
            for one in pair
        )
    )
    silent = set(pairs)
    deadline = time.monotonic() + 60
    while silent and time.monotonic() < deadline:
        time.sleep(0.2)
        silent -= {namespace for told in list(stack.sink.notifications) for namespace in namespaces_in(told)}

    assert len(pairs) > 150
    assert {namespace: pairs[namespace] for namespace in silent} == {}


def namespaces_in(told: Notification) -> set[str]:
    """Fields of a webhook's message; chats and pagers get text."""
    return {one["labels"].get("namespace", "") for one in told.body.get("alerts", [])}
