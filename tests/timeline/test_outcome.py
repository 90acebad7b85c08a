"""The outcome of a response that arrived whole follows from its status alone."""

import pytest

from sidecar.timeline.outcome import Outcome, outcome_of_status


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ((200, 204, 304, 399), Outcome.OK),
        ((400, 401, 404, 413, 422, 431), Outcome.CLIENT_ERROR),
        ((429, 503, 529), Outcome.REJECTED),
        ((499,), Outcome.CLIENT_CANCELLED),
        ((408, 504), Outcome.ENGINE_TIMEOUT),
        ((500, 501, 502, 505, 599), Outcome.ENGINE_ERROR),
    ],
)
def test_each_status_has_one_outcome(statuses: tuple[int, ...], outcome: Outcome) -> None:
    """429, 503 and 529 are rejections, 408 and 504 timeouts of the engine, 499 is a client that left; every other 4xx is the client's error."""
    assert {outcome_of_status(status) for status in statuses} == {outcome}
