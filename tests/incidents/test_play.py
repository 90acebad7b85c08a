"""A run is the same for the same seed, its pair differs only in the fault, and every fault does what it says."""

from dataclasses import asdict

import pytest

from bench.incidents.engines import CHUNKS_2048, DECODE_HEAVY
from bench.incidents.fault import Episode, Fault, Hop, SlowClients
from bench.incidents.play import NO_INCIDENT, Incident, pair_of, play
from bench.incidents.request import Request, Run
from sidecar.timeline.outcome import Outcome


pytestmark = pytest.mark.bench


def during(run: Run) -> list[Request]:
    return [request for request in run.requests if run.fault_at <= request.received_at < run.recovers_at]


def incident(fault: Fault, ends: float | None = None) -> Incident:
    return Incident((Episode(fault, 0.0, ends),))


def test_the_same_seed_is_the_same_run_to_the_last_bit() -> None:
    faults = incident(Fault(load={"code": 3.0}, knobs={"prefill_factor": 2.0}))

    one, other = (play(CHUNKS_2048, 7, faults, factor=0.6) for _ in range(2))

    assert [asdict(request) for request in one.requests] == [asdict(request) for request in other.requests]
    assert one.states == other.states


def test_a_run_and_its_pair_have_lived_the_same_until_the_fault() -> None:
    """Until the fault, a run and its pair are the same. The requests that the fault adds come on top of the usual
    ones."""
    faults = incident(Fault(load={"code": 3.0}))
    run, pair = play(CHUNKS_2048, 3, faults, factor=0.5), play(CHUNKS_2048, 3, pair_of(faults), factor=0.5)

    def asked(of: Run) -> list[tuple[str, float, int, int]]:
        return [
            (request.lane, request.received_at, request.prompt_tokens, request.output_tokens) for request in of.requests
        ]

    settled = [request.reads for request in run.requests if request.received_at < run.fault_at - 60]
    assert settled == [request.reads for request in pair.requests if request.received_at < run.fault_at - 60]
    assert set(asked(pair)) < set(asked(run))
    more = [request for request in during(run) if request.lane == "code"]
    assert len(more) == pytest.approx(3 * sum(request.lane == "code" for request in during(pair)), rel=0.15)


def test_a_crash_cuts_off_who_is_inside_and_refuses_who_comes() -> None:
    """After the crash the new process has an empty cache: the first prompts of each tenant are computed whole."""
    run = play(DECODE_HEAVY, 5, incident(Fault(down=True), 90.0), factor=1.0)
    back_at = run.fault_at + 90.0

    refused = [request for request in run.requests if run.fault_at < request.received_at < back_at]
    assert {request.outcome for request in refused} == {Outcome.ENGINE_UNREACHABLE}
    cut = [request for request in run.requests if request.ended_at == run.fault_at]
    assert {request.outcome for request in cut} <= {Outcome.ENGINE_TRUNCATED, Outcome.ENGINE_ERROR}
    assert len(cut) > 0
    assert {state.process for state in run.states if state.at > back_at} == {1}
    assert not any(state.up for state in run.states if run.fault_at < state.at < back_at)
    first = next(request for request in run.requests if request.received_at > back_at and request.lane == "interactive")
    assert first.cached_tokens == 0


def test_nothing_ends_while_the_engine_hangs() -> None:
    run = play(CHUNKS_2048, 5, incident(Fault(knobs={"hung": True}), 60.0), factor=0.8)

    silent = [at for request in run.requests for at in request.reads if run.fault_at + 0.1 < at < run.fault_at + 60.0]
    assert silent == []
    assert any(request.reads and request.reads[0] > run.fault_at + 60.0 for request in during(run))


def test_a_lost_cache_makes_prompts_longer_to_compute_and_not_longer() -> None:
    faults = incident(Fault(uncached={"interactive": 1.0}))
    run, pair = play(CHUNKS_2048, 4, faults, factor=0.5), play(CHUNKS_2048, 4, pair_of(faults), factor=0.5)

    lost, usual = ([request for request in during(each) if request.lane == "interactive"] for each in (run, pair))
    assert [request.prompt_tokens for request in lost] == [request.prompt_tokens for request in usual]
    assert sum(request.cached_tokens for request in lost) == 0
    assert sum(request.cached_tokens for request in usual) > 0.7 * sum(request.prompt_tokens for request in usual)


def test_a_hop_delays_first_tokens_and_slow_clients_delay_the_rest() -> None:
    """The engine's own report contains neither delay."""
    hopped = play(CHUNKS_2048, 6, incident(Fault(hop=Hop(50, 60.0))), factor=0.5)
    slow = play(CHUNKS_2048, 6, incident(Fault(slow_clients={"interactive": SlowClients(1.0, 10.0)})), factor=0.5)
    usual = play(CHUNKS_2048, 6, NO_INCIDENT, factor=0.5)

    def means(run: Run) -> tuple[float, float, float]:
        requests = [
            request for request in during(run) if request.lane == "interactive" and request.report and request.reads
        ]
        ttft = sum(request.reads[0] - request.received_at for request in requests) / len(requests)
        pace = sum((request.reads[-1] - request.reads[0]) / (request.output_tokens - 1) for request in requests) / len(
            requests
        )
        return ttft, pace, sum(request.report[2] for request in requests if request.report) / len(requests)

    assert means(hopped)[0] > means(usual)[0] + 0.25
    assert means(slow)[0] == pytest.approx(means(usual)[0], abs=0.01)
    assert means(slow)[1] > 0.06 > 2 * means(usual)[1]
    assert means(hopped)[2] == pytest.approx(means(usual)[2])
    assert means(slow)[2] == pytest.approx(means(usual)[2])


def test_one_victim_in_five_gives_up_and_one_report_in_twenty_is_lost() -> None:
    run = play(CHUNKS_2048, 8, incident(Fault(knobs={"hung": True}), 120.0), factor=1.0)

    waiting = [
        request
        for request in run.requests
        if run.fault_at < request.received_at < run.fault_at + 100.0 and request.streaming
    ]
    left = [request for request in waiting if request.outcome is Outcome.CLIENT_CANCELLED]
    assert 0.1 < len(left) / len(waiting) < 0.3
    done = [request for request in run.requests if request.outcome is Outcome.OK and request.ended_at is not None]
    assert sum(request.report is None for request in done) / len(done) == pytest.approx(0.05, abs=0.02)
