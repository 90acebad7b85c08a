"""The last incidents of one process, to be attached to a bug report: instants, roots, votes and evidence.

It knows what it is told, and holds no text of requests, no lane and no client. It refuses to judge: the code that decides
roots says what an incident shows while it is open, and when it ends. Pure: instants are passed in, in Unix
seconds. No method raises, whatever the order of the calls.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


INCIDENTS_KEPT = 20
LEADS_KEPT = 20
"""Leading roots that one incident keeps: the newest ones."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The leading root from this instant on."""

    at_unix: float
    phase: str
    cause: str


@dataclass(slots=True)
class Incident:
    began_at_unix: float
    leads: deque[Lead] = field(default_factory=lambda: deque(maxlen=LEADS_KEPT))
    ended_at_unix: float | None = None
    """None while it lasts."""
    votes: Mapping[str, float] = field(default_factory=dict)
    """Phase of the root to its misses, from the beginning on."""
    ratios: dict[str, float] = field(default_factory=dict)
    """Cause to its number over the usual one: the largest that was seen."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """Size and confidence of the leading root, as told last."""
    signs: set[str] = field(default_factory=set)
    """Signs that are no ratio, of all that were seen."""


class IncidentLog:
    def __init__(self) -> None:
        self._kept: deque[Incident] = deque(maxlen=INCIDENTS_KEPT)
        self._live: Incident | None = None

    def goes_on(
        self,
        at_unix: float,
        root: tuple[str, str],
        *,
        began_at_unix: float,
        votes: Mapping[str, float],
        ratios: Mapping[str, float],
        signs: Iterable[str] = (),
        told: Mapping[str, Any] | None = None,
    ) -> None:
        """An incident is open. `root`: leading phase and cause; `votes`: phase to misses since it began; `ratios`: cause to
        its number over the usual one; `signs`: names of those that are no ratio; `told`: size and confidence of the root, as JSON has
        them.
        """
        live = self._live
        if live is None:
            live = self._live = Incident(began_at_unix)
            self._kept.append(live)
        phase, cause = map(str, root)
        if not live.leads or (live.leads[-1].phase, live.leads[-1].cause) != (phase, cause):
            live.leads.append(Lead(at_unix, phase, cause))
        live.votes = {str(name): count for name, count in votes.items()}
        for name, ratio in ratios.items():
            live.ratios[str(name)] = max(ratio, live.ratios.get(str(name), 0.0))
        live.signs.update(map(str, signs))
        live.told = dict(told or {})

    def closed(self, at_unix: float) -> None:
        """The open incident ends. Nothing happens without one."""
        if self._live is not None:
            self._live.ended_at_unix = at_unix
            self._live = None

    def as_json(self) -> list[dict[str, Any]]:
        """The incidents as values that JSON has, newest first. The first one is open if its end is null."""
        return [_written(one) for one in reversed(self._kept)]


def _written(one: Incident) -> dict[str, Any]:
    lead = one.leads[-1]
    return {
        "began_timestamp_seconds": one.began_at_unix,
        "ended_timestamp_seconds": one.ended_at_unix,
        "phase": lead.phase,
        "cause": lead.cause,
        "size": one.told.get("size"),
        "confidence": one.told.get("confidence"),
        "leads": [{"timestamp_seconds": each.at_unix, "phase": each.phase, "cause": each.cause} for each in one.leads],
        "votes": dict(one.votes),
        "evidence_ratios": dict(one.ratios),
        "signs": sorted(one.signs),
    }
