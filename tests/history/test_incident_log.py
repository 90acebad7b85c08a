"""The log of incidents keeps the last twenty: instants, roots, votes and evidence."""

import json

from sidecar.history.incident_log import INCIDENTS_KEPT, IncidentLog


NOON = 1_790_000_000.0
DEAR = "prefill", "prefill_cost"


def tell(
    log: IncidentLog, after: float, root: tuple[str, str] = DEAR, *signs: str, began: float = 0.0, **ratios: float
) -> None:
    log.goes_on(NOON + after, root, began_at_unix=NOON + began, votes={root[0]: after}, ratios=ratios, signs=signs)


def test_an_incident_has_its_beginning_its_roots_and_its_votes() -> None:
    """Prompts get dear at noon; the first seconds look like load; twelve minutes later it is over."""
    log = IncidentLog()
    tell(log, 5, ("queue", "load"))
    tell(log, 45, DEAR)
    tell(log, 715, DEAR)
    told = {"size": {"ratio": 2.2, "low": 2.0, "high": 2.4, "per": "token"}, "confidence": 0.9}
    log.goes_on(NOON + 715, DEAR, began_at_unix=NOON, votes={"prefill": 715}, ratios={}, told=told)
    (live,) = log.as_json()
    log.closed(NOON + 720)

    (found,) = json.loads(json.dumps(log.as_json()))

    assert (live["phase"], live["ended_timestamp_seconds"], live["votes"]) == ("prefill", None, {"prefill": 715})
    assert found == {
        "began_timestamp_seconds": NOON,
        "ended_timestamp_seconds": NOON + 720,
        "phase": "prefill",
        "cause": "prefill_cost",
        "size": {"ratio": 2.2, "low": 2.0, "high": 2.4, "per": "token"},
        "confidence": 0.9,
        "leads": [
            {"timestamp_seconds": NOON + 5, "phase": "queue", "cause": "load"},
            {"timestamp_seconds": NOON + 45, "phase": "prefill", "cause": "prefill_cost"},
        ],
        "votes": {"prefill": 715},
        "evidence_ratios": {},
        "signs": [],
    }


def test_the_evidence_is_the_largest_that_was_seen() -> None:
    """After the heal all ratios are 1 again, or near 0 without traffic, and nothing is full: that would tell nothing of the
    incident. A cost may be below 0 by noise."""
    log = IncidentLog()
    tell(log, 5, DEAR, "kv_full", prefill_cost=1.4, load=1.0)
    tell(log, 10, DEAR, "mute", prefill_cost=2.2, load=0.4)
    tell(log, 15, DEAR, prefill_cost=-0.1, load=1.5)
    tell(log, 18, DEAR, prefill_cost=1.0, load=1e-6)
    log.closed(NOON + 20)

    (found,) = log.as_json()

    assert found["evidence_ratios"] == {"prefill_cost": 2.2, "load": 1.5}
    assert found["signs"] == ["kv_full", "mute"]


def test_the_newest_comes_first_and_the_last_twenty_are_kept() -> None:
    log = IncidentLog()
    for number in range(INCIDENTS_KEPT + 5):
        tell(log, 100 * number, began=100 * number)
        log.closed(NOON + 100 * number + 50)

    began = [one["began_timestamp_seconds"] for one in log.as_json()]

    assert len(began) == INCIDENTS_KEPT == 20
    assert began == sorted(began, reverse=True)
    assert began[0] == NOON + 100 * (INCIDENTS_KEPT + 4)


def test_an_end_without_an_incident_is_nothing() -> None:
    log = IncidentLog()
    log.closed(NOON)
    nothing = log.as_json()
    tell(log, 5)
    log.closed(NOON + 10)
    log.closed(NOON + 20)

    assert (nothing, log.as_json()[0]["ended_timestamp_seconds"]) == ([], NOON + 10)
