"""The end of a request, as the fetcher of reports is told of it (`fetcher.py`). Plain facts.

Reports are fetched only when a request waits for one, and sums speak of one request alone only if no other ended.
"""

from typing import NamedTuple

from sidecar.ledger.report import RequestKey
from sidecar.timeline.marks import Marks


class Ending(NamedTuple):
    """One inference request that is over, in whatever way."""

    keys: tuple[RequestKey, ...]
    """By which a report finds it (`ledger/pending.py`)."""
    marks: Marks
    streaming: bool
    at: float
    """Its last byte was accepted by its client, in monotonic seconds."""
    waits: bool
    """Its ledger is open until a word comes."""
