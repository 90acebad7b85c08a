"""How output arrived says whether a hop holds it back; short answers say nothing."""

from dataclasses import replace

import pytest

from sidecar.commands.verify.arrivals import Arrival, arrival, pattern
from tests.commands.verify.played import (
    SENT_AT,
    answer,
    collected,
    cut_short,
    every,
    exchange,
    probed,
    stream,
)


@pytest.mark.parametrize(
    ("tokens", "at", "expected"),
    [
        pytest.param(64, every(0.01, 64, 0.2), Arrival.AS_MADE, id="a read a token"),
        pytest.param(64, every(0.02, 32, 0.2), Arrival.AS_MADE, id="a busy client: two in a read"),
        pytest.param(64, every(0.1, 8, 0.2), Arrival.IN_CLUMPS, id="a hop that flushes each 4 KiB"),
        pytest.param(64, [0.9], Arrival.AT_ONCE, id="a hop that waits for the end"),
        pytest.param(64, [0.9, 0.9005, 0.901], Arrival.AT_ONCE, id="the same, in three writes"),
        pytest.param(8, [0.9], Arrival.UNKNOWN, id="eight tokens may be one step"),
        pytest.param(1, [0.2], Arrival.UNKNOWN, id="one token"),
    ],
)
def test_the_pattern_of_an_answer(tokens: int, at: list[float], expected: Arrival) -> None:
    assert arrival(answer(exchange(stream(tokens, at)))) is expected


@pytest.mark.parametrize(
    ("at", "late", "expected"),
    [
        (every(0.1, 8, 0.2), 0.05, Arrival.UNKNOWN),
        (every(0.1, 8, 0.2), 0.02, Arrival.IN_CLUMPS),
        ([0.9], 0.5, Arrival.UNKNOWN),
        (every(0.01, 64, 0.2), 0.5, Arrival.AS_MADE),
    ],
)
def test_a_busy_machine_is_not_taken_for_a_hop(at: list[float], late: float, expected: Arrival) -> None:
    """Four events take 44 ms: a process that is late by as much makes such clumps itself."""
    assert arrival(replace(answer(exchange(stream(64, at))), late_seconds=late)) is expected


def test_an_answer_that_failed_has_no_pattern() -> None:
    assert arrival(answer(exchange([(SENT_AT + 1, b"busy")], status=503))) is Arrival.UNKNOWN


def test_one_document_for_a_stream_came_at_once_however_short_it_is() -> None:
    names = ("chat-warm-up", "chat-short-1", "chat-short-8")
    found = pattern([(name, collected(name).answer) for name in names])

    assert found[:4] == (Arrival.AT_ONCE, 3, names, 0.0)


def test_why_there_is_no_pattern_is_said_for_each_stream() -> None:
    busy = replace(probed("chat-short-64", reads=1).answer, late_seconds=5.0)
    names = ("chat-short-1", "chat-short-32", "chat-medium-64", "chat-short-64")
    answers = (probed(names[0]).answer, cut_short(names[1]).answer, cut_short(names[2]).answer, busy)
    found = pattern(list(zip(names, answers, strict=True)))

    assert (found.arrival, found.judged) == (Arrival.UNKNOWN, 0)
    assert found.unseen == {"were too short": 1, "failed": 2, "came while this machine was too busy": 1}


def test_most_of_the_answers_decide_and_the_others_are_named() -> None:
    made = [(name, probed(name).answer) for name in ("chat-short-32", "chat-short-64", "chat-medium-64")]
    held = [
        ("chat-gzip-64", probed("chat-gzip-64", reads=1).answer),
        ("chat-last-64", probed("chat-last-64", reads=1).answer),
    ]

    assert pattern([*made, held[0]])[:3] == (Arrival.AS_MADE, 4, ("chat-gzip-64",))
    assert pattern([made[0], *held])[:3] == (Arrival.AT_ONCE, 3, ("chat-gzip-64", "chat-last-64"))
    assert pattern(held).arrival is Arrival.UNKNOWN
    clumps = pattern(
        [(name, probed(name, reads=4).answer) for name in ("chat-short-64", "chat-medium-64", "chat-last-64")]
    )
    assert (clumps.arrival, clumps.events_a_read) == (Arrival.IN_CLUMPS, 16.0)
