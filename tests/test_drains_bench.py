"""The bench of drains, in small: streams that fit the grace end whole, by `/-/drain` and by SIGTERM."""

import pytest

from bench.drains import STREAMS, Found, measured
from tests.support.in_tests import DRAINS_IN_TESTS
from tests.support.scenario_loop import play


@pytest.mark.live
def test_no_stream_that_fits_the_grace_is_cut() -> None:
    """One drain by each way, each of a process of its own with streams in flight: none cut, and each process ends with 0."""
    assert play(measured(DRAINS_IN_TESTS), patience_seconds=120.0) == Found(
        drains=DRAINS_IN_TESTS, streams=DRAINS_IN_TESTS * STREAMS, cut=0, exits=0
    )
