"""The bench of the first page judges runs by what the demo wrote down: phases, receivers, notifications, seconds."""

from dataclasses import replace
from typing import Any

import pytest

from bench.first_page import Run, beside_busy, judged, missed, report, table, verdict, wrong
from sidecar.config.folding import WIDTH


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


def test_beside_busy_processes_a_wrong_receiver_counts_and_a_late_page_or_none_is_told() -> None:
    runs = [
        run_of(FAULT, notification(90.0, "queue", "rag")),
        run_of(FAULT, notification(30.0, "unattributed", "rag")),
        run_of(FAULT),
        run_of(FAULT, PAGE, notification(40.0, "decode", "rag")),
    ]

    assert wrong(runs) == ["queue: decode-page for it"]
    assert beside_busy(runs, 8) == [
        "WRONG  queue: decode-page for it",
        "4 runs beside 8 busy processes: the first page of 2 has the phase of the fault, of 1 no phase;",
        "1 have no page; 1 woke the receiver of another phase",
    ]


def test_a_message_without_news_is_no_further_notification_and_a_ticket_is_no_page() -> None:
    """A lane that is resolved while another fires, and a ticket beside the page, are not counted."""
    both = notification(31.0, "queue", "interactive", "rag")
    one = notification(71.0, "queue", "interactive")
    run = run_of(FAULT, both, notification(35.0, "queue", "batch", kind="ticket"), one, OVER)

    assert (run.notifications, run.receivers, run.tickets) == (1, ("queue-page",), ("queue-ticket",))


def test_a_page_that_is_never_resolved_is_not_said_to_be() -> None:
    assert run_of(FAULT, PAGE).resolved_seconds is None


def test_a_miss_beside_a_late_control_was_not_measured() -> None:
    """One of a run beside a good control is missed, whatever others say; and runs that miss nothing need no control."""
    well, bad = run_of(FAULT, PAGE, OVER), run_of(FAULT)

    assert verdict([well, bad], ["", "full"]) == ([], ["queue: this machine was busy: full"])
    assert verdict([bad], ["full"]) == ([], ["queue: this machine was busy: full"])
    assert verdict([bad, well], ["", "full"]) == (list(missed([bad])), ["queue: this machine was busy: full"])
    assert verdict([well, well], ["full", ""]) == ([], [])
    assert verdict([well, bad], ["", ""]) == (list(missed([well, bad])), [])


def test_two_of_twenty_five_runs_may_tell_twice() -> None:
    once, twice = run_of(FAULT, PAGE, OVER), run_of(FAULT, PAGE, notification(71.0, "queue", "rag"), OVER)
    said = {
        many: [problem for problem in missed([once] * (25 - many) + [twice] * many) if "one notification" in problem]
        for many in (2, 3)
    }

    assert said == {2: [], 3: ["one notification for the fault in 22 of 25 runs; 23 are wanted"]}


def test_the_table_fits_eighty_columns() -> None:
    run = run_of(FAULT, PAGE, notification(40.0, "decode", "rag"), notification(41.0, "queue", "batch", kind="ticket"))
    late = replace(run, load_average=12.3, fault_seconds=118.4, page_seconds=155.5, resolved_seconds=255.5)

    assert [line for line in table([late]) if len(line) > WIDTH] == []


def test_the_page_of_evidence_has_the_tree_each_kind_and_each_bound_that_was_missed() -> None:
    good, none = run_of(FAULT, PAGE, OVER), replace(run_of(FAULT), kind="decode")
    slower = replace(good, page_seconds=41.0, resolved_seconds=None, load_average=0.6)
    page = report([good, none, slower], "tree 0123456789ab of 2026-11-25")

    assert "Tree 0123456789ab of 2026-11-25; " in page
    assert "the phase of the fault in 2 of 3 runs" in page
    queue = (
        "| queue | 2 | 0.5 (0.4 to 0.6) | 18.0 (18.0 to 18.0) | 36.0 (31.0 to 41.0) | 80.0 (80.0 to 80.0); never in 1 "
    )
    assert f"{queue}| 0 | 2 | 0 | queue-page |" in page
    assert "| decode | 1 | 0.4 (0.4 to 0.4) | 18.0 (18.0 to 18.0) | never in 1 | never in 1 | 0 | 0 | 0 | - |" in page
    assert "- **Missed**: decode: the first page is of no phase: none came." in page
    assert "Every bound is met." in report([good], "a tree with changes")
