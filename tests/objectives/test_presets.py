"""Default objectives of a lane: sane numbers for any bucket edges, and never less time for a longer prompt."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.objectives.objective import TTFT_SHARES, Objective
from sidecar.objectives.presets import (
    AGENT,
    BATCH,
    CODE,
    INTERACTIVE,
    LARGE_BILLIONS,
    OBJECTIVE_PRESETS,
    ORDINARY_TOKENS,
    SMALL_BILLIONS,
    VOICE,
    Preset,
    longest_tokens,
    preset_for,
    rounded,
)


PROMISING = [preset for name, preset in OBJECTIVE_PRESETS.items() if name != "none"]


@pytest.mark.parametrize(
    ("lane", "preset"),
    [
        ("default", "interactive"),
        ("Chat", "interactive"),
        ("batch", "batch"),
        ("code_completion", "code"),
        ("completion", "code"),
        ("voice", "voice"),
        ("Agents", "agent"),
        ("batches", "none"),
        ("other", "none"),
        ("", "none"),
    ],
)
def test_a_lane_has_the_preset_of_its_name(lane: str, preset: str) -> None:
    """A lane with a well-known name needs no objectives in the config; any other name has none by default."""
    assert preset_for(lane) == preset


def test_none_promises_nothing() -> None:
    """`none` has not even a target: a config that sets objectives for such a lane must state all of them."""
    nothing = OBJECTIVE_PRESETS["none"]

    assert [nothing.threshold_seconds(objective) for objective in Objective] == [None, None, None, None]
    assert [nothing.target_of(objective) for objective in Objective] == [None, None, None, None]
    assert nothing.extra_seconds(3.0, 1_000_000) == 0.0


@pytest.mark.parametrize("preset", PROMISING)
def test_every_preset_promises_every_objective_but_a_stall(preset: Preset) -> None:
    """Each has a threshold and a target, and a whole answer has more time than a first token."""
    ttft, tpot, e2e, _ = (preset.threshold_seconds(objective) for objective in Objective)
    assert ttft is not None
    assert tpot is not None
    assert e2e is not None
    assert preset.target is not None

    assert 0 < tpot < ttft < e2e <= 3600
    assert 0.5 <= preset.target < 1


@pytest.mark.parametrize("billions", [None, 8.0, 70.0, 405.0])
def test_code_is_tighter_than_chat_and_chat_than_batch(billions: float | None) -> None:
    """The three kinds of traffic are ordered by how long their users wait for them, in every objective, for any model."""
    for objective in (Objective.TTFT, Objective.TPOT, Objective.E2E):
        sized = [preset.for_size(billions) for preset in (CODE, INTERACTIVE, BATCH)]
        order = [preset.threshold_seconds(objective) or 0.0 for preset in sized]
        assert order == sorted(set(order))


MLPERF_TPOT_SECONDS = {8.0: (0.03, 0.1), 70.0: (0.04, 0.2), 405.0: (0.08, 0.175)}
"""Billions of parameters to MLPerf's limits, interactive and plain (mlcommons/inference, loadgen/mlperf.conf, b66003e)."""


@pytest.mark.parametrize("billions", MLPERF_TPOT_SECONDS)
def test_a_models_size_decides_the_time_per_token_as_mlperf_does(billions: float) -> None:
    """Interactive lies between MLPerf's two limits, near their geometric mean; code and agent have the tight one."""
    tight, loose = MLPERF_TPOT_SECONDS[billions]
    interactive, code, agent = (each.for_size(billions).tpot_seconds for each in (INTERACTIVE, CODE, AGENT))

    assert interactive == pytest.approx((tight * loose) ** 0.5, rel=0.12)
    assert (code, agent) == (tight, tight)


@pytest.mark.parametrize("preset", PROMISING)
def test_an_unknown_size_is_an_ordinary_one(preset: Preset) -> None:
    """The edges belong to the class below them. None of the other thresholds depends on size."""
    ordinary = [preset.for_size(size) for size in (None, SMALL_BILLIONS + 0.1, 70.0, LARGE_BILLIONS)]
    small, large = preset.for_size(SMALL_BILLIONS), preset.for_size(LARGE_BILLIONS + 0.1)
    others = {
        (each.ttft_seconds, each.e2e_seconds, each.target, each.doubling_tokens) for each in (small, preset, large)
    }

    assert ordinary == [preset] * 4
    assert len(others) == 1
    assert (small.tpot_seconds or 0) <= (preset.tpot_seconds or 0) <= (large.tpot_seconds or 0)


def test_a_person_never_waits_for_the_next_word() -> None:
    """People read 238 words a minute in silence, and 183 aloud (Brysbaert 2019); a token is 0.75 words."""
    slowest = max(INTERACTIVE.for_size(size).tpot_seconds or 0 for size in (None, 8.0, 405.0))

    assert 60 * 0.75 / slowest > 1.5 * 238
    assert VOICE.tpot_seconds is not None
    assert 60 * 0.75 / VOICE.tpot_seconds > 2 * 183


def test_the_target_of_interactive_lets_a_burn_of_ten_be_reached() -> None:
    """If half of the requests miss, the burn rate is ten: no rule could ever see a tier above that."""
    assert INTERACTIVE.target is not None
    assert 0.5 / (1 - INTERACTIVE.target) == pytest.approx(10.0)


def test_only_a_reader_sees_a_text_that_stands_still() -> None:
    """A stream in ten that does is ten times what is allowed. The other targets of a preset, and a stall without one, are its own."""
    stalls = {name: preset.stall_seconds for name, preset in OBJECTIVE_PRESETS.items() if preset.stall_seconds}
    assert stalls == {"interactive": 2.0}
    assert 0.1 / (1 - (INTERACTIVE.target_of(Objective.STALL) or 0)) == pytest.approx(10.0)
    assert [INTERACTIVE.target_of(Objective.TPOT), BATCH.target_of(Objective.STALL)] == [0.95, 0.9]


@pytest.mark.parametrize(("tokens", "tokens_a_second"), [(1, 5.3), (10, 8.3), (16, 8.3), (32, 20.0)])
def test_an_engine_that_sends_several_tokens_at_once_does_not_stand_still(tokens: int, tokens_a_second: float) -> None:
    """Reading speed, and the slowest paces of large and small models: speculated tokens, and blocks of a diffusion model."""
    assert tokens / tokens_a_second < (INTERACTIVE.stall_seconds or 0)


def test_an_ordinary_prompt_has_the_threshold_as_it_stands() -> None:
    """Up to 4096 tokens, length adds nothing; from there on every token adds time."""
    assert INTERACTIVE.extra_seconds(1.5, 1) == 0.0
    assert INTERACTIVE.extra_seconds(1.5, ORDINARY_TOKENS) == 0.0
    assert INTERACTIVE.extra_seconds(1.5, 2 * ORDINARY_TOKENS) == 1.5
    assert INTERACTIVE.extra_seconds(1.5, 4 * ORDINARY_TOKENS) == 4.5


def test_a_tighter_threshold_is_stretched_by_less() -> None:
    """Halving the threshold of a small model also halves the time added for its long prompts."""
    assert INTERACTIVE.extra_seconds(0.75, 16_384) == INTERACTIVE.extra_seconds(1.5, 16_384) / 2


def test_the_open_bucket_ends_at_twice_its_beginning() -> None:
    """`64k+` has no upper edge, and its threshold needs one: 128k, the longest prompt of most models."""
    assert longest_tokens((512, 4096, 65_536)) == (512, 4096, 65_536, 131_072)
    assert longest_tokens((100,)) == (100, 200)


@given(
    st.sampled_from(PROMISING),
    st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=15, unique=True).map(sorted),
    st.floats(0.001, 3600),
)
def test_a_longer_prompt_never_has_less_time(preset: Preset, edges: list[int], ttft_seconds: float) -> None:
    """This holds for any edges and any threshold, from each bucket to the next."""
    stretched = [rounded(ttft_seconds + preset.extra_seconds(ttft_seconds, tokens)) for tokens in longest_tokens(edges)]

    assert [(low, high) for low, high in itertools.pairwise(stretched) if low > high] == []


@pytest.mark.parametrize(
    ("seconds", "read"),
    [(1.5, 1.5), (4.51, 4.6), (23.9, 24.0), (24.0, 24.0), (305.6, 310.0), (0.57, 0.57), (0.0123, 0.013), (99.5, 100.0)],
)
def test_a_threshold_is_rounded_for_people(seconds: float, read: float) -> None:
    """A threshold is rounded up to two digits: never tighter than the rule gives."""
    assert rounded(seconds) == read


@given(st.floats(0.001, 1e8))
def test_rounding_never_tightens_and_adds_a_tenth_at_most(seconds: float) -> None:
    """Any threshold stays as long as it was, or becomes longer by less than a tenth."""
    assert seconds * (1 - 1e-9) <= rounded(seconds) <= seconds * 1.1 + 1e-9


def test_the_shares_of_the_threshold_add_up() -> None:
    """The shares of TTFT add up to one, so the threshold is spent once."""
    assert sum(TTFT_SHARES.values()) == pytest.approx(1.0)
