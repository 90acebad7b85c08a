"""The log of incidents keeps the last twenty: instants, roots, votes and evidence."""

import json

from sidecar.history.incident_log import INCIDENTS_KEPT, IncidentLog


NOON = 1_790_000_000.0
VOTES = {"prefill": 81.5, "unattributed": 4.5}
EVIDENCE = {"prefill_cost": 2.2, "load": 1.0}


def test_an_incident_has_its_beginning_its_roots_and_its_votes() -> None:
    """Prompts get dear at noon; the first seconds look like load; twelve minutes later it is over."""
    log = IncidentLog()
    log.opened(NOON, "queue", "load")
    log.changed(NOON + 40, "prefill", "prefill_cost")
    (live,) = log.as_json()
    log.closed(NOON + 720, VOTES, EVIDENCE)

    (found,) = json.loads(json.dumps(log.as_json()))

    assert (live["phase"], live["ended_timestamp_seconds"], live["votes"]) == ("prefill", None, {})
    assert found == {
        "began_timestamp_seconds": NOON,
        "ended_timestamp_seconds": NOON + 720,
        "phase": "prefill",
        "cause": "prefill_cost",
        "leads": [
            {"timestamp_seconds": NOON, "phase": "queue", "cause": "load"},
            {"timestamp_seconds": NOON + 40, "phase": "prefill", "cause": "prefill_cost"},
        ],
        "votes": VOTES,
        "evidence_ratios": EVIDENCE,
    }


def test_the_newest_comes_first_and_the_last_twenty_are_kept() -> None:
    log = IncidentLog()
    for number in range(INCIDENTS_KEPT + 5):
        log.opened(NOON + 100 * number, "queue", "load")
        log.closed(NOON + 100 * number + 50, {}, {})

    began = [one["began_timestamp_seconds"] for one in log.as_json()]

    assert len(began) == INCIDENTS_KEPT == 20
    assert began == sorted(began, reverse=True)
    assert began[0] == NOON + 100 * (INCIDENTS_KEPT + 4)


def test_the_same_root_told_again_is_no_change() -> None:
    log = IncidentLog()
    log.opened(NOON, "queue", "load")
    log.changed(NOON + 15, "queue", "load")

    assert len(log.as_json()[0]["leads"]) == 1


def test_calls_in_any_order_harm_nothing() -> None:
    """The end of an incident that never began is nothing; a second beginning is a change of the open one."""
    log = IncidentLog()
    log.closed(NOON, VOTES, EVIDENCE)
    log.changed(NOON, "queue", "load")
    nothing = log.as_json()
    log.opened(NOON, "queue", "load")
    log.opened(NOON + 10, "engine", "down")

    (found,) = log.as_json()

    assert (nothing, found["phase"], found["began_timestamp_seconds"]) == ([], "engine", NOON)
