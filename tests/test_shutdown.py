"""One drain with one deadline: who asks for it, and how often, changes neither its steps nor its end."""

import asyncio

import pytest

from sidecar.lifecycle import Life, Readiness
from sidecar.shutdown import Drained, Shutdown


class Times:
    lame_duck_seconds = 2.0
    grace_seconds = 10.0


class Pod:
    """A drain with a clock that each look of its loop moves on, and a count of requests in flight."""

    def __init__(self, in_flight: int) -> None:
        self.now = 100.0
        self.in_flight = in_flight
        self.steps: list[tuple[str, float]] = []
        self.readiness = Readiness()
        self.deadlines: list[float] = []
        self.passed = asyncio.Event()
        self.shutdown = Shutdown(
            Times, self.readiness, self, lambda: self.in_flight, self.tick, on_deadline=self.deadline
        )

    def tick(self) -> float:
        self.now += 1.5
        return self.now

    def deadline(self) -> None:
        self.deadlines.append(self.now)
        self.passed.set()

    def drain(self) -> None:
        self.steps.append((self.readiness.life, self.now))

    def stop_accepting(self) -> None:
        self.steps.append((self.readiness.life, self.now))


def test_traffic_is_served_for_the_lame_duck_time_and_then_no_connection_is_taken() -> None:
    """Not ready from the first step on; the end comes with the last request, not with the deadline."""
    pod = Pod(in_flight=0)
    end = asyncio.run(pod.shutdown.drain())

    assert [life for life, _ in pod.steps] == [Life.LAME_DUCK, Life.DRAINING]
    assert pod.steps[1][1] - pod.steps[0][1] >= Times.lame_duck_seconds
    assert end.drained
    assert end.waited_seconds < Times.grace_seconds


def test_what_does_not_end_is_told_at_the_deadline() -> None:
    end = asyncio.run(Pod(in_flight=3).shutdown.drain())

    assert (end.drained, end.in_flight) == (False, 3)
    assert Times.grace_seconds <= end.waited_seconds <= Times.grace_seconds + 3


def test_a_second_drain_joins_the_first_and_starts_no_clock_anew() -> None:
    """The preStop asked, and SIGTERM comes during it and after it: one lame duck, one deadline, one end."""
    pod = Pod(in_flight=1)

    async def scenario() -> tuple[Drained, Drained, Drained]:
        during = await asyncio.gather(pod.shutdown.drain(), pod.shutdown.drain())
        return *during, await pod.shutdown.drain()

    ends = asyncio.run(scenario())

    assert len(pod.steps) == 2
    assert len({end.waited_seconds for end in ends}) == 1


def test_a_drain_that_its_asker_gives_up_goes_on() -> None:
    """A hook that the kubelet ends does not leave the pod half drained."""
    pod = Pod(in_flight=1)

    async def scenario() -> Drained:
        asked = asyncio.create_task(pod.shutdown.drain())
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        pod.in_flight = 0
        return await pod.shutdown.drain()

    assert asyncio.run(scenario()).drained
    assert len(pod.steps) == 2


@pytest.mark.parametrize("in_flight", [0, 3])
def test_at_its_deadline_a_drain_tells_that_the_process_has_to_end(in_flight: int) -> None:
    """Kubernetes runs the hook also for a restart of the engine alone: no SIGTERM comes, and only a new process can serve."""
    pod = Pod(in_flight)

    async def scenario() -> list[Drained]:
        ends = await asyncio.gather(pod.shutdown.drain(), pod.shutdown.drain())
        assert pod.deadlines == [] or in_flight  # drained early: the process waits for the SIGTERM of a pod that ends
        await pod.passed.wait()
        return [*ends, await pod.shutdown.drain()]

    ends = asyncio.run(scenario())

    (told_at,) = pod.deadlines
    began_at = pod.steps[0][1]
    assert Times.grace_seconds - 3 <= told_at - began_at <= Times.grace_seconds + 6
    assert {(end.drained, end.in_flight) for end in ends} == {(in_flight == 0, in_flight)}


def test_hurry_ends_the_wait() -> None:
    """A second SIGTERM: a person waits at a terminal."""
    pod = Pod(in_flight=1)
    pod.shutdown.hurry()

    assert asyncio.run(pod.shutdown.drain()).waited_seconds < Times.grace_seconds


def test_the_time_that_is_left_of_the_grace_counts_from_the_drains_begin() -> None:
    """None before a drain and behind its deadline; and none once a person at a terminal hurries."""
    quiet, busy, hurried = Pod(in_flight=0), Pod(in_flight=3), Pod(in_flight=0)
    before = quiet.shutdown.left_seconds
    for pod in (quiet, busy, hurried):
        asyncio.run(pod.shutdown.drain())
    hurried.shutdown.hurry()

    assert 0 < quiet.shutdown.left_seconds < Times.grace_seconds - Times.lame_duck_seconds
    assert (before, busy.shutdown.left_seconds, hurried.shutdown.left_seconds) == (0.0, 0.0, 0.0)
