"""The first misses of a queue: the engine's own number of waiting requests counts as soon as it is stated."""

import pytest

from sidecar.metrics import catalogue as c
from tests.observe.pod_story import CALM_SECONDS, PodStory


@pytest.mark.parametrize("seconds_after_a_reading", range(5))
def test_a_first_miss_is_decided_by_the_engines_queue_as_it_is_now(seconds_after_a_reading: int) -> None:
    """The engine has stated a queue since the last reading of the pod: the miss is of a limit, and not of more load."""
    pod = PodStory()
    pod.set(c.ENGINE_REQUESTS_WAITING, 0.0)
    pod.calm(CALM_SECONDS + seconds_after_a_reading)
    waits = pod.harness.comes()
    pod.second()
    pod.second()
    pod.set(c.ENGINE_REQUESTS_WAITING, 5.0)
    pod.second(answered=waits, queue_seconds=2.0)

    causes = pod.causes()
    assert (pod.misses("ttft"), max(causes, key=causes.__getitem__)) == (1, ("queue", "slots"))
