"""A diagnosis as text for a terminal of any width."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.accounts.slowest import Slowest, SlowestRequests
from sidecar.commands.diagnose.terminal import ALL, MOST_LINES, text
from sidecar.diagnosis.document import document
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import EngineDown, Latency, Measured
from sidecar.diagnosis.tree import diagnose
from sidecar.ledger.account import Phase
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from tests.support.measured import WELL, anything, live, verdict


@given(anything, st.integers(40, 200))
def test_every_diagnosis_can_be_written_and_read(measured: Measured, columns: int) -> None:
    """JSON has no NaN or Infinity; the text names both latencies and fits the terminal, except for words that are too long."""
    written = document([diagnose(measured)])

    again = json.loads(json.dumps(written, allow_nan=False))
    shown = text(again, columns)

    assert text(written, columns) == shown
    assert shown.count("time to first token:") == shown.count("between tokens:") == 1
    assert "None" not in shown
    wide = [line for line in shown.splitlines() if len(line) > columns]
    assert [line for line in wide if len(line.removeprefix(_beginning(line)).split()) > 1] == []


@given(st.lists(anything, min_size=1, max_size=12), st.integers(80, 200))
@pytest.mark.long
def test_an_answer_that_is_not_asked_for_whole_is_one_screen(measured: list[Measured], columns: int) -> None:
    """With anything known of many lanes: forty lines, both latencies of the first lane, and how to see the rest."""
    written = document([diagnose(each) for each in measured])

    shown = text(written, columns, whole=False)

    assert len(shown.splitlines()) <= MOST_LINES
    assert shown.count("time to first token:") == shown.count("between tokens:") == 1
    assert (f"sidecar diagnose {ALL}" in shown) == (shown != text(written, columns) or len(measured) > 1)


def test_the_lanes_beside_the_first_are_named_with_their_phase() -> None:
    lanes = [lane("chat", 9.0), lane("code", 4.0), lane("batch", 0.0), lane("night", None, samples=14)]

    shown = text(document(lanes), 200, whole=False)

    assert "  Broken too: lane code (unattributed).\n  No verdict on: lane night.\n  Well: lane batch.\n" in shown
    assert shown.splitlines()[0].endswith("[lane chat]")


def _beginning(line: str) -> str:
    """The mark or the name in front of a line's first word."""
    return "".join(re.findall(r"^ *(?:- |[0-9]+[.] |[a-z ]+: +[A-Z]+ +)?", line))


def lane(name: str, burn: float | None, samples: int = 500) -> Diagnosis:
    """A lane that burns its TTFT at this rate; None: no objective."""
    misses = None if burn is None else 20.0 * burn
    slow = Latency(p99_seconds=4.0, samples=samples, threshold_seconds=1.0, misses=misses, burn=burn)
    return diagnose(live(verdict(Blame.QUEUE), lane=name, ttft=slow, verdicts={}))


def titles(*diagnoses: Diagnosis, down: Sequence[EngineDown] = ()) -> list[str]:
    shown = text(document(diagnoses, down), 200)
    return [line for line in shown.splitlines() if line and not line.startswith(" ")]


def test_the_live_incident_comes_first_and_too_few_samples_come_last() -> None:
    few = lane("night", None, samples=14)
    bypassed = diagnose(
        live(verdict(Blame.QUEUE), lane="rag", ttft=replace(WELL, misses=0.0), verdicts={}, traffic_seen=0.2)
    )

    shown = titles(few, lane("code", 0.0), bypassed, lane("batch", 2.0), lane("chat", 9.0))

    assert [line.split("[lane ")[1].split("]")[0] for line in shown] == ["chat", "batch", "rag", "code", "night"]


def test_a_lane_with_too_few_samples_says_until_when_it_was_missed() -> None:
    """A ticket for the last half hour may just have come."""
    few = Latency(
        samples=9,
        misses=0.0,
        burn=0.0,
        misses_long=93.0,
        burn_long=6.5,
        missed_until_seconds=300.0,
        threshold_seconds=4.0,
    )

    shown = text(document([diagnose(live(verdict(Blame.QUEUE), ttft=few))]), 200)

    assert shown.startswith("NO VERDICT  [lane chat]")
    assert (
        "The time to first token is met now; it was missed until 5 min ago (93 misses in the last half hour)." in shown
    )


def test_an_engine_that_is_down_is_the_first_line_also_without_a_lane() -> None:
    here = EngineDown(seconds=185.0)
    fleet = EngineDown(namespace="llm", pods=("a", "b"), of_pods=3)

    shown = titles(down=[here, fleet])

    assert shown == [
        "THE ENGINE IS DOWN",
        "2 OF 3 ENGINES ARE DOWN  [namespace llm, pod a, b]",
        "No lane had a request within the window.",
    ]
    assert titles() == ["No lane had a request within the window: there is nothing to diagnose."]
    said = text(document([], [here]))
    assert "It has not passed a health check for 3 min." in said
    assert "/runbooks/LLMEngineDown" in said
    assert "It has not passed a health check.\n" in text(document([], [EngineDown(seconds=0.0)]))
    assert titles(down=[EngineDown(stalled=True)])[0] == "THE ENGINE IS STALLED"
    assert "It has stopped in the middle of work for 3 min." in text(
        document([], [EngineDown(seconds=185.0, stalled=True)])
    )
    assert titles(down=[EngineDown(seconds=185.0, coming_up=True)])[0] == "THE ENGINE HAS NOT COME UP YET"


def test_gaps_are_called_before_delivery_beside_misses_with_delivery() -> None:
    """A client that reads slowly makes answers miss while the gaps stay short."""
    missed = Latency(p99_seconds=0.02, samples=5000, threshold_seconds=0.08, misses=60.0, judged=120.0, burn=5.0)
    stream = live(
        verdict(Blame.STREAM), ttft=WELL, inter_token=missed, verdicts={Objective.TPOT: verdict(Blame.STREAM)}
    )

    shown = text(document([diagnose(stream)]), 200)

    number = (
        "BROKEN  60 of 120 requests missed 80 ms a token, the mean of an answer, 12 allowed;"
        " p99 20 ms of 5,000 gaps, before delivery"
    )
    assert f"  between tokens:      {number}" in shown
    assert "Single gaps are 20 ms at the p99: they are taken before delivery." in shown


# --- the slowest requests ------------------------------------------------------------------------------------------------


def slowest_lines(*of: Slowest) -> list[str]:
    shown = text(document([], (), SlowestRequests(span_seconds=2520.0, requests=12_345, of=of)), 300)
    return shown.splitlines()[2:]


def test_the_slowest_of_a_lane_are_told_with_their_phases() -> None:
    """The lane, how many, their limit and mean, each phase with its share, and what stands beside it."""
    slow = Slowest(
        lane="chat",
        objective=Objective.TTFT,
        requests=1180,
        slowest=12,
        least_seconds=2.25,
        mean_seconds=4.0,
        phases={Phase.QUEUE: 3.0, Phase.PREFILL: 0.8, Phase.FIRST_TOKEN: 0.2, Phase.STREAM: 0.0},
        missed=12,
        estimated=3,
        prompt_tokens=3120.0,
        cached_tokens=512.0,
        completion_tokens=88.0,
    )

    assert slowest_lines(slow, Slowest("batch", Objective.E2E, 40), Slowest("batch", Objective.TPOT, 1)) == [
        "SLOWEST 1 %  [the last 42 min: 12,345 requests]",
        (
            "  chat, time to first token: 12 of 1,180 took 2.25 s or more, 4 s on average: queue 3 s (75 %), prefill 800 ms (20 %),"
            " first token 200 ms (5 %). All missed the objective. Prompts of 3,120 tokens (512 cached) on average."
            " Answers of 88 tokens on average. The phases of 3 are estimated."
        ),
        "  batch, whole answer, not streamed: 40 requests so far, 100 are needed.",
        "  batch, between tokens: 1 request so far, 100 are needed.",
    ]


def test_a_length_that_is_unknown_is_not_told() -> None:
    slow = Slowest("chat", Objective.E2E, 100, 1, 1.0, 1.0, {Phase.UNATTRIBUTED: 1.0})

    assert slowest_lines(slow)[1:] == [
        "  chat, whole answer, not streamed: 1 of 100 took 1 s or more, 1 s on average: unattributed 1 s (100 %)."
    ]


def test_without_requests_nothing_is_said_of_the_slowest() -> None:
    """A Prometheus knows no single request, and a sidecar none before the first."""
    assert slowest_lines() == []
    assert "SLOWEST" not in text(document([]))
