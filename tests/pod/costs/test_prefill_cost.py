"""Prefill cost as a function of the prompt length: learned by medians, rising, and refused where it would be a guess."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.pod.costs.prefill_cost import (
    CLASSES_PER_OCTAVE,
    GROUP_SAMPLES,
    LATE_CLASS_SHARE,
    REACH,
    READY_SAMPLES,
    RING,
    Curve,
    Refusal,
    _rising,
    lengths_of,
)


@pytest.mark.parametrize(
    ("prompt", "cached", "text", "length"),
    [
        (1_000, 600, 5_000, [(400, "tokens")]),
        (1_000, 0, 5_000, [(1_000, "tokens"), (5_000, "bytes")]),
        (1_000, None, None, [(1_000, "tokens")]),
        (1_000, 1_000, None, [(1, "tokens")]),
        (1_000, 5_000, None, [(1, "tokens")]),
        (None, None, 5_000, [(5_000, "bytes")]),
        (0, None, None, []),
        (None, None, 0, []),
        (None, None, None, []),
    ],
)
def test_what_had_to_be_computed(
    prompt: int | None, cached: int | None, text: int | None, length: list[tuple[float, str]]
) -> None:
    """Tokens of the usage less the cached ones, and bytes of the text of which nothing was cached."""
    assert lengths_of(prompt, cached, text) == tuple(length)


def test_text_has_a_length_in_tokens_once_a_scale_is_known() -> None:
    assert lengths_of(None, None, 5_000, 1_200.0) == ((5_000, "bytes"), (1_200.0, "tokens"))
    assert lengths_of(1_000, None, 5_000, 1_200.0) == ((1_000, "tokens"), (5_000, "bytes"))


def taught(*samples: tuple[float, float]) -> Curve:
    """A curve that has learned each (length, seconds) often enough to answer."""
    curve = Curve()
    for _ in range(READY_SAMPLES):
        for length, seconds in samples:
            curve.learn(length, seconds)
    return curve


def test_a_curve_answers_only_after_thirty_samples() -> None:
    """Before that, the reason is that there are few."""
    curve = Curve()
    answers = []
    for _ in range(READY_SAMPLES):
        answers.append(curve.cost(1000))
        curve.learn(1000, 0.5)

    assert ({*answers}, curve.cost(1000), curve.refusal) == ({Refusal.FEW_SAMPLES}, 0.5, None)


@pytest.mark.parametrize(
    ("length", "answer"),
    [(1000 / REACH, True), (999 / REACH, False), (2000, True), (4000 * REACH, True), (4001 * REACH, False)],
)
def test_a_curve_answers_a_little_beyond_what_it_has_seen_and_no_farther(length: float, answer: bool) -> None:
    curve = taught((1000, 0.1), (4000, 0.4))

    assert (curve.cost(length) is not Refusal.OUTSIDE) is answer


def test_between_two_lengths_the_cost_lies_on_the_line_between_them() -> None:
    curve = taught((1000, 0.1), (4000, 0.4))

    assert [curve.cost(length) for length in (1000, 2000, 3000, 4000)] == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_the_function_is_computed_for_few_of_many_samples_and_is_never_far_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request asks for the cost and teaches one. Prompts become twice as dear in the middle."""
    computed = 0

    def rising(nodes: list[tuple[float, float, int]]) -> tuple[list[float], list[float]]:
        nonlocal computed
        computed += 1
        return _rising(nodes)

    monkeypatch.setattr("sidecar.pod.costs.prefill_cost._rising", rising)
    curve, lengths = Curve(), [int(20 * 1.25**number) for number in range(32)]
    seen = []
    for number in range(3200):
        length = lengths[number % len(lengths)]
        curve.learn(length, 1e-4 * length * (1 if number < 1600 else 2))
        seen.append(curve.cost(1000))

    assert computed < 3200 / 8
    assert seen[1599] == pytest.approx(0.1, rel=0.2)
    assert seen[1600 + RING * len(lengths)] == pytest.approx(0.2, rel=0.2)


@pytest.mark.parametrize("more", [0, 32, 64, 96])
def test_traffic_of_one_length_is_followed_although_many_lengths_were_learned(more: int) -> None:
    """It becomes twice as dear. Once its class holds nothing else, the answer is late by half of the class at most."""
    curve, lengths = Curve(), [20 * 2 ** (number / 2) for number in range(32)]
    for number in range(3200 + more):
        curve.learn(lengths[number % len(lengths)], 1e-4 * lengths[number % len(lengths)])
    longest = lengths[-1]
    before = curve.cost(longest)
    for _ in range(RING + RING // LATE_CLASS_SHARE + 1):
        curve.learn(longest, 2e-4 * longest)

    assert before == pytest.approx(1e-4 * longest)
    assert curve.cost(longest) == pytest.approx(2e-4 * longest)


def test_a_length_beyond_all_others_is_answered_as_soon_as_it_has_enough_samples() -> None:
    curve = taught(*((length, 1e-4 * length) for length in range(100, 1600, 100)))
    answers = []
    for _ in range(GROUP_SAMPLES):
        curve.learn(4000, 0.4)
        answers.append(curve.cost(4000))

    assert answers == [Refusal.OUTSIDE] * (GROUP_SAMPLES - 1) + [pytest.approx(0.4)]


def test_samples_that_length_does_not_explain_are_refused() -> None:
    """Unstated cache hits: prompts of one length take one second or a tenth of one."""
    curve = Curve()
    for number in range(4 * READY_SAMPLES):
        curve.learn(1000, 0.1 if number % 2 else 1.0)

    assert (curve.refusal, curve.cost(1000)) == (Refusal.INCONSISTENT, Refusal.INCONSISTENT)


def test_what_a_prompt_takes_at_most_is_told_although_length_explains_nothing() -> None:
    """The slowest sample, and in proportion for a longer prompt than any; nothing before there are enough samples."""
    young, curve = Curve(), taught((1_000, 0.2), (1_000, 3.0), (2_000, 0.1))
    young.learn(1_000, 3.0)

    assert (curve.refusal, young.most(1_000)) == (Refusal.INCONSISTENT, None)
    assert [curve.most(length) for length in (10, 1_000, 2_000, 6_000)] == [3.0, 3.0, 3.0, 9.0]


def test_prompts_of_no_length_take_what_they_took() -> None:
    """An engine may report that all of a prompt was cached."""
    curve = Curve(1_000)
    for number in range(READY_SAMPLES):
        curve.learn(0.0, 1.0 + number)

    assert curve.most(1.0) == float(READY_SAMPLES)


def test_lengths_whose_costs_fall_share_one_cost() -> None:
    """A longer prompt cannot cost less, so the difference is an error of the samples."""
    curve = taught((1000, 0.4), (4000, 0.3))

    assert [curve.cost(length) for length in (1000, 2000, 4000)] == pytest.approx([0.35] * 3)


SAMPLES = st.lists(st.tuples(st.integers(1, 20_000), st.floats(0.5, 0.7)), min_size=2 * READY_SAMPLES, max_size=70)


@pytest.mark.long
@given(SAMPLES, st.integers(1, 40_000), st.integers(1, 40_000))
def test_a_longer_prompt_never_costs_less(samples: list[tuple[int, float]], one: int, other: int) -> None:
    """Any samples give answers above 0 that rise with the length, and memory stays bounded."""
    curve = Curve()
    for length, seconds in samples:
        curve.learn(length, seconds)

    shorter, longer = curve.cost(min(one, other)), curve.cost(max(one, other))

    if not isinstance(shorter, Refusal) and not isinstance(longer, Refusal):
        assert 0 < shorter <= longer
    assert curve.samples <= min(len(samples), RING * CLASSES_PER_OCTAVE * 15)
