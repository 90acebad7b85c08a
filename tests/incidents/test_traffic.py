"""Arrivals: one seed is one sequence of requests, whatever the lengths' distribution and whatever an incident adds."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import fmean

from bench.incidents.engines import CHUNKS_2048, EngineConfig
from bench.incidents.fault import NOTHING, Episode, Fault, Stranger
from bench.incidents.request import Run
from bench.incidents.traffic import Active, Asked, arrivals
from bench.incidents.world import HERD_SECONDS


def asked(
    fault: Fault | None = None,
    setup: Fault = NOTHING,
    *,
    sigma: float | None = None,
    engine: EngineConfig = CHUNKS_2048,
    herd: int = 1,
) -> list[Asked]:
    """One hour at twice the usual rate; the fault lasts from minute 20 to minute 40."""
    episodes = () if fault is None else (Episode(fault),)
    active = Active(episodes, Run([], [], 1200.0, 2400.0, 3600.0), setup)
    return list(arrivals(engine, 2.0, 5, active, length_sigma=sigma, herd=herd))


@cache
def usual() -> tuple[Asked, ...]:
    """The hour without any of these."""
    return tuple(asked())


def test_without_a_sigma_lengths_are_uniform_in_the_lanes_spread() -> None:
    """A prompt of the lane `code` has 1200 shared tokens, and 300 of its own."""
    code = [each for each in usual() if each.lane == "code"]

    assert min(each.prompt_tokens for each in code) >= 1200 + 180
    assert max(each.prompt_tokens for each in code) <= 1200 + 420
    assert 290 < fmean(each.prompt_tokens - 1200 for each in code) < 310


def test_lognormal_lengths_have_the_same_mean_and_a_long_tail() -> None:
    uniform, lognormal = usual(), asked(sigma=0.7)

    for lane, shared in (("interactive", 1900), ("batch", 0), ("code", 1200)):
        one, other = ([each for each in run if each.lane == lane] for run in (uniform, lognormal))
        own = [fmean(each.prompt_tokens - shared for each in run) for run in (one, other)]
        assert abs(own[1] / own[0] - 1) < 0.06
        outputs = [fmean(each.output_tokens for each in run) for run in (one, other)]
        assert abs(outputs[1] / outputs[0] - 1) < 0.06
        assert max(each.output_tokens for each in other) > 3 * max(each.output_tokens for each in one) / 1.4


def test_the_distribution_of_lengths_changes_neither_instants_nor_luck() -> None:
    uniform, lognormal = usual(), asked(sigma=0.4)

    assert [(each.at, each.lane, each.prefix, each.streaming, each.luck) for each in uniform] == [
        (each.at, each.lane, each.prefix, each.streaming, each.luck) for each in lognormal
    ]


def test_a_lognormal_request_fits_into_the_engine_however_much_it_grows() -> None:
    grown = asked(Fault(prompts={"batch": 5.0}, outputs={"batch": 60.0}), sigma=0.7)

    longest = CHUNKS_2048.limits.max_model_len
    assert max(each.prompt_tokens + each.output_tokens for each in grown) == longest
    assert max(each.output_tokens for each in grown) == longest // 2
    assert min(each.output_tokens for each in grown) >= 2


def test_thin_traffic_is_a_part_of_the_usual_traffic() -> None:
    """The same requests are left out with and without a fault, so that a run and its pair stay comparable."""
    setup = Fault(load={"code": 0.1})
    plain, thin, faulty = usual(), asked(None, setup), asked(Fault(uncached={"interactive": 1.0}), setup)

    assert set(thin) < set(plain)
    code = [each for each in plain if each.lane == "code"]
    assert 0.07 < sum(each.lane == "code" for each in thin) / len(code) < 0.13
    assert [each for each in thin if each.lane != "code"] == [each for each in plain if each.lane != "code"]
    assert [each.at for each in faulty] == [each.at for each in thin]


def test_more_traffic_comes_on_top_of_the_usual() -> None:
    plain, more = set(usual()), set(asked(Fault(load={"code": 2.0})))

    assert plain < more
    added = more - plain
    assert {each.lane for each in added} == {"code"}
    assert all(1200.0 <= each.at < 2400.0 for each in added)


def test_strangers_may_be_unstreamed_and_the_first_may_come_at_once() -> None:
    stranger = Stranger("batch", 0.5, (200, 300), (900, 1000), streaming=False, first_at_once=True)

    strangers = [each for each in asked(Fault(strangers=(stranger,))) if each.output_tokens >= 900]

    assert strangers[0].at == 1200.0
    assert not any(each.streaming for each in strangers)
    assert 500 < len(strangers) < 700


def test_an_episode_may_lie_before_the_fault() -> None:
    run = Run([], [], 1200.0, 2400.0, 3600.0)
    active = Active((Episode(Fault(fresh=True), -100.0, -99.0), Episode(Fault(load={"code": 2.0}))), run)

    assert active.edges() == [1100.0, 1101.0, 1200.0, 2400.0]
    assert [episode.fault.fresh for episode in active.at(1100.5)] == [False, True]
    assert [episode.fault.fresh for episode in active.at(1200.0)] == [False, False]


def test_a_request_asks_its_lanes_model() -> None:
    lanes = tuple(replace(load, model=f"{load.lane}-model") for load in CHUNKS_2048.lanes)
    stranger = Stranger("batch", 0.5, (200, 300), (900, 1000))

    models = asked(Fault(strangers=(stranger,)), engine=replace(CHUNKS_2048, lanes=lanes))

    assert {(each.lane, each.model) for each in models} == {
        (lane, f"{lane}-model") for lane in ("interactive", "batch", "code")
    }


def test_herds_come_together_and_are_no_more_requests() -> None:
    alone, herds = ([each.at for each in run if each.lane == "code"] for run in (usual(), asked(herd=6)))

    assert 0.85 < len(herds) / len(alone) < 1.15
    near = [sum(other - one < HERD_SECONDS for one, other in pairwise(run)) / len(run) for run in (alone, herds)]
    assert near[0] < 0.7
    assert near[1] > 0.8
    assert herds == sorted(herds)
