"""The cost of prompts now: by reports first, then by requests that did not queue, then by usual values; and the samples it rests on."""

from random import Random

import pytest

from sidecar.pod.costs.prefill_cost import MOST_ERROR, READY_SAMPLES, Lengths, Refusal, lengths_of
from sidecar.pod.costs.prompt_costs import FIRST_ANSWER_SAMPLES, MAX_MODELS, WORTH_OF_STEPS, Price, PromptCosts


def cost(tokens: float) -> float:
    """True cost of a prompt, in seconds: 20 ms, and 0.1 ms a token."""
    return 0.02 + 1e-4 * tokens


def tokens_of(tokens: int) -> Lengths:
    return lengths_of(tokens, None, None)


def seconds_of(found: Price | Refusal) -> float:
    assert isinstance(found, Price), found
    return found.seconds


def lengths(number: int, seed: int = 1) -> list[int]:
    rng = Random(seed)
    return [round(100 * 100 ** rng.random()) for _ in range(number)]


def test_it_answers_after_a_handful_of_samples_and_says_how_many() -> None:
    """Eight prompts of one in a hundred to each other: within a tenth, along a line, and nothing before."""
    costs = PromptCosts()
    answers = []
    for tokens in lengths(FIRST_ANSWER_SAMPLES):
        answers.append(costs.price("m", tokens_of(1_000)))
        costs.idle("m", tokens_of(tokens), cost(tokens))

    found = costs.price("m", tokens_of(1_000))

    assert {*answers} == {Refusal.FEW_SAMPLES}
    assert isinstance(found, Price)
    assert found.samples == FIRST_ANSWER_SAMPLES
    assert found.seconds == pytest.approx(cost(1_000), rel=0.1)


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_two_odd_samples_of_ten_do_not_move_it(odd: int) -> None:
    costs = PromptCosts()
    for number, tokens in enumerate(lengths(10)):
        costs.idle("m", tokens_of(tokens), cost(tokens) + (3.0 if number in range(2, 2 + odd) else 0.0))

    assert seconds_of(costs.price("m", tokens_of(1_000))) == pytest.approx(cost(1_000), rel=0.35)


def test_reports_are_asked_before_requests_that_did_not_queue() -> None:
    """These took twice as long as a report says: they hold the front end's time."""
    costs = PromptCosts()
    for tokens in lengths(60):
        costs.idle("m", tokens_of(tokens), 2 * cost(tokens))
    before = costs.price("m", tokens_of(1_000))
    for tokens in lengths(60, seed=2):
        costs.reported("m", tokens_of(tokens), cost(tokens))

    assert seconds_of(before) == pytest.approx(2 * cost(1_000), rel=0.1)
    assert seconds_of(costs.price("m", tokens_of(1_000))) == pytest.approx(cost(1_000), rel=0.1)


def test_reports_are_true_however_much_they_differ_and_idle_requests_are_not() -> None:
    """Under load prompts share steps, so those of one length take from one to three times their cost; of requests that did not queue,
    such a spread shows that some did, or that a cache is not stated.
    """
    reported, idle, rng = PromptCosts(), PromptCosts(), Random(3)
    for tokens in lengths(200):
        times = rng.choice((1, 6))
        reported.reported("m", tokens_of(tokens), times * cost(tokens))
        idle.idle("m", tokens_of(tokens), times * cost(tokens))

    assert MOST_ERROR < 1 - 1 / 6
    assert cost(1_000) < seconds_of(reported.price("m", tokens_of(1_000))) < 6.5 * cost(1_000)
    assert idle.price("m", tokens_of(1_000)) is Refusal.INCONSISTENT


def test_a_siblings_usual_values_answer_before_anything_was_learned_here() -> None:
    """In tokens, as the usage states them or as the text's length tells; not in bytes."""
    costs = PromptCosts(lambda model, tokens: cost(tokens) if model == "m" else None)

    assert costs.price("m", tokens_of(1_000)) == Price(cost(1_000), READY_SAMPLES)
    assert costs.price("m", lengths_of(None, None, 4_000, 1_000.0)) == Price(cost(1_000), READY_SAMPLES)
    assert costs.price("m", lengths_of(None, None, 4_000)) is Refusal.FEW_SAMPLES
    assert costs.price("another", tokens_of(1_000)) is Refusal.FEW_SAMPLES


def test_it_answers_by_what_is_usual_for_lengths_that_were_not_seen_here() -> None:
    costs = PromptCosts(lambda _model, tokens: cost(tokens))
    for tokens in lengths(60):
        costs.reported("m", tokens_of(tokens), 3 * cost(tokens))

    assert seconds_of(costs.price("m", tokens_of(1_000))) == pytest.approx(3 * cost(1_000), rel=0.1)
    assert seconds_of(costs.price("m", tokens_of(100_000))) == pytest.approx(cost(100_000))


def test_steps_are_asked_last_and_are_worth_few_samples() -> None:
    costs = PromptCosts()
    for tokens in lengths(4 * READY_SAMPLES):
        costs.stepped("m", tokens_of(tokens), 2 * cost(tokens))
    by_steps = costs.price("m", tokens_of(1_000))
    for tokens in lengths(4 * READY_SAMPLES):
        costs.idle("m", tokens_of(tokens), cost(tokens))

    assert by_steps == Price(pytest.approx(2 * cost(1_000), rel=0.1), WORTH_OF_STEPS)  # type: ignore[arg-type]
    assert seconds_of(costs.price("m", tokens_of(1_000))) == pytest.approx(cost(1_000), rel=0.1)


def test_a_length_beyond_the_learned_ones_rests_on_fewer_samples() -> None:
    """Up to a factor of four it lies on the line through them, and no further."""
    costs = PromptCosts()
    for tokens in lengths(60):
        costs.idle("m", tokens_of(tokens), cost(tokens))
    inside, beyond = costs.price("m", tokens_of(5_000)), costs.price("m", tokens_of(30_000))

    assert isinstance(inside, Price)
    assert isinstance(beyond, Price)
    assert beyond.seconds == pytest.approx(cost(30_000), rel=0.2)
    assert beyond.samples < inside.samples / 8
    assert costs.price("m", tokens_of(50_000)) is Refusal.OUTSIDE


def test_a_prompt_without_a_length_has_no_price_and_teaches_nothing() -> None:
    costs = PromptCosts(lambda _model, _tokens: 1.0)
    costs.reported("m", (), 1.0)
    costs.reported("m", tokens_of(500), 0.0)

    assert costs.price("m", ()) is Refusal.NO_LENGTH
    assert costs.models() == set()


def test_models_are_bounded_and_forgotten() -> None:
    costs = PromptCosts()
    for number in range(50):
        costs.reported(f"m{number}", tokens_of(500), 1.0)
        costs.idle(f"m{number}", lengths_of(None, None, 500), 1.0)
    most = len(costs.models())
    costs.keep_only(["m0", "m1"])
    kept = costs.models()
    costs.forget()

    assert (most, kept, costs.models()) == (MAX_MODELS, {"m0", "m1"}, set())


def test_only_reports_tell_what_passes_behind_a_prefill() -> None:
    """A quarter of a millisecond a token to move the cache: the cost by requests that did not queue holds it already."""
    costs = PromptCosts()
    for tokens in lengths(60):
        costs.idle("m", tokens_of(tokens), cost(tokens) + 2.5e-4 * tokens)
    by_idle = costs.price("m", tokens_of(1_000))
    for tokens in lengths(60):
        costs.reported("m", tokens_of(tokens), cost(tokens))
    untold = costs.price("m", tokens_of(1_000))
    for tokens in lengths(60):
        costs.behind("m", tokens_of(tokens), 2.5e-4 * tokens)
    told = costs.price("m", tokens_of(1_000))

    assert isinstance(by_idle, Price)
    assert isinstance(untold, Price)
    assert isinstance(told, Price)
    assert (by_idle.behind_seconds, untold.behind_seconds) == (0.0, 0.0)
    assert told.seconds == pytest.approx(cost(1_000), rel=0.1)
    assert told.behind_seconds == pytest.approx(0.25, rel=0.1)
