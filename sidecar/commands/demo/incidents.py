"""The demo's incidents as data: one for each phase that a page can name, and the times at which they are played.

It contains the settings of the simulated engine and of the load, and the lengths of faults. It contains no objectives,
rules or verdicts: these have to page the right phase by themselves. Made for the preset `small` at `SHARE_OF_RATE` of
its rate: each fault is so large that most requests miss within seconds, whatever the seed of the load.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from sidecar.commands.simulator.physics import Knobs


CALM_SECONDS = 12.0
"""Time before the first incident, if the sidecar is given usual values: long enough to see that nothing is paged."""
LEARNING_SECONDS = 130.0
"""The same, if it has to learn them: a young sidecar learns what is usual in under two minutes."""
HEALTHY_SECONDS = 60.0
"""Least time before each other incident. It waits longer for the previous one's page to be resolved, if it was paged."""
RESOLVES_SECONDS = 120.0
"""Most time for which an incident waits for that."""
FAULT_SECONDS = 60.0
"""Most time of a fault without a page."""
VIEWING_SECONDS = 60.0
"""A fault is healed so long after its page, as if an operator had acted: time to open the status page and the runbook. Without a pager it lasts
for FAULT_SECONDS."""
HEALS_SECONDS = 1.0
"""The same with `--fast`: before further objectives burn long enough for a second message about the same incident."""
SHARE_OF_RATE = 0.4
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
        Incident("queue", "a wrong setting leaves one of 32 slots", {"slots": 1}),
        Incident("prefill", "the GPU computes prompts at a seventh of its speed", {"prefill_factor": 7.0}),
        Incident("decode", "the GPU's memory has a seventh of its speed", {"decode_factor": 7.0}),
        Incident("stream", "every client reads only nine tokens per second", bytes_per_second=2_000),
        Incident("engine", "the engine has crashed and does not come back by itself", down=True),
    )
}


@dataclass(frozen=True, slots=True)
class Act:
    """A part of the demo: with `incident` for at most `seconds`, or healthy (None) for at least that, until the incident
    `coming` begins.
    """

    seconds: float
    incident: Incident | None
    coming: Incident


def acts(name: str, *, learns: bool = False) -> Iterator[Act]:
    """Endless acts: health, an incident, a healthy minute, the next. `all` plays each in turn, a name one.

    `learns`: the sidecar was given no usual values.
    """
    first_seconds = LEARNING_SECONDS if learns else CALM_SECONDS
    chosen = list(INCIDENTS.values()) if name == "all" else [INCIDENTS[name]]
    for number, incident in enumerate(cycle(chosen)):
        yield Act(HEALTHY_SECONDS if number else first_seconds, None, incident)
        yield Act(FAULT_SECONDS, incident, incident)
