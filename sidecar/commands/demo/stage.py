"""Plays incidents: applies each to the simulated engine and to the load, and undoes it at its end.

It maps an incident's settings to the engine or the load. The incidents and their times are defined in `incidents.py`. With a
pager, a fault ends some seconds after its page, as if an operator had acted, and the next one waits until that page is resolved.
"""

import asyncio
from collections.abc import Iterable

from sidecar.commands.demo.event_log import EventLog
from sidecar.commands.demo.incidents import RESOLVES_SECONDS, VIEWING_SECONDS, Act, Incident
from sidecar.commands.demo.load import Load
from sidecar.commands.demo.pager import Pager
from sidecar.commands.simulator.http_face import SimulatedEngine


LOOKS_EVERY_SECONDS = 0.1


class Stage:
    """`pager`: None if nothing pages; `look_seconds`: from a page to the end of its fault."""

    def __init__(
        self,
        engine: SimulatedEngine,
        load: Load,
        log: EventLog | None = None,
        pager: Pager | None = None,
        *,
        look_seconds: float = VIEWING_SECONDS,
    ) -> None:
        self._engine = engine
        self._look_seconds = look_seconds
        self._paged = False
        self._pager = pager
        self._log = log
        self._load = load
        self._act: Act | None = None
        self._until = 0.0

    async def begin(self, incident: Incident) -> None:
        self._tell("fault", incident)
        self._load.bytes_per_second = incident.bytes_per_second
        if incident.knobs:
            self._engine.adjust(**incident.knobs)
        if incident.down:
            await self._engine.crash()

    async def end(self, incident: Incident) -> None:
        """End the incident now; requests that have queued up still have to be served."""
        self._tell("heal", incident)
        self._load.bytes_per_second = None
        if incident.down:
            await self._engine.restart()
        if incident.knobs:
            self._engine.adjust(**incident.healed())

    async def play(self, acts: Iterable[Act]) -> None:
        """Play the acts one after another, in real time."""
        loop = asyncio.get_running_loop()
        for act in acts:
            self._act, self._until = act, loop.time() + act.seconds
            if act.incident is None:
                await asyncio.sleep(act.seconds)
                await self._until_resolved()
                continue
            await self.begin(act.incident)
            await self._until_paged(act.incident.name)
            await self.end(act.incident)

    async def _until_paged(self, phase: str) -> None:
        """Wait until the act ends: some seconds after a new page of this phase, if one comes."""
        loop = asyncio.get_running_loop()
        before, self._paged = self._pages(phase), False
        while (left := self._until - loop.time()) > 0:
            if not self._paged and self._pages(phase) - before:
                self._paged, self._until = True, loop.time() + self._look_seconds
            await asyncio.sleep(min(left, LOOKS_EVERY_SECONDS))

    async def _until_resolved(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pages() and loop.time() < self._until + RESOLVES_SECONDS:  # noqa: ASYNC110  a pager is no asyncio object
            await asyncio.sleep(LOOKS_EVERY_SECONDS)

    def _pages(self, phase: str | None = None) -> frozenset[tuple[str, str]]:
        return frozenset() if self._pager is None else self._pager.pages(phase)

    def _tell(self, event: str, incident: Incident) -> None:
        if self._log is not None:
            self._log.tell(event, incident=incident.name)

    def now_playing(self) -> str:
        """The current act as text for a person; empty if none is played."""
        if self._act is None:
            return ""
        left = max(0.0, self._until - asyncio.get_running_loop().time())
        if self._act.incident is None and not left:
            return f"healthy; incident {self._act.coming.name} once the page is resolved"
        if self._act.incident is None:
            return f"healthy; incident {self._act.coming.name} in {left:.0f} s"
        ends = f"it is healed in {left:.0f} s" if self._paged else f"at most {left:.0f} s more"
        return f"INCIDENT {self._act.coming.name}: {self._act.coming.description}; {ends}"
