"""A real Alertmanager is told the alerts of several made-up runs at once, sixty times as fast as in life."""

import pytest

from bench.incidents.notifications import Counted, Replay, Told, counted, replay
from bench.incidents.prometheus import Spell
from tests.alert_rules.alert_table import alert
from tests.support.tools import need_tool


pytestmark = [pytest.mark.live, pytest.mark.timed]

PAGE = {"namespace": "serving", "model": "llama", "lane": "chat", "objective": "ttft"}
FAULT_AT = 1200.0


@pytest.fixture(scope="module")
def found() -> Replay[str]:
    """Notifications of six runs; each begins 0.1 s of real time after the one before."""
    need_tool("prometheus-alertmanager")
    queue, ticket = (alert("LLMQueueBurn", severity) for severity in ("page", "ticket"))
    prefill = alert("LLMPrefillBurn", "page").example(**PAGE)
    pod = {"namespace": "serving", "pod": "llm-0"}
    long = (1260.0, 1860.0)
    return replay(
        {
            "one page": [Spell(queue.example(**PAGE), *long), Spell(alert("Watchdog").example(), 0.0, 3000.0)],
            "the same page": [Spell(queue.example(**PAGE), *long)],
            "a lane's two objectives": [
                Spell(queue.example(**PAGE), *long),
                Spell(queue.example(**PAGE | {"objective": "tpot"}), 1365.0, 1860.0),
            ],
            "two phases": [Spell(queue.example(**PAGE), 1260.0, 1380.0), Spell(prefill, 1380.0, 1860.0)],
            "a muted ticket": [Spell(queue.example(**PAGE), *long), Spell(ticket.example(**PAGE), 1320.0, 1860.0)],
            "a muted pod": [
                Spell(alert("LLMEngineDown").example(**pod), *long),
                Spell(alert("LLMEventsInBursts").example(**pod), 1320.0, 1860.0),
            ],
            "silence": [],
        },
        linger_seconds=240.0,
    )


def words(told: list[Told]) -> list[tuple[str, str, int]]:
    return [(each.receiver, each.status, len(each.firing)) for each in told]


def test_a_page_is_told_after_its_groups_wait_and_again_when_it_is_over(found: Replay[str]) -> None:
    """The group waits for 15 s, and tells its end within a minute; each of these takes a real moment besides."""
    first, last = found.told["one page"]

    assert words([first, last]) == [("queue-page", "firing", 1), ("queue-page", "resolved", 0)]
    assert 1270.0 <= first.at <= 1300.0
    assert 1855.0 <= last.at <= 1945.0
    assert found.late_seconds < 15.0


def test_runs_of_the_same_alerts_do_not_meet(found: Replay[str]) -> None:
    assert words(found.told["the same page"]) == words(found.told["one page"])
    assert found.told["silence"] == []
    namespaces = {dict(each.group)["namespace"] for told in found.told.values() for each in told}
    assert len(namespaces) == 6


def test_a_second_objective_is_a_new_notification_of_the_same_group(found: Replay[str]) -> None:
    assert words(found.told["a lane's two objectives"])[:2] == [
        ("queue-page", "firing", 1),
        ("queue-page", "firing", 2),
    ]
    assert counted(found.told["a lane's two objectives"], FAULT_AT, 1800.0) == Counted(1, 2, 2)


def test_a_page_that_changes_its_phase_wakes_a_second_receiver(found: Replay[str]) -> None:
    firing = [each.receiver for each in found.told["two phases"] if each.status == "firing"]

    assert firing == ["queue-page", "prefill-page"]
    assert counted(found.told["two phases"], FAULT_AT, 1800.0) == Counted(2, 2, 2)


def test_inhibition_holds_within_a_run(found: Replay[str]) -> None:
    assert {each.receiver for each in found.told["a muted ticket"]} == {"queue-page"}
    assert {each.receiver for each in found.told["a muted pod"]} == {"engine-page"}
