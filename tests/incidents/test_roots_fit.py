"""Weights are fitted to what was injected: a reason that tells the cause gets much, and one that is always there gets little."""

import pytest

from bench.roots.fit import FIRST, Row, cost, fitted, together
from sidecar.pod.causes import Cause
from sidecar.pod.reasons import Reason
from sidecar.pod.weigh import SURE


def row(injected: Cause | None, **reasons: Reason) -> Row:
    found = tuple((Cause(cause), ((reason, 1.0),)) for cause, reason in sorted(reasons.items()))
    return Row(found, () if injected is None else ((injected, 1.0),))


DIRECT = {"silence": Reason.FAULT, "load": Reason.GROWN}
ROWS = {row(Cause.SILENCE, **DIRECT): 9.0, row(Cause.LOAD, load=Reason.GROWN): 5.0, row(Cause.LOAD, **DIRECT): 1.0}


def test_the_reason_that_tells_the_cause_gets_the_larger_weight() -> None:
    weights = fitted(ROWS)

    assert weights[Reason.FAULT] > weights[Reason.GROWN] + 1.0
    assert cost(ROWS, weights)[0] < cost(ROWS, dict.fromkeys(weights, 2.0))[0]


def test_the_slope_is_that_of_the_cost() -> None:
    weights, step = {Reason.FAULT: 1.3, Reason.GROWN: 0.8}, 1e-5
    _, slope = cost(ROWS, weights)

    for reason in weights:
        more, less = (cost(ROWS, weights | {reason: weights[reason] + each})[0] for each in (step, -step))
        assert slope[reason] == pytest.approx((more - less) / (2 * step), rel=1e-3)


def test_no_weight_is_negative() -> None:
    """A reason that is always there where another cause is right says nothing against its own."""
    weights = fitted({row(Cause.SILENCE, **DIRECT): 1.0})

    assert weights[Reason.GROWN] == pytest.approx(0.0, abs=0.05)


def test_a_weight_that_the_runs_do_not_tell_stays_where_it_was() -> None:
    """It has no rival in any row: any weight explains them as well."""
    assert fitted({row(Cause.LOAD, load=Reason.GROWN): 1.0}) == {Reason.GROWN: pytest.approx(FIRST, abs=0.05)}


def test_the_chance_of_none_is_what_all_reasons_leave() -> None:
    assert row(None, load=Reason.GROWN).left == pytest.approx(1.0 - SURE)
    assert row(None).left == 1.0


def test_rows_of_all_runs_are_added() -> None:
    one = row(Cause.LOAD, load=Reason.GROWN)

    assert together([{one: 1.0}, {one: 0.5, row(None): 0.5}]) == {one: 1.5, row(None): 0.5}
