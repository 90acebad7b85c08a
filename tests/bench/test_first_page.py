"""The bench of the first page judges runs by what the demo wrote down: phases, receivers, notifications, seconds."""

from typing import Any

import pytest

from bench.first_page import Run, judged, missed


Told = tuple[float, dict[str, Any]]


def notification(at: float, phase: str, *lanes: str, status: str = "firing", kind: str = "page") -> Told:
    """Alerts of one phase, one a lane, at the receiver of this phase."""
    alerts = [
        {
            "status": status,
            "fingerprint": lane,
            "labels": {"alertname": f"LLM{phase}", "phase": phase, "severity": kind, "lane": lane},
            "runbook_url": "http://here/runbooks/one",
        }
        for lane in lanes
    ]
    receiver = f"{phase}-{kind}"
    return at, {"event": "notification", "receiver": receiver, "status": status, "group": phase, "alerts": alerts}


FAULT: Told = (18.0, {"event": "fault", "incident": "queue"})
WATCHDOG: Told = (3.0, notification(3.0, "none", "all")[1] | {"receiver": "watchdog"})
PAGE = notification(31.0, "queue", "interactive")
OVER = notification(80.0, "queue", "interactive", status="resolved")


def run_of(*events: Told) -> Run:
    return judged("queue", [WATCHDOG, *events], load_average=0.4)


def test_a_run_as_it_should_be_misses_nothing() -> None:
    run = run_of(FAULT, PAGE, OVER)

    assert run == Run("queue", 0.4, 18.0, 31.0, "queue", 0, 1, ("queue-page",), (), 80.0, runbook=True)
    assert list(missed([run])) == []


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([notification(9.0, "queue", "rag"), FAULT, PAGE], "1 pages before the fault"),
        ([FAULT, notification(30.0, "decode", "rag"), OVER], "the first page is of decode"),
        ([FAULT], "no phase: none came"),
        ([FAULT, notification(61.0, "queue", "rag")], "the first page came after 61 s"),
        ([FAULT, PAGE, notification(40.0, "decode", "rag")], "2 receivers: queue-page, decode-page"),
        ([FAULT, PAGE, notification(71.0, "queue", "interactive", "rag")], "one notification for the fault in 0 of 1"),
    ],
)
def test_each_bound_of_the_issue_can_be_missed(events: list[Told], said: str) -> None:
    assert [problem for problem in missed([run_of(*events)]) if said in problem] != []
