"""Sampled incidents: on every engine and at every load, each changes something, and its set-up leaves a healthy run."""

from random import Random

import pytest

from bench.incidents.engines import ENGINES, EngineConfig
from bench.incidents.fault import NOTHING, Fault
from bench.incidents.kinds import BY_NAME, KINDS, Kind
from bench.incidents.play import Incident
from bench.incidents.sampling import LEAST_MORE, MODERATE


UTILISATIONS = (0.3, 0.58, 0.75, 0.9)
"""Loads before the fault, as shares of saturation: all that an unkind world draws."""
MAGNITUDES = (0.0, 0.5, 1.0)
ADDS_LOAD = ("burst", "overload", "noisy-tenant", "ramp", "burst-30s", "restart-then-overload")


def sampled(name: str, engine: EngineConfig, utilisation: float, magnitude: float, seed: int = 1) -> Incident:
    return BY_NAME[name].sample(engine, utilisation * engine.saturates_at, magnitude, Random(seed))


def everywhere(name: str) -> list[tuple[EngineConfig, float, Incident]]:
    """Incidents of one kind on all engines, at all loads, of all magnitudes."""
    return [
        (engine, utilisation, sampled(name, engine, utilisation, magnitude, seed))
        for seed, engine in enumerate(ENGINES)
        for utilisation in UTILISATIONS
        for magnitude in MAGNITUDES
    ]


def work(engine: EngineConfig, lane: str) -> float:
    """Seconds of prefill and decode of a lane's requests in each second at load factor 1."""
    load, costs = engine.lane(lane), engine.costs
    prefill = costs.chunk(load.prompt_tokens - load.shared_tokens, load.shared_tokens)
    return load.per_second * (prefill + load.output_tokens * costs.decode(8, 12_000) / 8)


def utilisation_with(engine: EngineConfig, utilisation: float, fault: Fault) -> float:
    """Share of saturation after a fault has changed the arrivals."""
    whole = sum(work(engine, load.lane) for load in engine.lanes)
    share = {load.lane: work(engine, load.lane) / whole for load in engine.lanes}
    return utilisation * sum(part * fault.load.get(lane, 1.0) for lane, part in share.items())


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_every_fault_changes_something_on_every_engine_at_every_load(kind: Kind) -> None:
    for engine, utilisation, incident in everywhere(kind.name):
        faults = [episode.fault for episode in incident.episodes]
        assert faults
        for fault in faults:
            assert fault != NOTHING
            assert all(factor > 1.0 for factor in fault.load.values()), (engine.name, utilisation)
            assert all(factor > 1.0 for factor in {**fault.prompts, **fault.outputs}.values())
            assert all(stranger.per_second > 0.0 for stranger in fault.strangers)
            assert fault.knobs.get("slots", 0) < engine.slots
            assert all(fault.knobs.get(name, 2.0) > 1.0 for name in ("prefill_factor", "decode_factor"))


@pytest.mark.parametrize("name", ADDS_LOAD)
def test_an_incident_that_adds_load_adds_a_sixth_and_comes_near_saturation(name: str) -> None:
    for engine, utilisation, incident in everywhere(name):
        highest = utilisation_with(engine, utilisation, incident.episodes[-1].fault)
        assert highest >= utilisation * LEAST_MORE * 0.999
        assert 0.89 <= highest <= 4.01 if name == "burst-30s" else highest >= 0.89


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_no_set_up_overloads_a_healthy_engine(kind: Kind) -> None:
    """A set-up may make a quiet day busier. On a busy day it adds no load and no longer answers."""
    for engine, utilisation, incident in everywhere(kind.name):
        setup = incident.setup
        assert utilisation_with(engine, utilisation, setup) <= max(utilisation, MODERATE) * 1.001
        if utilisation > MODERATE:
            assert all(factor <= 1.0 for factor in {**setup.load, **setup.outputs}.values())


def test_a_ramp_rises_in_ten_steps_of_a_minute_and_stays() -> None:
    engine = ENGINES[0]

    episodes = sampled("ramp", engine, 0.5, 0.0).episodes

    loads = [utilisation_with(engine, 0.5, episode.fault) for episode in episodes]
    assert loads == sorted(loads)
    assert (len(loads), round(loads[0], 3), round(loads[-1], 3)) == (10, 0.545, 0.95)
    assert [(episode.begins, episode.ends) for episode in episodes[:2]] == [(0.0, 60.0), (60.0, 120.0)]
    assert (episodes[-1].begins, episodes[-1].ends) == (540.0, None)


def test_a_short_burst_lasts_half_a_minute() -> None:
    (episode,) = sampled("burst-30s", ENGINES[1], 0.5, 1.0).episodes

    assert (episode.begins, episode.ends) == (0.0, 30.0)


def test_a_planned_restart_comes_one_to_three_minutes_before_an_overload() -> None:
    for seed in range(20):
        restart, overload = sampled("restart-then-overload", ENGINES[0], 0.5, 0.3, seed).episodes

        assert restart.fault == Fault(fresh=True)
        assert -200.0 <= restart.begins <= -80.0
        assert restart.ends == restart.begins + 1.0
        assert (overload.begins, overload.ends, overload.fault.knobs) == (0.0, None, {})


def test_a_long_answer_is_in_flight_when_the_engine_hangs() -> None:
    """It is not streamed, arrives three seconds before, and even with speculative decoding it takes longer than that."""
    for engine in ENGINES:
        before, hang = sampled("hang-unstreamed", engine, 0.5, 0.0).episodes
        (stranger,) = before.fault.strangers

        assert (stranger.streaming, stranger.first_at_once, before.begins, before.ends) == (False, True, -3.0, 0.0)
        assert stranger.output_tokens[0] / 2.6 * engine.costs.decode(1, 1000) > 3.0
        assert stranger.prompt_tokens[1] + stranger.output_tokens[1] <= engine.limits.max_model_len
        assert hang.fault.knobs == {"hung": True}


def test_an_engine_errs_on_a_tenth_of_the_requests_or_on_all() -> None:
    shares = [sampled("errors", ENGINES[0], 0.5, magnitude).episodes[0].fault.errors for magnitude in (0.0, 1.0)]

    assert [round(share, 6) for share in shares] == [0.1, 1.0]


def test_a_throttled_sidecar_stands_still_for_about_a_threshold_or_for_three() -> None:
    engine = ENGINES[0]
    found = []
    for magnitude in (0.0, 1.0):
        throttle = sampled("throttled-sidecar", engine, 0.5, magnitude).episodes[0].fault.throttle
        assert throttle is not None
        found.append((round(throttle.run_seconds / throttle.period_seconds, 3), round(throttle.period_seconds, 3)))

    assert found == [(0.25, 1.8), (0.05, 6.0)]  # the threshold is 2 s


def test_grown_prompts_have_room_in_the_kv_cache() -> None:
    for engine, _, incident in everywhere("prompts-grow"):
        growth, knobs = incident.episodes[0].fault.prompts["batch"], incident.setup.knobs
        longest = engine.lane("batch").prompt_tokens * growth * 1.4 + engine.lane("batch").output_tokens * 1.4
        blocks = engine.limits.blocks_for(min(engine.limits.max_model_len, round(longest)))

        assert knobs["kv_blocks"] >= knobs["slots"] * blocks
        assert 0.75 * engine.slots <= knobs["slots"] <= engine.slots
        assert 1.5 <= round(growth, 6) <= 4.0


def test_transfers_slow_a_usual_answer_by_a_third_of_its_tpot_or_by_three() -> None:
    """An answer of the lane `interactive` has 120 tokens here, and may take 45 ms for each but the first."""
    engine = ENGINES[1]

    seconds = [
        sampled("kv-transfer", engine, 0.5, magnitude).episodes[0].fault.transfer_seconds for magnitude in (0.0, 1.0)
    ]

    assert [round(each / 119, 4) for each in seconds] == [0.0135, 0.135]


def test_thin_traffic_is_one_request_a_minute_and_all_of_it_is_hit_for_twelve_minutes() -> None:
    drawn = set()
    for seed in range(30):
        engine = ENGINES[seed % 5]
        incident = sampled("one-a-minute", engine, 0.6, 0.0, seed)
        (episode,) = incident.episodes
        drawn |= set(incident.made_of)

        for load in engine.lanes:
            per_minute = 60 * load.per_second * 0.6 * engine.saturates_at * incident.setup.load[load.lane]
            assert round(per_minute, 6) == 1.0
            aim = load.aims.ttft
            assert aim is not None
            shortest = 0.6 * engine.costs.chunk(load.prompt_tokens - load.shared_tokens, load.shared_tokens)
            slow = episode.fault.knobs.get("prefill_factor", 1e9)
            assert slow >= 6.0
            assert slow * shortest > aim.threshold_seconds
        assert (episode.begins, episode.ends) == (0.0, 720.0)

    assert drawn == {"hang", "crash", "prefill-slow"}
