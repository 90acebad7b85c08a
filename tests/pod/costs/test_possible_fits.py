"""A batch of a shape that was never seen is called dear only as far as no fit of what was learned explains it."""

from dataclasses import replace
from random import Random

import pytest

from sidecar.pod.causes import DEARER
from sidecar.pod.costs.least_squares import LeastSquares
from sidecar.pod.costs.linear_costs import Compared, decode_terms, seconds_of
from sidecar.pod.costs.possible_fits import PossibleFits
from sidecar.pod.costs.step_model import StepModel
from sidecar.pod.factor import Factor
from tests.pod.costs.stepping import CALM_SECONDS, COSTS, LIMITS, Arrival, SteppedEngine, lognormal, traffic


def traffic_of_short_answers(seconds: float) -> list[Arrival]:
    return [one._replace(prompt_tokens=40, output_tokens=30) for one in traffic(seconds, 4.0)]


CALM = traffic_of_short_answers(CALM_SECONDS + 60)
"""Each context holds 40 to 70 tokens: how many there are in a batch follows from the number of its sequences."""
LONG_ANSWERS = [Arrival(CALM_SECONDS + 0.1 * number, 40, 1_500) for number in range(12)]
SAME_SLOTS = replace(LIMITS, max_num_seqs=4)
DEAR_CONTEXTS = replace(COSTS, step_seconds=5e-3, per_sequence_seconds=1e-4, per_kv_token_seconds=2.3e-6)
"""About those of the tiny model on vLLM 0.32 for CPUs: four contexts of 1,500 tokens double a step."""
CHECKED_AFTER_SECONDS = (5.0, 8.0, 12.0, 16.0, 20.0)


def after_long_answers(*, decode_factor: float = 1.0) -> list[Factor]:
    """The factors while all slots hold answers that are fifty times as long as any before."""
    arrivals = sorted([*CALM, *LONG_ANSWERS])
    slower = [(CALM_SECONDS, {"decode_factor": decode_factor})]
    engine = SteppedEngine(
        arrivals, adjust=slower, costs=DEAR_CONTEXTS, limits=SAME_SLOTS, noise=lognormal(0.15, seed=3)
    )
    found = [engine.until(CALM_SECONDS + after).decode(CALM_SECONDS + after, 20.0) for after in CHECKED_AFTER_SECONDS]
    assert all(isinstance(each, Factor) for each in found), found
    return [each for each in found if isinstance(each, Factor)]


@pytest.mark.long
def test_the_first_long_answers_are_no_dear_decodes() -> None:
    """A real vLLM was called 1.4 to 1.7 times dearer, and its queue was paged as decode: all it did was to hold longer
    contexts, of which no calm step had told the price.
    """
    for factor in after_long_answers():
        assert factor.low < 1.0 < factor.high
        assert factor.value == 1.0


@pytest.mark.long
def test_an_engine_that_slows_down_under_short_answers_is_still_told() -> None:
    """Twice as dear, with more sequences at once than before: what a sequence and its short context cost together is known."""
    faster = [one._replace(at=one.at + CALM_SECONDS) for one in CALM if one.at > 10.0]
    engine = SteppedEngine(
        sorted([*CALM, *faster]),
        adjust=[(CALM_SECONDS, {"decode_factor": 2.0})],
        costs=DEAR_CONTEXTS,
        noise=lognormal(0.15, seed=3),
    )

    factor = engine.until(CALM_SECONDS + 40.0).decode(CALM_SECONDS + 40.0, 20.0)

    assert isinstance(factor, Factor)
    assert factor.low > 1.7
    assert factor.value == pytest.approx(2.0, rel=0.1)


def test_beyond_what_any_fit_explains_long_answers_are_dear_too() -> None:
    """Ten times as dear: most of it is left, whichever fit is true."""
    assert all(factor.low > 1.5 for factor in after_long_answers(decode_factor=10.0))


@pytest.mark.long
def test_once_long_answers_were_calm_their_price_is_known() -> None:
    arrivals = sorted([*CALM, *(one._replace(at=one.at - 120.0) for one in LONG_ANSWERS), *LONG_ANSWERS])
    engine = SteppedEngine(arrivals, costs=DEAR_CONTEXTS, limits=SAME_SLOTS, noise=lognormal(0.15, seed=3))

    factor = engine.until(CALM_SECONDS + 12.0).decode(CALM_SECONDS + 12.0, 20.0)

    assert isinstance(factor, Factor)
    assert factor.high < 1.4 * factor.low
    assert factor.value == pytest.approx(1.0, abs=0.1)


def long_prompts(*, learns: bool) -> StepModel:
    """Prompts of 20 to 100 tokens, then each fifth second one of 3,600, for two minutes."""
    rng = Random(5)
    short = [
        one._replace(prompt_tokens=rng.randrange(20, 100), output_tokens=30)
        for one in traffic(CALM_SECONDS + 120.0, 4.0)
    ]
    long = [Arrival(CALM_SECONDS + 5.0 * number, 3_600, 8) for number in range(24)]
    until = float("inf") if learns else CALM_SECONDS
    engine = SteppedEngine(sorted([*short, *long]), noise=lognormal(0.15, seed=3), learns_until=until)
    return engine.until(CALM_SECONDS + 120.0)


@pytest.mark.long
def test_the_first_long_prompts_are_neither_dear_nor_cheap() -> None:
    """A real vLLM was told to compute them at a hundredth of their usual cost, with an interval of a tenth of that."""
    model = long_prompts(learns=False)

    factor = model.prefill(CALM_SECONDS + 120.0)

    assert isinstance(factor, Factor)
    assert factor.low < 1.0 < factor.high
    assert factor.value == pytest.approx(1.0, abs=0.1)
    assert model.prefill_seconds(3_600.0) is None
    assert model.prefill_seconds(60.0) is not None


@pytest.mark.long
def test_long_prompts_that_came_in_calm_times_tell_what_they_cost() -> None:
    """They do not count as dear ones meanwhile, which would teach nothing for an hour."""
    model = long_prompts(learns=True)

    seconds = model.prefill_seconds(3_600.0)

    assert seconds == pytest.approx(COSTS.chunk(3_600, 0), rel=0.25)
    assert model.prefill_is_usual


@pytest.mark.long
@pytest.mark.parametrize("per_kv_token_seconds", [2.3e-6, 2.3e-5], ids=["twice the steps", "ten times the steps"])
@pytest.mark.parametrize("window_seconds", [20.0, 60.0])
def test_while_their_price_is_learned_long_answers_are_never_dear(
    per_kv_token_seconds: float, window_seconds: float
) -> None:
    """Nothing burns, so each step teaches, and the fit changes in the middle of the window: the steps of before are compared with the
    new one too. In the end the price is known, however far it lies from what was known before, and short answers have come again.
    """
    costs = replace(DEAR_CONTEXTS, per_kv_token_seconds=per_kv_token_seconds)
    engine = SteppedEngine(
        sorted([*traffic_of_short_answers(CALM_SECONDS + 300.0), *LONG_ANSWERS]),
        costs=costs,
        limits=SAME_SLOTS,
        noise=lognormal(0.15, seed=3),
        learns_until=float("inf"),
    )

    told = [engine.until(at).decode(at, window_seconds) for at in range(int(CALM_SECONDS), int(CALM_SECONDS) + 300)]

    known = [each for each in told if isinstance(each, Factor)]
    assert len(known) > 250
    assert max(each.low for each in known) < DEARER
    assert engine.model.costs is not None
    assert engine.model.costs.decode_seconds(4, 6_000.0) == pytest.approx(costs.decode(4, 6_000), rel=0.2)


@pytest.mark.long
@pytest.mark.parametrize("taught_seconds", [0.0, 20.0])
def test_a_new_process_of_the_sidecar_knows_as_much_as_the_old_one(taught_seconds: float) -> None:
    """Also if it ends between two fits, when some long answers have taught."""
    engine = SteppedEngine(
        sorted([*CALM, *LONG_ANSWERS]),
        costs=DEAR_CONTEXTS,
        limits=SAME_SLOTS,
        noise=lognormal(0.15, seed=3),
        learns_until=CALM_SECONDS + taught_seconds,
    )
    state = engine.until(CALM_SECONDS + taught_seconds).state()
    engine.model = StepModel()
    engine.model.restore(state)
    at = CALM_SECONDS + taught_seconds + 8.0

    factor = engine.until(at).decode(at, 20.0)

    assert isinstance(factor, Factor)
    assert factor.low < 1.1
    assert factor.high > 0.9
    assert factor.value == pytest.approx(1.0, abs=0.1)


def learned(contexts_of: tuple[int, int]) -> LeastSquares:
    """One to five sequences, each of whose contexts holds so many tokens; the time goes into contexts alone."""
    rng, fit = Random(4), LeastSquares(3)
    for _ in range(400):
        sequences = rng.randint(1, 5)
        terms = decode_terms(sequences, sequences * float(rng.randint(*contexts_of)))
        seconds = seconds_of(CONTEXTS_ALONE, terms) * rng.lognormvariate(0.0, 0.1)
        fit.add(terms, seconds, seconds)
    return fit


CONTEXTS_ALONE = 0.005, 0.0, 2e-6
ERROR = 0.08
"""The mean relative error of that noise."""
LONG_CONTEXTS = decode_terms(3, 30_000.0)


def compared(value: float) -> Compared:
    """A factor of work with long contexts, with an interval of 3 %."""
    return Compared(Factor(value, value * 0.97, value * 1.03), LONG_CONTEXTS)


def test_contexts_that_vary_tell_what_they_cost() -> None:
    fits = PossibleFits()
    best = fits.fit_to(learned((100, 20_000)), ERROR)

    found = fits.told(compared(2.0))

    assert best == pytest.approx(CONTEXTS_ALONE, rel=0.1, abs=1e-4)
    assert fits.agree(LONG_CONTEXTS, within=1.05)
    assert found.widest == pytest.approx((2.0, 1.94, 2.06), rel=0.05)
    assert found.least_changed == pytest.approx(found.widest, rel=0.05)


def test_the_widest_factor_holds_what_each_fit_says() -> None:
    """One fit gives all time to sequences, and another one to contexts. Of a batch whose contexts are a hundred times as long, one says
    that nothing has changed.
    """
    fits = PossibleFits()
    best = fits.fit_to(learned((99, 101)), ERROR)
    assert best is not None
    by_best = seconds_of(CONTEXTS_ALONE, LONG_CONTEXTS) / seconds_of(best, LONG_CONTEXTS)

    found = fits.told(compared(by_best))

    assert not fits.agree(LONG_CONTEXTS, within=5.0)
    assert fits.agree(decode_terms(3, 300.0), within=1.05)
    assert found.widest.low < 1.05
    assert found.widest.high > found.dearest > 5.0
    assert found.widest.value == pytest.approx(1.0, abs=0.1)
    assert found.least_changed == pytest.approx((1.0, 0.97, 1.03), abs=0.1)


def test_of_each_work_the_fit_is_told_that_says_most_nearly_what_it_took() -> None:
    fits = PossibleFits()
    best = fits.fit_to(learned((99, 101)), ERROR)
    assert best is not None
    expected, true_seconds = seconds_of(best, LONG_CONTEXTS), seconds_of(CONTEXTS_ALONE, LONG_CONTEXTS)

    assert fits.nearest(0.9 * true_seconds, expected, LONG_CONTEXTS) == pytest.approx(0.9 * true_seconds)
    assert fits.nearest(100.0, expected, LONG_CONTEXTS) < 1.2 * true_seconds
    assert fits.nearest(0.001, expected, LONG_CONTEXTS) > 0.004
    assert PossibleFits().nearest(100.0, expected, LONG_CONTEXTS) == expected


def test_the_more_the_samples_scatter_the_more_fits_are_possible() -> None:
    """Contexts of 100 to 400 tokens are told from sequences, unless what is learned may be chance."""
    some = learned((100, 400))

    exact, scattered = PossibleFits(), PossibleFits()
    exact.fit_to(some, 0.0)
    scattered.fit_to(some, 1.0)

    assert exact.agree(LONG_CONTEXTS, within=1.2)
    assert not scattered.agree(LONG_CONTEXTS, within=5.0)


def test_fits_that_differ_agree_on_work_that_is_twice_as_much() -> None:
    fits = PossibleFits()
    fits.fit_to(learned((99, 101)), ERROR)
    twice = [2.0 * each for each in LONG_CONTEXTS]

    assert not fits.agree(twice, within=5.0)
    assert fits.agree(twice, within=1.01, beside=LONG_CONTEXTS)
    assert not fits.agree(twice, within=5.0, beside=decode_terms(3, 300.0))


@pytest.mark.parametrize("value", [-0.5, -0.1, 0.0, 0.3, 1.0, 20.0])
def test_a_value_lies_in_its_intervals_whatever_its_sign(value: float) -> None:
    """The seconds that prompts add to steps are a difference, and noise makes it negative."""
    fits = PossibleFits()
    fits.fit_to(learned((99, 101)), ERROR)

    found = fits.told(Compared(Factor(value, value - 0.4, value + 0.4), LONG_CONTEXTS))

    for factor in (found.least_changed, found.widest):
        assert factor.low < factor.value < factor.high
    assert abs(found.widest.value - 1.0) <= abs(value - 1.0)
    assert found.dearest >= found.widest.value


def test_without_a_fit_a_factor_stays_as_it_is() -> None:
    some = compared(1.5)

    found = PossibleFits().told(some)

    assert found == (some.factor, some.factor, some.factor.value)
    assert PossibleFits().agree(LONG_CONTEXTS, within=1.0)
