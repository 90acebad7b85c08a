"""Objectives on the page: which requests count, miss, vote or are overdue, and which series there are, from 0 on."""

import pytest

from sidecar.ledger.account import Account
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL, LABEL_OVERFLOW_TOTAL
from sidecar.objectives.attribution import VOTES
from sidecar.objectives.judge import Judge
from sidecar.objectives.objective import Aims, Objective, Objectives
from sidecar.observe.evidence import Evidence
from sidecar.observe.request_record import RequestRecord
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.support.slo_harness import AIMS, BUCKETS, LOOSE, SloHarness


# --- which requests count, and when --------------------------------------------------------------------------------------


def test_a_request_that_keeps_its_promises_counts_and_is_good() -> None:
    """A first token in time, nine more at a good pace: two verdicts, no miss, ten good tokens."""
    harness = SloHarness()
    request = harness.comes().speaks(after=0.5).speaks(after=1.8)

    request.settles(request.ends(tokens=10))

    assert harness.burn("llama", "chat", "0-512", "ttft") == (1, 0, 0.1)
    assert harness.burn("llama", "chat", "0-512", "tpot") == (1, 0, 0.05)
    assert harness.burn("e2e") == (0, 0, 0)
    assert (harness.count(c.GOOD_REQUESTS_TOTAL, "chat", "0-512"), harness.count(c.GOOD_OUTPUT_TOKENS_TOTAL)) == (
        1,
        10,
    )
    assert (harness.votes(), harness.remembered()) == ({}, {})


def test_a_miss_is_on_the_page_while_the_request_still_waits() -> None:
    """It is counted and overdue just after its deadline; the vote comes with the ledger."""
    harness = SloHarness()
    request = harness.comes()
    harness.later(1.0)
    assert (harness.burn("ttft"), harness.overdue()) == ((0, 0, 0), 0)

    harness.later(0.5)
    assert (harness.burn("ttft"), harness.overdue()) == ((1, 1, 0.1), 1)
    request.speaks(after=4.5)
    assert (harness.burn("ttft"), harness.overdue(), harness.votes()) == ((1, 1, 0.1), 0, {})
    request.settles(request.ends(tokens=1), EngineReport(5.5, 0.25, 0.0))

    assert harness.votes() == {("ttft", "queue"): 1}
    assert (harness.count(c.GOOD_REQUESTS_TOTAL), harness.remembered()) == (0, {})


def test_a_scrape_alone_counts_what_is_due() -> None:
    """This is for the case that no tick came before the scrape."""
    harness = SloHarness()
    harness.comes()
    harness.now += 1.5

    assert (harness.overdue(), harness.burn("ttft")) == (1, (1, 1, 0.1))


def test_overdue_is_by_lane_and_goes_back_to_none() -> None:
    harness = SloHarness(Objectives({"chat": {"0-512": AIMS}, "batch": {"0-512": AIMS}}))
    first, second = harness.comes(), harness.comes(lane="batch")
    harness.later(2.0)
    assert (harness.overdue("chat"), harness.overdue("batch")) == (1, 1)

    first.ends(Outcome.CLIENT_CANCELLED)
    second.ends(Outcome.ENGINE_TIMEOUT)

    assert (harness.overdue("chat"), harness.overdue("batch")) == (0, 0)


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
    harness = SloHarness()

    harness.comes().ends(outcome, after=after)

    assert harness.burn("ttft") == (misses, misses, 0.1 * misses)
    assert harness.votes() == ({} if phase is None else {("ttft", phase): 1})
    assert harness.count(c.GOOD_REQUESTS_TOTAL) == 0


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
    harness = SloHarness()
    account = Account(RequestLabels("llama", "chat", "unknown"), False, outcome, Marks(accepted_at=harness.now), None)

    harness.slo.ended(RequestRecord(), account, harness.now)

    assert harness.votes() == votes
    assert harness.burn("ttft") == (len(votes), len(votes), 0.1 * len(votes))
    assert (harness.count(c.REQUESTS_RECEIVED_TOTAL), harness.remembered().keys() - {"due"}) == (0, set())


def test_a_whole_answer_has_one_promise() -> None:
    harness = SloHarness()
    late, good = harness.comes(streaming=False), harness.comes(streaming=False)
    good.settles(good.ends(after=2.0, tokens=7))
    harness.later(6.5)
    assert harness.burn("e2e") == (2, 1, 0.02)

    late.settles(late.ends(after=1.0), EngineReport(0.1, 0.2, 8.5))

    assert harness.votes() == {("e2e", "decode"): 1}
    assert harness.burn("ttft") == harness.burn("tpot") == (0, 0, 0)
    assert harness.count(c.GOOD_OUTPUT_TOKENS_TOTAL) == 7


def test_one_request_may_miss_both_promises_and_votes_for_each() -> None:
    """It waited in prefill, and then its tokens came slowly."""
    harness = SloHarness()
    request = harness.comes().speaks(after=2.0).speaks(after=5.0)

    request.settles(request.ends(tokens=2), EngineReport(0.1, 1.8, 5.0))

    assert harness.votes() == {("ttft", "prefill"): 1, ("tpot", "decode"): 1}


def test_a_lane_without_promises_leaves_no_series() -> None:
    """It counts as load all the same."""
    harness = SloHarness()
    request = harness.comes(lane="batch").speaks(after=500.0)

    request.settles(request.ends(tokens=3))
    harness.page()

    told = [
        (family.metric.name, key)
        for family in harness.metrics.families
        for key in family.children
        if family.metric.name.startswith(("llm_slo", "llm_good", "llm_token_deadline", "llm_requests_overdue"))
        and "batch" in key
    ]
    assert told == []
    assert harness.count(c.REQUESTS_RECEIVED_TOTAL, "batch") == 1
    assert harness.remembered() == {}


def test_load_is_counted_at_arrival() -> None:
    """Tokens are counted only for requests of known length."""
    harness = SloHarness()
    harness.comes()
    harness.comes()
    harness.comes(bucket="unknown")

    assert harness.count(c.REQUESTS_RECEIVED_TOTAL, "llama", "chat") == 3
    assert harness.count(c.RECEIVED_MEASURED_REQUESTS_TOTAL, "llama", "chat") == 2
    assert harness.count(c.RECEIVED_PROMPT_TOKENS_TOTAL, "llama", "chat") == 200


def test_token_deadlines_are_counted_when_the_stream_ends_however_it_ends() -> None:
    harness = SloHarness()
    request = harness.comes().speaks(after=0.5, events=4).speaks(after=5.0, events=3)
    assert harness.count(c.TOKEN_DEADLINES_TOTAL) == 0

    request.ends(Outcome.CLIENT_CANCELLED)

    assert harness.count(c.TOKEN_DEADLINES_TOTAL, "llama", "chat") == 7
    assert harness.count(c.TOKEN_DEADLINE_MISSES_TOTAL, "llama", "chat") == 1


def test_an_answer_that_cannot_be_read_is_in_no_counter_of_objectives() -> None:
    """The answer is compressed: its first token may have been in time."""
    harness = SloHarness()
    request = harness.comes()
    harness.slo.answering(request.key, harness.now, streaming=None)
    harness.later(60.0)

    request.settles(request.ends())

    assert harness.burn() == (0, 0, 0)
    assert harness.votes() == {}


# --- late ledgers --------------------------------------------------------------------------------------------------------


def test_a_vote_waits_for_its_ledger() -> None:
    """A report may come seconds late or never: the miss is on the page at once, the vote when the wait is over."""
    harness = SloHarness()
    told, untold = harness.comes(), harness.comes()
    harness.later(3.0)
    accounts = [request.speaks().ends(tokens=1) for request in (told, untold)]
    assert (harness.burn("ttft")[1], harness.votes()) == (2, {})

    harness.later(15.0)
    told.settles(accounts[0], EngineReport(0.1, 2.9, 0.0))
    untold.settles(accounts[1])

    assert harness.votes() == {("ttft", "prefill"): 1, ("ttft", "unattributed"): 1}
    assert harness.remembered() == {}


def test_each_miss_is_told_once_with_its_votes_when_they_are_known() -> None:
    """It is reported with the ledger, or at an end without one. A request that met every objective is not reported."""
    harness = SloHarness()
    told: list[tuple[str, dict[str, str]]] = []
    harness.slo.on_blamed = lambda account, votes: told.append(
        (account.outcome.value, {objective.value: blame.value for objective, blame in votes.items()})
    )
    good, slow, failed = harness.comes(), harness.comes(), harness.comes()
    good.settles(good.speaks(after=0.5).ends(tokens=1))
    closed = slow.speaks(after=4.5).ends(tokens=1)
    assert told == []

    slow.settles(closed, EngineReport(4.5, 0.25, 0.0))
    slow.settles(closed, EngineReport(4.5, 0.25, 0.0))
    failed.ends(Outcome.ENGINE_TIMEOUT)

    assert told == [("ok", {"ttft": "queue"}), ("engine_timeout", {"ttft": "engine"})]


def test_a_ledger_that_is_closed_twice_votes_once() -> None:
    harness = SloHarness()
    request = harness.comes().speaks(after=2.0)
    account = request.ends(tokens=1)

    request.settles(account)
    request.settles(account)

    assert harness.votes() == {("ttft", "unattributed"): 1}


def test_samples_taken_while_objectives_are_missed_are_not_learned() -> None:
    """In the first ten minutes one miss too many is enough; later it takes three. An engine restart changes nothing of it."""
    harness = SloHarness()

    def learned(ttft: float) -> int:
        harness.later(20.0)
        request = harness.comes().speaks(after=ttft)
        request.settles(request.ends(tokens=1), EngineReport(0.0, ttft))
        return sum(curve.samples for curve in harness.slo._evidence._work._curves.values())

    assert [learned(0.25), learned(0.25)] == [1, 2]
    assert [learned(3.0) for _ in range(6)][-1] == learned(0.25) == 3
    harness.later(3600.0)
    assert learned(0.25) == 4
    assert [learned(3.0) for _ in range(6)][-1] == learned(0.25) == 7
    harness.later(3600.0)
    assert learned(0.25) == 8
    harness.slo.engine_restarted()
    assert learned(0.25) == 9


# --- mistakes ------------------------------------------------------------------------------------------------------------


def broken(*_told: object, **_named: object) -> None:
    raise RuntimeError("the mistake under test")


@pytest.mark.reaches_in
def test_a_mistake_in_the_evidence_costs_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is counted, at both ends. Nothing is raised, and no request stays overdue."""
    harness = SloHarness()
    monkeypatch.setattr(Evidence, "ended", broken)
    monkeypatch.setattr(Evidence, "settled", broken)
    request = harness.comes()
    harness.later(2.0)

    request.settles(request.speaks().ends(tokens=1))

    assert (harness.votes(), harness.overdue()) == ({("ttft", "unattributed"): 1}, 0)
    assert harness.count(DROPPED_TOTAL, "observer_error") == 2


@pytest.mark.reaches_in
def test_a_mistake_in_a_verdict_leaves_no_request_in_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a silence would last for ever."""
    harness = SloHarness()
    monkeypatch.setattr(Judge, "tick", broken)
    monkeypatch.setattr(Judge, "ended", broken)
    request = harness.comes().speaks(after=0.5)

    harness.later(1.0)
    request.settles(request.ends())

    assert harness.count(DROPPED_TOTAL, "observer_error") == 2
    assert {*harness.remembered()} == {"cases", "due"}


# --- configs -------------------------------------------------------------------------------------------------------------


def gauges(harness: SloHarness) -> dict[tuple[str, ...], tuple[float | None, float | None]]:
    """(lane, bucket, objective) to (threshold, target), for those on the page."""
    targets = harness.metrics.gauge(c.SLO_TARGET_RATIO).children
    thresholds = harness.metrics.gauge(c.SLO_THRESHOLD_SECONDS).children
    return {key: (child.value, targets[key].value) for key, child in thresholds.items() if child.value is not None}


def test_thresholds_and_targets_are_on_the_page() -> None:
    harness = SloHarness(Objectives({"chat": {"0-512": AIMS, "512+": LOOSE}}))

    assert gauges(harness) == {
        ("chat", "0-512", "ttft"): (1.0, 0.9),
        ("chat", "0-512", "tpot"): (0.25, 0.95),
        ("chat", "0-512", "e2e"): (8.0, 0.99),
        ("chat", "512+", "ttft"): (10.0, 0.5),
    }


def test_a_reload_takes_what_is_gone_off_the_page_and_counts_on() -> None:
    """Chat gets another threshold, batch loses its objectives: the gauges change, the counters keep their values."""
    harness = SloHarness(Objectives({"chat": {"0-512": AIMS}, "batch": {"0-512": AIMS}}))
    harness.comes(lane="batch").ends(Outcome.REJECTED)

    harness.slo.replace(Objectives({"chat": {"0-512": LOOSE}}))

    assert gauges(harness) == {("chat", "0-512", "ttft"): (10.0, 0.5)}
    assert harness.burn("batch", "ttft") == (1, 1, 0.1)


def test_a_request_in_flight_keeps_what_it_was_promised() -> None:
    """The request from before the reload has missed after one second; the one after it has ten."""
    harness = SloHarness()
    before = harness.comes()
    harness.slo.replace(Objectives({"chat": {"0-512": LOOSE}}))
    after = harness.comes()

    harness.later(5.0)
    for request in (before, after):
        request.settles(request.speaks().ends(tokens=1))

    assert harness.burn("ttft") == (2, 1, 0.6)


def test_a_lane_whose_promises_are_gone_still_settles_what_it_owed() -> None:
    harness = SloHarness()
    request = harness.comes().speaks(after=2.0)
    account = request.ends(tokens=1)

    harness.slo.replace(Objectives())
    request.settles(account, EngineReport(1.9, 0.1, 0.0))

    assert (harness.votes(), gauges(harness)) == ({("ttft", "queue"): 1}, {})


# --- at 0 from the start -------------------------------------------------------------------------------------------------


def test_every_series_that_a_rule_reads_stands_at_0_before_it_happens() -> None:
    """They are there at once, for each model: per bucket each objective set for it, and each vote possible in this
    lane.
    """
    harness = SloHarness(Objectives({"chat": {"0-512": AIMS, "512+": LOOSE}}))
    counters = harness.metrics.counter

    declared = {("0-512", "ttft"), ("0-512", "tpot"), ("0-512", "e2e"), ("512+", "ttft")}
    models = ("llama",)
    for metric in (c.SLO_REQUESTS_TOTAL, c.SLO_MISSES_TOTAL, c.SLO_ALLOWED_MISSES_TOTAL):
        found = counters(metric).children
        assert {*found} == {(model, "chat", *rest) for model in models for rest in declared}
        assert {child.value for child in found.values()} == {0}
    assert {*counters(c.SLO_BLAMED_MISSES_TOTAL).children} == {
        (model, "chat", of, phase)
        for model in models
        for of in {of for _, of in declared}
        for phase in VOTES[Objective(of)]
    }
    assert {*counters(c.GOOD_REQUESTS_TOTAL).children} == {("llama", "chat", bucket) for bucket in BUCKETS}
    assert {*counters(c.REQUESTS_RECEIVED_TOTAL).children} == {("llama", lane) for lane in ("chat", "batch")}
    assert harness.overdue() == 0


def test_a_model_that_was_not_expected_begins_at_0_with_the_page_after_its_first_request() -> None:
    """The request itself is counted; from then on the series of `other` stand at 0 like those of the engine's models."""
    harness = SloHarness()
    harness.slo.received(
        RequestRecord(), harness.now, RequestLabels("gpt-9", "batch", "0-512"), streaming=True, prompt_tokens=None
    )

    harness.page()

    assert harness.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).children["other", "batch"].value == 1
    assert harness.metrics.counter(c.SLO_MISSES_TOTAL).children["other", "chat", "0-512", "ttft"].value == 0


def test_models_and_lanes_that_are_told_later_begin_at_0_with_the_next_page() -> None:
    harness = SloHarness(models=())
    harness.metrics.models.admit(["mixtral"])
    harness.metrics.lanes.admit(["night"])
    harness.slo.replace(Objectives({"night": {"0-512": AIMS}}))
    harness.metrics.models.admit(["llama"])

    harness.page()

    for model in ("mixtral", "llama"):
        assert (model, "night", "0-512", "ttft") in harness.metrics.counter(c.SLO_MISSES_TOTAL).children
        assert (model, "night") in harness.metrics.gauge(c.REQUESTS_OVERDUE).children
        assert (model, "night") in harness.metrics.counter(c.REQUESTS_RECEIVED_TOTAL).children
    assert harness.count(LABEL_OVERFLOW_TOTAL) == 0


def test_what_is_promised_of_one_objective_makes_no_series_of_another() -> None:
    """A lane of whole answers has no TTFT."""
    harness = SloHarness(Objectives({"batch": {"0-512": Aims(e2e=AIMS.e2e), "512+": Aims()}}))

    assert {key[2:] for key in harness.metrics.counter(c.SLO_REQUESTS_TOTAL).children} == {("0-512", "e2e")}
    assert {key[2] for key in harness.metrics.counter(c.SLO_BLAMED_MISSES_TOTAL).children} == {"e2e"}
    assert {key[2] for key in harness.metrics.counter(c.GOOD_REQUESTS_TOTAL).children} == {"0-512"}
