"""The demo's incidents and their times: the engine accepts their data, and a person can follow their order."""

from dataclasses import fields, replace
from itertools import islice

import pytest

from sidecar.commands.demo.incidents import (
    CALM_SECONDS,
    FAULT_SECONDS,
    HEALTHY_SECONDS,
    INCIDENTS,
    LEARNING_SECONDS,
    acts,
)
from sidecar.commands.simulator.physics import Knobs
from sidecar.objectives.attribution import Blame
from sidecar.pod.reading import READING_SECONDS
from sidecar.pod.usual.comparison import FEWEST_SLICES, YOUNG_CALM_SECONDS


def test_each_is_called_as_the_phase_that_it_is_to_page() -> None:
    assert set(INCIDENTS) <= {blame.value for blame in Blame}
    assert {name: incident.name for name, incident in INCIDENTS.items()} == {name: name for name in INCIDENTS}


@pytest.mark.parametrize("name", INCIDENTS)
def test_each_changes_something_and_is_healed_whole(name: str) -> None:
    incident = INCIDENTS[name]
    broken = replace(Knobs(), **incident.knobs)

    assert broken != Knobs() or incident.down or incident.bytes_per_second is not None
    assert replace(broken, **incident.healed()) == Knobs()
    assert set(incident.knobs) <= {field.name for field in fields(Knobs)}


@pytest.mark.parametrize(("learns", "first_seconds"), [(False, CALM_SECONDS), (True, LEARNING_SECONDS)])
def test_a_name_repeats_one_after_a_healthy_minute_each_time(learns: bool, first_seconds: float) -> None:
    """The first fault comes soon if the sidecar is given usual values, else once it has learned them."""
    played = list(islice(acts("decode", learns=learns), 4))

    assert [act.incident for act in played] == [None, INCIDENTS["decode"]] * 2
    assert [act.seconds for act in played] == [first_seconds, FAULT_SECONDS, HEALTHY_SECONDS, FAULT_SECONDS]
    assert {act.coming.name for act in played} == {"decode"}


def test_a_sidecar_that_learns_is_given_the_time() -> None:
    """It learns from a minute that stayed calm for half a minute more."""
    assert LEARNING_SECONDS > READING_SECONDS * (FEWEST_SLICES + 2) + YOUNG_CALM_SECONDS


def test_all_walks_through_them_and_begins_again() -> None:
    names = [act.incident.name for act in islice(acts("all"), 12) if act.incident is not None]

    assert names == ["queue", "prefill", "decode", "stream", "engine", "queue"]
