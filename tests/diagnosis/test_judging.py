"""A latency is judged by its misses in the window, and by the last half hour only where these may be chance."""

from dataclasses import replace

import pytest

from sidecar.diagnosis.findings import State
from sidecar.diagnosis.judging import judged
from tests.support.measured import BROKEN


@pytest.mark.parametrize(
    ("misses", "burn", "misses_long", "burn_long", "state"),
    [
        (2.0, 9.0, 2.0, 9.0, State.MET),
        (3.0, 9.0, 3.0, 0.2, State.BROKEN),
        (0.0, 0.0, 3.0, 1.0, State.MET),
        (2.0, 0.9, 2375.0, 4.24, State.NEAR),
        (5.0, 0.4, 2375.0, 4.24, State.MET),
        (1.0, 4.0, 9.0, 2.0, State.BROKEN),
        (1.0, 4.0, 9.0, 0.6, State.NEAR),
        (3.0, 0.6, 3.0, 0.4, State.NEAR),
        (3.0, 0.4, 3.0, 0.4, State.MET),
    ],
)
def test_a_number_is_broken_from_its_budget_on_and_from_three_misses_on(
    misses: float, burn: float, misses_long: float, burn_long: float, state: State
) -> None:
    """The window decides. The last half hour only tells whether one or two misses in it are more than chance."""
    seen = replace(BROKEN, misses=misses, burn=burn, misses_long=misses_long, burn_long=burn_long)

    assert judged(seen).state is state
