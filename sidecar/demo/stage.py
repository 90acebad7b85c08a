"""Plays incidents: applies each to the simulated engine and to the load, and undoes it at its end.

It maps an incident's settings to the engine or the load. The incidents and their times are defined in `incidents.py`.
"""

import asyncio
from collections.abc import Iterable

from sidecar.demo.incidents import Act, Incident
from sidecar.demo.load import Load
from sidecar.simulator.http_face import SimulatedEngine


class Stage:
    def __init__(self, engine: SimulatedEngine, load: Load) -> None:
        self._engine = engine
        self._load = load
        self._act: Act | None = None
        self._until = 0.0

    async def begin(self, incident: Incident) -> None:
        self._load.bytes_per_second = incident.bytes_per_second
        if incident.knobs:
            self._engine.adjust(**incident.knobs)
        if incident.down:
            await self._engine.crash()

    async def end(self, incident: Incident) -> None:
        """End the incident now; requests that have queued up still have to be served."""
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
            if act.incident is not None:
                await self.begin(act.incident)
            await asyncio.sleep(self._until - loop.time())
            if act.incident is not None:
                await self.end(act.incident)

    def now_playing(self) -> str:
        """The current act as text for a person; empty if none is played."""
        if self._act is None:
            return ""
        left = max(0.0, self._until - asyncio.get_running_loop().time())
        if self._act.incident is None:
            return f"healthy; incident {self._act.coming.name} in {left:.0f} s"
        return f"INCIDENT {self._act.coming.name}: {self._act.coming.description}; {left:.0f} s more"
