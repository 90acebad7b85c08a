"""One reading of a pod's own counters and gauges, every `READING_SECONDS`. Pure data.

It knows names and units. It refuses to know where the numbers stand (`observe/pod_signs.py`), and to compare them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


READING_SECONDS = 5.0
"""Time from one reading to the next."""


class LaneCounts(NamedTuple):
    """Cumulative counts of one lane."""

    arrivals: float = 0.0
    measured: float = 0.0
    """Arrivals whose prompt length was known or estimated."""
    received_tokens: float = 0.0
    """Prompt tokens of these."""
    answered: float = 0.0
    """Answers whose usage was stated."""
    prompt_tokens: float = 0.0
    cached_tokens: float = 0.0
    outputs: float = 0.0
    output_tokens: float = 0.0
    reads: float = 0.0
    events: float = 0.0
    gaps: float = 0.0
    gap_seconds: float = 0.0
    """Sum of the gaps between the events of a stream."""
    gap_logs: float = 0.0
    """Sum of their natural logarithms, in units of the shortest that is told apart: 0 or more."""
    streams: float = 0.0
    """Streams with output that have ended."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The pod's own counters and gauges at one instant; None: unknown."""

    at: float
    lanes: Mapping[str, LaneCounts] = field(default_factory=dict)
    reported: float = 0.0
    """Answers with phases that the engine reported."""
    unreported: float = 0.0
    own_seconds: float = 0.0
    """Prefill seconds of measured prompts."""
    expected_seconds: float = 0.0
    preemptions: float = 0.0
    restarts: float = 0.0
    stalled_seconds: float = 0.0
    silent_seconds: float = 0.0
    excused_seconds: float = 0.0
    """Silence that the prompts explain which were pending when it began."""
    unseen_seconds: float = 0.0
    """Silence, in seconds, that pending prompts do not explain, and that a request whose output is not seen may explain."""
    stalled: bool = False
    """The engine is taken to be stalled, whether or not requests still wait for it."""
    engine_up: bool | None = None
    kv_usage: float | None = None
    engine_waiting: float | None = None
    engine_running: float | None = None
    waiting: float = 0.0
    """Requests inside the sidecar without output."""
    streaming: float = 0.0
    long_prompts: bool = False
    """A prompt that is longer than the usual ones of its lane was in the engine since the reading before."""
