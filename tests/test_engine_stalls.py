"""Stalls of the engine from the wire to readiness and the probe: one that hangs is told, and one that works is not.

Requests of one lane run over the real relay, in memory and by a fake clock. What the engine's front end says about its health plays no
part: it says that all is well.
"""

import pytest

from sidecar.engines.engine import Engine
from sidecar.lifecycle import Readiness
from sidecar.metrics.catalogue import SLO_ROOT_CAUSE_MISSES_TOTAL
from sidecar.objectives.objective import Objectives
from sidecar.observe.engine_progress import EngineProgress
from sidecar.pod.liveness.progress import State
from tests.support.memory import limits_with
from tests.support.slo_walk import (
    BUCKETS,
    GENEROUS,
    LAST,
    REPORT,
    TOKEN,
    USAGE,
    answer,
    ask,
    event,
    promising,
    stream,
)
from tests.support.walk import Walk


ROOM = limits_with(max_in_flight=64)


def learning() -> Walk:
    """A walk whose estimator learns what prompts cost; none of its objectives is missed, and no request waits."""
    return Walk(estimate=True, objectives=Objectives({"interactive": dict.fromkeys(BUCKETS, GENEROUS)}), limits=ROOM)


class Pod:
    """A sidecar that has served for a while, and a healthy front end of the engine. `counted`: its count of output is read."""

    def __init__(self, *, counted: bool = True, estimate: bool = False) -> None:
        self.walk: Walk = learning() if estimate else promising()
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

    assert (before, after) == ((State.FINE, True, 1), (State.STALLED, True, 0))
    assert not pod.progress.look().proven
    pod.passes(30)
    assert (pod.progress.look().proven, pod.ready()) == (True, True)
    pod.passes(15)
    assert not pod.ready(), "a minute after the last output"


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


# --- costs that were known before ----------------------------------------------------------------------------------------

TEXT = [{"role": "user", "content": "word " * 100}]
GRAMMAR = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "title": "t" * 2000}}}
PROMPTS = {
    "one": [{"stream": True, "messages": TEXT}],
    "a deep queue": [{"stream": True, "messages": TEXT}] * 40,
    "one of another length": [{"stream": True, "messages": TEXT * 3}],
    "one whose length is not known": [{"stream": True, "messages": [], "prompt_embeds": "AA=="}],
    "one with a grammar": [{"stream": True, "messages": TEXT, "response_format": GRAMMAR}],
    "one beside an answer that is not streamed": [{"messages": TEXT}, {"stream": True, "messages": TEXT}],
    "answers that are not streamed": [{"messages": TEXT}] * 3,
}


def teach(pod: Pod, usage: bytes, *, times: int = 1, requests: int = 60) -> None:
    """So many prompts, one after the other, each so many times as long as usually, with its first token after as many times 0.4 s."""
    for _ in range(requests):
        ask(pod.walk, stream=True, messages=TEXT * times)
        stream(pod.walk)
        pod.walk.clock.later(0.4)
        pod.passes(round(0.4 * (times - 1)))
        pod.walk.engine.send(event(TOKEN))
        pod.walk.clock.later(0.1)
        pod.walk.engine.send(event(LAST) + event(usage) + event(b"[DONE]") + b"0\r\n\r\n")
        pod.passes(1)


def told_after(pod: Pod, prompts: list[dict[str, object]]) -> int:
    """Seconds until the page of metrics says that the engine is stalled, if no prompt is ever answered; 100: later."""
    pod.running = float(len(prompts))
    for prompt in prompts:
        ask(pod.walk, **prompt)
    return next((second for second in range(1, 100) if pod.passes(1) and pod.walk.value("llm_engine_stalled")), 100)


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "not counted"])
@pytest.mark.parametrize("usage", [REPORT, USAGE], ids=["reports", "the estimator alone"])
@pytest.mark.parametrize("prompts", PROMPTS.values(), ids=PROMPTS)
def test_a_hang_is_told_within_thirty_seconds_where_a_cost_was_ever_known(
    prompts: list[dict[str, object]], usage: bytes, *, counted: bool
) -> None:
    """It makes no difference which requests wait then. An answer that is not streamed hides what an engine does that does not count its output: for its minute."""
    pod = Pod(counted=counted, estimate=True)
    teach(pod, usage)
    unseen = any("stream" not in prompt for prompt in prompts)

    assert told_after(pod, prompts) <= (30 if counted or not unseen else 100)


@pytest.mark.parametrize("prompts", [PROMPTS["one"], PROMPTS["a deep queue"]], ids=["one", "many"])
def test_a_hang_is_told_after_a_minute_where_no_cost_is_known(prompts: list[dict[str, object]]) -> None:
    assert told_after(Pod(estimate=True), prompts) == 61


def test_a_prompt_whose_cost_is_known_excuses_three_times_that() -> None:
    """It takes 16 s, and others 0.4 s: its hang is told after 48 s, and that of others as soon as ever."""
    pods = []
    for _ in range(2):
        pods.append(Pod(estimate=True))
        teach(pods[-1], USAGE)
        teach(pods[-1], USAGE.replace(b"600", b"24000"), times=40)

    assert 46 <= told_after(pods[0], [{"stream": True, "messages": TEXT * 40}]) <= 50
    assert told_after(pods[1], [{"stream": True, "messages": TEXT}]) <= 30


def test_a_stall_that_is_told_is_the_root_of_those_who_come_later() -> None:
    """All others have left by then, so that no silence is measured until they have waited themselves."""
    pod = Pod()
    client = ask(pod.walk, stream=True)
    stream(pod.walk)
    pod.walk.engine.send(event(TOKEN))
    pod.passes(20)
    client.lose()
    pod.passes(15)
    late = ask(pod.walk, stream=True)
    pod.passes(3)
    late.lose()
    pod.passes(20)
    causes = pod.walk.metrics.counter(SLO_ROOT_CAUSE_MISSES_TOTAL).children

    assert pod.walk.value("llm_engine_stalled") == 1
    assert {key[-2:]: child.value for key, child in causes.items() if child.value > 0.5} == {
        ("engine", "silence"): 0.98
    }
