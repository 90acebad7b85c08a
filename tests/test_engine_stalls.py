"""Stalls of the engine from the wire to readiness and the probe: one that hangs is told, and one that works is not.

Requests of one lane without learned costs run over the real relay, in memory and by a fake clock. What the engine's front
end says about its health plays no part: it says that all is well.
"""

from sidecar.engines.engine import Engine
from sidecar.lifecycle import Readiness
from sidecar.observe.engine_progress import EngineProgress
from sidecar.pod.liveness.progress import State
from tests.support.slo_walk import TOKEN, answer, ask, event, promising, stream
from tests.support.walk import Walk


class Pod:
    """A sidecar that has served for a while, and a healthy front end of the engine. `counted`: its count of output is read."""

    def __init__(self, *, counted: bool = True) -> None:
        self.walk: Walk = promising()
        self.running: float | None = None
        self.grew_at = float("-inf")
        self.readiness = Readiness()
        self.readiness.answered(self.walk.clock())
        engine = Engine("vllm", ["tiny"])
        engine.up = True
        self.progress = EngineProgress(
            self.walk.metrics,
            engine,
            self.readiness,
            clock=self.walk.clock,
            flow=self.walk.slo.flow,
            grew_at=lambda: self.grew_at,
            counted=lambda: counted,
            running=lambda: self.running,
        )
        self.passes(100)

    def passes(self, seconds: int) -> State:
        for _ in range(seconds):
            self.walk.settlement.expire(self.walk.clock.later(1.0))
            self.progress.look()
        return self.progress.look().state

    def ready(self) -> bool:
        return self.readiness.ready(self.walk.clock())[0]


def test_an_engine_that_stops_while_streams_run_is_told_within_fifteen_seconds() -> None:
    pod = Pod()
    for _ in range(2):
        ask(pod.walk, stream=True)
        stream(pod.walk)
        pod.walk.engine.send(event(TOKEN))
    before = pod.passes(8), pod.ready(), pod.walk.value("llm_engine_up")
    after = pod.passes(7), pod.ready(), pod.walk.value("llm_engine_up")

    assert (before, after) == ((State.FINE, True, 1), (State.STALLED, False, 0))
    assert not pod.progress.look().proven
    pod.passes(30)
    assert pod.progress.look().proven


def test_an_engine_that_stops_before_the_first_token_is_told_after_a_minute() -> None:
    """Nothing is known yet of what a prompt costs."""
    pod = Pod()
    ask(pod.walk, stream=True)
    stream(pod.walk)

    assert (pod.passes(60), pod.ready()) == (State.FINE, True)
    assert (pod.passes(1), pod.ready()) == (State.STALLED, False)


def test_an_engine_that_goes_on_is_ready_with_its_next_token() -> None:
    pod = Pod()
    ask(pod.walk, stream=True)
    stream(pod.walk)
    pod.walk.engine.send(event(TOKEN))
    assert pod.passes(60) is State.STALLED
    pod.walk.engine.send(event(TOKEN))

    assert (pod.passes(1), pod.ready()) == (State.FINE, True)


def test_an_engine_whose_clients_do_not_read_is_not_blamed() -> None:
    pod = Pod()
    client = ask(pod.walk, stream=True)
    client.room = 0
    stream(pod.walk)
    pod.walk.engine.send(b"".join([event(TOKEN)] * 40))

    assert (pod.passes(30), pod.ready()) == (State.UNSURE, True)


def test_an_idle_engine_is_fine_after_its_last_answer() -> None:
    pod = Pod()
    ask(pod.walk)
    answer(pod.walk)

    assert (pod.passes(600), pod.ready()) == (State.FINE, True)


def test_an_engine_without_counts_that_loads_its_model_for_a_request_is_no_stall() -> None:
    """It had unloaded it when idle. Its hang in the middle of a stream is told, and never proven."""
    pod = Pod(counted=False)
    ask(pod.walk, stream=True)
    stream(pod.walk)
    loading = pod.passes(60), pod.ready()
    pod.walk.engine.send(event(TOKEN))
    came = pod.passes(8), pod.ready()
    hung = pod.passes(300), pod.ready(), pod.progress.look().proven

    assert (loading, came, hung) == ((State.FINE, True), (State.FINE, True), (State.STALLED, False, False))


def test_a_whole_answer_that_takes_its_time_is_no_stall() -> None:
    pod = Pod()
    ask(pod.walk)

    assert (pod.passes(200), pod.ready()) == (State.UNSURE, True)


def test_an_engine_that_hangs_under_answers_that_are_not_streamed_is_told_by_its_own_counts() -> None:
    """Its page says that it runs them, and no count grows. That restarts nothing."""
    pod = Pod()
    pod.running = 1.0
    ask(pod.walk)

    assert (pod.passes(60), pod.ready()) == (State.UNSURE, True)
    assert (pod.passes(1), pod.ready()) == (State.STALLED, False)
    pod.passes(100)
    assert not pod.progress.look().proven
    pod.grew_at = pod.walk.clock()
    assert (pod.passes(1), pod.ready()) == (State.UNSURE, True)
