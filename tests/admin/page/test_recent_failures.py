"""The last slow or failed requests: timings in a bounded ring, each request once, and no data that a client sent."""

from msgspec.structs import replace

from sidecar.admin.page.failure_table import ROWS_SHOWN, recent_failures_section
from sidecar.admin.page.recent_failures import KEPT, RecentFailure, RecentFailures, recent_failure
from sidecar.history.slices import run_now
from sidecar.ledger.account import Account
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome, Stage
from tests.support.page_reader import Reader


MARKS = Marks(
    accepted_at=9.0,
    received_at=10.0,
    first_token_at=13.0,
    last_token_at=15.0,
    ended_at=15.0,
    flushed_at=15.5,
    choices=1,
)
LABELS = RequestLabels("llama", "chat", "0-512")
NOTES = {"path": "/v1/CANARY", "x-secret": "CANARY", "error": "engine_refused", "status": "502"}


def account(outcome: Outcome = Outcome.OK, **facts: object) -> Account:
    report = EngineReport(2.0, 0.75, 2.0)
    ledger = close_ledger(MARKS, streaming=True, report=report) if outcome is Outcome.OK else None
    made = Account(LABELS, True, outcome, MARKS, ledger, trace_id="CANARY", key=object(), notes=NOTES)
    return replace(made, **facts)


def drawn(*latest: RecentFailure, at: float = 100.0, models: bool = False) -> Reader:
    return Reader(run_now(recent_failures_section(latest, at, models=models)))


def test_a_slow_request_is_kept_with_its_ledger_and_its_vote() -> None:
    recent_failures = RecentFailures(lambda: 97.5)

    recent_failures.missed(account(), {Objective.TTFT: Blame.QUEUE})

    (kept,) = recent_failures.latest()
    assert (kept.labels.lane, kept.whole_seconds, kept.ttft_seconds) == ("chat", 5.5, 3.0)
    assert {phase.value: round(part, 3) for phase, part in kept.phases.items()} == {
        "queue": 2.0,
        "prefill": 0.75,
        "first_token": 0.25,
        "decode": 2.0,
        "stream": 0.5,
    }
    page = drawn(kept)
    assert "chat 0-512 tokens; 2.50 s ago time to first token missed: queue" in page.text
    assert "whole 5.50 s · first token 3.00 s queue 2.00 s · prefill 750 ms · first token 250 ms" in page.text


def test_a_request_that_missed_and_failed_is_told_twice_and_kept_once() -> None:
    """The objectives report the request first, and the end of the request reports it again."""
    recent_failures = RecentFailures(lambda: 40.0)
    failed = account(Outcome.ENGINE_UNREACHABLE)

    recent_failures.missed(failed, {Objective.TTFT: Blame.ENGINE})
    recent_failures.closed(failed)
    recent_failures.closed(account(Outcome.ENGINE_TIMEOUT))

    assert [(one.outcome.value, len(one.missed)) for one in recent_failures.latest()] == [
        ("engine_timeout", 0),
        ("engine_unreachable", 1),
    ]


def test_what_the_server_side_is_not_to_answer_for_is_no_trouble() -> None:
    recent_failures = RecentFailures(lambda: 40.0)
    for outcome in (Outcome.OK, Outcome.CLIENT_ERROR, Outcome.CLIENT_CANCELLED):
        recent_failures.closed(account(outcome))

    assert len(recent_failures) == 0
    assert "no request missed an objective or failed" in drawn().text


def test_who_gave_up_too_late_says_where_and_after_how_long() -> None:
    given_up = account(
        Outcome.CLIENT_CANCELLED,
        cancelled_in=Stage.WAITING,
        marks=Marks(accepted_at=9.0, received_at=10.0),
        notes={"path": "/"},
    )

    page = drawn(recent_failure(given_up, {Objective.TTFT: Blame.UNATTRIBUTED}, 22.0))

    assert "time to first token missed: unattributed client cancelled while waiting whole 12.0 s" in page.text


def test_the_ring_ends_and_the_latest_stands_first() -> None:
    now = 0.0
    recent_failures = RecentFailures(lambda: now)
    for _ in range(KEPT + 30):
        now += 1.0
        recent_failures.missed(account(), {Objective.TTFT: Blame.QUEUE})

    latest = recent_failures.latest()

    assert (len(latest), latest[0].ended_at, latest[-1].ended_at) == (KEPT, KEPT + 30, 31)
    page = drawn(*latest, at=now)
    assert page.text.count("time to first token missed") == KEPT
    assert f"{KEPT - ROWS_SHOWN} earlier requests" in page.text


def test_nothing_that_a_client_sent_is_kept_or_drawn() -> None:
    """No path, no header, no trace id; of the notes only the sidecar's own reason and the status."""
    kept = recent_failure(account(Outcome.ENGINE_ERROR), {}, 40.0)

    assert "CANARY" not in repr(kept)
    assert "CANARY" not in drawn(kept, models=True).text
    assert "engine error, engine refused, 502" in drawn(kept).text
