"""The curves of the last half hour: one per phase and lane, on a scale that is told, in words as well as in a picture."""

import re

from sidecar.admin.page.sparklines import LANES, half_hour
from sidecar.history.phase_points import LaneCurve
from sidecar.history.slices import run_now
from tests.support.page_reader import Reader


HALF_HOUR = tuple(100.0 + 30.0 * number for number in range(61))


def curve(lane: str = "chat", edges: tuple[float, ...] = HALF_HOUR, **means: tuple[float | None, ...]) -> LaneCurve:
    return LaneCurve("llama", lane, edges, 900.0, means or {"decode": (1.0,) * (len(edges) - 1)})


def drawn(*curves: LaneCurve, first: str | None = None, since_at: float | None = None) -> str:
    return run_now(half_hour(curves, None if first is None else ("llama", first), since_at))


def paths(page: str) -> list[str]:
    return re.findall(r'<path d="([^"]*)"', page)


def test_a_curve_says_in_words_what_it_draws() -> None:
    edges = (0.0, 30.0, 60.0, 90.0)
    page = drawn(curve(edges=edges, queue=(0.08, 3.0, 2.1), decode=(1.0, 1.0, 1.0)))

    labels = [value for name, value in Reader(page).attributes if name == "aria-label"]
    assert labels == [
        "chat, queue, over the last 90\u00a0s: at first 80.0\u00a0ms, latest 2.10\u00a0s, highest 3.00\u00a0s",
        "chat, decode, over the last 90\u00a0s: at first 1.00\u00a0s, latest 1.00\u00a0s, highest 1.00\u00a0s",
    ]
    assert "queue latest 2.10 s, highest 3.00 s" in Reader(page).text
    assert Reader(page).tags.count("svg") == 2


def test_a_curve_rises_with_its_means_up_to_the_highest() -> None:
    """Each point stands in the middle of its half minute; y grows downwards."""
    (path,) = paths(drawn(curve(edges=(0.0, 30.0, 60.0, 90.0), queue=(0.0, 1.0, 4.0))))

    assert path == "M100.0 22.0h0L300.0 17.0L500.0 2.0"


def test_a_gap_is_drawn_as_a_gap_and_a_lone_point_as_a_dot() -> None:
    (path,) = paths(drawn(curve(edges=(0.0, 30.0, 60.0, 90.0, 120.0, 150.0), queue=(1.0, None, 1.0, None, None))))

    assert path == "M60.0 2.0h0M300.0 2.0h0"


def test_a_phase_that_is_not_known_now_has_no_latest_mean() -> None:
    page = Reader(drawn(curve(edges=(0.0, 30.0, 60.0), queue=(1.0, None))))

    assert "queue latest not known, highest 1.00 s" in page.text


def test_a_history_that_is_shorter_says_so() -> None:
    assert "last 30 min" in Reader(drawn(curve())).text
    assert "all that this process has seen" not in drawn(curve())
    assert "last 90 s, all that this process has seen" in Reader(drawn(curve(edges=(0.0, 30.0, 60.0, 90.0)))).text


def test_the_lane_of_the_headline_stands_open_with_the_beginning_of_its_incident() -> None:
    page = drawn(curve("batch"), curve("chat"), first="chat", since_at=HALF_HOUR[0] + 900.0)

    open_, folded = page.split("<details", 1)
    assert ("<h3>chat</h3>" in open_, "batch" in folded) == (True, True)
    assert 'class="since" d="M300.0 0V24"' in open_
    assert "since" not in folded


def test_an_incident_that_is_older_than_the_curve_has_no_line() -> None:
    assert "since" not in drawn(curve(), first="chat", since_at=HALF_HOUR[0] - 5.0)


def test_many_lanes_are_counted_and_not_drawn() -> None:
    page = Reader(drawn(*(curve(f"lane{number}") for number in range(LANES + 2))))

    assert page.tags.count("svg") == LANES
    assert "2 more lanes with fewer requests have no curve here." in page.text


def test_without_requests_there_is_a_sentence_and_no_picture() -> None:
    page = Reader(drawn())

    assert "No streamed request ended well in this time, so no phase has a curve." in page.text
    assert "svg" not in page.tags


def test_each_lane_is_a_slice() -> None:
    assert sum(1 for _ in half_hour([curve("a"), curve("b"), curve("c")], None, None)) == 3
