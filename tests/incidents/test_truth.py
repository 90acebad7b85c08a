"""The truth about a run finds a known delay in its phase."""

import pytest

from bench.incidents.engines import CHUNKS_2048, EngineConfig
from bench.incidents.fault import Episode, Fault
from bench.incidents.kinds import BY_NAME
from bench.incidents.play import Incident, pair_of, play
from bench.incidents.request import Request, Run, State, TruePhases
from bench.incidents.truth import Truth, truth_of


QUIET = TruePhases(0.01, 0.02, 0.10, 1.0, 0.0, 0.004)


def request(number: int, at: float, ttft: float | None, phases: TruePhases = QUIET) -> Request:
    """One streamed request of the interactive lane, 11 tokens, 10 ms apart."""
    made = Request(number, "interactive", 2000, 11, True, at)
    if ttft is not None:
        made.reads = [at + ttft + step * 0.01 for step in range(11)]
        made.events = [1] * 11
        made.ended_at = made.flushed_at = made.reads[-1]
        made.phases = phases
    return made


def run_of(
    requests: list[Request], states: list[State] | None = None, *, pods: int = 1, at_fault: tuple[int, ...] = (0,)
) -> Run:
    return Run(requests, states or [], 600.0, 1200.0, 1500.0, pods=pods, at_fault=at_fault)


def usual() -> Run:
    return run_of([request(number, float(number), 0.15) for number in range(1500)])


def truth(run: Run, kind: str = "burst", engine: EngineConfig = CHUNKS_2048) -> Truth:
    return truth_of(engine, [BY_NAME[kind]], run, usual())


@pytest.mark.bench
@pytest.mark.parametrize(
    ("fault", "objective", "phase"),
    [
        (Fault(knobs={"front_end_extra_seconds": 3.0}), "ttft", "first_token"),
        (Fault(knobs={"decode_factor": 8.0}), "tpot", "decode"),
        (Fault(load={"interactive": 5.0, "code": 5.0, "batch": 5.0}), "ttft", "queue"),
    ],
    ids=["front end", "decode", "load"],
)
def test_a_known_delay_is_found_in_its_phase(fault: Fault, objective: str, phase: str) -> None:
    """Runs the real simulation with the fault, and compares it with the paired run without it."""
    incident = Incident((Episode(fault),))
    run, pair = play(CHUNKS_2048, 2, incident, factor=0.6), play(CHUNKS_2048, 2, pair_of(incident), factor=0.6)

    found = truth_of(CHUNKS_2048, [BY_NAME["overload"]], run, pair).lanes["interactive", objective]

    assert (found.proximate, found.must_page) == (phase, True)
