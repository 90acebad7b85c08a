"""The operating points that the demo ships are those that the simulation finds, and no start simulates them again."""

import json
from dataclasses import asdict

import pytest

from sidecar.commands.demo.load import MIXED
from sidecar.commands.demo.operating_points import POINTS, load_rate, shipped_point, written
from sidecar.commands.simulator.operating_point import (
    QUEUE_TARGET_SECONDS,
    describe,
    mean_queue_seconds,
    operating_point,
    rate_for_mean_queue,
)
from sidecar.commands.simulator.replica_presets import PRESETS, SMALL_CHAT
from sidecar.config.folding import WIDTH
from tools.demo_numbers import REQUESTS_OF_THE_LOAD


def test_there_is_one_for_each_preset_and_it_is_told_within_eighty_columns() -> None:
    told = {name: describe(preset, shipped_point(name)) for name, preset in PRESETS.items()}
    rates = {name: f"{shipped_point(name).rate:.2f} requests per second" for name in PRESETS}

    assert json.loads(POINTS.read_text()).keys() == PRESETS.keys()
    assert [line for text in told.values() for line in text.splitlines() if len(line) > WIDTH] == []
    assert [name for name, text in told.items() if rates[name] not in text] == []


@pytest.mark.long
def test_the_demos_own_rate_is_where_the_search_ends() -> None:
    """The search narrows its bracket to one percent: below it the mean queue is too short, above it too long."""
    rate = load_rate(SMALL_CHAT.name)
    below, above = (
        mean_queue_seconds(SMALL_CHAT, MIXED, rate * factor, REQUESTS_OF_THE_LOAD) for factor in (0.99, 1.01)
    )

    assert below < QUEUE_TARGET_SECONDS < above


@pytest.mark.bench
@pytest.mark.parametrize("name", PRESETS)
def test_each_is_what_its_command_writes(name: str) -> None:
    """`python -m tools.demo_numbers points` draws from fixed seeds; another machine's library may round otherwise."""
    preset = PRESETS[name]
    point, rate = operating_point(preset), rate_for_mean_queue(preset, MIXED, requests=REQUESTS_OF_THE_LOAD)
    anew = json.loads(json.dumps(written(point, rate)))

    assert flat(anew) == pytest.approx(flat(json.loads(POINTS.read_text())[name]), rel=0.01)
    assert asdict(shipped_point(name)).keys() <= anew.keys()


def flat(told: dict[str, object], place: str = "") -> dict[str, object]:
    """The same numbers, each with its whole place."""
    found: dict[str, object] = {}
    for name, value in told.items():
        found |= flat(value, f"{place}.{name}") if isinstance(value, dict) else {f"{place}.{name}": value}
    return found
