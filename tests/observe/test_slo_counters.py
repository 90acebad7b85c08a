"""Objectives on the page: which requests count, miss, vote or are overdue."""

import pytest

from sidecar.ledger.account import Account
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import slo_metrics as p
from sidecar.metrics.self_metrics import DROPPED_TOTAL
from sidecar.observe.evidence import Evidence
from sidecar.slo.judge import Judge
from sidecar.slo.objective import Objectives
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.support.promises import AIMS, House


# --- which requests count, and when --------------------------------------------------------------------------------------


def test_a_request_that_keeps_its_promises_counts_and_is_good() -> None:
    """A first token in time, nine more at a good pace: two verdicts, no miss, ten good tokens."""
    house = House()
    request = house.comes().speaks(after=0.5).speaks(after=1.8)

    request.settles(request.ends(tokens=10))

    assert house.burn("llama", "chat", "0-512", "ttft") == (1, 0, 0.1)
    assert house.burn("llama", "chat", "0-512", "tpot") == (1, 0, 0.05)
    assert house.burn("e2e") == (0, 0, 0)
    assert (house.count(p.GOOD_REQUESTS_TOTAL, "chat", "0-512"), house.count(p.GOOD_OUTPUT_TOKENS_TOTAL)) == (1, 10)
    assert (house.votes(), house.remembered()) == ({}, {})


def test_a_miss_is_on_the_page_while_the_request_still_waits() -> None:
    """It is counted and overdue just after its deadline; the vote comes with the ledger."""
    house = House()
    request = house.comes()
    house.later(1.0)
    assert (house.burn("ttft"), house.overdue()) == ((0, 0, 0), 0)

    house.later(0.5)
    assert (house.burn("ttft"), house.overdue()) == ((1, 1, 0.1), 1)
    request.speaks(after=4.5)
    assert (house.burn("ttft"), house.overdue(), house.votes()) == ((1, 1, 0.1), 0, {})
    request.settles(request.ends(tokens=1), EngineReport(5.5, 0.25, 0.0))

    assert house.votes() == {("ttft", "queue"): 1}
    assert (house.count(p.GOOD_REQUESTS_TOTAL), house.remembered()) == (0, {})


def test_a_scrape_alone_counts_what_is_due() -> None:
    """This is for the case that no tick came before the scrape."""
    house = House()
    house.comes()
    house.now += 1.5

    assert (house.overdue(), house.burn("ttft")) == (1, (1, 1, 0.1))


def test_overdue_is_by_lane_and_goes_back_to_none() -> None:
    house = House(Objectives({"chat": {"0-512": AIMS}, "batch": {"0-512": AIMS}}))
    first, second = house.comes(), house.comes(lane="batch")
    house.later(2.0)
    assert (house.overdue("chat"), house.overdue("batch")) == (1, 1)

    first.ends(Outcome.CLIENT_CANCELLED)
    second.ends(Outcome.ENGINE_TIMEOUT)

    assert (house.overdue("chat"), house.overdue("batch")) == (0, 0)


@pytest.mark.parametrize(
    ("outcome", "after", "misses", "phase"),
    [
        (Outcome.CLIENT_ERROR, 0.5, 0, None),
        (Outcome.CLIENT_CANCELLED, 0.5, 0, None),
        (Outcome.CLIENT_CANCELLED, 1.5, 1, "unattributed"),
        (Outcome.REJECTED, 0.1, 1, "queue"),
        (Outcome.ENGINE_ERROR, 0.1, 1, "engine"),
        (Outcome.ENGINE_UNREACHABLE, 0.1, 1, "engine"),
        (Outcome.ENGINE_TIMEOUT, 60.0, 1, "engine"),
        (Outcome.ENGINE_TRUNCATED, 0.5, 1, "engine"),
        (Outcome.SIDECAR_ERROR, 0.5, 1, "unattributed"),
    ],
)
def test_an_end_that_is_not_well_votes_at_once(outcome: Outcome, after: float, misses: int, phase: str | None) -> None:
    """There is no ledger to wait for. An end that does not count is in no counter."""
    house = House()

    house.comes().ends(outcome, after=after)

    assert house.burn("ttft") == (misses, misses, 0.1 * misses)
    assert house.votes() == ({} if phase is None else {("ttft", phase): 1})
    assert house.count(p.GOOD_REQUESTS_TOTAL) == 0


@pytest.mark.parametrize(
    ("outcome", "votes"),
    [
        (Outcome.REJECTED, {("ttft", "queue"): 1}),
        (Outcome.ENGINE_ERROR, {("ttft", "engine"): 1}),
        (Outcome.CLIENT_ERROR, {}),
        (Outcome.CLIENT_CANCELLED, {}),
    ],
)
def test_who_was_turned_away_before_the_body_came_counts_too(
    outcome: Outcome, votes: dict[tuple[str, str], float]
) -> None:
    """Too many requests in flight: the body was not read, and the judge got nothing but the end."""
    house = House()
    account = Account(
        RequestLabels("llama", "chat", "unknown"), False, outcome, Marks(accepted_at=house.now), None, key=1
    )

    house.slo.ended(1, account, house.now)

    assert house.votes() == votes
    assert house.burn("ttft") == (len(votes), len(votes), 0.1 * len(votes))
    assert (house.count(p.REQUESTS_RECEIVED_TOTAL), house.remembered().keys() - {"due"}) == (0, set())


def test_a_whole_answer_has_one_promise() -> None:
    house = House()
    late, good = house.comes(streaming=False), house.comes(streaming=False)
    good.settles(good.ends(after=2.0, tokens=7))
    house.later(6.5)
    assert house.burn("e2e") == (2, 1, 0.02)

    late.settles(late.ends(after=1.0), EngineReport(0.1, 0.2, 8.5))

    assert house.votes() == {("e2e", "decode"): 1}
    assert house.burn("ttft") == house.burn("tpot") == (0, 0, 0)
    assert house.count(p.GOOD_OUTPUT_TOKENS_TOTAL) == 7


def test_one_request_may_miss_both_promises_and_votes_for_each() -> None:
    """It waited in prefill, and then its tokens came slowly."""
    house = House()
    request = house.comes().speaks(after=2.0).speaks(after=5.0)

    request.settles(request.ends(tokens=2), EngineReport(0.1, 1.8, 5.0))

    assert house.votes() == {("ttft", "prefill"): 1, ("tpot", "decode"): 1}


def test_a_lane_without_promises_leaves_no_series() -> None:
    """It counts as load all the same."""
    house = House()
    request = house.comes(lane="batch").speaks(after=500.0)

    request.settles(request.ends(tokens=3))
    house.page()

    told = [
        (family.metric.name, key)
        for family in house.metrics.families
        for key in family.children
        if family.metric.name.startswith(("llm_slo", "llm_good", "llm_token_deadline", "llm_requests_overdue"))
        and "batch" in key
    ]
    assert told == []
    assert house.count(p.REQUESTS_RECEIVED_TOTAL, "batch") == 1
    assert house.remembered() == {}


def test_load_is_counted_at_arrival() -> None:
    """Tokens are counted only for requests of known length."""
    house = House()
    house.comes()
    house.comes()
    house.comes(bucket="unknown")

    assert house.count(p.REQUESTS_RECEIVED_TOTAL, "llama", "chat") == 3
    assert house.count(p.RECEIVED_MEASURED_REQUESTS_TOTAL, "llama", "chat") == 2
    assert house.count(p.RECEIVED_PROMPT_TOKENS_TOTAL, "llama", "chat") == 200


def test_token_deadlines_are_counted_when_the_stream_ends_however_it_ends() -> None:
    house = House()
    request = house.comes().speaks(after=0.5, events=4).speaks(after=5.0, events=3)
    assert house.count(p.TOKEN_DEADLINES_TOTAL) == 0

    request.ends(Outcome.CLIENT_CANCELLED)

    assert house.count(p.TOKEN_DEADLINES_TOTAL, "llama", "chat") == 7
    assert house.count(p.TOKEN_DEADLINE_MISSES_TOTAL, "llama", "chat") == 1


def test_an_answer_that_nobody_reads_is_in_no_counter_of_promises() -> None:
    """The answer is compressed: its first token may have been in time."""
    house = House()
    request = house.comes()
    house.slo.answering(request.key, house.now, streaming=None)
    house.later(60.0)

    request.settles(request.ends())

    assert house.burn() == (0, 0, 0)
    assert house.votes() == {}


# --- late ledgers --------------------------------------------------------------------------------------------------------


def test_a_vote_waits_for_its_ledger() -> None:
    """A report may come seconds late or never: the miss is on the page at once, the vote when the wait is over."""
    house = House()
    told, untold = house.comes(), house.comes()
    house.later(3.0)
    accounts = [request.speaks().ends(tokens=1) for request in (told, untold)]
    assert (house.burn("ttft")[1], house.votes()) == (2, {})

    house.later(15.0)
    told.settles(accounts[0], EngineReport(0.1, 2.9, 0.0))
    untold.settles(accounts[1])

    assert house.votes() == {("ttft", "prefill"): 1, ("ttft", "unattributed"): 1}
    assert house.remembered() == {}


def test_each_miss_is_told_once_with_its_votes_when_they_are_known() -> None:
    """It is reported with the ledger, or at an end without one. A request that met every objective is not reported."""
    house = House()
    told: list[tuple[str, dict[str, str]]] = []
    house.slo.on_blamed = lambda account, votes: told.append(
        (account.outcome.value, {objective.value: blame.value for objective, blame in votes.items()})
    )
    good, slow, failed = house.comes(), house.comes(), house.comes()
    good.settles(good.speaks(after=0.5).ends(tokens=1))
    closed = slow.speaks(after=4.5).ends(tokens=1)
    assert told == []

    slow.settles(closed, EngineReport(4.5, 0.25, 0.0))
    slow.settles(closed, EngineReport(4.5, 0.25, 0.0))
    failed.ends(Outcome.ENGINE_TIMEOUT)

    assert told == [("ok", {"ttft": "queue"}), ("engine_timeout", {"ttft": "engine"})]


def test_a_ledger_that_is_closed_twice_votes_once() -> None:
    house = House()
    request = house.comes().speaks(after=2.0)
    account = request.ends(tokens=1)

    request.settles(account)
    request.settles(account)

    assert house.votes() == {("ttft", "unattributed"): 1}


def test_what_is_seen_while_promises_are_missed_teaches_nobody() -> None:
    """After an engine restart, learning begins at zero."""
    house = House()

    def learned(ttft: float) -> int:
        house.later(20.0)
        request = house.comes().speaks(after=ttft)
        request.settles(request.ends(tokens=1), EngineReport(0.0, ttft))
        return sum(curve.samples for curve in house.slo._evidence._work._curves.values())

    assert [learned(0.25), learned(0.25)] == [1, 2]
    assert [learned(3.0) for _ in range(6)][-1] == learned(0.25) == 5
    house.later(3600.0)
    assert learned(0.25) == 6
    house.slo.engine_restarted()
    assert learned(0.25) == 1


# --- mistakes ------------------------------------------------------------------------------------------------------------


def broken(*_told: object, **_named: object) -> None:
    raise RuntimeError("the mistake under test")


def test_a_mistake_in_the_evidence_costs_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is counted, at both ends. Nothing is raised, and no request stays overdue."""
    house = House()
    monkeypatch.setattr(Evidence, "ended", broken)
    monkeypatch.setattr(Evidence, "settled", broken)
    request = house.comes()
    house.later(2.0)

    request.settles(request.speaks().ends(tokens=1))

    assert (house.votes(), house.overdue()) == ({("ttft", "unattributed"): 1}, 0)
    assert house.count(DROPPED_TOTAL, "observer_error") == 2


def test_a_mistake_in_a_verdict_leaves_nobody_in_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a silence would last for ever."""
    house = House()
    monkeypatch.setattr(Judge, "tick", broken)
    monkeypatch.setattr(Judge, "ended", broken)
    request = house.comes().speaks(after=0.5)

    house.later(1.0)
    request.settles(request.ends())

    assert house.count(DROPPED_TOTAL, "observer_error") == 2
    assert {*house.remembered()} == {"cases", "due"}
