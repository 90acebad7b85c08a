"""The asking for usage stops and starts by what several answers show, and stops at once where one comes compressed."""

from itertools import pairwise

from sidecar.engines.usage_asking import (
    COMPRESSED,
    EVERY_API,
    NOT_PROVEN,
    PLAIN_EVERY_SECONDS,
    SHOWS,
    STARTS_AGAIN_SECONDS,
    UsageAsking,
)
from sidecar.timeline.belief import LEARNED_FROM


CHAT = "openai_chat"


def asking(*, shows_at_once: bool = True) -> tuple[UsageAsking, list[tuple[str, str | None]]]:
    """One that is asked from the first stream on, or is not, and what it tells."""
    made, told = UsageAsking(), list[tuple[str, str | None]]()
    made.told = lambda api, why: told.append((api, why))
    made.is_of_release(shows_at_once=shows_at_once)
    return made, told


def end(made: UsageAsking, at: float, times: int, *, shows: bool) -> str | None:
    """So many streams end. Returns why the engine is not asked then."""
    for _ in range(times):
        made.ended(CHAT, at, shows=shows)
    return made.why_not.get(CHAT, made.otherwise)


def test_one_stream_that_shows_usage_stops_nothing_and_a_row_of_them_does() -> None:
    """A good one in between begins the row anew."""
    made, told = asking()
    found = [end(made, 0.0, times, shows=shows) for times, shows in ((19, True), (1, False), (19, True), (1, True))]

    assert found == [None, None, None, SHOWS]
    assert (told, made.stopped) == ([(CHAT, SHOWS)], {CHAT: SHOWS})


def test_it_starts_again_after_as_many_and_once_in_ten_minutes() -> None:
    """An engine that shows usage only when it is asked: twenty clients in ten minutes see it."""
    made, told = asking()
    starts = []
    for second in range(4000):
        asked = made.why_not.get(CHAT, made.otherwise) is None
        made.ended(CHAT, float(second), shows=asked)
        if not asked and made.why_not[CHAT] is None:
            starts.append(second)

    assert starts[0] == 2 * LEARNED_FROM - 1
    assert all(STARTS_AGAIN_SECONDS <= b - a <= STARTS_AGAIN_SECONDS + LEARNED_FROM for a, b in pairwise(starts))
    assert told == [(CHAT, SHOWS), (CHAT, None)] * len(starts) + [(CHAT, SHOWS)]


def test_one_that_was_never_asked_tells_of_its_first_start_alone() -> None:
    """Engines whose streams state usage by themselves are no news."""
    made, told = asking(shows_at_once=False)
    found = [end(made, 0.0, LEARNED_FROM, shows=shows) for shows in (True, False)]

    assert found == [SHOWS, None]
    assert told == [(CHAT, None)]


def test_a_compressed_answer_stops_it_at_once_on_all_apis() -> None:
    """One request a minute asks for `identity` alone. Twenty plain streams in a row of these start it again."""
    made, told = asking()
    made.compressed(1000.0)
    made.compressed(1001.0)
    probes, started_at = [], None
    for second in range(1002, 5000):
        if made.probes(float(second)):
            probes.append(second)
            if len(probes) == 5:
                made.compressed(float(second))
            else:
                made.came_plain(float(second))
        if started_at is None and not made.comes_compressed:
            started_at = second

    assert [probes[0] - 1000, *(b - a for a, b in pairwise(probes))] == [PLAIN_EVERY_SECONDS] * len(probes)
    assert (len(probes), started_at) == (5 + LEARNED_FROM, probes[-1])
    assert told == [(EVERY_API, COMPRESSED), (EVERY_API, None)]
    assert made.otherwise is None


def test_what_a_new_process_is_asked_is_told_where_the_old_one_was_not() -> None:
    made, told = asking()
    end(made, 0.0, LEARNED_FROM, shows=True)
    made.compressed(1.0)
    made.forget()

    assert told == [(CHAT, SHOWS), (EVERY_API, COMPRESSED), (CHAT, NOT_PROVEN), (EVERY_API, NOT_PROVEN)]
    assert (made.stopped, made.comes_compressed, made.probes(1e9)) == ({}, False, False)
