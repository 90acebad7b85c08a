"""What goes wrong in the demo, as data: one incident for each phase that a page can name, and when each is played.

It knows the knobs of the simulated engine and of the load, and how long a fault lasts. It refuses to know objectives, rules and
verdicts: that the right phase is paged is for those to show. Made for the preset `small` at `SHARE_OF_RATE` of its rate.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from sidecar.simulator.physics import Knobs


HEALTHY_SECONDS = 60.0
"""Before each incident: long enough for the rules to know what is usual, and for the incident before to be over."""
FAULT_SECONDS = 60.0
SHARE_OF_RATE = 0.6
"""Of the rate at which the mean queue is 90 ms. So near to its limit every fault is a queue within seconds; further away, each
shows as itself."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that goes wrong. `name` is the phase that is to be paged."""

    name: str
    story: str
    """For a person: what has happened."""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the engine's `Knobs`."""
    bytes_per_second: float | None = None
    """All clients read so slowly. None: as fast as they can."""
    down: bool = False
    """The engine's process is gone."""

    def healed(self) -> dict[str, Any]:
        """The same knobs, as they are on a healthy replica."""
        return {name: getattr(Knobs(), name) for name in self.knobs}


INCIDENTS: Mapping[str, Incident] = {
    incident.name: incident
    for incident in (
        Incident("queue", "somebody left three slots where there were 32", {"slots": 3}),
        Incident("prefill", "the GPU computes prompts at a quarter of its speed", {"prefill_factor": 4.0}),
        Incident("decode", "the GPU's memory is five times as slow", {"decode_factor": 5.0}),
        Incident("stream", "every client reads only seven tokens a second", bytes_per_second=1_500),
        Incident("engine", "the engine has crashed, and does not come back by itself", down=True),
    )
}


@dataclass(frozen=True, slots=True)
class Act:
    """A part of the demo: `seconds` long, with this incident, or healthy until the one that is `next` begins."""

    seconds: float
    incident: Incident | None
    coming: Incident


def acts(name: str) -> Iterator[Act]:
    """Without end: a healthy minute, an incident, a healthy minute, the next. `all` walks through them, a name repeats one."""
    chosen = list(INCIDENTS.values()) if name == "all" else [INCIDENTS[name]]
    for incident in cycle(chosen):
        yield Act(HEALTHY_SECONDS, None, incident)
        yield Act(FAULT_SECONDS, incident, incident)
