"""The last incidents of one process, to be attached to a bug report: instants, roots, votes and evidence.

It knows what it is told, and holds no text of requests, no lane and no client. It refuses to judge: the code that decides
roots says when an incident begins, when its leading root changes, and when it ends. Pure: instants are passed in, in Unix
seconds. No method raises, whatever the order of the calls.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


INCIDENTS_KEPT = 20
CHANGES_KEPT = 20
"""Changes of the leading root that one incident keeps: the newest ones."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The leading root from this instant on."""

    at_unix: float
    phase: str
    cause: str


@dataclass(slots=True)
class Incident:
    began: Lead
    changes: deque[Lead] = field(default_factory=lambda: deque(maxlen=CHANGES_KEPT))
    ended_at_unix: float | None = None
    """None while it lasts."""
    votes: Mapping[str, float] = field(default_factory=dict)
    """Phase of the root to its misses, over the whole incident; empty until it ended."""
    evidence: Mapping[str, float] = field(default_factory=dict)
    """Cause to its number over the usual one, at the end."""

    @property
    def lead(self) -> Lead:
        return self.changes[-1] if self.changes else self.began


class IncidentLog:
    def __init__(self) -> None:
        self._kept: deque[Incident] = deque(maxlen=INCIDENTS_KEPT)
        self._live: Incident | None = None

    def opened(self, at_unix: float, phase: str, cause: str) -> None:
        """An incident begins. If one is open, it stays open, and this is a change of its root."""
        if self._live is not None:
            self.changed(at_unix, phase, cause)
            return
        self._live = Incident(Lead(at_unix, str(phase), str(cause)))
        self._kept.append(self._live)

    def changed(self, at_unix: float, phase: str, cause: str) -> None:
        """The open incident has another leading root. Nothing happens without one, or if the root is the same."""
        live = self._live
        if live is not None and (live.lead.phase, live.lead.cause) != (phase, cause):
            live.changes.append(Lead(at_unix, str(phase), str(cause)))

    def closed(self, at_unix: float, votes: Mapping[str, float], evidence: Mapping[str, float]) -> None:
        """The open incident ends. `votes`: phase to misses over the whole incident; `evidence`: cause to its ratio.

        Nothing happens without an open incident.
        """
        if self._live is None:
            return
        self._live.ended_at_unix = at_unix
        self._live.votes = {str(phase): count for phase, count in votes.items()}
        self._live.evidence = {str(cause): ratio for cause, ratio in evidence.items()}
        self._live = None

    def as_json(self) -> list[dict[str, Any]]:
        """The incidents as values that JSON has, newest first. The first one is open if its end is null."""
        return [_written(one) for one in reversed(self._kept)]


def _written(one: Incident) -> dict[str, Any]:
    return {
        "began_timestamp_seconds": one.began.at_unix,
        "ended_timestamp_seconds": one.ended_at_unix,
        "phase": one.lead.phase,
        "cause": one.lead.cause,
        "leads": [
            {"timestamp_seconds": lead.at_unix, "phase": lead.phase, "cause": lead.cause}
            for lead in (one.began, *one.changes)
        ],
        "votes": dict(one.votes),
        "evidence_ratios": dict(one.evidence),
    }
