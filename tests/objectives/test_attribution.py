"""Each miss votes for one phase of the request that missed: the phase that exceeded its share by the most."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Phase, Reason, Source
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.objectives.attribution import (
    E2E_SHARES,
    FEWEST_FOR_TRANSFER,
    FEWEST_PASSED_BY,
    VOTES,
    Blame,
    SecondOutput,
    blame_of_ledger,
    blame_of_outcome,
    waited_between,
)
from sidecar.objectives.objective import TTFT_SHARES, Aim, Aims, Objective
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.support.scenario import Scenario


TTFT, TPOT, E2E = Objective.TTFT, Objective.TPOT, Objective.E2E
AIMS = Aims(ttft=Aim(1.0, 0.99), tpot=Aim(0.1, 0.99), e2e=Aim(10.0, 0.99))
"""With the default shares, 1 s of TTFT is split into 0.28 s of queue, 0.69 s of prefill and 0.03 s of front end."""


def ttft_vote(
    queue: float | None, prefill: float | None = None, first_token: float = 0.0, held: float = 0.0, *, aims: Aims = AIMS
) -> Blame:
    """The TTFT vote of a stream with these phases, and with `held` seconds of output held back before the sidecar."""
    ttft = (queue or 0.0) + (prefill or 0.0) + first_token + held
    scenario = Scenario().received(0).token(ttft).token(ttft + 1.0).end(ttft + 1.0)
    ledger = scenario.ledger() if queue is None else scenario.ledger(queue, prefill, 1.0 + held)
    return blame_of_ledger(TTFT, ledger, scenario.timeline.marks(), aims)


@pytest.mark.parametrize(
    ("queue", "prefill", "first_token", "vote"),
    [
        (0.9, 0.2, 0.0, Blame.QUEUE),
        (0.1, 1.0, 0.0, Blame.PREFILL),
        (0.1, 0.3, 0.7, Blame.FIRST_TOKEN),
        (0.30, 0.72, 0.0, Blame.PREFILL),
        (0.50, 0.90, 0.0, Blame.QUEUE),
        (0.50, 0.92, 0.0, Blame.PREFILL),
        (0.50, 0.40, 0.24, Blame.QUEUE),
        (0.50, 0.40, 0.26, Blame.FIRST_TOKEN),
    ],
)
def test_a_late_first_token_is_blamed_on_what_took_most_over_its_share(
    queue: float, prefill: float, first_token: float, vote: Blame
) -> None:
    """The excess over the share decides, not the duration: 0.9 s of prefill are 0.21 s over, 0.5 s of queue 0.22 s."""
    assert ttft_vote(queue, prefill, first_token) == vote


def test_shares_are_the_lanes_own() -> None:
    """With a queue share of 0.6, half a second of queue is within its share."""
    queueing = replace(AIMS, shares={Phase.QUEUE: 0.6, Phase.PREFILL: 0.3, Phase.FIRST_TOKEN: 0.1})

    assert ttft_vote(0.5, 0.6) == Blame.QUEUE
    assert ttft_vote(0.5, 0.6, aims=queueing) == Blame.PREFILL


def test_a_phase_without_a_share_has_none() -> None:
    only_prefill = replace(AIMS, shares={Phase.QUEUE: 0.0, Phase.PREFILL: 1.0, Phase.FIRST_TOKEN: 0.0})

    assert ttft_vote(0.01, 1.005, aims=only_prefill) == Blame.QUEUE


@pytest.mark.parametrize(("held", "vote"), [(0.7, Blame.STREAM), (0.1, Blame.QUEUE)])
def test_what_was_held_back_before_the_sidecar_is_streams(held: float, vote: Blame) -> None:
    """No part of a threshold is reserved for a hop that buffers."""
    assert ttft_vote(0.6, 0.3, 0.0, held) == vote


def test_without_a_split_no_phase_is_blamed() -> None:
    """Three such cases: no report, a stream without a token, and a ledger that could not be closed."""
    tokenless = Scenario().received(0).end(5.0)

    assert ttft_vote(None) == Blame.UNATTRIBUTED
    assert blame_of_ledger(TTFT, tokenless.ledger(), tokenless.timeline.marks(), AIMS) == Blame.UNATTRIBUTED
    assert blame_of_ledger(TTFT, None, tokenless.timeline.marks(), AIMS) == Blame.UNATTRIBUTED


def test_an_estimated_split_votes_like_any_other() -> None:
    """An estimated split has no first_token phase, and so cannot blame it."""
    scenario = Scenario().received(0).token(2.0).token(3.0).end(3.0)
    report = EngineReport(1.5, 0.5, queue_source=Source.ESTIMATED, prefill_source=Source.ESTIMATED)
    ledger = close_ledger(scenario.timeline.marks(), streaming=True, report=report, reason=Reason.ESTIMATED)

    assert blame_of_ledger(TTFT, ledger, scenario.timeline.marks(), AIMS) == Blame.QUEUE


# --- TPOT ----------------------------------------------------------------------------------------------------------------


def tpot_vote(seconds: float, *, paused: float = 0.0, held: float = 0.0, report: bool = True) -> Blame:
    """The TPOT vote of a stream of eleven tokens, `seconds` from first to last; the objective allows one second."""
    scenario = Scenario().received(0).token(0.5).token(1.0)
    if paused:
        scenario.paused(1.0).resumed(1.0 + paused)
    scenario.token(0.5 + seconds).usage(0.5 + seconds, completion_tokens=11).end(0.5 + seconds)
    ledger = scenario.ledger(0.1, 0.2, seconds + held) if report else scenario.ledger()
    return blame_of_ledger(TPOT, ledger, scenario.timeline.marks(), AIMS)


@pytest.mark.parametrize(
    ("paused", "vote"), [(0.0, Blame.DECODE), (0.49, Blame.DECODE), (0.5, Blame.STREAM), (0.9, Blame.STREAM)]
)
@pytest.mark.parametrize("report", [True, False])
def test_a_slow_pace_is_streams_if_half_of_the_excess_was_held_back(paused: float, vote: Blame, report: bool) -> None:
    """Two seconds instead of one; the time in which the client did not read is known without any report."""
    assert tpot_vote(2.0, paused=paused, report=report) == vote


def test_what_a_hop_held_back_counts_with_what_the_client_did() -> None:
    """The excess is 1 s. The hop held back 0.15 s before the first token, so the client must make up 0.35 s."""
    assert tpot_vote(2.0, paused=0.36) == Blame.DECODE
    assert tpot_vote(2.0, paused=0.34, held=0.15) == Blame.DECODE
    assert tpot_vote(2.0, paused=0.36, held=0.15) == Blame.STREAM


def test_a_pace_that_cannot_be_counted_is_unattributed() -> None:
    """Without the number of tokens there is no excess to compare with."""
    scenario = Scenario().received(0).token(0.5).token(3.0).end(3.0)

    assert blame_of_ledger(TPOT, scenario.ledger(0.1, 0.2, 2.5), scenario.timeline.marks(), AIMS) == Blame.UNATTRIBUTED


# --- whole answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "prefill", "decode", "rest", "vote"),
    [
        (3.0, 1.0, 7.0, 0.0, Blame.QUEUE),
        (0.5, 4.0, 7.0, 0.0, Blame.PREFILL),
        (0.5, 1.0, 9.0, 0.0, Blame.DECODE),
        (0.5, 1.0, 6.0, 4.0, Blame.UNATTRIBUTED),
    ],
)
def test_a_late_whole_answer_is_blamed_by_its_own_shares(
    queue: float, prefill: float, decode: float, rest: float, vote: Blame
) -> None:
    """The shares of a 10 s answer: 1 s of queue, 2 s of prefill, 6.5 s of decode, 0.5 s that no engine reports."""
    scenario = Scenario().received(0).end(queue + prefill + decode + rest)

    ledger = scenario.ledger(queue, prefill, decode, streaming=False)

    assert blame_of_ledger(E2E, ledger, scenario.timeline.marks(), AIMS) == vote


def test_a_late_whole_answer_without_a_report_is_unattributed() -> None:
    scenario = Scenario().received(0).end(20.0)

    ledger = scenario.ledger(streaming=False)

    assert blame_of_ledger(E2E, ledger, scenario.timeline.marks(), AIMS) == Blame.UNATTRIBUTED


def test_the_shares_of_a_whole_answer_are_all_of_it() -> None:
    assert sum(E2E_SHARES.values()) == pytest.approx(1)


# --- ends without a ledger -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", list(Outcome))
def test_who_did_not_end_well_votes_by_his_outcome(outcome: Outcome) -> None:
    """A rejection votes for queue, an engine failure for engine. A cancel or a cut by the sidecar is unattributed:
    where the request waited is unknown.
    """
    expected = Blame.ENGINE if outcome.startswith("engine_") else Blame.UNATTRIBUTED
    expected = Blame.QUEUE if outcome is Outcome.REJECTED else expected

    assert blame_of_outcome(outcome) == expected


# --- the closed set ------------------------------------------------------------------------------------------------------


def test_votes_are_phases_of_the_ledger_or_the_engine() -> None:
    assert {*Blame} == {*(phase.value for phase in Phase), "engine"}


_SECONDS = st.one_of(st.none(), st.floats(0, 20))


@given(
    objective=st.sampled_from(list(Objective)),
    report=st.builds(EngineReport, _SECONDS, _SECONDS, _SECONDS),
    streaming=st.booleans(),
    ttft=st.floats(0, 20),
    rest=st.floats(0, 20),
    paused=st.floats(0, 1),
    tokens=st.one_of(st.none(), st.integers(0, 50)),
    estimated=st.booleans(),
)
def test_no_ledger_makes_a_vote_that_has_no_series(
    *,
    objective: Objective,
    report: EngineReport,
    streaming: bool,
    ttft: float,
    rest: float,
    paused: float,
    tokens: int | None,
    estimated: bool,
) -> None:
    """Every vote is one of the series that stand at 0 from the start, also for a stream judged as a whole answer."""
    marks = Marks(
        accepted_at=0.0,
        received_at=1.0,
        first_token_at=1.0 + ttft,
        last_token_at=1.0 + ttft + rest,
        flushed_at=1.0 + ttft + rest,
        paused_seconds=paused * rest,
        choices=1,
        usage=Usage(completion_tokens=tokens),
    )
    if estimated:
        report = msgspec.structs.replace(report, queue_source=Source.ESTIMATED, prefill_source=Source.ESTIMATED)
    ledger = close_ledger(marks, streaming=streaming, report=report)

    assert blame_of_ledger(objective, ledger, marks, AIMS) in VOTES[objective]


def test_shares_are_of_phases_that_a_first_token_waits_in() -> None:
    assert {*TTFT_SHARES} == {Phase.QUEUE, Phase.PREFILL, Phase.FIRST_TOKEN}


# --- between the first output and the second ------------------------------------------------------------------------------


def answer(tokens: int, second_after: float, each_after: float = 0.05) -> Marks:
    """The marks of an answer of so many tokens, the second of which comes `second_after` seconds after the first."""
    scenario = Scenario().received(0).token(1.0)
    last_at = 1.0 + second_after + each_after * (tokens - 2)
    return (
        scenario.token(1.0 + second_after)
        .token(last_at)
        .usage(last_at, completion_tokens=tokens)
        .end(last_at)
        .timeline.marks()
    )


@pytest.mark.parametrize(
    ("passed_by", "transferred"), [(None, True), (FEWEST_PASSED_BY, True), (FEWEST_PASSED_BY - 1.0, False), (0, False)]
)
def test_an_answer_that_waits_for_its_second_output_while_others_go_on_waits_for_its_kv_cache(
    passed_by: float | None, *, transferred: bool
) -> None:
    """If the others wait as well, one long step holds up all of them: a prompt is computed in it."""
    marks = answer(20, second_after=3.0)

    assert waited_between(marks, AIMS, SecondOutput(3.0, passed_by)) is transferred


def test_an_answer_that_is_slow_throughout_does_not_wait_for_its_kv_cache() -> None:
    marks = answer(20, second_after=0.3, each_after=0.3)

    assert not waited_between(marks, AIMS, SecondOutput(0.3, 10))


def test_of_a_short_answer_or_without_an_objective_no_gap_tells_a_transfer() -> None:
    short = answer(FEWEST_FOR_TRANSFER - 1, second_after=3.0)

    assert not waited_between(short, AIMS, SecondOutput(3.0, 10))
    assert not waited_between(answer(20, second_after=3.0), replace(AIMS, tpot=None), SecondOutput(3.0, 10))
