"""Drawn shapes of faults come again from their text, and every one can be played on every engine."""

from collections.abc import Iterator
from random import Random

from bench.incidents import shapes
from bench.incidents.engines import ENGINES
from bench.incidents.kinds import BY_NAME
from bench.incidents.play import Incident
from bench.incidents.shapes import Shape, drawn, incident_of
from bench.incidents.world import KIND_WORLD


FACTOR = 0.9


def several(count: int = 300) -> Iterator[Shape]:
    return (drawn("text", number) for number in range(count))


def made(shape: Shape, seed: int = 1, engine: int = 0) -> Incident:
    return incident_of(shape, shapes.engine_of(shape, ENGINES[engine]), FACTOR, Random(seed), KIND_WORLD)


def test_a_text_and_a_number_draw_one_shape_and_each_fault_comes_once_before_any_comes_again() -> None:
    assert drawn("a", 3) == drawn("a", 3) != drawn("b", 3)
    first = [drawn("a", number) for number in range(len(shapes.FAULTS))]
    alone = [shape.fault for shape in first if shape.other is None]
    assert len(alone) == len(set(alone)) >= 0.8 * len(shapes.FAULTS)


def test_every_shape_can_be_sampled_on_every_engine_and_names_kinds_with_causes() -> None:
    for number, shape in enumerate(several()):
        incident = made(shape, number, number % len(ENGINES))
        assert all(BY_NAME[name].causes for name in incident.made_of)
        assert incident.seconds >= 720.0
        assert all(each.ends is None or each.begins < each.ends for each in incident.episodes)
