"""`/diagnosis` of the admin listener: the last minutes of this process, lane by lane, as JSON (docs/diagnosis.md).

It knows where to read the engine's kind and its hints. It refuses to judge: `sidecar/diagnosis/` finds what is wrong
and what to do.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import structlog
from aiohttp import web

from sidecar.accounts.slowest import SlowestQuestion
from sidecar.admin.page.page import Facts
from sidecar.diagnosis.asked import questions
from sidecar.diagnosis.document import document
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.interventions import chapters
from sidecar.diagnosis.live import LiveDiagnosis
from sidecar.diagnosis.measured import EngineDown, Measured
from sidecar.diagnosis.tree import contained
from sidecar.history.ring import History
from sidecar.history.slices import Sliced, run_sliced
from sidecar.history.snapshot import Snapshot
from sidecar.metrics.catalogue import DROPPED_TOTAL, ENGINE_INFO


JSON_HEADERS = {"Cache-Control": "no-store"}

log = structlog.get_logger()


def read_texts() -> None:
    """Read the files of texts, which stay in memory. Takes some 20 ms the first time, so a thread does it where there is traffic."""
    chapters()
    questions()


class Diagnoses:
    """Diagnoses of one process. `clock`: monotonic seconds; `facts`: what the process knows of its engine now.
    `slowest`: the question for the slowest requests.
    """

    def __init__(
        self,
        history: History,
        clock: Callable[[], float],
        facts: Callable[[], Facts],
        slowest: SlowestQuestion,
    ) -> None:
        self._history = history
        self._clock = clock
        self._facts = facts
        self._slowest = slowest
        self._live = LiveDiagnosis(history)
        read_texts()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/diagnosis", self._answer)]

    def learn(self, now: Snapshot) -> None:
        """Call it with every tick of the history."""
        self._live.learn(now)

    def engine_down(self, now: Snapshot) -> EngineDown | None:
        """The engine, if it fails its health checks as of this snapshot."""
        return self._live.engine_down(now, self._facts().away)

    def of(self, now: Snapshot) -> Sliced[list[Diagnosis]]:
        found = []
        for one in (yield from self._live.lanes(now, engine=self.engine(), hints=self._facts().hints)):
            yield
            found.append(contained(one, self._failed))
        return found

    def _failed(self, of: Measured, error: Exception) -> None:
        self._history.metrics.counter(DROPPED_TOTAL).child("observer_error").inc()
        log.error("diagnosis_failed", lane=of.lane, model=of.model, exc_info=error)

    async def _answer(self, request: web.Request) -> web.Response:
        wanted = {name: request.query[name] for name in ("lane", "model") if name in request.query}
        now = await run_sliced(self._history.now(self._clock()))
        diagnoses = await run_sliced(self.of(now))
        lanes = [
            one for one in diagnoses if all(getattr(one.measured, name) == value for name, value in wanted.items())
        ]
        down = self.engine_down(now)
        engines_down = [] if down is None else [down]
        slowest = await run_sliced(self._slowest.ask(self._clock()))
        if "lane" in wanted:
            slowest = replace(slowest, of=tuple(one for one in slowest.of if one.lane == wanted["lane"]))
        # In a thread: writing a long answer must not delay traffic.
        body = await asyncio.to_thread(
            lambda: json.dumps(document(lanes, engines_down, slowest), allow_nan=False).encode()
        )
        return web.Response(body=body, content_type="application/json", charset="utf-8", headers=JSON_HEADERS)

    def engine(self) -> str | None:
        """The kind of the engine; None until it is recognised."""
        place = [label.name for label in ENGINE_INFO.labels].index("engine")
        infos = self._history.metrics.gauge(ENGINE_INFO).children
        return next((labels[place] for labels, child in infos.items() if child.value), None)
