"""Estimates for requests without a report: learned from idle arrivals, and refused where they would be guesses."""

import math
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from sidecar.commands.simulator.physics import Limits
from sidecar.commands.simulator.replica_presets import LLAMA_13B
from sidecar.commands.simulator.simulation import SimulatedRequest, Simulation
from sidecar.engines.estimator import FEWEST_TRUTHS, STEPS_SEARCHED, Estimator, Visit, Wrong
from sidecar.ledger.account import Estimate
from sidecar.pod.costs.prefill_cost import READY_SAMPLES, Length, Lengths, Refusal, lengths_of
from sidecar.pod.costs.prompt_costs import FIRST_ANSWER_SAMPLES, FURTHEST, MAX_MODELS, PromptCosts, Usual


NUMBERS = count()
TOKENS = "tokens"


def cost(tokens: float) -> float:
    """True cost of a prompt in these scenarios, in seconds: 20 ms, 0.1 ms a token, and a quadratic part."""
    return 0.02 + 1e-4 * tokens + 1e-9 * tokens**2


def seconds_of(found: Estimate | Refusal) -> float | Refusal:
    return found if isinstance(found, Refusal) else found.prefill_seconds


class EstimatorHarness:
    """One estimator and a clock; each method is something that a request does."""

    def __init__(self, usual: Usual = lambda _model, _tokens: None) -> None:
        self.estimator = Estimator(PromptCosts(usual))
        self.now = 100.0

    def comes(self, *, streaming: bool = True) -> int:
        key = next(NUMBERS)
        self.estimator.arrived(key, self.now, streaming=streaming)
        return key

    def speaks(self, key: int, *, after: float = 0.0) -> None:
        self.now += after
        self.estimator.spoke(key, self.now)

    def leaves(self, key: int, tokens: float, *, model: str = "m", learn: bool = True) -> float | Refusal:
        """The estimate of its prefill, made before this request is learned from."""
        return self.leaves_with(key, (Length(tokens, TOKENS),), model=model, learn=learn)

    def leaves_with(self, key: int, lengths: Lengths, *, model: str = "m", learn: bool = True) -> float | Refusal:
        visit = self.estimator.left(key)
        assert visit is not None
        found = self.estimator.prefill(model, lengths, visit)
        if learn:
            self.estimator.learn(model, lengths, visit)
        return seconds_of(found)

    def alone(self, tokens: float, *, ttft: float | None = None, model: str = "m") -> float | Refusal:
        """A request that runs alone: no other request is in flight."""
        self.now += 10
        key = self.comes()
        self.speaks(key, after=cost(tokens) if ttft is None else ttft)
        return self.leaves(key, tokens, model=model)

    def asked(self, tokens: float, *, model: str = "m") -> float | Refusal:
        """The estimate for a request that found others waiting, waited very long, and saw no output of the engine."""
        return seconds_of(self.told(tokens, model=model))

    def told(self, tokens: float, *, model: str = "m") -> Estimate | Refusal:
        """The same with its interval."""
        visit = Visit(self.now, idle=False, teaches=False, era=0, first_token_at=self.now + 1_000)
        return self.estimator.prefill(model, (Length(tokens, TOKENS),), visit)

    def taught(self) -> "EstimatorHarness":
        """After about twice as many prompts as are needed, of 100 to 10,000 tokens."""
        rng = Random(1)
        for _ in range(2 * READY_SAMPLES + 40):
            self.alone(100 * 100 ** rng.random())
        return self


@pytest.mark.parametrize("tokens", [120, 1_000, 3_000, 9_000])
def test_of_a_long_wait_the_prefill_is_what_prompts_of_this_length_cost(tokens: float) -> None:
    """Within a tenth, over two orders of magnitude, although the cost is not linear."""
    assert EstimatorHarness().taught().asked(tokens) == pytest.approx(cost(tokens), rel=0.1)


def test_what_a_request_waits_is_not_its_prefill() -> None:
    """Two requests come together; the second is served after the first, and there was no output in between."""
    harness = EstimatorHarness().taught()
    harness.now += 10
    first, second = harness.comes(), harness.comes()
    harness.speaks(first, after=cost(4_000))
    harness.speaks(second, after=cost(2_000))

    assert harness.leaves(second, 2_000) == pytest.approx(cost(2_000), rel=0.1)


def test_prompts_of_one_step_all_take_as_long_as_the_step() -> None:
    """A stream gets nothing while the step lasts: that, and not this prompt's cost alone, is its prefill."""
    harness = EstimatorHarness().taught()
    harness.now += 10
    stream = harness.comes()
    harness.speaks(stream, after=cost(100))
    harness.speaks(stream, after=0.01)
    short, long = harness.comes(), harness.comes()
    harness.speaks(stream, after=0.01)  # the step in which they came ends; theirs begins
    harness.speaks(long, after=cost(8_000))
    harness.speaks(short)

    assert harness.leaves(short, 200) == pytest.approx(cost(8_000))
    assert harness.leaves(long, 8_000) == pytest.approx(cost(8_000))


def test_a_long_prompt_spans_steps_and_began_with_the_first_that_it_needs() -> None:
    """The prompt is chunked: the stream goes on between chunks, and the last silence alone would be too short."""
    harness = EstimatorHarness().taught()
    harness.now += 10
    stream = harness.comes()
    harness.speaks(stream, after=cost(100))
    prompt = harness.comes()
    for _ in range(8):
        harness.speaks(stream, after=cost(8_000) / 4)  # four steps of others, then four with its chunks
    harness.speaks(prompt)

    assert harness.leaves(prompt, 8_000) == pytest.approx(cost(8_000), rel=0.05)


@pytest.mark.parametrize("ttft", [0.001, 9.0])
def test_a_request_that_waited_for_no_other_has_no_queue(ttft: float) -> None:
    """Quicker or slower than usual: if the engine is slow for a moment, it is the prefill that is slow."""
    assert EstimatorHarness().taught().alone(4_000, ttft=ttft) == pytest.approx(ttft)


def test_a_prefill_is_never_longer_than_the_whole_wait() -> None:
    """The request came while another waited, and was quicker than any before."""
    harness = EstimatorHarness().taught()
    harness.comes()
    quick = harness.comes()
    harness.speaks(quick, after=0.001)

    assert harness.leaves(quick, 4_000) == pytest.approx(0.001)


# --- which requests are samples ------------------------------------------------------------------------------------------


def test_a_request_that_found_another_waiting_is_no_sample() -> None:
    harness = EstimatorHarness()
    harness.comes()  # and is never answered
    for _ in range(3 * READY_SAMPLES):
        harness.alone(500)

    assert (harness.estimator.costs.samples("m"), harness.estimator.costs.ready("m")) == (0, False)


def test_who_came_when_every_slot_may_be_taken_teaches_nothing() -> None:
    """As many streams as ever seen: a free slot is not certain. With one stream less, it is."""
    harness = EstimatorHarness()
    streams = [harness.comes() for _ in range(3)]
    for stream in streams:
        harness.speaks(stream, after=0.1)
    harness.alone(500)  # the fourth, while three stream: until now that was the most

    unseen = harness.estimator.costs.samples("m")
    harness.alone(500)
    harness.estimator.left(streams.pop())
    harness.alone(500)

    assert (unseen, harness.estimator.costs.samples("m")) == (0, 2)


def test_a_whole_answer_in_flight_waits_no_longer_than_streams_did() -> None:
    """Its first token is hidden: beside one that came just now no request is idle, beside one that came long ago it is, as beside a stream."""
    harness = EstimatorHarness()
    for _ in range(2):
        streams = [harness.comes() for _ in range(3)]
        for stream in streams:
            harness.speaks(stream, after=0.1)
        for stream in streams:
            harness.estimator.left(stream)
    harness.now += 10
    whole = harness.comes(streaming=False)
    harness.now += 0.2
    young = harness.comes()
    harness.speaks(young, after=0.1)
    harness.leaves(young, 500)
    before = harness.estimator.costs.samples("m")
    harness.now += 0.2
    old = harness.comes()
    harness.speaks(old, after=0.1)
    harness.leaves(old, 500)

    assert (before, harness.estimator.costs.samples("m")) == (0, 1)
    assert harness.estimator.left(whole) is not None


def test_an_answer_that_is_a_stream_unasked_is_estimated_and_teaches() -> None:
    """Ollama streams unless it is told not to, and some paths always do: what the request says is a guess until the first output."""
    harness = EstimatorHarness()
    answers = []
    for _ in range(FIRST_ANSWER_SAMPLES + 1):
        harness.now += 10
        key = harness.comes(streaming=False)
        harness.speaks(key, after=cost(500))
        answers.append(harness.leaves(key, 500))

    assert answers[-1] == pytest.approx(cost(500))
    assert harness.estimator.costs.samples("m") == FIRST_ANSWER_SAMPLES + 1


def test_a_saturated_engine_that_reports_nothing_is_learned_by_its_steps() -> None:
    """Always one waits, so none is idle. A stream has output at each step; a prompt's step is silent for as long as the prompt costs."""
    harness, rng = EstimatorHarness(), Random(5)
    stream = harness.comes()
    harness.speaks(stream, after=1.0)
    waiting = harness.comes()
    tokens = 500
    for _ in range(2 * READY_SAMPLES):
        after, harness.now = harness.comes(), harness.now + 0.01
        for _ in range(STEPS_SEARCHED):
            harness.speaks(stream, after=0.01)
        harness.speaks(waiting, after=cost(tokens))
        harness.leaves(waiting, tokens)
        waiting, tokens = after, round(100 * 100 ** rng.random())

    assert harness.estimator.costs.samples("m") == 0
    assert harness.estimator.costs.ready("m")
    assert harness.asked(2_000) == pytest.approx(cost(2_000), rel=0.2)


def test_a_saturated_window_teaches_nothing_and_takes_nothing_away() -> None:
    """In each of ten rounds one of fifty requests looks idle and is not: the estimate stays what it was."""
    harness = EstimatorHarness().taught()
    before = harness.asked(1_000)
    for _ in range(10):
        key = harness.comes()
        others = [harness.comes() for _ in range(49)]
        for one in (key, *others):
            harness.speaks(one, after=2.0)
            harness.leaves(one, 1_000)

    assert harness.asked(1_000) == pytest.approx(before, rel=0.02)


def test_one_odd_request_in_five_does_not_move_it() -> None:
    """Causes may be garbage collection, a cold cache, or a wait that could not be seen from here."""
    harness = EstimatorHarness()
    rng = Random(3)
    for number in range(200):
        tokens = 100 * 100 ** rng.random()
        harness.alone(tokens, ttft=cost(tokens) + (3.0 if number % 5 == 0 else 0.0))

    assert harness.asked(1_000) == pytest.approx(cost(1_000), rel=0.25)


# --- when it does not answer ---------------------------------------------------------------------------------------------


def test_it_answers_after_so_many_and_not_before() -> None:
    harness = EstimatorHarness()
    answers = [harness.alone(500) for _ in range(FIRST_ANSWER_SAMPLES + 10)]

    assert answers[:FIRST_ANSWER_SAMPLES] == [Refusal.FEW_SAMPLES] * FIRST_ANSWER_SAMPLES
    assert answers[FIRST_ANSWER_SAMPLES:] == [pytest.approx(cost(500))] * 10


@pytest.mark.parametrize("tokens", [100 / FURTHEST / 1.3, 10_000 * FURTHEST * 1.3])
def test_it_does_not_answer_for_lengths_that_it_has_not_seen(tokens: float) -> None:
    assert EstimatorHarness().taught().asked(tokens) is Refusal.OUTSIDE


def test_a_handful_of_far_longer_prompts_is_not_taken_for_a_rule() -> None:
    """Up to four of them are refused; five are enough."""
    harness = EstimatorHarness().taught()
    four = [harness.alone(100_000) for _ in range(5)]

    assert four == [Refusal.OUTSIDE] * 5
    assert harness.asked(100_000) == pytest.approx(cost(100_000))


def test_cache_hits_that_usage_does_not_state_are_noticed() -> None:
    """Half of the prompts cost almost nothing, half their full price: length does not explain that, so it refuses."""
    harness = EstimatorHarness()
    rng = Random(4)
    for _ in range(200):
        tokens = 2_000 * 5 ** rng.random()
        harness.alone(tokens, ttft=0.02 if rng.random() < 0.5 else cost(tokens))

    assert harness.alone(4_000) is Refusal.INCONSISTENT
    assert not harness.estimator.costs.ready("m")


def test_a_request_without_a_first_token_or_a_length_has_no_estimate() -> None:
    harness = EstimatorHarness().taught()
    visit = Visit(1.0, idle=True, teaches=True, era=0)

    assert harness.estimator.prefill("m", (Length(500, TOKENS),), visit) is Refusal.NO_TOKEN
    assert (
        harness.estimator.prefill("m", (), Visit(1.0, idle=True, teaches=True, era=0, first_token_at=2.0))
        is Refusal.NO_LENGTH
    )


# --- how far an answer can be wrong ------------------------------------------------------------------------------------------


def test_an_interval_is_as_wide_as_the_answers_were_wrong() -> None:
    """The engine's own prefills are half to nine tenths of the estimates, evenly: the interval leaves out a tenth on either side."""
    harness = EstimatorHarness().taught()
    for number in range(100):
        found, truth = harness.told(1_000), (0.5 + 0.004 * number) * cost(1_000)
        assert isinstance(found, Estimate)
        exact = found._replace(prefill_seconds=cost(1_000))
        harness.estimator.reported("another", (Length(1_000, TOKENS),), truth, harness.now, exact)

    found = harness.told(1_000)

    assert isinstance(found, Estimate)
    assert found.basis == "cost"
    assert found.low_seconds == pytest.approx(0.54 * cost(1_000), rel=0.1)
    assert found.high_seconds == pytest.approx(0.86 * cost(1_000), rel=0.1)


@pytest.mark.parametrize("idle", [True, False])
def test_the_end_of_a_prefill_is_before_the_first_token_by_what_reports_tell(idle: bool) -> None:
    """The first token comes after 1.2 s, of which 0.2 are behind the prefill: it began with the engine's output 0.5 s before it, or at once where no other
    request was there."""
    estimator, lengths = Estimator(), (Length(1_000, TOKENS),)
    for _ in range(20):
        estimator.reported("m", lengths, 0.4, 1.0, behind_seconds=0.2)
    visit = Visit(10.0, idle=idle, teaches=idle, era=0, first_token_at=11.2, steps=(10.1, 10.5, 10.8, 11.1))

    found = estimator.prefill("m", lengths, visit)

    assert isinstance(found, Estimate)
    assert found.behind_seconds == pytest.approx(0.2)
    assert found.basis == ("told" if idle else "step")
    assert found.prefill_seconds == pytest.approx(1.0 if idle else 0.5)


def test_the_time_behind_is_the_usual_one_also_where_the_prefill_was_quick() -> None:
    """A prompt that was cached has less: what its TTFT leaves is not taken for the usual, because more than that would be called a wait."""
    estimator, lengths = Estimator(), (Length(1_000, TOKENS),)
    for _ in range(20):
        estimator.reported("m", lengths, 0.4, 1.0, behind_seconds=0.2)

    found = estimator.prefill("m", lengths, Visit(10.0, idle=True, teaches=True, era=0, first_token_at=10.3))

    assert isinstance(found, Estimate)
    assert found.behind_seconds == pytest.approx(0.2)
    assert found.prefill_seconds == pytest.approx(0.3)


def full_met(streams: int, *, beside: int, meanwhile: int = 0) -> bool:
    """Whether a request meets the engine full, on which so many streams ran at once, before. `beside`: those that run when it comes;
    `meanwhile`: those that begin before its own first token.
    """
    harness = EstimatorHarness()
    before = [harness.comes() for _ in range(streams)]
    for stream in before:
        harness.speaks(stream, after=0.1)
    for stream in before:
        harness.estimator.left(stream)
    for stream in [harness.comes() for _ in range(beside)]:
        harness.speaks(stream, after=0.1)
    others = [harness.comes() for _ in range(meanwhile)]
    asked = harness.comes()
    for stream in (*others, asked):
        harness.speaks(stream, after=0.1)
    visit = harness.estimator.left(asked)
    assert visit is not None
    return visit.met_full


@pytest.mark.parametrize(("beside", "meanwhile", "full"), [(4, 0, True), (3, 1, True), (3, 0, False), (2, 1, False)])
def test_a_request_meets_the_engine_full_where_as_many_streams_run_as_ever_have(
    beside: int, meanwhile: int, full: bool
) -> None:
    assert full_met(4, beside=beside, meanwhile=meanwhile) is full


def test_more_streams_than_ever_show_that_there_was_room() -> None:
    """A burst onto a fresh process: each stream of it is one more than there was."""
    assert not full_met(0, beside=0, meanwhile=20)


def test_a_request_that_is_not_streamed_takes_no_streams_place() -> None:
    harness = EstimatorHarness().taught()
    harness.now += 10
    harness.comes(streaming=False)
    asked = harness.comes()
    harness.speaks(asked, after=0.1)

    visit = harness.estimator.left(asked)

    assert visit is not None
    assert not visit.met_full


@pytest.mark.parametrize("lasts", [25, 60, 400])
def test_intervals_hold_four_fifths_also_where_the_load_comes_and_goes(lasts: int) -> None:
    """For so many requests estimates are right but for a factor of 1.3, then they are twice what they should be; and again."""
    wrong, rng, held = Wrong((0.5, 1.0)), Random(6), 0
    for number in range(2_400):
        ratio = (0.5 if number // lasts % 2 else 1.0) * 1.3 ** rng.uniform(-1, 1)
        held += wrong.factors[0] <= ratio <= wrong.factors[1]
        wrong.learn(ratio)

    assert 0.72 <= held / 2_400 <= 0.9


def test_one_way_of_answering_does_not_teach_the_interval_of_another() -> None:
    harness = EstimatorHarness().taught()
    before = harness.told(1_000)
    for _ in range(2 * FEWEST_TRUTHS):
        harness.estimator.reported("m", (), 9.0, harness.now, Estimate(1.0, 0.5, 1.5, "step"))

    assert harness.told(1_000) == before


def test_the_fewer_samples_a_cost_rests_on_the_wider_is_its_interval() -> None:
    def width(samples: int) -> float:
        harness = EstimatorHarness()
        for _ in range(samples):
            harness.alone(1_000)
        found = harness.told(1_000)
        assert isinstance(found, Estimate)
        return found.high_seconds / found.low_seconds

    assert width(FIRST_ANSWER_SAMPLES) > 1.3 * width(READY_SAMPLES)


def test_an_interval_that_holds_nearly_the_whole_wait_is_no_answer() -> None:
    """Prefills were stated from a tenth to five times the estimate: whether this request waited is not known."""
    harness = EstimatorHarness().taught()
    for number in range(2 * FEWEST_TRUTHS):
        truth = Estimate(1.0, 0.5, 1.5, "cost")
        harness.estimator.reported("another", (), 0.1 if number % 2 else 5.0, harness.now, truth)
    harness.now += 10
    harness.comes()
    second = harness.comes()
    harness.speaks(second, after=1.2 * cost(4_000))

    assert harness.leaves(second, 4_000) is Refusal.WIDE


def test_a_siblings_usual_values_answer_at_once() -> None:
    assert EstimatorHarness(lambda _model, tokens: cost(tokens)).asked(2_000) == pytest.approx(cost(2_000))


# --- what is forgotten, and what is kept apart ------------------------------------------------------------------------------


def test_after_a_restart_it_begins_anew_and_learns_nothing_of_who_met_the_old_process() -> None:
    harness = EstimatorHarness().taught()
    survivor = harness.comes()
    harness.speaks(survivor, after=5.0)
    harness.estimator.forget()

    assert harness.leaves(survivor, 500) is Refusal.RESTARTED
    assert harness.estimator.costs.samples("m") == 0
    assert harness.alone(500) is Refusal.FEW_SAMPLES


def test_models_do_not_teach_each_other_and_one_that_is_gone_is_forgotten() -> None:
    harness = EstimatorHarness().taught()
    before = (harness.estimator.costs.ready("m"), harness.estimator.costs.ready("n"), harness.alone(500, model="n"))
    harness.estimator.keep_only(["n"])

    assert before == (True, False, Refusal.FEW_SAMPLES)
    assert harness.estimator.costs.models() == {"n"}


@pytest.mark.parametrize("then", ["usage", "no usage"])
def test_whether_usage_is_stated_makes_no_difference_to_the_next_prompt(then: str) -> None:
    """Clients that asked for usage lost their split on engines that report nothing: they taught, and were asked, in tokens alone."""
    harness, rng = EstimatorHarness(), Random(4)

    def lengths(tokens: int, *, stated: bool) -> Lengths:
        return lengths_of(tokens if stated else None, None, 4 * tokens, float(tokens))

    def alone(tokens: int, *, stated: bool) -> float | Refusal:
        harness.now += 10
        key = harness.comes()
        harness.speaks(key, after=cost(tokens))
        return harness.leaves_with(key, lengths(tokens, stated=stated))

    for _ in range(4 * READY_SAMPLES):
        alone(round(100 * 100 ** rng.random()), stated=then == "no usage")

    for tokens in (200, 2_000, 9_000):
        visit = Visit(harness.now, idle=False, teaches=False, era=0, first_token_at=harness.now + 1_000)
        found = harness.estimator.prefill("m", lengths(tokens, stated=then == "usage"), visit)
        assert seconds_of(found) == pytest.approx(cost(tokens), rel=0.15)


def test_the_engines_own_reports_teach_although_others_waited_meanwhile() -> None:
    harness, rng = EstimatorHarness(), Random(4)
    for _ in range(4 * READY_SAMPLES):
        tokens = round(100 * 100 ** rng.random())
        harness.estimator.reported("m", lengths_of(tokens, None, None), cost(tokens), harness.now)
    harness.estimator.reported("m", lengths_of(500, None, None), 0.0, harness.now)

    assert harness.asked(2_000) == pytest.approx(cost(2_000), rel=0.15)

    key = harness.comes()
    harness.estimator.forget()
    harness.estimator.reported("m", lengths_of(500, None, None), 9.0, harness.now)
    assert harness.estimator.left(key) is not None
    assert harness.estimator.costs.samples("m") == 0


def test_tokens_and_bytes_are_not_compared() -> None:
    """A request that states its usage is measured in tokens, any other in bytes of text."""
    harness = EstimatorHarness().taught()
    key = harness.comes()
    harness.speaks(key, after=0.1)
    visit = harness.estimator.left(key)

    assert visit is not None
    assert harness.estimator.prefill("m", lengths_of(None, None, 4_000), visit) is Refusal.FEW_SAMPLES


def test_it_holds_no_more_than_its_bounds() -> None:
    """Ten thousand requests, of many lengths and more models than are kept; an unknown request is ignored."""
    harness = EstimatorHarness()
    for number in range(10_000):
        harness.alone(1 << (number % 40), model=f"m{number % 50}", ttft=0.1)

    assert len(harness.estimator.costs.models()) == MAX_MODELS
    assert harness.estimator.costs.samples("m0") <= 25 * 40
    assert harness.estimator.left(-1) is None


# --- against a simulation that knows the truth ----------------------------------------------------------------------------------


def simulated(limits: Limits, rate: float, seed: int) -> list[SimulatedRequest]:
    """Six hundred requests of lognormal lengths; half of them share the beginning of their prompt with others."""
    rng, simulation, at, found = Random(seed), Simulation(limits, LLAMA_13B.costs), 0.0, []
    for number in range(600):
        at += rng.expovariate(rate)
        tokens = max(16, min(8_000, int(rng.lognormvariate(math.log(900), 0.9))))
        name = rng.randrange(12) if rng.random() < 0.5 else f"new {number}"
        hashes = [f"{name}/{block}".encode() for block in range(tokens * 3 // 4 // limits.block_size)]
        found.append(simulation.arrive(at, tokens, 1 + int(rng.expovariate(1 / 120)), hashes))
    simulation.advance(math.inf)
    return found


def observed(requests: list[SimulatedRequest]) -> list[float | Refusal]:
    """The estimate for each request, given only what a sidecar sees, in order of time."""
    events = []
    for number, request in enumerate(requests):
        tokens = [instant + request.delivery_seconds for instant in request.token_instants]
        events += [(request.arrived_at, 0, number), (tokens[-1], 2, number), *((at, 1, number) for at in tokens)]
    estimator, found = Estimator(), dict[int, float | Refusal]()
    for at, kind, number in sorted(events):
        if kind == 0:
            estimator.arrived(number, at, streaming=True)
        elif kind == 1:
            estimator.spoke(number, at)
        else:
            request, visit = requests[number], estimator.left(number)
            assert visit is not None
            lengths = lengths_of(request.prompt_tokens, request.cached_tokens, None)
            found[number] = seconds_of(estimator.prefill("m", lengths, visit))
            estimator.learn("m", lengths, visit)
    return [found[number] for number in range(len(requests))]


@pytest.mark.long
@pytest.mark.parametrize(
    ("budget", "rate", "share"),
    [(2_048, 1.0, 0.9), (2_048, 2.5, 0.9), (2_048, 4.0, 0.8), (16_384, 1.0, 0.95), (16_384, 4.0, 0.95)],
)
def test_it_knows_who_waited_in_a_simulated_replica(budget: int, rate: float, share: float) -> None:
    """For the slowest tenth, it tells whether queue or prefill was longer. Large steps can be seen; in small ones, with
    many prompts waiting, a prompt may begin in what another leaves of a step, which cannot be seen from outside: there
    it is right less often.
    """
    answered, judged = 0, []
    for seed in range(20, 24):
        requests = simulated(replace(LLAMA_13B.limits, max_num_batched_tokens=budget), rate, seed)
        ttft = [request.token_instants[0] + request.delivery_seconds - request.arrived_at for request in requests]
        estimates = {n: found for n, found in enumerate(observed(requests)) if not isinstance(found, Refusal)}
        answered += len(estimates)
        for number in sorted(range(len(requests)), key=ttft.__getitem__)[-60:]:
            if number in estimates:
                truth = requests[number].phases
                waited = truth.queue_seconds > truth.prefill_seconds
                judged.append((ttft[number] > 2 * estimates[number]) == waited)

    assert answered >= 0.8 * 4 * 600
    assert sum(judged) >= share * len(judged)


def test_it_says_the_same_twice() -> None:
    """It uses no random numbers and reads no clock."""
    requests = simulated(LLAMA_13B.limits, 3.0, seed=21)

    assert observed(requests) == observed(requests)
