"""One request while it runs, and until its ledger is closed: a field for each part of the house that has something to remember of it.

A part needs no table of requests for that, and what it has let go of is gone. It knows no rule; each field is written by the one part
that it names.
"""

from enum import StrEnum

from sidecar.ledger.request_labels import UNLABELLED, RequestLabels
from sidecar.objectives.attribution import SecondOutput
from sidecar.objectives.judge import Case
from sidecar.pod.costs.prefill_work import FirstToken, Prefilling
from sidecar.pod.open_misses import Miss


class Stage(StrEnum):
    """State of a request in flight. How its wait splits into phases is known only when it is over."""

    WAITING = "waiting"
    """No output yet: queue, prefill or first token."""
    STREAMING = "streaming"
    """Decode."""
    HELD = "held"
    """Stream with a client that does not read: the sidecar therefore does not read from the engine."""


class RequestRecord(Prefilling):
    """One request. It equals itself alone, and identifies the request in the tables that are left (`pod/`, `engines/estimator.py`)."""

    case: Case | None = None
    """The decisions on its objectives (`objectives/judge.py`), while it is open; None if it has none."""
    closing: Case | None = None
    """The same, once it has missed one and is over, until its ledger is closed."""
    runs_as_several: bool = False
    """It is in the engine, which may run it as several (`pod/costs/seen_share.py`)."""
    first_token: FirstToken | None = None
    """The facts about its prefill (`pod/costs/prefill_work.py`), from its first output until its ledger is closed."""
    second_output: SecondOutput | None = None
    """While it is open."""
    misses: tuple[Miss, ...] = ()
    """Those of its objectives, in their order (`pod/open_misses.py`), until it has voted on what they waited in."""
    stage: Stage | None = None
    """Waiting or streaming while it is in flight (`in_flight.py`), else None."""
    shown_labels: RequestLabels = UNLABELLED
    """Its labels as they stand on the gauges of what is in flight."""
    entered_at: float = 0.0
    """Instant of its first byte, if it is in flight."""
    is_held: bool = False
    """Its client does not read as fast as the engine writes: the sidecar therefore does not read from the engine."""


def _in_order() -> None:
    """Sets the fields of most requests once, in the order in which a request sets them: CPython then keeps one table of names for all
    records, and no dictionary for each, whichever part writes first (tests/test_allocation_budget.py).
    """
    first = RequestRecord()
    first.shown_labels, first.entered_at, first.stage, first.is_held = UNLABELLED, 0.0, None, False
    first.case, first.waits, first.idle, first.streams = None, False, False, False
    first.first_token, first.runs_as_several, first.second_output, first.closing = None, False, None, None


_in_order()
