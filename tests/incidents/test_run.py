"""The notifications of a run are right or wrong by their receiver."""

from bench.incidents.notifications import COUNTED_SECONDS, Told
from bench.incidents.run import judged


FAULT_AT, HEALS_AT = 600.0, 1200.0


def told(at: float, receiver: str, alert: str = "LLMQueueBurn") -> Told:
    """A notification with one firing alert, of a group of its own."""
    group = frozenset({("phase", receiver), ("alert", alert)})
    return Told(at, receiver, "firing", group, frozenset({frozenset({("alertname", alert)})}), frozenset())


def test_a_page_is_right_at_the_receiver_of_an_injected_phase_and_unattributed_is_neither() -> None:
    pages = [told(700.0 + number, f"{phase}-page") for number, phase in enumerate(("queue", "engine", "unattributed"))]

    assert judged([*pages, told(720.0, "queue-ticket")], FAULT_AT, HEALS_AT, frozenset({"queue"})) == (1, 1)
    assert judged(pages, FAULT_AT, HEALS_AT, frozenset({"queue", "engine"})) == (2, 0)


def test_only_new_notifications_of_the_incident_count() -> None:
    early, page = told(500.0, "queue-page", "LLMPodBurn"), told(700.0, "queue-page")
    again, late = told(760.0, "queue-page"), told(HEALS_AT + COUNTED_SECONDS + 1.0, "engine-page")

    assert judged([early, page, again, late], FAULT_AT, HEALS_AT, frozenset({"queue"})) == (1, 0)
