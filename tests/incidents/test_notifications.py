"""New notifications are counted as they are defined, and the shipped file is refused if runs could meet in it."""

from pathlib import Path

import pytest

from bench.incidents.notifications import Counted, Told, config_for, counted, new_of, replay
from bench.incidents.prometheus import Spell
from tests.support.alertmanager import shipped


def alert(name: str, lane: str = "chat") -> frozenset[tuple[str, str]]:
    return frozenset({"alertname": name, "lane": lane}.items())


def told(at: float, *firing: frozenset[tuple[str, str]], receiver: str = "queue-page", group: str = "queue") -> Told:
    """A notification with these alerts; without any, that its group is resolved."""
    status = "firing" if firing else "resolved"
    return Told(at, receiver, status, frozenset({("phase", group)}), frozenset(firing), frozenset())


A, B = alert("LLMQueueBurn"), alert("LLMQueueBurn", "code")


def test_the_first_notification_of_a_group_is_new_and_its_repetition_is_not() -> None:
    first, again = told(60.0, A), told(120.0, A)

    assert new_of([first, again]) == [first]


def test_an_alert_that_the_receiver_has_not_seen_is_new() -> None:
    first, more = told(60.0, A), told(120.0, A, B)

    assert new_of([first, more]) == [first, more]


def test_an_alert_that_leaves_a_group_is_nothing_new() -> None:
    both, one, both_again = told(60.0, A, B), told(120.0, A), told(180.0, A, B)

    assert new_of([both, one, both_again]) == [both]


def test_a_resolved_group_that_opens_again_is_new() -> None:
    first, over, again = told(60.0, A), told(120.0), told(600.0, A)

    assert new_of([first, over, again]) == [first, again]


def test_another_receiver_and_another_group_are_new() -> None:
    first = told(60.0, A)
    elsewhere = told(61.0, A, receiver="engine-page")
    other_group = told(62.0, A, group="prefill")

    assert new_of([first, elsewhere, other_group]) == [first, elsewhere, other_group]


def test_what_is_told_before_the_injection_or_long_after_the_heal_does_not_count() -> None:
    """The receiver knows already what it was told before, so that this is nothing new later."""
    early, again = told(500.0, A), told(700.0, A)
    ticket = told(720.0, B, receiver="queue-ticket")
    page = told(730.0, A, receiver="engine-page", group="engine")
    last, too_late = told(2100.0, A, B), told(2101.0, A, receiver="stream-page")

    found = counted([early, again, ticket, page, last, too_late], 600.0, 1200.0)

    assert found == Counted(receivers=2, new=3, new_pages=2, after_heal=0)


def test_a_receiver_that_hears_only_that_all_is_over_is_not_woken() -> None:
    assert counted([told(500.0, A), told(700.0)], 600.0, 1200.0) == Counted(0, 0, 0, 0)


def test_a_receiver_that_hears_first_after_the_heal_is_woken_by_another_phase() -> None:
    """The lanes that page late are no other phase: their receiver knows already, or none was told before."""
    queue, prefill = told(700.0, A), told(1300.0, B, receiver="prefill-page", group="prefill")
    queue_again = told(1310.0, A, B)

    assert counted([queue, prefill, queue_again], 600.0, 1200.0).after_heal == 1
    assert counted([queue, queue_again], 600.0, 1200.0).after_heal == 0
    assert counted([prefill], 600.0, 1200.0).after_heal == 0
    late = told(1290.0, A)
    assert counted([late, prefill], 600.0, 1200.0).after_heal == 1


# --- the file ----------------------------------------------------------------------------------------------------------


def test_every_receiver_of_the_shipped_file_becomes_a_webhook_of_its_name(tmp_path: Path) -> None:
    found = config_for(shipped(), "http://sink", tmp_path, 60.0)

    assert {each["name"] for each in found["receivers"]} == {each["name"] for each in shipped()["receivers"]}
    assert all(set(each) == {"name", "webhook_configs"} for each in found["receivers"])
    assert found["receivers"][1]["webhook_configs"] == [{"url": "http://sink/default-page", "send_resolved": True}]


def test_every_wait_of_the_shipped_file_is_divided_by_the_same_factor(tmp_path: Path) -> None:
    """Tickets wait 2 min, 10 min and 24 h; pages 15 s, 5 min and 4 h."""
    route = config_for(shipped(), "http://sink", tmp_path, 60.0)["route"]
    page = route["routes"][1]["routes"][0]

    assert [route[each] for each in ("group_wait", "group_interval", "repeat_interval")] == [
        "2000ms",
        "10000ms",
        "1440000ms",
    ]
    assert [page[each] for each in ("group_wait", "group_interval", "repeat_interval")] == [
        "250ms",
        "5000ms",
        "240000ms",
    ]


def test_a_file_in_which_runs_could_meet_is_refused(tmp_path: Path) -> None:
    grouped, muted = shipped(), shipped()
    grouped["route"]["group_by"] = ["alertname"]
    muted["inhibit_rules"][1]["equal"] = ["pod"]

    with pytest.raises(ValueError, match="without namespace"):
        config_for(grouped, "http://sink", tmp_path, 60.0)
    with pytest.raises(ValueError, match="across namespaces"):
        config_for(muted, "http://sink", tmp_path, 60.0)


def test_without_alertmanager_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(RuntimeError, match="Debian package prometheus-alertmanager"):
        replay({"run": [Spell({"alertname": "A"}, 0.0, 60.0)]})
