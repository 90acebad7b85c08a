"""The picture of the phases: widths are shares of time, on one scale."""

import re
from dataclasses import replace

import pytest

from sidecar.admin.page.anatomy import LaneAnatomy
from sidecar.admin.page.picture import PHASE_ORDER, longest, mean_bar, seconds, stacked
from sidecar.ledger.account import Phase


def bar(lane: str, **phases: float) -> LaneAnatomy:
    return LaneAnatomy(lane, True, 3, sum(phases.values()), phases, {})


def picture(bars: tuple[LaneAnatomy, ...]) -> str:
    return "".join(mean_bar(bar, longest(bars)) for bar in bars)


def drawn(svg: str) -> list[tuple[str, float, float]]:
    """(phase, from, width) in percent."""
    found = re.findall(r'class="p-(\w+)" x="([\d.]+)%" width="([\d.]+)%"', svg)
    return [(phase, float(x), float(width)) for phase, x, width in found]


def test_phases_stand_in_the_order_of_life_and_on_one_scale() -> None:
    """Phases are in the order in which they happen. The longest lane fills the width; half as slow ends in the
    middle."""
    svg = picture((bar("slow", decode=2.0, queue=1.0, stream=1.0), bar("fast", queue=2.0)))

    assert drawn(svg) == [("queue", 0, 25), ("decode", 25, 50), ("stream", 75, 25), ("queue", 0, 50)]


def test_every_phase_has_its_place() -> None:
    assert sorted(phase.value for phase in Phase) == sorted(PHASE_ORDER)


def test_nothing_is_drawn_for_a_phase_that_is_unknown() -> None:
    svg = picture((bar("chat", unattributed=1.0, decode=1.0),))

    assert [phase for phase, _, _ in drawn(svg)] == ["unattributed", "decode"]


def test_a_lane_whose_requests_took_no_time_can_be_drawn() -> None:
    assert drawn(picture((bar("chat", decode=0.0),))) == [("decode", 0, 0)]


def test_who_cannot_see_the_picture_hears_it() -> None:
    svg = picture((bar("chat", queue=1.0, decode=3.0),))

    assert 'aria-label="chat: queue 1.00\u00a0s (25%), decode 3.00\u00a0s (75%)"' in svg


def test_a_prompt_length_is_drawn_on_the_scale_of_all_lanes() -> None:
    """A bucket of long prompts may exceed its lane's mean: it then sets the scale, and the lane's bar gets shorter."""
    long = replace(bar("chat", prefill=4.0), prompt_bucket="16k-64k")
    lane = replace(bar("chat", prefill=1.0), buckets=(long,))

    svg = mean_bar(lane, longest((lane,))) + mean_bar(long, longest((lane,)))

    assert drawn(svg) == [("prefill", 0, 25), ("prefill", 0, 100)]
    assert 'aria-label="chat, 16k-64k tokens: prefill 4.00\u00a0s (100%)"' in svg


def test_shares_are_said_as_shares() -> None:
    svg = stacked({"engine": 0.25, "queue": 0.75}, 1.0, "Waited", whole=1.0, shares=True)

    assert drawn(svg) == [("queue", 0, 75), ("engine", 75, 25)]
    assert 'aria-label="Waited: queue 75%, engine 25%"' in svg


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.00004, "40 µs"),
        (0.00999, "9.99 ms"),
        (0.0999, "99.9 ms"),
        (0.0444, "44.4 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (12.34, "12.3 s"),
        (119, "119 s"),
        (600, "10.0 min"),
    ],
)
def test_durations_read_with_three_digits(value: float, said: str) -> None:
    assert seconds(value) == said.replace(" ", "\u00a0")
