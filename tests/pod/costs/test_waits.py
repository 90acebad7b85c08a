"""While requests wait, an engine computes prompts, runs a full batch, or neither."""

import pytest

from sidecar.pod.costs.steps import Step
from sidecar.pod.costs.waits import FEWEST_WAITS, LEAST_WAITING, WAITED_SECONDS, Doing, Waits


STEP_SECONDS = 0.1


class Engine:
    """Steps of 0.1 s, the decodes of which cost 0.1 s."""

    def __init__(self) -> None:
        self.waits = Waits()
        self.at = 100.0

    def steps(
        self, count: int, *, seconds: float = STEP_SECONDS, sequences: int = 8, tokens: float = 8000.0, waiting: int = 4
    ) -> "Engine":
        for _ in range(count):
            self.at += seconds
            step = Step(self.at, seconds, 1, sequences, tokens, 1.0, False, waiting, ())
            self.waits.step(step, seconds, STEP_SECONDS)
        return self

    def doing(self) -> Doing:
        found = self.waits.doing(self.at)
        assert found is not None
        return found


def test_steps_that_take_longer_than_their_decodes_compute_prompts() -> None:
    doing = Engine().steps(60).steps(20, seconds=0.3).doing()

    assert doing.computes == pytest.approx(0.5)


def test_a_batch_is_full_with_as_many_sequences_or_tokens_as_ever() -> None:
    assert Engine().steps(60).doing().full == pytest.approx(1.0)
    assert (Engine().steps(1, sequences=32, tokens=32_000.0).steps(59).doing().full or 0.0) < 0.1
    assert Engine().steps(30, sequences=8, tokens=20_000.0).steps(30, sequences=32).doing().full == pytest.approx(0.5)


def test_prompts_in_a_step_hold_places_that_no_stream_shows() -> None:
    """Eight slots. While two prompts are computed, six sequences decode, and the batch is as full as in other steps."""
    doing = Engine().steps(30).steps(20, seconds=0.3, sequences=6, tokens=5000.0).doing()

    assert doing.full == pytest.approx(1.0)


def test_nothing_is_known_of_the_batch_if_nearly_all_steps_hold_prompts() -> None:
    assert Engine().steps(60, seconds=0.3).steps(5).doing().full is None


def test_steps_with_one_waiting_request_do_not_count() -> None:
    """It may be in prefill itself."""
    engine = Engine().steps(100, waiting=LEAST_WAITING - 1)

    assert engine.waits.doing(engine.at) is None


def test_few_or_old_steps_are_unknown() -> None:
    engine = Engine().steps(FEWEST_WAITS - 1)
    assert engine.waits.doing(engine.at) is None

    engine.steps(60)
    assert engine.waits.doing(engine.at) is not None
    assert engine.waits.doing(engine.at + WAITED_SECONDS + 1.0) is None


def test_steps_of_an_engine_that_was_replaced_are_forgotten() -> None:
    engine = Engine().steps(60)
    engine.waits.forget()

    assert engine.waits.doing(engine.at) is None
