"""The intake of spans: every span is handed on, in slices, a few requests at a time, whatever the sink does."""

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import TypeVar

import pytest

from sidecar.engines.span import Span
from sidecar.otlp import intake as intakes
from sidecar.otlp.intake import HELD_AT_ONCE, SLICE_SECONDS, WAITING_AT_ONCE, Intake
from sidecar.otlp.limits import MAX_EXPORT_BYTES, BusyError, MalformedError, RefusedError, Tally, TooLargeError
from sidecar.otlp.received import ReceivedSpan
from sidecar.otlp.request_memory import PART_BYTES
from sidecar.otlp.wire_format import Body
from tests.support.memory import Clock
from tests.support.otlp import IDS, field, many_attributes, nested_value, request_around, request_of


T = TypeVar("T")


class IntakeHarness:
    """A sink that knows the spans named `known`, and counters."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.spans: list[Span] = []
        self.counted: dict[str, int] = {}
        self.intake = Intake(self.sink, clock=self.clock, count=self.count, dropped=self.count)

    def sink(self, span: Span) -> bool:
        self.spans.append(span)
        if span.name == "broken":
            raise RuntimeError("an engine's file")
        return span.name == "known"

    def count(self, what: str, n: int) -> None:
        self.counted[what] = self.counted.get(what, 0) + n

    def each_span_takes(self, seconds: float) -> None:
        def slow(span: Span) -> bool:
            self.spans.append(span)
            self.clock.later(seconds)
            return True

        self.intake._sink = slow


@contextlib.asynccontextmanager
async def turns_of_another_task(note: Callable[[], T]) -> AsyncIterator[list[T]]:
    """Another task on the loop, which is always ready: its note of each turn, from before the block to after it."""
    turns: list[T] = []

    async def take_turns() -> None:
        while True:
            turns.append(note())
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    await asyncio.sleep(0)
    yield turns
    await asyncio.sleep(0)
    other.cancel()


async def body(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def parts_of(request: Body) -> list[bytes]:
    return [bytes(request[at : at + PART_BYTES]) for at in range(0, len(request), PART_BYTES)]


def play(scenario: Callable[[IntakeHarness], Awaitable[None]]) -> None:
    async def played() -> None:
        await scenario(IntakeHarness())

    asyncio.run(played())


def test_each_span_is_counted_as_what_became_of_it() -> None:
    """Results are taken, unknown and rejected; a sink that fails on one span loses only that one."""

    async def scenario(harness: IntakeHarness) -> None:
        request = request_of(
            {"name": "known"}, {"name": "unknown"}, {"name": "broken"}, {"trace_id": ""}, {"name": "known"}
        )

        tally = await harness.intake.take(body(request.SerializeToString()))

        assert tally == Tally(taken=2, unknown=1, rejected=1, why="a span without a trace id or span id")
        assert harness.counted == {
            "taken": 2,
            "unknown": 1,
            "rejected": 1,
            "span_unknown": 1,
            "span_rejected": 1,
            "observer_error": 1,
        }

    play(scenario)


def test_a_refused_request_is_counted_and_what_stood_before_the_mistake_is_not_lost() -> None:
    async def scenario(harness: IntakeHarness) -> None:
        good = request_of({"name": "known"}).SerializeToString()

        with pytest.raises(MalformedError):
            await harness.intake.take(body(good + b"\xff"))
        with pytest.raises(TooLargeError):
            await harness.intake.take(body(*[bytes(1 << 20)] * 5))

        assert harness.counted == {"taken": 1, "span_request_refused": 2}

    play(scenario)


def test_other_tasks_on_the_loop_get_a_turn_after_each_slice() -> None:
    """Every span takes a whole slice here, so another task runs between any two spans."""

    async def scenario(harness: IntakeHarness) -> None:
        harness.each_span_takes(SLICE_SECONDS)
        async with turns_of_another_task(lambda: len(harness.spans)) as turns:
            await harness.intake.take(body(request_of(*[{}] * 20).SerializeToString()))

        assert set(turns) == set(range(21))

    play(scenario)


def test_reading_and_decoding_share_a_slice() -> None:
    """Each chunk and each span takes 0.4 slices; other tasks never wait longer than a slice and what has begun in it."""
    part_seconds = 0.4 * SLICE_SECONDS

    async def scenario(harness: IntakeHarness) -> None:
        async def chunks(whole: bytes) -> AsyncIterator[bytes]:
            for half in (whole[:9], whole[9:]):
                harness.clock.later(part_seconds)
                yield half

        harness.each_span_takes(part_seconds)
        async with turns_of_another_task(harness.clock) as turns:
            await harness.intake.take(chunks(request_of(*[{}] * 9).SerializeToString()))

        assert turns[-1] - turns[0] == pytest.approx(11 * part_seconds)
        assert max(after - before for before, after in pairwise(turns)) < SLICE_SECONDS + part_seconds

    play(scenario)


def test_a_large_request_is_given_back_in_slices() -> None:
    """Each part takes a whole slice here. A part that went back reads as zeros; others see it go, one after the other."""

    async def scenario(harness: IntakeHarness) -> None:
        def late() -> float:
            harness.clock.later(SLICE_SECONDS)
            return harness.clock()

        def parts_held() -> int:
            return sum(part[-1] != 0 for request in (one.body for one in received) for part in parts_of(request))

        received: list[ReceivedSpan] = []
        harness.intake._clock, harness.intake._forward = late, received.append
        async with turns_of_another_task(parts_held) as turns:
            await harness.intake.take(body(request_of({}).SerializeToString() + field(15, b"\x01" * (4 * PART_BYTES))))

        assert list(dict.fromkeys(turns[turns.index(5) :])) == [5, 4, 3, 2, 1, 0]

    play(scenario)


@pytest.mark.long
def test_a_large_body_that_is_refused_is_refused_for_its_own_reason() -> None:
    async def scenario(harness: IntakeHarness) -> None:
        with pytest.raises(MalformedError):
            await harness.intake.take(body(b"\x08\x01" * PART_BYTES + b"\x08"))

    play(scenario)


def test_many_small_requests_share_slices() -> None:
    """Twenty requests are there at once, and the span of each takes 0.4 slices: others wait for no more than two requests."""
    part_seconds = 0.4 * SLICE_SECONDS

    async def scenario(harness: IntakeHarness) -> None:
        harness.each_span_takes(part_seconds)
        one = request_of({}).SerializeToString()
        async with turns_of_another_task(harness.clock) as turns:
            await asyncio.gather(*(harness.intake.take(body(one)) for _ in range(20)))

        assert turns[-1] - turns[0] == pytest.approx(20 * part_seconds)
        longest = max(after - before for before, after in pairwise(turns))
        assert longest < HELD_AT_ONCE * (SLICE_SECONDS + part_seconds)

    play(scenario)


def test_who_comes_when_the_house_is_full_is_told_to_come_again() -> None:
    """Two requests are held and 32 wait; the next is refused. When the first are done, there is room again."""

    async def scenario(harness: IntakeHarness) -> None:
        gate = asyncio.Event()

        async def stuck() -> AsyncIterator[bytes]:
            await gate.wait()
            yield request_around(IDS)

        inside = [asyncio.create_task(harness.intake.take(stuck())) for _ in range(HELD_AT_ONCE + WAITING_AT_ONCE)]
        await asyncio.sleep(0)

        with pytest.raises(BusyError):
            await harness.intake.take(body(b""))
        gate.set()
        tallies = await asyncio.gather(*inside)

        assert [tally.unknown for tally in tallies] == [1] * len(inside)
        assert await harness.intake.take(body(b"")) == Tally()

    play(scenario)


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "READ_TIMEOUT_SECONDS", 0.01)

    async def scenario(harness: IntakeHarness) -> None:
        async def silent() -> AsyncIterator[bytes]:
            yield b"\x0a"
            await asyncio.Event().wait()

        with pytest.raises(MalformedError, match="in time"):
            await harness.intake.take(silent())

        assert harness.counted == {"span_request_refused": 1}

    play(scenario)


def test_a_body_of_just_the_bound_is_read() -> None:
    """The body is read whole, and then refused as no request: its zeros are no fields."""

    async def scenario(harness: IntakeHarness) -> None:
        with pytest.raises(MalformedError, match="field number"):
            await harness.intake.take(body(bytes(MAX_EXPORT_BYTES)))

    play(scenario)


def _spans_without_end() -> bytes:
    return field(1, field(2, field(2, IDS) * 2_000))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(_spans_without_end, id="2,000 spans of 30 bytes"),
        pytest.param(lambda: many_attributes(20_000), id="20,000 attributes"),
        pytest.param(lambda: request_around(IDS + field(9, nested_value(10_000))), id="10,000 deep"),
        pytest.param(lambda: field(1, field(1, b"")) * 10_000, id="10,000 resources"),
        pytest.param(lambda: field(1, field(1, b"x" * 60_000)) * 50, id="large resources"),
    ],
)
def test_memory_stays_within_ten_times_the_body(made: Callable[[], bytes]) -> None:
    """The parser builds one span at a time. The body itself is one of the ten: it is mapped, and tracemalloc does not see it."""

    async def scenario(harness: IntakeHarness) -> None:
        request = made()
        harness.intake._sink = lambda _: False
        with contextlib.suppress(RefusedError):
            await harness.intake.take(body(request))  # one-time allocations happen here

        tracemalloc.start()
        with contextlib.suppress(RefusedError):
            await harness.intake.take(body(request))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert 0 < peak < 9 * len(request)

    play(scenario)
