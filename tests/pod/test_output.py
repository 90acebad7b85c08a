"""Output of the pod beside what the requests that came, and the streams that ended, usually bring."""

import pytest

from sidecar.pod.causes import Cause
from sidecar.pod.pod import Pod
from sidecar.pod.signs import Signs
from sidecar.pod.usual.comparison import KEPT_SLICES
from tests.pod.pod_readings import CALM, Story, grown


def longer(signs: Signs) -> float:
    return signs.grown[Cause.LONGER_OUTPUTS].value


def test_longer_answers_show_by_their_output_before_they_end() -> None:
    """As many requests come as usually, and the engine sends three times the output that they usually bring."""
    assert grown(Story().reads(sent=3.0)) == {Cause.LONGER_OUTPUTS}


def test_a_queue_that_is_worked_off_is_no_longer_answers() -> None:
    """An engine sends nothing for a minute, and then more than comes in: no more than has come since the queue began."""
    story = Story()
    began_at = story.last.at
    story.reads(12, sent=0.0)
    story.reads(4, sent=4.0)

    assert grown(story.pod.signs(story.last.at, story.costs)) == {Cause.LONGER_OUTPUTS}
    assert grown(story.pod.signs(story.last.at, story.costs, queued_since=began_at)) == set()


def test_output_tells_no_longer_answers_of_a_queue_that_is_older_than_what_is_remembered() -> None:
    """Five minutes of a queue that is worked off are remembered, and the five minutes in which it grew are not."""
    story = Story()
    began_at = story.last.at
    story.reads(KEPT_SLICES, sent=0.0)
    story.reads(KEPT_SLICES, sent=2.0)

    assert grown(story.pod.signs(story.last.at, story.costs, queued_since=began_at)) == set()


def test_more_output_by_chance_tells_no_longer_answers() -> None:
    """Usual slices have a tenth of the mean output, or nearly twice: a third more in four of them is no sign."""
    story = Story()
    for number in range(CALM):
        story.reads(1, calm=True, sent=0.1 if number % 2 else 1.9)

    assert story.reads(sent=1.3).grown[Cause.LONGER_OUTPUTS].value == pytest.approx(1.0)


def test_streams_of_which_none_ends_are_longer_answers() -> None:
    """In twenty seconds they bring what eighty usual ones bring, and not one has ended."""
    assert longer(Story().reads(sent=2.0, ended=0.0)) == pytest.approx(2.0, rel=0.01)


def test_streams_that_began_before_may_send_what_they_usually_bring() -> None:
    """Eighty of them go on, and none of those that have come ends within these twenty seconds."""
    assert longer(Story().reads(sent=2.0, ended=0.0, streaming=80.0)) == pytest.approx(1.0)


def test_fewer_requests_are_no_longer_answers() -> None:
    """A balancer sends a tenth of them: those that came before are answered as usual, and end as usual."""
    assert longer(Story().reads(requests=1.0, sent=10.0, ended=10.0)) == pytest.approx(1.0)


def test_more_requests_that_are_streams_are_no_longer_answers() -> None:
    """As many come as before, of which a tenth was streamed, and nine in ten are now."""
    story = Story()
    story.reads(CALM, calm=True, sent=0.1, ended=0.1)
    story.reads(10 * CALM, calm=True, sent=0.1, ended=0.1)

    assert longer(story.reads(sent=0.9, ended=0.9)) == pytest.approx(1.0)


@pytest.mark.long
def test_thin_traffic_that_gets_thicker_is_no_longer_answers() -> None:
    """One request a minute, whose output comes in the ten slices after it; then ten in each slice, and few have ended yet."""
    story = Story()
    for _ in range(300):
        story.reads(1, calm=True, requests=1.0, sent=0.1, ended=0.0)
        story.reads(8, calm=True, requests=1.0, arriving=0.0, sent=0.1, ended=0.0)
        story.reads(1, calm=True, requests=1.0, arriving=0.0, sent=0.1)
        story.reads(2, calm=True, requests=0.0)

    assert longer(story.reads(12, requests=10.0, ended=0.3)) == pytest.approx(1.0, abs=0.1)


def test_a_process_that_has_little_time_is_taught_sooner() -> None:
    story = Story()
    story.pod = Pod()
    story.pod.teach_after(0.0)
    story.reads(20, calm=True)

    assert longer(story.reads(12, output=150.0)) == pytest.approx(3.0, rel=0.1)
    assert longer(story.reads(20, sent=3.0)) == pytest.approx(3.0, rel=0.1)
