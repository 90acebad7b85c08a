"""The bench of drains, in small: streams that fit the grace end whole, by `/-/drain` and by SIGTERM."""

import pytest

from bench.drains import STREAMS, Found, measured
from tests.support.scenario_loop import play


@pytest.mark.live
def test_no_stream_that_fits_the_grace_is_cut() -> None:
    """Two drains of two processes, with streams in flight: none cut, and both processes end with 0."""
    assert play(measured(2), patience_seconds=120.0) == Found(drains=2, streams=2 * STREAMS, cut=0, exits=0)
