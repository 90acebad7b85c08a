"""Reads of tokens between engine and client: hops that collect tokens, and clients that read slowly."""

from bench.incidents.fault import Hop
from bench.incidents.wire import BUFFERED_EVENTS, through_hop, to_slow_client, together


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
