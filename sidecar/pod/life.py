"""All that the root of one miss may depend on: what happened in its life. Pure data.

Two misses of one pod with equal facts have the same root at the same instant. It refuses to know what a fact speaks for (`reasons.py`).
"""

from enum import Enum, auto
from typing import NamedTuple

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause


class Failed(Enum):
    """How a request failed on the server side."""

    ERROR = auto()
    UNREACHABLE = auto()
    SIDECAR = auto()
    """The sidecar itself could not serve it."""


class Facts(NamedTuple):
    """All that is known of one miss."""

    waited_in: Blame | None = None
    """The phase in which it waited, once its ledger is closed."""
    failed: Failed | None = None
    paused: bool = False
    """Its client did not read for a part of its life."""
    fault: Cause | None = None
    """A fault of the engine that its life overlaps."""
    behind_long_prompt: bool = False
    """Prompts that are longer than the usual ones of their lane were most of the work while it waited."""
    tpot: bool = False
    """It is a miss of the pace between tokens, not of a wait."""
    whole: bool = False
    """Its answer is not streamed: it comes in one piece, and how its reads hold events says nothing."""
    held_too_shortly: bool = False
    """The events of a read come within a small part of its threshold: that they are merged does not explain it."""
    turned_away: bool = False
    """It was refused for lack of room."""
    transferred: bool = False
    """Most of its excess lies between its first output and its second."""
    left_behind: bool = False
    """It waited in a backlog that the open incident left behind."""
    evicted: float | None = None
    """So many times the usual share of the prompt tokens was not cached because of a fault that is over, and in whose backlog
    it waited; None for another miss."""
    stalled: bool = False
    """It is a stream that stood still for many times as long as it usually takes to its next output."""
    alone: bool = False
    """Other streams had output while it stood still."""
    explained: bool = False
    """The prompts that were pending explain for how long no stream had output."""
    late_ratio: float = 0.0
    """Share of its time until it was missed, or of the last seconds if that is more, by which the sidecar's own loop was
    late; 0 if it stood still too shortly at once to delay what was missed."""
