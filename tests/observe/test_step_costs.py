"""The step model's knowledge stands on the metrics page, with its interval or with the reason for which it is absent."""

from functools import partial

import pytest

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.metrics.registry import Metrics
from sidecar.observe.evidence import Evidence
from sidecar.observe.request_record import RequestRecord
from sidecar.observe.step_costs import PRICED_AT_ONCE, StepCosts
from sidecar.pod.causes import Cause
from sidecar.pod.costs.cost_names import Part, Unpriced
from sidecar.pod.costs.decode_now import DECODE_SECONDS
from sidecar.pod.costs.step_model import FEWEST_STEPS
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.support.slo_harness import SloHarness


LABELS = RequestLabels("llama", "chat", "0-512")
STEP_SECONDS = 0.25


class Page:
    """A registry with the evidence of one engine that makes four steps a second: each of them teaches."""

    def __init__(self) -> None:
        self.metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])
        self.evidence = Evidence(self.metrics)
        self.now = 100.0

    def streams(self, steps: int, seconds: float = STEP_SECONDS, *, together: int = 1) -> None:
        """So many requests from their arrival to their last token."""
        keys = [RequestRecord() for _ in range(together)]
        for each in keys:
            self.evidence.received(each, LABELS, 200.0, self.now, streaming=True)
        self.now += 0.05
        for each in keys:
            self.evidence.output(each, self.now, 1)
            assert self.evidence.stream_of(each) is None
        for _ in range(steps):
            self.now += seconds
            for each in keys:
                stream = self.evidence.stream_of(each)
                (partial(self.evidence.output, each) if stream is None else stream.spoke)(self.now, 1)
        for each in keys:
            self.evidence.finished(each, self.now)

    def whole(self, tokens: int) -> None:
        """One request whose answer comes in one event."""
        key, received_at = RequestRecord(), self.now
        self.evidence.received(key, LABELS, 200.0, received_at, streaming=True)
        self.now += 0.05 * tokens
        self.evidence.output(key, self.now, 1)
        self.evidence.finished(key, self.now)
        marks = Marks(
            received_at,
            received_at,
            first_token_at=self.now,
            last_token_at=self.now,
            flushed_at=self.now,
            output_events=1,
            choices=1,
            usage=Usage(prompt_tokens=200, completion_tokens=tokens),
        )
        self.evidence.ended(key, Account(LABELS, True, Outcome.OK, marks, None, key=key), self.now)

    def ticks(self, *, learn: bool) -> int:
        """A tick and its further turns; returns how many turns they took."""
        turns = 1
        while self.evidence.tick(learn=learn, again=turns > 1):
            turns += 1
        return turns

    def ratio(self) -> tuple[float | None, ...]:
        self.metrics.refresh(self.now)
        families = (c.ENGINE_COST_RATIO_LOW, c.ENGINE_COST_RATIO, c.ENGINE_COST_RATIO_HIGH)
        return tuple(self.metrics.gauge(family).child(Part.DECODE).value for family in families)

    def unknown(self) -> list[str]:
        self.metrics.refresh(self.now)
        family = self.metrics.gauge(c.ENGINE_COST_UNKNOWN)
        return [reason for reason in Unpriced if family.child(Part.DECODE, reason).value == 1]


def test_a_ratio_is_absent_with_its_reason_until_it_is_known() -> None:
    page = Page()
    before = (page.ratio(), page.unknown())
    page.streams(FEWEST_STEPS + 100)
    page.ticks(learn=True)

    low, value, high = page.ratio()

    assert before == ((None, None, None), [Unpriced.YOUNG])
    assert page.unknown() == []
    assert low is not None
    assert value == pytest.approx(1.0)
    assert high is not None
    assert low < 1.0 < high


def test_the_cost_of_a_typical_step_is_absent_until_batches_tell_it() -> None:
    """One stream alone leaves open how much of a step is its own. Batches of one to eight take the same time: nothing is."""
    alone, batches = Page(), Page()
    alone.streams(FEWEST_STEPS + 100)
    for together in range(1, 9):
        batches.streams(FEWEST_STEPS // 4, together=together)
    for page in (alone, batches):
        page.ticks(learn=True)
        page.metrics.refresh(page.now)

    assert alone.metrics.gauge(c.ENGINE_STEP_COST_SECONDS).child().value is None
    assert batches.metrics.gauge(c.ENGINE_STEP_COST_SECONDS).child().value == pytest.approx(STEP_SECONDS, rel=0.2)


def test_roots_are_told_which_costs_only_some_fits_call_dear() -> None:
    """One stream alone has taught. Eight take twice as long: that is dear, unless each of them has its own share of a step."""
    page = Page()
    page.streams(FEWEST_STEPS + 100)
    page.ticks(learn=True)
    alone = page.evidence.costs(page.now)
    page.now += 2 * DECODE_SECONDS
    page.streams(100, 2.0 * STEP_SECONDS, together=8)
    page.ticks(learn=False)

    together = page.evidence.costs(page.now)

    assert alone.unsure == frozenset()
    assert together.unsure == {Cause.DECODE_COST}
    assert [factor.value for factor in together.decode if factor is not None] == pytest.approx([1.0, 1.0])
    assert page.ratio()[2] == pytest.approx(2.0, rel=0.1)


def test_roots_are_told_that_dear_steps_which_may_hold_a_prompt_leave_open_what_is_dear() -> None:
    """A long prompt waits while one stream goes on, and each step takes five times as long: by the prompt, or by the decode."""
    page = Page()
    page.streams(FEWEST_STEPS + 100)
    page.ticks(learn=True)
    before = page.evidence.costs(page.now)
    page.evidence.received(RequestRecord(), LABELS, 20_000.0, page.now, streaming=True)
    page.streams(6, 5.0 * STEP_SECONDS)
    page.ticks(learn=False)

    assert not before.is_open
    assert page.evidence.costs(page.now).is_open
    assert not StepCosts(page.metrics).costs(page.now).is_open, "nothing is known of a young process"


@pytest.mark.parametrize(
    ("prompt_tokens", "pure"), [(20.0, True), (None, False), (0.0, False)], ids=["short", "unknown", "no text"]
)
def test_a_prompt_without_a_known_length_may_be_in_any_step_while_it_waits(
    prompt_tokens: float | None, pure: bool
) -> None:
    """A prompt of embeddings has no text, and thousands of tokens."""
    steps = StepCosts(Page().metrics)
    steps.received("a", "chat", 100.0, streaming=True)
    stream = steps.rebuilt.began("a", 0.0, 1)
    assert stream is not None
    steps.received("b", "chat", prompt_tokens, streaming=True)
    for number in range(1, 5):
        stream.spoke(0.01 * number, 1)

    assert [each.pure for each in steps.rebuilt.take(8)][1:] == [pure, pure]


def test_steps_are_priced_some_in_a_turn_and_none_is_left() -> None:
    """A turn stays under a millisecond however many steps have ended."""
    page = Page()
    page.streams(2 * PRICED_AT_ONCE + 7)

    assert (page.ticks(learn=True), page.ticks(learn=True)) == (3, 1)


def test_the_loop_is_asked_for_as_many_turns_as_the_steps_take() -> None:
    """Other work has its turn in between."""
    harness = SloHarness()
    stream = harness.comes(lane="batch").speaks(after=0.1)
    for _ in range(2 * PRICED_AT_ONCE + 7):
        stream.speaks(after=0.01)

    assert [harness.slo.tick(harness.now) for _ in range(4)] == [True, True, False, False]


@pytest.mark.reaches_in
def test_further_turns_do_not_count_as_further_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of the engine's requests that is seen is a mean over seconds."""
    looks: list[int] = []
    monkeypatch.setattr(StepCosts, "tick", lambda _costs, *, in_flight: looks.append(in_flight))
    page = Page()
    page.streams(2 * PRICED_AT_ONCE + 7)

    page.ticks(learn=True)

    assert len(looks) == 1


def test_steps_that_have_become_dearer_show_and_are_not_learned_while_an_objective_burns() -> None:
    page = Page()
    page.streams(FEWEST_STEPS + 100)
    page.ticks(learn=True)
    page.now += 600.0
    page.streams(300, seconds=3 * STEP_SECONDS)
    page.ticks(learn=False)

    low, value, _ = page.ratio()

    assert value == pytest.approx(3.0, rel=0.05)
    assert low is not None
    assert low > 2.5


def test_an_engine_that_runs_requests_of_others_has_no_cost_and_teaches_none() -> None:
    """Clients that bypass the sidecar make its steps wider: what they cost is not known until those are gone."""
    page = Page()
    page.streams(FEWEST_STEPS + 100)
    page.ticks(learn=True)
    running, in_flight = page.metrics.gauge(c.ENGINE_REQUESTS_RUNNING).child(), RequestRecord()

    def runs(count: float) -> list[str]:
        running.set(count)
        page.evidence.received(in_flight, LABELS, 200.0, page.now, streaming=True)
        for _ in range(180):
            page.ticks(learn=True)
        page.streams(60)
        page.ticks(learn=True)
        return page.unknown()

    assert runs(1.0) == []
    assert runs(1.3) == [Unpriced.COVERAGE]
    assert not page.evidence.steps._model.learning
    assert runs(1.2) == []
    assert page.evidence.steps._model.learning


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.CLIENT_CANCELLED])
def test_a_request_of_several_choices_is_no_bypass_while_it_is_in_the_engine(outcome: Outcome) -> None:
    """It runs as four, however it ends; what the engine runs after it is judged again."""
    page = Page()
    page.metrics.gauge(c.ENGINE_REQUESTS_RUNNING).child().set(4.0)
    four = RequestRecord()
    page.evidence.received(four, LABELS, 200.0, page.now, streaming=True, several=True)
    for _ in range(60):
        page.ticks(learn=True)
    during = page.evidence.steps.seen.value
    marks = Marks(page.now, page.now)
    page.evidence.ended(four, Account(LABELS, True, outcome, marks, None), page.now)
    page.evidence.received(RequestRecord(), LABELS, 200.0, page.now, streaming=True)
    for _ in range(60):
        page.ticks(learn=True)

    assert during == 1.0
    assert page.evidence.steps.seen.value == pytest.approx(0.25)


def test_output_that_only_the_steps_were_told_ends_the_silence() -> None:
    """The silence is told once per request's event and once a second, and never believes an older instant."""
    page = Page()
    request = RequestRecord()
    page.evidence.received(request, LABELS, 200.0, page.now, streaming=True)
    page.evidence.output(request, page.now, 1)
    page.now += 0.1
    page.evidence.output(request, page.now, 1)
    stream = page.evidence.stream_of(request)
    assert stream is not None
    for _ in range(3):
        page.now += 7.0
        stream.spoke(page.now, 1)
        page.ticks(learn=True)
    page.now += 2.0
    page.evidence.received(RequestRecord(), LABELS, 200.0, page.now, streaming=True)
    page.metrics.refresh(page.now)

    assert page.metrics.gauge(c.ENGINE_SILENCE_SECONDS).child().value == 2.0
    assert page.metrics.counter(c.ENGINE_STALLED_SECONDS_TOTAL).child().value == 0.0


def test_a_silence_is_not_longer_because_it_is_told_late_that_it_is_over() -> None:
    """Output comes back after 7.3 s, and the next tick comes a second later: no stall, which would begin at 8 s."""
    page = Page()
    request = RequestRecord()
    page.evidence.received(request, LABELS, 200.0, page.now, streaming=True)
    page.evidence.output(request, page.now, 1)
    page.now += 0.1
    page.evidence.output(request, page.now, 1)
    stream = page.evidence.stream_of(request)
    assert stream is not None
    page.ticks(learn=True)
    page.now += 7.3
    for _ in range(9):
        stream.spoke(page.now, 1)
        page.now += 0.1
    page.ticks(learn=True)
    page.metrics.refresh(page.now)

    assert page.metrics.counter(c.ENGINE_STALLED_SECONDS_TOTAL).child().value == 0.0


@pytest.mark.reaches_in
def test_an_error_in_the_model_leaves_the_page_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page()
    monkeypatch.setattr(page.evidence.steps, "set_gauges", None)

    page.metrics.refresh(page.now)

    assert page.metrics.counter(DROPPED_TOTAL).child("observer_error").value == 1
    assert page.metrics.gauge(c.ENGINE_SILENCE_SECONDS).child().value == 0


def test_only_usage_of_a_calm_time_with_its_cached_tokens_teaches_a_share() -> None:
    page = Page()
    page.evidence.steps.answered("chat", 1000, 0, learn=False)
    page.evidence.steps.answered("chat", 1000, None, learn=True)
    page.evidence.steps.answered("chat", None, None, learn=True)
    page.evidence.steps.answered("chat", 1000, 750, learn=True)

    assert page.evidence.steps.uncached("chat", 400.0) == pytest.approx(100.0)


def test_steps_among_which_most_answers_arrive_whole_have_no_cost() -> None:
    """One stream is seen, and beside it two answers at a time that come in one event."""
    page = Page()
    page.streams(FEWEST_STEPS + 100)
    page.ticks(learn=True)
    before = page.unknown()
    for _ in range(18):
        page.streams(100)
        for _ in range(2):
            page.whole(200)
        page.ticks(learn=True)

    assert (before, page.unknown()) == ([], [Unpriced.COVERAGE])
