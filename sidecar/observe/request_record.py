"""One request while it runs, and until its ledger is closed: a field for each part of the house that has something to remember of it.

A part needs no table of requests for that, and what it has let go of is gone. It knows no rule; each field is written by the one part
that it names.
"""

from sidecar.objectives.attribution import SecondOutput
from sidecar.objectives.judge import Case
from sidecar.pod.costs.prefill_work import FirstToken


class RequestRecord:
    """One request. It equals itself alone, and identifies the request in the tables that are left (`pod/`, `engines/estimator.py`)."""

    case: Case | None = None
    """The decisions on its objectives (`objectives/judge.py`), while it is open; None if it has none."""
    closing: Case | None = None
    """The same, once it has missed one and is over, until its ledger is closed."""
    first_token: FirstToken | None = None
    """The facts about its prefill (`pod/costs/prefill_work.py`), from its first output until its ledger is closed."""
    second_output: SecondOutput | None = None
    """While it is open."""
