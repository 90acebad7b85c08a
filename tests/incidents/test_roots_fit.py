"""Weights are fitted to what was injected."""

from bench.roots.fit import Row, cost, fitted
from sidecar.pod.causes import Cause
from sidecar.pod.reasons import Reason


def row(injected: Cause | None, **reasons: Reason) -> Row:
    found = tuple((Cause(cause), ((reason, 1.0),)) for cause, reason in sorted(reasons.items()))
    return Row(found, () if injected is None else ((injected, 1.0),))


DIRECT = {"silence": Reason.FAULT, "load": Reason.GROWN}
ROWS = {row(Cause.SILENCE, **DIRECT): 9.0, row(Cause.LOAD, load=Reason.GROWN): 5.0, row(Cause.LOAD, **DIRECT): 1.0}


def test_the_reason_that_tells_the_cause_gets_the_larger_weight() -> None:
    weights = fitted(ROWS)

    assert weights[Reason.FAULT] > weights[Reason.GROWN] + 1.0
    assert cost(ROWS, weights)[0] < cost(ROWS, dict.fromkeys(weights, 2.0))[0]
