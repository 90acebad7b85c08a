"""The demo's incidents as data: one for each phase that a page can name, and the times at which they are played.

It contains the settings of the simulated engine and of the load, and the length of a fault. It contains no objectives,
rules or verdicts: these have to page the right phase by themselves. Made for the preset `small` at `SHARE_OF_RATE` of
its rate.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from sidecar.simulator.physics import Knobs


LEARNING_SECONDS = 130.0
"""Time before the first incident: a young sidecar learns what is usual in under two minutes."""
HEALTHY_SECONDS = 60.0
"""Time before each other incident: long enough for the previous one to end."""
FAULT_SECONDS = 60.0
SHARE_OF_RATE = 0.6
"""Share of the rate at which the mean queue is 90 ms. At that rate itself, so near the limit, every fault becomes a
queue within seconds; at this share each fault shows in its own phase."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One fault. `name` is the phase that should be paged."""

    name: str
    description: str
    """The cause, as a sentence for a person."""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Values for fields of the engine's `Knobs`."""
    bytes_per_second: float | None = None
    """Speed at which all clients read. None: as fast as they can."""
    down: bool = False
    """True if the engine's process is gone."""

    def healed(self) -> dict[str, Any]:
        """The same knobs with the values of a healthy replica."""
        return {name: getattr(Knobs(), name) for name in self.knobs}


INCIDENTS: Mapping[str, Incident] = {
    incident.name: incident
    for incident in (
        Incident("queue", "a wrong setting leaves 3 of 32 slots", {"slots": 3}),
        Incident("prefill", "the GPU computes prompts at a quarter of its speed", {"prefill_factor": 4.0}),
        Incident("decode", "the GPU's memory has a fifth of its speed", {"decode_factor": 5.0}),
        Incident("stream", "every client reads only seven tokens per second", bytes_per_second=1_500),
        Incident("engine", "the engine has crashed and does not come back by itself", down=True),
    )
}


@dataclass(frozen=True, slots=True)
class Act:
    """A part of the demo, `seconds` long: with `incident`, or healthy (None) until the incident `coming` begins."""

    seconds: float
    incident: Incident | None
    coming: Incident


def acts(name: str) -> Iterator[Act]:
    """Endless acts: health, an incident, a healthy minute, the next. `all` plays each in turn, a name one."""
    chosen = list(INCIDENTS.values()) if name == "all" else [INCIDENTS[name]]
    for number, incident in enumerate(cycle(chosen)):
        yield Act(HEALTHY_SECONDS if number else LEARNING_SECONDS, None, incident)
        yield Act(FAULT_SECONDS, incident, incident)
