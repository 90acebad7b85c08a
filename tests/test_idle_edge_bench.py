"""The bench of the idle edge, in small: an engine that restarts twenty times a second gets no request twice and loses none."""

import pytest

from bench.idle_edge import measured
from tests.support.in_tests import POSTS_IN_TESTS, RESTART_IN_TESTS_SECONDS
from tests.support.scenario_loop import play


@pytest.mark.live
def test_posts_at_the_idle_edge_are_answered_or_told_the_truth() -> None:
    """No post is an error that the engine never had, none reaches it twice, and every 503 came while it was away."""
    found = play(measured(POSTS_IN_TESTS, restart_seconds=RESTART_IN_TESTS_SECONDS), patience_seconds=60.0)

    assert (found.posts, found.errors, found.duplicates) == (POSTS_IN_TESTS, [], 0)
    assert found.ok > 0
    assert found.restarts > 0
