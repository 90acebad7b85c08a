"""The part that holds most of the phase that broke is named, with what to do; where no part is stated there is no word of one."""

import re
from dataclasses import replace

import pytest
from hypothesis import given

from sidecar.admin.page.verdicts import verdicts
from sidecar.diagnosis.document import document
from sidecar.diagnosis.measured import Latency, Load, Measured, PhaseParts, PhaseTime
from sidecar.diagnosis.part_words import DO, IS, largest_part
from sidecar.diagnosis.tree import diagnose
from sidecar.diagnosis.verdict import RootPhase
from sidecar.ledger.phase_parts import REST, Part
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.pod.causes import Cause
from tests.diagnosis.life import Life
from tests.support.measured import WELL, anything, live, verdict


QUEUE = PhaseParts(requests=120.0, mean_seconds={"router": 0.05, "prefill_queue": 0.81, REST: 0.04})
SAID = (
    "Of the phase queue, 810 ms of 900 ms per request are prefill_queue, the prefill workers' queue: add prefill workers, or send them"
    " fewer or shorter prompts. A share of now and no growth, over 120 requests whose engine states parts of it."
)


def told(phase: RootPhase = Blame.QUEUE, parts: PhaseParts | None = QUEUE, **more: object) -> list[str]:
    """The lines of a lane whose engine states these parts of its queue."""
    return largest_part(live(verdict(phase), phase_parts={} if parts is None else {Blame.QUEUE: parts}, **more), phase)


def test_each_part_has_its_clauses() -> None:
    assert set(IS) == set(DO) == set(Part)
    assert [text for text in (*IS.values(), *DO.values()) if not re.fullmatch(r"[a-zK].*[^.]", text)] == []


def test_the_largest_part_is_told_as_a_share_of_now() -> None:
    assert told() == [SAID]


@pytest.mark.parametrize("phase", [Blame.PREFILL, Blame.DECODE, Blame.UNATTRIBUTED, SIDECAR])
def test_a_phase_without_stated_parts_has_no_line(phase: RootPhase) -> None:
    """Unknown is not zero: parts of another phase say nothing about it."""
    assert told(phase) == told(parts=None) == []


def test_a_phase_that_took_no_time_has_no_line() -> None:
    assert told(parts=PhaseParts(requests=3.0, mean_seconds={"router": 0.0, REST: 0.0})) == []


def test_the_rest_is_never_taken_for_a_part() -> None:
    """If it holds most, no stated part explains the phase; if it holds as much as a part, the part is named."""
    rest = replace(QUEUE, mean_seconds={"router": 0.05, REST: 0.85})
    same = replace(QUEUE, mean_seconds={REST: 0.45, "router": 0.45})

    assert told(parts=rest)[0].startswith(
        "Of the phase queue, 850 ms of 900 ms per request are in no part that the engine states; the largest of those is router, 50 ms. A"
    )
    assert told(parts=same)[0].startswith("Of the phase queue, 450 ms of 900 ms per request are router, the wait")


def test_a_rest_alone_names_no_part() -> None:
    """A part that the window's first scrape already had, and that did not grow since, is not known."""
    (line,) = told(parts=replace(QUEUE, mean_seconds={REST: 0.9}))

    assert "are in no part that the engine states. A share" in line


def test_a_part_of_a_later_version_is_told_without_advice() -> None:
    (line,) = told(parts=replace(QUEUE, mean_seconds={"warp": 0.8, REST: 0.1}, requests=1.0))

    assert line == (
        "Of the phase queue, 800 ms of 900 ms per request are warp. A share of now and no growth, over 1 request whose engine states parts of it."
    )


def test_an_estimated_phase_is_said_to_be_one() -> None:
    """Dynamo states its router's wait, and queue and prefill as one number, which an estimate divides."""
    (line,) = told(phases={Blame.QUEUE: PhaseTime(mean_seconds=0.9, sources={"estimated": 0.6, "engine": 0.4})})

    assert line == f"{SAID.removesuffix('.')}; the phase is an estimate in 60 % of the lane's."


def test_it_stands_behind_the_cause_of_the_verdict() -> None:
    """And in the JSON, where a program reads the numbers."""
    found = diagnose(live(verdict(Blame.QUEUE, Cause.LOAD), phase_parts={Blame.QUEUE: QUEUE}))

    assert found.evidence[1] == SAID
    (one,) = document([found])["diagnoses"]
    assert one["measured"]["phase_parts"] == {
        "queue": {"requests": 120.0, "mean_seconds": {"router": 0.05, "prefill_queue": 0.81, "rest": 0.04}}
    }


def test_a_lane_without_an_objective_has_it_too() -> None:
    lane = Measured(
        source="sidecar",
        ttft=Latency(p99_seconds=4.0, mean_seconds=2.3, samples=50),
        inter_token=Latency(p99_seconds=0.02, samples=2500),
        load=Load(arrivals_per_second=1.0),
        phases={Blame.QUEUE: PhaseTime(mean_seconds=2.0), Blame.PREFILL: PhaseTime(mean_seconds=0.2)},
        phase_parts={Blame.QUEUE: QUEUE},
    )

    found = diagnose(lane)

    assert (found.phase, SAID in found.evidence) == (Blame.QUEUE, True)


def test_while_all_is_well_no_part_is_named() -> None:
    found = diagnose(live(verdict(Blame.QUEUE), ttft=WELL, phase_parts={Blame.QUEUE: QUEUE}))

    assert (found.phase, SAID in found.evidence) == (None, False)


@given(anything)
def test_whatever_else_is_known_there_is_one_line_where_the_phase_that_broke_has_parts(measured: Measured) -> None:
    found = diagnose(measured)
    broken = None if found.phase in (None, SIDECAR) else Blame(str(found.phase))
    parts = None if broken is None else found.measured.phase_parts.get(broken)
    due = parts is not None and sum(parts.mean_seconds.values()) > 0

    assert sum(line.startswith("Of the phase ") for line in found.evidence) == due


def test_a_running_sidecar_tells_the_parts_of_its_last_minutes() -> None:
    """And its status page too. Requests whose engine states none are in no mean."""
    life = Life()
    life.minutes(15)
    parts = {("queue", "router"): 0.2, ("queue", "prefill_queue"): 1.5, ("queue", "rest"): 0.3}
    assert life.now().phase_parts == {}
    life.minutes(5, missing=0.5, queue=2.0, parts=parts)

    found = diagnose(life.now())

    assert found.measured.phase_parts[Blame.QUEUE].requests == 1200
    assert found.measured.phase_parts[Blame.QUEUE].mean_seconds == pytest.approx(
        {part: mean for (_, part), mean in parts.items()}
    )
    assert [line for line in found.evidence if "1.5 s of 2 s per request are prefill_queue" in line] != []
    assert "1.5 s of 2 s per request are prefill_queue" in verdicts([found])
