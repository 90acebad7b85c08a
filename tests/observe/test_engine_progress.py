"""The engine's progress on the page, for probes and for readiness: one stall, told everywhere, and never by mistake."""

from structlog.testing import capture_logs

from sidecar.engines.engine import Engine
from sidecar.lifecycle import Life, Readiness
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.metrics.registry import Metrics
from sidecar.observe.engine_progress import EngineProgress
from sidecar.pod.liveness.progress import LEAVES_SECONDS, State
from sidecar.pod.liveness.silence import Flow
from tests.pod.liveness.silent_engine import Engine as Silent
from tests.support.memory import Clock


class Pod:
    """One process whose engine streams to one client; a look each second."""

    def __init__(self, *, sees_output: bool = True, leaves_seconds: float = LEAVES_SECONDS[1]) -> None:
        self.clock = Clock()
        self.metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
        self.readiness = Readiness()
        self.engine = Engine("vllm", ["tiny"])
        self.silent = Silent()
        self.progress = EngineProgress(
            self.metrics,
            self.engine,
            self.readiness,
            clock=self.clock,
            flow=self.flow,
            grew_at=lambda: float("-inf"),
            counted=lambda: self.counted,
            running=lambda: self.running,
            asleep=lambda: self.asleep,
            sees_output=sees_output,
            leaves_seconds=leaves_seconds,
        )
        self.running: float | None = None
        self.asleep = False
        self.broken = False
        self.counted = True

    def flow(self, at: float) -> Flow:
        if self.broken:
            raise RuntimeError
        return self.silent.silence.flow(at)

    def comes_up(self) -> "Pod":
        self.engine.up = True
        self.readiness.answered(self.clock())
        return self

    def passes(self, seconds: float) -> "Pod":
        for _ in range(round(seconds)):
            self.clock.later(1.0)
            self.progress.look()
        return self

    def told(self) -> tuple[bool, float | None, float | None]:
        """(ready, llm_engine_up, llm_engine_stalled)"""
        up, stalled = (self.metrics.gauge(of).child().value for of in (c.ENGINE_UP, c.ENGINE_STALLED))
        return self.readiness.ready(self.clock())[0], up, stalled


def serving() -> Pod:
    pod = Pod().comes_up().passes(100.0)
    pod.silent.streams(pod.clock(), "a")
    return pod


def test_a_stalled_engine_is_not_up_and_then_not_ready_and_the_reason_is_logged_once() -> None:
    pod = serving()
    before = pod.passes(8.0).told()
    with capture_logs() as lines:
        told = pod.passes(1.0).told(), pod.passes(50.0).told()
        stalled = pod.passes(1.0).told()
        why = pod.readiness.ready(pod.clock())[1]
        pod.silent.silence.spoke(pod.clock())
        after = pod.passes(1.0).told()

    assert (before, *told, stalled, after) == ((True, 1, 0), (True, 0, 1), (True, 0, 1), (False, 0, 1), (True, 1, 0))
    assert why == "the engine has stopped in the middle of its work: no output for 60 s, its pending work explains 8 s"
    assert [line["event"] for line in lines] == ["engine_stalled", "engine_goes_on"]


def test_a_scrape_looks_for_itself() -> None:
    pod = serving().passes(8.0)
    pod.clock.later(1.0)
    pod.metrics.refresh(pod.clock())

    assert pod.told() == (True, 0, 1)


def test_a_pod_that_is_one_of_several_leaves_its_service_after_its_own_time() -> None:
    """As long after the last output as was drawn for this process."""
    pod = Pod(leaves_seconds=33.0).comes_up().passes(100.0)
    pod.silent.streams(pod.clock(), "a")

    assert [pod.passes(seconds).told()[0] for seconds in (32.0, 1.0)] == [True, False]


def test_a_stall_that_was_told_stays_told_when_clients_leave() -> None:
    """Its clients give up, and new ones come and give up. Where no probe restarts it, it gets traffic again after a while: it stays told."""
    pod = serving()
    pod.counted = False
    first = pod.passes(20.0).told()
    pod.silent.silence.given_up("a", pod.clock())
    kept = [pod.passes(seconds).told() for seconds in (30.0, 20.0, 249.0)]
    again = pod.passes(2.0).told()
    pod.silent.asked(pod.clock(), "b")
    pod.passes(5.0).silent.silence.given_up("b", pod.clock())
    later = pod.passes(600.0).told()
    pod.silent.streams(pod.clock(), "c")
    pod.silent.silence.left("c", pod.clock())

    assert (first, kept, again) == ((True, 0, 1), [(True, 0, 1), (False, 0, 1), (False, 0, 1)], (True, 0, 1))
    assert (later, pod.passes(1.0).told()) == ((True, 0, 1), (True, 1, 0))


def test_a_request_less_that_the_engine_says_it_runs_is_a_sign_of_life() -> None:
    """It took in that a client has left."""
    pod = serving()
    pod.running = 3.0
    stalled = pod.passes(60.0).told()
    pod.silent.silence.given_up("a", pod.clock())
    kept = pod.passes(60.0).told()
    pod.running = 2.0

    assert (stalled, kept, pod.passes(1.0).told()) == ((False, 0, 1), (False, 0, 1), (True, 1, 0))


def test_an_engine_that_says_that_it_sleeps_is_no_stall() -> None:
    pod = serving()
    pod.asleep = True
    found = pod.passes(600.0).progress.look()

    assert (found.state, found.reason, pod.told()) == (State.UNSURE, "the engine says that it sleeps", (True, 1, 0))


def test_an_engine_that_has_not_come_up_or_is_down_is_no_stall() -> None:
    """It loads its model for an hour, while a stream waits; later it refuses connections."""
    pod = Pod()
    pod.silent.asked(pod.clock(), "early")
    loading = pod.passes(3600.0).progress.look()
    pod.comes_up().passes(20.0)
    pod.engine.up = False
    pod.silent.silence.given_up("early", pod.clock())
    down = pod.passes(60.0).progress.look()

    assert (loading.state, loading.reason) == (State.UNSURE, "the engine has not answered a health check yet")
    assert (down.state, down.reason) == (
        State.UNSURE,
        "the engine fails its health checks: it is down, or still loads its model",
    )
    assert pod.told()[1:] == (0, 0)


def test_an_engine_that_hangs_as_a_whole_fails_its_containers_probe_too() -> None:
    """It leaves its health checks without an answer, and its streams open, until its clients leave. Then it is killed."""
    pod = serving().passes(10.0)
    pod.engine.up, pod.engine.is_silent = False, True
    hung, told = pod.passes(50.0).progress.look(), pod.told()
    pod.silent.silence.given_up("a", pod.clock())
    left = pod.passes(600.0).progress.look()
    pod.engine.is_silent = False
    killed = pod.passes(1.0).progress.look()

    assert (hung.proven, told) == (True, (False, 0, 0))
    assert (left.proven, killed.state) == (True, State.UNSURE)


def test_without_the_engines_counts_its_containers_probe_does_not_fail() -> None:
    """It is told all the same: not ready, not up."""
    pod = serving()
    pod.counted = False
    found, told = pod.passes(600.0).progress.look(), pod.told()

    assert (found.proven, told) == (False, (False, 0, 1))


def test_a_late_loop_does_not_end_the_claim_that_the_page_waits_for() -> None:
    pod = serving().passes(60.0)
    pod.clock.later(10.0)
    late = pod.progress.look()

    assert (late.proven, pod.told()) == (False, (False, 0, 1))


def test_before_the_first_health_check_nothing_is_known() -> None:
    assert Pod().passes(1.0).told() == (False, None, 0)


def test_an_engine_that_has_come_up_again_has_time_for_its_first_requests() -> None:
    pod = serving().passes(60.0)
    pod.engine.up = False
    pod.passes(5.0).engine.up = True
    young = pod.passes(29.0).told()
    old = pod.passes(2.0).told()

    assert (young, old) == ((True, 1, 0), (True, 0, 1))


def test_an_engine_whose_counters_show_a_restart_has_that_time_too() -> None:
    pod = serving().passes(60.0)
    pod.progress.restarted()

    assert pod.passes(29.0).told() == (True, 1, 0)


def test_while_the_process_shuts_down_no_stall_is_claimed() -> None:
    pod = serving().passes(60.0)
    pod.readiness.life = Life.DRAINING
    found = pod.passes(1.0).progress.look()

    assert (found.state, found.proven) == (State.UNSURE, False)
    assert found.reason == "the sidecar is shutting down (draining)"


def test_an_error_in_the_measurement_claims_nothing_and_is_counted() -> None:
    pod = serving().passes(60.0)
    pod.broken = True
    found = pod.passes(1.0).progress.look()

    assert (found.state, found.reason) == (State.UNSURE, "the sidecar failed to measure it")
    assert pod.told() == (True, 1, 0)
    assert pod.metrics.counter(DROPPED_TOTAL).child("observer_error").value == 2


def test_where_no_output_passes_no_stall_is_claimed_and_the_engine_is_up_by_its_checks() -> None:
    pod = Pod(sees_output=False).comes_up().passes(60)
    progress = pod.progress.look()

    assert (progress.state, progress.reason[:33]) == (State.UNSURE, "no traffic passes the sidecar (--")
    assert pod.told() == (True, 1, 0)
