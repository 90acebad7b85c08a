"""The engine's forward progress: asks whether it is stalled, and tells the metrics page and readiness.

Stands between the observers of one process and `pod/liveness/progress.py`, which decides. It knows the reasons for which no claim
can be made here: the process shuts down, or the engine has not come up. It refuses to measure anything itself. An error
here is counted as `observer_error`, and nothing is claimed.
"""

from collections.abc import Callable

import structlog

from sidecar.engines.engine import Engine
from sidecar.engines.pool_behind import WHY
from sidecar.lifecycle import Life, Readiness
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.metrics.registry import Metrics
from sidecar.pod.liveness.progress import LEAVES_SECONDS, ForwardProgress, Progress, State
from sidecar.pod.liveness.silence import Flow


log = structlog.get_logger()


class EngineProgress:
    """The progress of one process's engine. `flow`: what is seen of its output at an instant; `grew_at`: when the engine's
    own counts of its work last grew; `counted`: its count of its output is read; `running`: the requests that it says it
    runs, None if that is unknown.
    """

    def __init__(
        self,
        metrics: Metrics,
        engine: Engine,
        readiness: Readiness,
        *,
        clock: Callable[[], float],
        flow: Callable[[float], Flow],
        grew_at: Callable[[], float],
        counted: Callable[[], bool],
        running: Callable[[], float | None],
        asleep: Callable[[], bool] = lambda: False,
        sees_output: bool = True,
        leaves_seconds: float = LEAVES_SECONDS[1],
    ) -> None:
        """`asleep`: the engine says that it sleeps. `sees_output`: False where no traffic passes here. `leaves_seconds`: so long after the last
        output of an engine that is stalled the pod is no longer ready.
        """
        self._asleep = asleep
        self._leaves_seconds = leaves_seconds
        self._sees_output = sees_output
        self._engine = engine
        self._readiness = readiness
        self._clock = clock
        self._flow = flow
        self._grew_at = grew_at
        self._counted = counted
        self._running = running
        self._forward = ForwardProgress(clock())
        self._was_up = self._came_up = False
        self._was_stalled = False
        self._up = metrics.gauge(c.ENGINE_UP)
        self._stalled = metrics.gauge(c.ENGINE_STALLED).child()
        self._dropped = metrics.counter(DROPPED_TOTAL)

        def look(_at: float) -> None:
            self.look()

        metrics.before_scrape(look)

    def restarted(self) -> None:
        """The engine's process was replaced."""
        self._forward.began(self._clock())

    def look(self) -> Progress:
        """The progress now; it is told to the page and to readiness. Never raises."""
        try:
            progress = self._look(self._clock())
        except Exception:  # noqa: BLE001  measuring never breaks traffic
            self._dropped.child("observer_error").inc()
            progress = Progress(State.UNSURE, "the sidecar failed to measure it")
        self._tell(progress)
        return progress

    def _look(self, at: float) -> Progress:
        up = self._engine.up is True
        if up and not self._was_up:
            self._forward.began(at)
        self._was_up = up
        self._came_up = self._came_up or up
        flow = self._flow(at)
        return self._forward.look(
            at,
            flow,
            counted=self._counted(),
            grew_at=self._grew_at(),
            running=self._running(),
            loads=self._may_load(at, flow),
            doubt=self._doubt(flow),
        )

    def _may_load(self, at: float, flow: Flow) -> bool:
        """Whether it may load a model for the next request: it has been idle for long, or may have had another model until then."""
        after_seconds = self._engine.speaks.unloads_after_seconds
        idle_seconds = at - flow.quiet_seconds - flow.spoke_at
        return after_seconds is not None and (idle_seconds > after_seconds or len(self._engine.models) > 1)

    def _doubt(self, flow: Flow) -> str | None:
        if self._readiness.life is not Life.SERVING:
            return f"the sidecar is shutting down ({self._readiness.life.value})"
        if not self._sees_output:
            return "no traffic passes the sidecar (--no-proxy), so that the engine's output is not seen"
        if self._engine.pool.gone:
            return WHY
        if self._engine.up is None:
            return "the engine has not answered a health check yet"
        if self._asleep():
            return "the engine says that it sleeps"
        # One that leaves its health checks without an answer may hang as a whole: the streams that it left open show it, or have shown it.
        if self._engine.up or (self._came_up and (flow.read or (self._was_stalled and self._engine.is_silent))):
            return None
        return "the engine fails its health checks: it is down, or still loads its model"

    def _tell(self, progress: Progress) -> None:
        away = progress.stalled and self._forward.keeps_away(self._clock(), self._leaves_seconds)
        self._readiness.stalled = progress.reason if away or self._engine.pool.gone else None
        self._stalled.set(int(progress.stalled and self._engine.up is True))
        if self._engine.up is not None:
            self._up.child().set(int(self._engine.up and not progress.stalled))
        if progress.stalled is not self._was_stalled:
            self._was_stalled = progress.stalled
            write = log.warning if progress.stalled else log.info
            write("engine_stalled" if progress.stalled else "engine_goes_on", why=progress.reason)
