"""A run is the same for the same seed, its pair differs only in the fault, and every effect does what it says."""

from dataclasses import asdict

import pytest

from bench.incidents.engines import CHUNKS_2048, DECODE_HEAVY
from bench.incidents.fault import Effect, Episode, Hop, SlowClients
from bench.incidents.play import NO_INCIDENT, Incident, pair_of, play
from bench.incidents.request import Life, Run
from sidecar.timeline.outcome import Outcome


pytestmark = pytest.mark.bench


def during(run: Run) -> list[Life]:
    return [life for life in run.lives if run.fault_at <= life.received_at < run.recovers_at]


def incident(effect: Effect, ends: float | None = None) -> Incident:
    return Incident((Episode(effect, 0.0, ends),))


def test_the_same_seed_is_the_same_run_to_the_last_bit() -> None:
    faults = incident(Effect(load={"code": 3.0}, knobs={"prefill_factor": 2.0}))

    one, other = (play(CHUNKS_2048, 7, faults, factor=0.6) for _ in range(2))

    assert [asdict(life) for life in one.lives] == [asdict(life) for life in other.lives]
    assert one.states == other.states


def test_a_run_and_its_pair_have_lived_the_same_until_the_fault() -> None:
    """Until the fault, a run and its pair are the same. The requests that the fault adds come on top of the usual
    ones."""
    faults = incident(Effect(load={"code": 3.0}))
    run, pair = play(CHUNKS_2048, 3, faults, factor=0.5), play(CHUNKS_2048, 3, pair_of(faults), factor=0.5)

    def asked(of: Run) -> list[tuple[str, float, int, int]]:
        return [(life.lane, life.received_at, life.prompt_tokens, life.output_tokens) for life in of.lives]

    settled = [life.reads for life in run.lives if life.received_at < run.fault_at - 60]
    assert settled == [life.reads for life in pair.lives if life.received_at < run.fault_at - 60]
    assert set(asked(pair)) < set(asked(run))
    more = [life for life in during(run) if life.lane == "code"]
    assert len(more) == pytest.approx(3 * sum(life.lane == "code" for life in during(pair)), rel=0.15)


def test_a_crash_cuts_off_who_is_inside_and_refuses_who_comes() -> None:
    """After the crash the new process has an empty cache: the first prompts of each tenant are computed whole."""
    run = play(DECODE_HEAVY, 5, incident(Effect(down=True), 90.0), factor=1.0)
    back_at = run.fault_at + 90.0

    refused = [life for life in run.lives if run.fault_at < life.received_at < back_at]
    assert {life.outcome for life in refused} == {Outcome.ENGINE_UNREACHABLE}
    cut = [life for life in run.lives if life.ended_at == run.fault_at]
    assert {life.outcome for life in cut} <= {Outcome.ENGINE_TRUNCATED, Outcome.ENGINE_ERROR}
    assert len(cut) > 0
    assert {state.process for state in run.states if state.at > back_at} == {1}
    assert not any(state.up for state in run.states if run.fault_at < state.at < back_at)
    first = next(life for life in run.lives if life.received_at > back_at and life.lane == "interactive")
    assert first.cached_tokens == 0


def test_nothing_ends_while_the_engine_hangs() -> None:
    run = play(CHUNKS_2048, 5, incident(Effect(knobs={"hung": True}), 60.0), factor=0.8)

    silent = [at for life in run.lives for at in life.reads if run.fault_at + 0.1 < at < run.fault_at + 60.0]
    assert silent == []
    assert any(life.reads and life.reads[0] > run.fault_at + 60.0 for life in during(run))


def test_a_lost_cache_makes_prompts_longer_to_compute_and_not_longer() -> None:
    faults = incident(Effect(uncached={"interactive": 1.0}))
    run, pair = play(CHUNKS_2048, 4, faults, factor=0.5), play(CHUNKS_2048, 4, pair_of(faults), factor=0.5)

    lost, usual = ([life for life in during(each) if life.lane == "interactive"] for each in (run, pair))
    assert [life.prompt_tokens for life in lost] == [life.prompt_tokens for life in usual]
    assert sum(life.cached_tokens for life in lost) == 0
    assert sum(life.cached_tokens for life in usual) > 0.7 * sum(life.prompt_tokens for life in usual)


def test_a_hop_delays_first_tokens_and_slow_clients_delay_the_rest() -> None:
    """The engine's own report contains neither delay."""
    hopped = play(CHUNKS_2048, 6, incident(Effect(hop=Hop(50, 60.0))), factor=0.5)
    slow = play(CHUNKS_2048, 6, incident(Effect(slow_clients={"interactive": SlowClients(1.0, 10.0)})), factor=0.5)
    usual = play(CHUNKS_2048, 6, NO_INCIDENT, factor=0.5)

    def means(run: Run) -> tuple[float, float, float]:
        lives = [life for life in during(run) if life.lane == "interactive" and life.report and life.reads]
        ttft = sum(life.reads[0] - life.received_at for life in lives) / len(lives)
        pace = sum((life.reads[-1] - life.reads[0]) / (life.output_tokens - 1) for life in lives) / len(lives)
        return ttft, pace, sum(life.report[2] for life in lives if life.report) / len(lives)

    assert means(hopped)[0] > means(usual)[0] + 0.25
    assert means(slow)[0] == pytest.approx(means(usual)[0], abs=0.01)
    assert means(slow)[1] > 0.06 > 2 * means(usual)[1]
    assert means(hopped)[2] == pytest.approx(means(usual)[2])
    assert means(slow)[2] == pytest.approx(means(usual)[2])


def test_one_victim_in_five_gives_up_and_one_report_in_twenty_is_lost() -> None:
    run = play(CHUNKS_2048, 8, incident(Effect(knobs={"hung": True}), 120.0), factor=1.0)

    waiting = [life for life in run.lives if run.fault_at < life.received_at < run.fault_at + 100.0 and life.streaming]
    left = [life for life in waiting if life.outcome is Outcome.CLIENT_CANCELLED]
    assert 0.1 < len(left) / len(waiting) < 0.3
    done = [life for life in run.lives if life.outcome is Outcome.OK and life.ended_at is not None]
    assert sum(life.report is None for life in done) / len(done) == pytest.approx(0.05, abs=0.02)
