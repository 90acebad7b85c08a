"""The way of tokens to the client: events of several tokens, merged reads, hops, a sidecar with a quota, slow clients."""

from itertools import accumulate
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bench.incidents.fault import Hop
from bench.incidents.wire import (
    BUFFERED_EVENTS,
    COALESCED_WITHIN_SECONDS,
    coalesced,
    in_intervals,
    next_run_at,
    through_hop,
    through_quota,
    to_slow_client,
    together,
)
from bench.incidents.world import Throttle


Reads = tuple[list[float], list[int]]
_GAPS = st.lists(st.tuples(st.floats(0.001, 2.0), st.integers(1, 9)), max_size=30)
READS = _GAPS.map(lambda gaps: (list(accumulate(gap for gap, _ in gaps)), [count for _, count in gaps]))
"""Instants in order, each once, with a number of events."""
QUOTAS = st.tuples(st.floats(0.01, 0.1), st.sampled_from((0.1, 1.0)), st.floats(0.0, 0.1))
"""Run seconds, period, phase."""


def kept_and_later(before: Reads, after: Reads) -> bool:
    """Whether no event is lost, instants are in order and each once, and each event comes at its instant or later."""

    def of_each_event(reads: Reads) -> list[float]:
        return [at for at, count in zip(*reads, strict=True) for _ in range(count)]

    was, now = of_each_event(before), of_each_event(after)
    ordered = all(one < other for one, other in zip(after[0], after[0][1:], strict=False))
    return ordered and len(was) == len(now) and all(one <= other for one, other in zip(was, now, strict=True))


def test_a_hop_passes_on_what_it_has_collected() -> None:
    """The hop collects four tokens at a time; the last token of the answer flushes the rest."""
    tokens = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]

    assert through_hop(tokens, Hop(4, 60.0), complete=True) == ([4.0, 6.0], [4, 2])


def test_a_hop_holds_nothing_for_longer_than_its_time() -> None:
    tokens = [0.0, 1.0, 2.0, 3.0]

    assert through_hop(tokens, Hop(100, 1.5), complete=True) == ([1.5, 3.0], [2, 2])


def test_what_a_hop_still_holds_of_an_unfinished_answer_comes_when_its_time_is_over() -> None:
    assert through_hop([0.0, 1.0], Hop(100, 5.0), complete=False) == ([5.0], [2])


def test_tokens_of_one_instant_are_one_read() -> None:
    assert together([1.0, 2.0, 2.0, 3.0]) == ([1.0, 2.0, 3.0], [1, 2, 1])


def test_tokens_that_one_step_made_are_one_event_with_speculative_decoding() -> None:
    assert together([1.0, 2.0, 2.0, 3.0], one_event=True) == ([1.0, 2.0, 3.0], [1, 1, 1])


def test_an_engine_with_an_interval_writes_the_first_token_and_then_every_fourth_and_the_last() -> None:
    tokens = [float(number) for number in range(11)]

    assert in_intervals(tokens, 4) == [0.0, 4.0, 8.0, 10.0]
    assert in_intervals(tokens, 4, complete=False) == [0.0, 4.0, 8.0]
    assert in_intervals(tokens[:9], 4) == [0.0, 4.0, 8.0]
    assert in_intervals([], 4) == []


@given(READS, st.integers(1, 12))
def test_an_interval_invents_no_instant_and_keeps_the_first_and_the_last(reads: Reads, interval: int) -> None:
    tokens = reads[0]

    kept = in_intervals(tokens, interval)

    assert set(kept) <= set(tokens)
    assert kept == sorted(kept)
    assert (kept[:1], kept[-1:]) == (tokens[:1], tokens[-1:])
    assert in_intervals(tokens, 1) == tokens


@given(READS, st.floats(0.0, 1.0), st.integers())
def test_a_merged_read_loses_no_event_and_is_never_early(reads: Reads, share: float, seed: int) -> None:
    after = coalesced(*reads, share, Random(seed))

    assert kept_and_later(reads, after)
    assert coalesced(*reads, 0.0, Random(seed)) == reads


def test_a_read_waits_for_the_next_one_only_if_that_comes_soon() -> None:
    """The engine hangs after the second token: that token does not wait for the end of the hang."""
    late_at = 0.1 + 2 * COALESCED_WITHIN_SECONDS

    assert coalesced([0.0, 0.1, late_at], [1, 2, 3], 1.0, Random(1)) == ([0.1, late_at], [3, 3])


def test_about_the_share_of_reads_comes_with_the_next_one() -> None:
    instants = [number * 0.02 for number in range(5000)]

    read_at, read = coalesced(instants, [1] * 5000, 0.3, Random(1))

    assert 0.68 < len(read_at) / 5000 < 0.72
    assert sum(read) == 5000


def test_a_sidecar_with_a_quota_runs_at_the_beginning_of_each_period() -> None:
    """It runs for 60 ms of every 100 ms, and its periods begin 20 ms after each full tenth of a second."""
    throttle = Throttle(0.06)

    assert next_run_at(5.05, throttle, 0.02) == 5.05
    assert round(next_run_at(5.09, throttle, 0.02), 6) == 5.12
    assert round(next_run_at(5.01, throttle, 0.02), 6) == 5.02


def test_what_comes_while_the_sidecar_stands_still_is_read_together() -> None:
    instants, counts = [0.01, 0.03, 0.06, 0.07, 0.12], [1, 1, 1, 2, 1]

    assert through_quota(instants, counts, Throttle(0.05), 0.0) == ([0.01, 0.03, 0.1, 0.12], [1, 1, 3, 1])


@given(READS, QUOTAS)
def test_a_quota_loses_no_event_and_reads_nothing_early(reads: Reads, quota: tuple[float, float, float]) -> None:
    run_seconds, period, phase = quota
    throttle = Throttle(run_seconds, period)

    after = through_quota(*reads, throttle, phase)

    assert kept_and_later(reads, after)
    assert all(at - was <= period for was, at in zip(reads[0][-1:], after[0][-1:], strict=True))
    assert all(next_run_at(at, throttle, phase) == at for at in after[0])


@given(READS, st.floats(0.0, 1.0))
def test_a_quota_of_the_whole_period_changes_nothing(reads: Reads, phase: float) -> None:
    assert through_quota(*reads, Throttle(0.1), phase) == reads


def test_a_client_that_keeps_up_changes_nothing() -> None:
    instants = [number * 0.1 for number in range(50)]

    reads, pauses, flushed_at = to_slow_client(instants, [1] * 50, 20.0)

    assert (reads, pauses) == (instants, [])
    assert flushed_at == instants[-1] + 1 / 20


def test_a_slow_client_pauses_the_reading_and_sets_the_pace() -> None:
    """200 tokens come at 100 per second to a client of 10 per second: beyond the buffer they come at its pace."""
    instants = [number * 0.01 for number in range(200)]

    reads, pauses, flushed_at = to_slow_client(instants, [1] * 200, 10.0)

    assert reads[: BUFFERED_EVENTS - 4] == instants[: BUFFERED_EVENTS - 4]
    assert reads == sorted(reads)
    assert 0.09 < (reads[-1] - reads[BUFFERED_EVENTS]) / (200 - BUFFERED_EVENTS) < 0.11
    assert all(began < ended for began, ended in pauses)
    assert 19.9 < flushed_at < 20.5
