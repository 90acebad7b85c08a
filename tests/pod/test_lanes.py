"""The traffic of a slice beside as much usual traffic of the same lanes."""

from math import exp

import pytest

from sidecar.pod.lanes import FEWEST_OF_LANE, Brought, Lanes
from sidecar.pod.reading import LaneCounts


class Traffic:
    """Cumulative counts of two lanes: `chat` with short prompts and answers, `rag` with ten times as long ones."""

    def __init__(self) -> None:
        self.lanes = Lanes()
        self._counts = {"chat": LaneCounts(), "rag": LaneCounts()}

    def slice(
        self,
        chat: int = 10,
        rag: int = 2,
        *,
        prompt: float = 1.0,
        cached: float = 1.0,
        output: float = 1.0,
        together: float = 1.0,
        gap: float = 1.0,
        typical: float = 1.0,
        learn: bool = False,
    ) -> Brought:
        """So many requests come and end. Factors: prompt tokens, cached tokens, output tokens, events in a read, gaps and the logarithms of
        gaps."""
        before = dict(self._counts)
        for lane, count, size in (("chat", chat, 100.0), ("rag", rag, 1000.0)):
            tokens = count * size
            came = LaneCounts(
                arrivals=count,
                measured=count,
                received_tokens=tokens * prompt,
                answered=count,
                prompt_tokens=tokens * prompt,
                cached_tokens=0.4 * tokens * cached,
                outputs=count,
                output_tokens=tokens * output,
                reads=tokens / 10 * output / together,
                events=tokens / 10 * output,
                gaps=10 * count,
                gap_seconds=10 * count * gap,
                gap_logs=10 * count * typical * size / 100.0,
                streams=count,
            )
            self._counts[lane] = LaneCounts(*(old + new for old, new in zip(before[lane], came, strict=True)))
        return self.lanes.compare(before, self._counts, learn=learn)

    def usual(self) -> "Traffic":
        for _ in range(100):
            self.slice(learn=True)
        return self


def ratio(value: float, usual: float) -> float:
    return value / usual


def test_a_lane_that_sends_more_is_more_work_and_not_longer_prompts() -> None:
    """The mean prompt of all lanes doubles, because the lane with long ones sends four times as much."""
    traffic = Traffic().usual()
    before, now = traffic.slice(), traffic.slice(rag=8)

    assert now.work / before.work > 2.0
    assert ratio(now.prompt_tokens, now.usual_prompt_tokens) == pytest.approx(1.0)
    assert ratio(now.output_tokens, now.usual_output_tokens) == pytest.approx(1.0)


def test_longer_prompts_of_as_many_requests_are_no_more_work() -> None:
    traffic = Traffic().usual()
    before, now = traffic.slice(), traffic.slice(prompt=3.0)

    assert now.work == pytest.approx(before.work)
    assert ratio(now.prompt_tokens, now.usual_prompt_tokens) == pytest.approx(3.0)


def test_work_counts_a_request_by_the_usual_length_of_its_lane() -> None:
    """A request of rag is ten of chat; of usual traffic, the mean request is one."""
    traffic = Traffic().usual()

    assert traffic.slice(chat=0, rag=1).work == pytest.approx(10 * traffic.slice(chat=1, rag=0).work)
    assert traffic.slice().work == pytest.approx(12.0)


def test_a_lost_cache_is_more_uncached_tokens() -> None:
    now = Traffic().usual().slice(cached=0.0)

    assert ratio(now.uncached_tokens, now.usual_uncached_tokens) == pytest.approx(1.0 / 0.6)
    assert ratio(now.prompt_tokens, now.usual_prompt_tokens) == pytest.approx(1.0)


def test_longer_prompts_with_the_same_cached_beginning_are_no_lost_cache() -> None:
    now = Traffic().usual().slice(prompt=3.0)

    assert ratio(now.uncached_tokens, now.usual_uncached_tokens) == pytest.approx(1.0)


def test_longer_answers_and_collected_events_are_told_apart() -> None:
    traffic = Traffic().usual()
    longer, collected = traffic.slice(output=2.0), traffic.slice(together=4.0)

    assert ratio(longer.output_tokens, longer.usual_output_tokens) == pytest.approx(2.0)
    assert ratio(longer.events, longer.usual_events) == pytest.approx(1.0)
    assert ratio(collected.events, collected.usual_events) == pytest.approx(4.0)
    assert ratio(collected.output_tokens, collected.usual_output_tokens) == pytest.approx(1.0)


def test_output_of_requests_that_came_before_is_more_than_the_present_ones_bring() -> None:
    traffic = Traffic().usual()
    usual, longer = traffic.slice(), traffic.slice(output=3.0)

    assert ratio(usual.sent_events, usual.usual_sent_events) == pytest.approx(1.0)
    assert ratio(longer.sent_events, longer.usual_sent_events) == pytest.approx(3.0)


def test_a_request_of_a_new_lane_brings_as_much_output_as_the_mean_of_the_others() -> None:
    traffic = Traffic()
    for _ in range(100):
        traffic.slice(chat=3, rag=0, learn=True)

    assert traffic.slice(chat=0, rag=7).usual_sent_events == pytest.approx(7 * 10.0)


def test_a_lane_with_few_requests_has_no_usual_value_and_a_request_of_it_is_one() -> None:
    traffic = Traffic()
    for _ in range(int(FEWEST_OF_LANE)):
        young = traffic.slice(chat=1, rag=0, learn=True)
    usual = traffic.usual().slice(chat=1, rag=0)

    assert (young.work, young.usual_prompt_tokens, young.usual_output_tokens) == (1.0, 0.0, 0.0)
    assert young.usual_uncached_tokens == 0.0
    assert usual.work < 1.0
    assert usual.usual_prompt_tokens == pytest.approx(100.0)


def test_what_is_not_usual_teaches_nothing() -> None:
    traffic = Traffic().usual()
    for _ in range(200):
        traffic.slice(prompt=5.0, output=5.0)
    now = traffic.slice()

    assert ratio(now.prompt_tokens, now.usual_prompt_tokens) == pytest.approx(1.0)


def test_streams_that_end_have_brought_what_those_of_their_lane_usually_bring() -> None:
    """Those of a lane that is not known yet: what all bring."""
    traffic = Traffic().usual()
    found = traffic.slice(chat=0, rag=2)
    assert found.ended_events == pytest.approx(200.0)
    assert found.sent_events == 200.0

    traffic.lanes = Lanes()
    assert (found := traffic.slice(learn=True)).ended_events == found.stream_events == 0.0
    found = traffic.slice(learn=True)
    assert found.stream_events == pytest.approx(300.0 / 12)
    assert found.ended_events == pytest.approx(300.0)


def test_a_typical_gap_is_compared_with_the_typical_one_of_its_lane() -> None:
    """That of `rag` is larger by the ninth power of e: as much in both, it is as usual."""
    traffic = Traffic().usual()
    found = traffic.slice()
    assert found.typical_seconds == pytest.approx(found.usual_typical_seconds)

    found = traffic.slice(typical=1.1)
    assert ratio(found.typical_seconds, found.usual_typical_seconds) == pytest.approx(exp(1.0), rel=0.01)
    assert ratio(found.gap_seconds, found.usual_gap_seconds) == pytest.approx(1.0)
