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
from sidecar.pod.liveness.progress import ForwardProgress, Progress, State
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
        sees_output: bool = True,
    ) -> None:
        """`sees_output`: False where no traffic passes here."""
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
            doubt=self._doubt(flow),
        )

    def _doubt(self, flow: Flow) -> str | None:
        if self._readiness.life is not Life.SERVING:
            return f"the sidecar is shutting down ({self._readiness.life.value})"
        if not self._sees_output:
            return "no traffic passes the sidecar (--no-proxy), so that the engine's output is not seen"
        if self._engine.pool.gone:
            return WHY
        if self._engine.up is None:
            return "the engine has not answered a health check yet"
        # One that leaves its health checks without an answer may hang as a whole: the streams that it left open show it.
        if self._engine.up or (self._came_up and flow.read):
            return None
        return "the engine fails its health checks: it is down, or still loads its model"

    def _tell(self, progress: Progress) -> None:
        self._readiness.stalled = progress.reason if progress.stalled or self._engine.pool.gone else None
        self._stalled.set(int(progress.stalled and self._engine.up is True))
        if self._engine.up is not None:
            self._up.child().set(int(self._engine.up and not progress.stalled))
        if progress.stalled is not self._was_stalled:
            self._was_stalled = progress.stalled
            write = log.warning if progress.stalled else log.info
            write("engine_stalled" if progress.stalled else "engine_goes_on", why=progress.reason)
