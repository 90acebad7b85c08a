"""The verdict is a sum: the leading root of the decided misses, if it has enough of them."""

import pytest

from sidecar.diagnosis.verdict import RootPhase, Verdict, root_cause, root_phase, top
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.page_limits import LEAST_CONFIDENCE
from sidecar.pod.causes import ROOT_PHASES, ROOTS, WORTH_NAMING, Cause, Unknown


def test_the_confidence_is_the_leading_roots_share() -> None:
    found = Verdict(
        roots={Blame.PREFILL: 42.0, Blame.QUEUE: 6.0, Blame.UNATTRIBUTED: 12.0},
        causes={Blame.PREFILL: Cause.UNCACHED, Blame.QUEUE: Cause.LOAD, Blame.UNATTRIBUTED: Unknown.YOUNG},
    )

    assert (found.phase, found.cause, found.reason) == (Blame.PREFILL, Cause.UNCACHED, None)
    assert (found.decided, found.confidence, found.candidates) == (60.0, 0.7, ())


@pytest.mark.parametrize(("share", "phase"), [(LEAST_CONFIDENCE, Blame.QUEUE), (0.59, Blame.UNATTRIBUTED)])
def test_a_root_is_named_from_its_least_share_on(share: float, phase: Blame) -> None:
    found = Verdict(roots={Blame.QUEUE: 100 * share, Blame.DECODE: 100 * (1 - share)})

    assert found.phase is phase
    assert found.confidence == pytest.approx(share)


def test_where_no_root_is_named_those_with_a_part_of_the_misses_are_candidates() -> None:
    found = Verdict(
        roots={Blame.PREFILL: 30.0, Blame.DECODE: 5.0, SIDECAR: 35.0, Blame.UNATTRIBUTED: 30.0},
        causes={Blame.UNATTRIBUTED: Unknown.UNCLEAR, Blame.PREFILL: Cause.PREFILL_COST},
    )

    assert (found.phase, found.candidates) == (Blame.UNATTRIBUTED, (SIDECAR, Blame.PREFILL))
    assert (found.cause, found.reason, found.confidence) == (None, Unknown.UNCLEAR, 0.35)


def test_the_sidecar_itself_can_be_the_root() -> None:
    found = Verdict(roots={SIDECAR: 9.0}, causes={SIDECAR: Cause.SIDECAR_LATE})

    assert (found.phase, found.cause, found.confidence) == ("sidecar", Cause.SIDECAR_LATE, 1.0)


def test_misses_of_which_none_is_decided_have_no_phase_yet() -> None:
    found = Verdict(roots={}, undecided=12.0)

    assert (found.phase, found.confidence, found.candidates, found.since_at) == (Blame.UNATTRIBUTED, 0.0, (), None)


def test_an_objective_that_nothing_missed_has_no_verdict() -> None:
    with pytest.raises(ValueError, match="a verdict has misses"):
        Verdict(roots={})


def test_the_incident_of_the_root_says_since_when_and_else_the_oldest_one() -> None:
    began: dict[RootPhase, float] = {Blame.QUEUE: 1_790_000_000.0, Blame.DECODE: 1_790_000_060.0}

    since = [Verdict(roots={phase: 9.0}, began=began).since_at for phase in (Blame.DECODE, Blame.PREFILL)]

    assert since == [1_790_000_060.0, 1_790_000_000.0]


def test_every_phase_and_cause_of_a_root_can_be_read() -> None:
    assert [str(root_phase(name)) for name in ROOT_PHASES] == list(ROOT_PHASES)
    assert [str(root_cause(name)) for _, name in ROOTS] == [name for _, name in ROOTS]
    with pytest.raises(ValueError, match="elsewhere"):
        root_phase("elsewhere")


def test_what_has_grown_too_little_to_be_named_or_belongs_to_another_phase_is_not_named() -> None:
    worth = WORTH_NAMING[Cause.UNCACHED]
    found = [top({Cause.UNCACHED: ratio, Cause.LOAD: 9.0}, Blame.PREFILL) for ratio in (worth, worth + 0.01)]

    assert found == [None, Cause.UNCACHED]
