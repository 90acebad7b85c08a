"""Streams that stand still, on the metrics page: one in ten pages, and no engine does that sends several tokens at once."""

from collections.abc import Callable

import pytest

from sidecar.ledger.report import EngineReport
from sidecar.metrics import catalogue as c
from sidecar.objectives.objective import Aim, Aims, Objectives
from tests.support.slo_harness import Request, SloHarness


STALL = Aim(2.0, 0.99)
"""As the preset `interactive` has it."""
AIMS = Aims(ttft=Aim(1.5, 0.95), tpot=Aim(0.08, 0.95), stall=STALL)
CHAT = Objectives({"chat": {"0-512": AIMS, "512+": AIMS, "unknown": AIMS}, "batch": {"0-512": Aims(ttft=AIMS.ttft)}})
STEP_SECONDS = 0.05


class Streams:
    """Ten streams that speak at each step of the engine, and the seconds since they began."""

    def __init__(self, *, every: float = STEP_SECONDS, events: int = 1) -> None:
        self.harness = SloHarness(CHAT)
        self.each = [self.harness.comes() for _ in range(10)]
        self._every, self._events, self._ticked_at = every, events, 0.0

    def speak(self, seconds: float, *, without: tuple[int, ...] = ()) -> "Streams":
        """All but these have output at each step."""
        until = self.harness.now + seconds
        while self.harness.now + self._every < until + 1e-9:
            self.harness.later(self._every)
            for number, stream in enumerate(self.each):
                if number not in without:
                    stream.speaks(events=self._events)
        return self

    def end(self) -> "Streams":
        for stream in self.each:
            finishes(stream)
        self.harness.later(1.0)
        self.harness.page()
        return self

    def causes(self) -> dict[tuple[str, str], float]:
        children = self.harness.metrics.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).children
        return {(key[1], key[2]): round(child.value, 6) for key, child in children.items() if child.value > 0.5}


def finishes(stream: Request) -> None:
    stream.harness.slo.finished(stream.key, stream.harness.now)
    stream.settles(stream.ends(tokens=300), EngineReport(0.0, 0.05))


def stalls(told: Streams) -> tuple[float, float, float]:
    return told.harness.burn("stall")


# --- one stream in ten --------------------------------------------------------------------------------------------------------


def test_a_stall_of_five_seconds_in_one_stream_of_ten_is_ten_times_what_is_allowed() -> None:
    """It is a miss while it stands still; the pace of its whole answer is met. `tests/alert_rules/suites/tiers.py` pages at that rate."""
    told = Streams().speak(5.0).speak(2.0, without=(3,))
    assert stalls(told) == (0, 0, 0)
    told.speak(1.0, without=(3,))
    assert stalls(told) == (1, 1, 0.01)
    told.speak(2.0, without=(3,)).speak(5.0).end()

    assert stalls(told) == (10, 1, 0.1)
    assert told.harness.burn("tpot")[:2] == (10, 0)
    assert told.causes() == {("engine", "silence"): pytest.approx(0.9, abs=0.05)}
    assert told.harness.votes() == {("stall", "decode"): 1}
    assert told.harness.count(c.GOOD_REQUESTS_TOTAL) == 9


def test_a_stall_that_its_outputs_end_before_the_next_look_is_counted_too() -> None:
    """It lasts for 2.5 s between two ticks."""
    told = Streams().speak(5.0)
    told.harness.now += 2.5
    for stream in told.each:
        stream.speaks()
    told.speak(1.0).end()

    assert stalls(told) == (10, 10, 0.1)


def test_streams_that_all_stand_still_are_the_engines_silence() -> None:
    """Five seconds are below the limit from which the engine itself counts as stalled."""
    told = Streams().speak(5.0)
    told.harness.later(1.0)
    told.speak(4.0, without=tuple(range(10))).speak(2.0).end()

    assert stalls(told)[:2] == (10, 10)
    assert told.causes()["engine", "silence"] == pytest.approx(9.0)
    assert told.harness.count(c.ENGINE_STALLED_SECONDS_TOTAL) == 0


def test_what_came_together_behind_the_gap_was_held_back_on_its_way() -> None:
    told = Streams().speak(5.0).speak(4.0, without=(3,))
    told.each[3].speaks(events=80)
    told.speak(2.0).end()

    assert told.causes() == {("stream", "hop"): pytest.approx(0.98, abs=0.01)}
    assert told.harness.votes() == {("stall", "stream"): 1}


# --- what is no stall ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "events"), [(0.12, 1), (0.8, 10), (0.5, 5), (1.6, 32)], ids=["slow", "ten", "speculated", "blocks"]
)
def test_several_tokens_in_one_event_are_no_stall(every: float, events: int) -> None:
    """A large model, one that streams every tenth token, one that speculates, and one that makes blocks of 32 tokens."""
    told = Streams(every=every, events=events).speak(60.0).end()

    assert stalls(told) == (10, 0, 0.1)


def test_an_engine_that_sends_seldom_and_works_slowly_is_no_stall_and_a_stream_of_it_can_stand_still() -> None:
    """It sends every tenth token, and a step takes a quarter of a second for a while: each stream speaks every 2.5 s, one after another."""
    told = Streams()
    for step in range(600):
        told.harness.later(0.02 if step < 200 else 0.25)
        told.each[step % 10].speaks()
    assert stalls(told) == (0, 0, 0)

    for step in range(60):
        told.harness.later(0.25)
        if step % 10 != 3:
            told.each[step % 10].speaks()

    assert stalls(told)[:2] == (1, 1)
    told.end()
    assert stalls(told)[:2] == (10, 1)


def pauses(stream: Request) -> None:
    stream.harness.slo.paused(stream.key, stream.harness.now)
    stream.harness.later(30.0)
    stream.harness.slo.resumed(stream.key, stream.harness.now)
    stream.speaks(after=STEP_SECONDS)


def held_open(stream: Request) -> None:
    """The client has the end mark, and the engine closes its message 30 s later."""
    stream.harness.slo.finished(stream.key, stream.harness.now)
    stream.harness.later(30.0)


def reads_on(stream: Request) -> None:
    """The engine has sent all, and the client takes 30 s to take it."""
    stream.harness.slo.finished(stream.key, stream.harness.now)
    stream.harness.later(30.0)


@pytest.mark.parametrize("happens", [pauses, held_open, reads_on])
def test_time_in_which_nothing_is_to_come_is_no_stall(happens: Callable[[Request], None]) -> None:
    harness = SloHarness(CHAT)
    stream = harness.comes().speaks(after=0.1).speaks(after=STEP_SECONDS)

    happens(stream)
    finishes(stream)

    assert harness.burn("stall") == (1, 0, 0.01)


def test_a_stream_that_waits_for_a_tool_on_the_server_has_no_such_objective() -> None:
    harness = SloHarness(CHAT)
    request = Request(harness, "chat", "0-512", True)
    harness.slo.received(request.key, harness.now, request.labels, streaming=True, prompt_tokens=100.0, pauses=True)
    request.speaks(after=0.1).speaks(after=60.0)
    finishes(request)

    assert harness.burn("stall") == (0, 0, 0)
    assert harness.burn("ttft")[:2] == (1, 0)


# --- the series ---------------------------------------------------------------------------------------------------------------


def test_only_lanes_with_the_objective_have_its_series() -> None:
    harness = SloHarness(CHAT)
    harness.page()
    families = (c.SLO_REQUESTS_TOTAL, c.SLO_MISSES_TOTAL, c.SLO_BLAMED_MISSES_TOTAL, c.SLO_ROOT_MISSES_TOTAL)

    lanes = {key[1] for family in families for key in harness.metrics.counter(family).children if "stall" in key}
    assert lanes == {"chat"}


def test_nothing_is_left_of_streams_that_stood_still() -> None:
    told = Streams().speak(3.0).speak(3.0, without=(1, 2)).speak(1.0).end()
    told.harness.later(30.0)

    assert told.harness.remembered() == {}
