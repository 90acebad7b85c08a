"""Prefill cost compared with what was expected: shared seconds count once, only prompts that ran alone are samples."""

import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.pod.costs.prefill_cost import READY_SAMPLES, Length
from sidecar.pod.costs.prefill_work import (
    MAX_COUNTED_SPANS,
    MAX_CURVES,
    RECENT_ARRIVALS,
    REMEMBERED_SAMPLES,
    REMEMBERED_SECONDS,
    SAMPLE_EVERY_SECONDS,
    FirstToken,
    Prefilling,
    PrefillWork,
    Work,
)


TOKENS = "tokens"


def cost(tokens: float) -> float:
    """True cost of a prompt in these scenarios, in seconds: 20 ms, and 0.1 ms a token."""
    return 0.02 + 1e-4 * tokens


class PrefillWorkHarness:
    """One engine's prefill work and a clock; each method is something that a request does."""

    def __init__(self) -> None:
        self.work = PrefillWork()
        self.now = 100.0

    def comes(self, *, after: float = 0.0) -> Prefilling:
        self.now += after
        key = Prefilling()
        self.work.received(key)
        return key

    def speaks(self, key: Prefilling, *, after: float = 0.0) -> FirstToken:
        self.now += after
        seen = self.work.first_token(key, self.now)
        assert seen is not None
        return seen

    def reports(
        self, seen: FirstToken, tokens: float, *, model: str = "m", seconds: float | None = None, learn: bool = True
    ) -> Work | None:
        """The engine reports that the prefill took `seconds`; by default, what a prompt of this length costs."""
        seconds = cost(tokens) if seconds is None else seconds
        return self.work.prefilled(model, Length(tokens, TOKENS), seen, seconds, learn=learn)

    def alone(
        self, tokens: float, *, seconds: float | None = None, learn: bool = True, model: str = "m", after: float = 60.0
    ) -> Work | None:
        """A request that runs alone: no other request is in flight."""
        key = self.comes(after=after)
        seen = self.speaks(key, after=cost(tokens) if seconds is None else seconds)
        return self.reports(seen, tokens, model=model, seconds=seconds, learn=learn)

    def taught(self) -> "PrefillWorkHarness":
        """After many prompts of 100 to 10,000 tokens, one a minute."""
        rng = Random(1)
        for _ in range(3 * READY_SAMPLES):
            self.alone(100 * 100 ** rng.random())
        self.now += REMEMBERED_SECONDS
        return self

    def expects(self, tokens: float, model: str = "m") -> float | None:
        return self.work.cost_seconds(model, Length(tokens, TOKENS))


# --- what is expected ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [200, 1_000, 9_000])
def test_what_is_expected_follows_the_length(tokens: float) -> None:
    assert PrefillWorkHarness().taught().expects(tokens) == pytest.approx(cost(tokens), rel=0.1)


def test_nothing_is_expected_before_enough_was_seen() -> None:
    """Nothing is counted then either: own seconds without expected seconds would be evidence of nothing."""
    harness = PrefillWorkHarness()

    assert (harness.alone(500), harness.expects(500)) == (None, None)


def test_of_an_unknown_length_nothing_is_expected() -> None:
    harness = PrefillWorkHarness().taught()
    seen = harness.speaks(harness.comes(), after=1.0)

    assert harness.work.prefilled("m", None, seen, 1.0, learn=True) is None
    assert harness.work.cost_seconds("m", Length(500, "bytes")) is None
    assert harness.expects(500, model="another") is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_prefill_that_took_no_time_is_none(seconds: float) -> None:
    harness = PrefillWorkHarness().taught()
    seen = harness.speaks(harness.comes(), after=1.0)

    assert harness.reports(seen, 500, seconds=seconds) is None


def test_a_slower_engine_shows_in_the_ratio() -> None:
    """Everything takes 2.5 times as long, and is not learned from, because objectives are being missed."""
    harness = PrefillWorkHarness().taught()
    own = expected = 0.0
    for number in range(50):
        work = harness.alone(1000 + 50 * number, seconds=2.5 * cost(1000 + 50 * number), learn=False)
        assert work is not None
        own, expected = own + work.own_seconds, expected + work.expected_seconds

    assert own / expected == pytest.approx(2.5, rel=0.1)


def test_a_new_process_is_compared_with_the_old_one() -> None:
    harness = PrefillWorkHarness().taught()
    before = harness.expects(1000)

    harness.work.forget()

    assert harness.expects(1000) == before
    slower = harness.alone(1000, seconds=3.0 * cost(1000), learn=False)
    assert slower is not None
    assert slower.own_seconds / slower.expected_seconds == pytest.approx(3.0, rel=0.1)


# --- which requests are samples ------------------------------------------------------------------------------------------


def learned(harness: PrefillWorkHarness) -> int:
    """Number of samples over all curves."""
    return sum(curve.samples for curve in harness.work._curves.values())


def test_who_was_alone_teaches_unless_something_burns() -> None:
    harness = PrefillWorkHarness()
    harness.alone(1000)
    assert learned(harness) == 1

    harness.alone(1000, learn=False)
    assert learned(harness) == 1


def test_a_request_with_another_waiting_behind_it_is_no_sample() -> None:
    """The engine may compute both together: the last of them has seen the other's first token within its own prefill."""
    harness = PrefillWorkHarness()
    first, second = harness.comes(), harness.comes(after=0.01)
    reports = [(harness.speaks(first, after=0.3), 0.3), (harness.speaks(second), 0.29)]
    for seen, seconds in reports:
        harness.reports(seen, 1000, seconds=seconds)

    assert learned(harness) == 0


@pytest.mark.parametrize(("seconds", "samples"), [(0.2, 1), (0.21, 0)])
def test_who_waited_and_was_computed_after_the_others_teaches(seconds: float, samples: int) -> None:
    """Its prefill began at the other's first token: it is a sample if the reported time fits behind that instant."""
    harness = PrefillWorkHarness()
    first, second = harness.comes(), harness.comes()
    harness.speaks(first, after=0.3)
    seen = harness.speaks(second, after=0.2)
    harness.reports(seen, 1000, seconds=seconds)

    assert learned(harness) == samples


@pytest.mark.parametrize(("gone_after", "samples"), [(0.1, 1), (0.2, 0)])
def test_who_left_without_a_token_may_have_been_computed_until_then(gone_after: float, samples: int) -> None:
    """A client that gave up, or an answer that is not streamed: a prompt that is alone from then on is a sample."""
    harness = PrefillWorkHarness()
    gone, stays = harness.comes(), harness.comes()
    harness.now += gone_after
    harness.work.left(gone, harness.now)
    seen = harness.speaks(stays, after=0.5 - gone_after)
    harness.reports(seen, 1000, seconds=0.35)

    assert learned(harness) == samples


def test_a_request_that_had_its_token_disturbs_no_other_by_leaving() -> None:
    harness = PrefillWorkHarness()
    stream = harness.comes()
    harness.speaks(stream, after=0.1)
    prompt = harness.comes(after=1.0)
    harness.now += 0.1
    harness.work.left(stream, harness.now)
    harness.reports(harness.speaks(prompt, after=0.1), 1000, seconds=0.2)

    assert learned(harness) == 1


def test_a_burst_does_not_rewrite_what_is_expected() -> None:
    """Once a length has its samples, one in 10 s is taken: of eighty slow ones within 10 s, one counts."""
    harness = PrefillWorkHarness()
    for _ in range(REMEMBERED_SAMPLES + 10):
        harness.alone(100)
    harness.now += SAMPLE_EVERY_SECONDS
    for _ in range(80):
        harness.alone(100, seconds=4 * cost(100), after=0.0)

    assert harness.expects(100) == pytest.approx(cost(100))


def test_an_engine_that_stays_slower_is_learned_in_time() -> None:
    """While no objective burns: half of the samples are replaced within five minutes."""
    harness = PrefillWorkHarness()
    for _ in range(REMEMBERED_SAMPLES + 10):
        harness.alone(1000)
    for _ in range(REMEMBERED_SAMPLES):
        harness.alone(1000, seconds=0.15, after=SAMPLE_EVERY_SECONDS)

    assert harness.expects(1000) == pytest.approx(0.15)


# --- which requests are idle ---------------------------------------------------------------------------------------------


def test_a_request_that_found_no_other_waiting_is_idle() -> None:
    harness = PrefillWorkHarness()
    first, second = harness.comes(), harness.comes()

    assert (harness.speaks(first, after=1).idle, harness.speaks(second, after=1).idle) == (True, False)
    harness.work.left(first, harness.now)
    assert harness.speaks(harness.comes()).idle is True


def test_who_comes_when_every_slot_may_be_taken_is_not_idle() -> None:
    """None waits for a first token, but as many stream as the engine has ever carried: it may have to wait."""
    harness = PrefillWorkHarness()
    first, second = harness.comes(), harness.comes()
    harness.speaks(first)
    harness.speaks(second)

    assert harness.speaks(harness.comes()).idle is False


def test_in_a_saturated_engine_no_request_is_idle() -> None:
    """If hardly any request finds no other waiting, the few that seem to are misjudged."""
    harness = PrefillWorkHarness()
    queued = [harness.comes() for _ in range(RECENT_ARRIVALS)]
    for key in queued:
        harness.work.left(key, harness.now)

    assert harness.speaks(harness.comes()).idle is False


def test_a_first_token_comes_once() -> None:
    """A request that is not known has no first token either."""
    harness = PrefillWorkHarness()
    key = harness.comes()
    harness.speaks(key)

    assert harness.work.first_token(key, harness.now) is None
    assert harness.work.first_token(Prefilling(), harness.now) is None


# --- shared seconds ------------------------------------------------------------------------------------------------------


def test_prompts_that_are_computed_together_share_their_seconds() -> None:
    """Two prefills of one second each overlap by half a second: 1.5 s in all, whichever is reported first."""
    harness = PrefillWorkHarness().taught()
    first, second = harness.comes(), harness.comes(after=0.5)
    reports = [harness.speaks(first, after=0.5), harness.speaks(second, after=0.5)]

    works = [harness.reports(seen, 1000, seconds=1.0, learn=False) for seen in reversed(reports)]

    assert [round(work.own_seconds, 9) for work in works if work is not None] == [1.0, 0.5]


def ended(at: int) -> FirstToken:
    return FirstToken(float(at), idle=False, alone_since=0.0, undisturbed=False)


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(1, 120)), min_size=1, max_size=60), st.randoms())
def test_what_is_taken_is_the_union_of_all_prefills_in_whatever_order(
    spans: list[tuple[int, int]], rng: Random
) -> None:
    """The result is compared with a set of whole seconds after every report; spans stay apart and in order."""
    work, taken, total = PrefillWork(), set[int](), 0.0
    rng.shuffle(spans)

    for end, seconds in spans:
        total += work._take(float(end - seconds), float(end))
        taken.update(range(end - seconds, end))
        assert total == len(taken)
        assert all(end < begin for end, begin in zip(work._ends, work._begins[1:], strict=False))


# --- memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ago", "counted"), [(REMEMBERED_SECONDS - 20, True), (REMEMBERED_SECONDS + 20, False)])
def test_a_report_that_reaches_too_far_back_is_not_counted(ago: float, counted: bool) -> None:
    """When a stream of twenty minutes is settled, it is no longer known which other prompts were in prefill then."""
    harness = PrefillWorkHarness().taught()
    began = harness.now
    for _ in range(int(REMEMBERED_SECONDS / 10) + 4):
        harness.alone(1000, after=10.0)
    late = FirstToken(harness.now - ago, idle=False, alone_since=0.0, undisturbed=False)

    assert harness.now > began + REMEMBERED_SECONDS
    assert (harness.reports(late, 1000) is not None) is counted


def test_what_is_remembered_of_taken_seconds_is_bounded_in_time_and_number() -> None:
    """At a hundred prompts a second the oldest spans are dropped sooner, and a dropped span is never counted twice."""
    harness = PrefillWorkHarness().taught()
    for _ in range(2 * MAX_COUNTED_SPANS):
        harness.alone(100, after=0.01, learn=False)
        assert len(harness.work._ends) <= MAX_COUNTED_SPANS
    assert harness.reports(ended(int(harness.now) - 600), 100) is None

    harness.alone(100, after=REMEMBERED_SECONDS + 1)
    assert len(harness.work._ends) == 1


def test_what_is_remembered_of_taken_seconds_is_no_small_objects() -> None:
    """Spread over the heap by a burst, they would keep its pages for a quarter of an hour."""
    work, instants = PrefillWork(), [float(second) for second in range(1, 4001)]
    before = sys.getallocatedblocks()
    for second in instants:
        work._take(second - 0.5, second)

    assert sys.getallocatedblocks() - before < 400


def test_unseen_models_and_lengths_do_not_grow_the_memory() -> None:
    """Model labels are a closed set; should there be more than `MAX_CURVES`, the first ones stay."""
    harness = PrefillWorkHarness()
    for number in range(2 * MAX_CURVES):
        harness.alone(1000, model=f"{number}")

    assert len(harness.work._curves) == MAX_CURVES
    assert len(harness.work._learned_at) == MAX_CURVES


@given(st.lists(st.tuples(st.sampled_from(["received", "first_token", "left"]), st.integers(0, 4)), max_size=50))
def test_a_request_that_has_left_is_not_waited_for(told: list[tuple[str, int]]) -> None:
    work, now, requests = PrefillWork(), 0.0, [Prefilling() for _ in range(5)]
    for verb, number in told:
        now += 1.0
        getattr(work, verb)(requests[number], *(() if verb == "received" else (now,)))
    for request in requests:
        work.left(request, now)

    assert (work.waiting, work.streaming) == (0, 0)
