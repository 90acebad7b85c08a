"""The tokens in a byte of text are known only after enough counted prompts, outliers do not move them, and a restart keeps them."""

import random

import pytest

from sidecar.pod.costs.tokens_per_byte import COUNTED_PROMPTS, TokensPerByte
from sidecar.pod.usual.learner import OddStateError


def taught(scale: float, samples: int = COUNTED_PROMPTS) -> TokensPerByte:
    known = TokensPerByte()
    for _ in range(samples):
        known.learn("m", 10_000, round(10_000 * scale))
    return known


def test_no_scale_before_twenty_samples() -> None:
    """Nineteen prompts are not enough, twenty are; a model without samples stays unknown."""
    known = taught(0.25, COUNTED_PROMPTS - 1)
    assert known.known.get("m") is None

    known.learn("m", 10_000, 2500)
    assert (known.known.get("m"), known.known.get("n")) == (0.25, None)


def test_outliers_do_not_move_the_scale() -> None:
    """A fifth of the samples may be absurd, too high or too low."""
    known = taught(0.25, 80)
    for _ in range(10):
        known.learn("m", 10, 100_000)
        known.learn("m", 30_000, 1)

    assert known.known.get("m") == 0.25


def test_short_prompts_do_not_set_the_scale_for_long_ones() -> None:
    """Nine chats in ten are mostly template, one token per byte; the scale is that of the long documents."""
    known = TokensPerByte()
    draw = random.Random(7)
    for turn in range(300):
        size = draw.randint(20_000, 60_000) if turn % 10 == 0 else draw.randint(20, 60)
        known.learn("m", size, 30 + size // 4)

    assert known.known.get("m") == pytest.approx(0.25, rel=0.05)


def test_the_scale_follows_the_traffic() -> None:
    """Old samples are forgotten: after enough prompts of another language the scale fits that language."""
    known = taught(0.25, 500)
    for _ in range(128):
        known.learn("m", 10_000, 5000)

    assert known.known.get("m") == 0.5


def test_memory_is_bounded() -> None:
    """Models beyond the closed set add no samples."""
    known = TokensPerByte()
    for name in range(1000):
        for _ in range(COUNTED_PROMPTS):
            known.learn(f"m{name}", 100, 25)

    assert [name for name in range(1000) if known.known.get(f"m{name}") is not None] == list(range(17))


def test_a_restart_knows_the_scale_with_its_first_prompt() -> None:
    """A model that was not known before is not known after it."""
    before = taught(0.25, 500)
    before.learn("young", 100, 25)
    after = TokensPerByte()
    after.restore(before.state())

    assert (after.known.get("m"), after.known.get("young")) == (0.25, None)
    assert after.state() == before.state()


def test_a_restored_scale_gives_way_to_what_comes() -> None:
    """It speaks as loud as twenty prompts: with a few more than as many of the same size it has moved."""
    after = TokensPerByte()
    after.restore(taught(0.25, 500).state())
    for _ in range(COUNTED_PROMPTS + 4):
        after.learn("m", 10_000, 5000)

    assert after.known["m"] == 0.5


def test_what_this_process_knows_itself_stays() -> None:
    """The usual values are read once the engine is known, which may be after its first prompts."""
    known = taught(0.5)
    known.restore(taught(0.25).state())

    assert known.known == {"m": 0.5}


def test_a_model_of_an_earlier_process_makes_room_for_one_of_this() -> None:
    """Adapters come and go."""
    before, after = TokensPerByte(), TokensPerByte()
    for number in range(17):
        for _ in range(COUNTED_PROMPTS):
            before.learn(f"old{number}", 100, 25)
    after.restore(before.state())
    for _ in range(COUNTED_PROMPTS):
        after.learn("old3", 100, 25)
        after.learn("new", 100, 50)

    assert (after.known["new"], after.known["old3"], len(after.known)) == (0.5, 0.25, 17)


@pytest.mark.parametrize(
    "scales",
    [
        [["m", [0.25]]],
        [["m", [-1.0, 1.0]]],
        [["m", [0.0, 1.0]]],
        [["m", [0.25, 0.0]]],
        [[1, [0.25, 1.0]]],
        [["m", [0.2, 1.0]]] * 2,
    ],
)
def test_an_odd_scale_is_refused(scales: object) -> None:
    """And what was known stays."""
    known = taught(0.25)
    with pytest.raises(OddStateError):
        known.restore({"scales": scales})

    assert known.known.get("m") == 0.25
