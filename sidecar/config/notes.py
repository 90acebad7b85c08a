"""Notes on settings that have no effect, though nothing is wrong: printed by `check`, logged by `serve` when it starts.

Knows configs. Refuses nothing: what is wrong is the business of `checks.py`. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.config.objectives import lanes_without_objectives
from sidecar.config.schema import Config, LaneObjectivesConfig
from sidecar.ledger.request_labels import OTHER
from sidecar.objectives.presets import OBJECTIVE_PRESETS


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the log, or of `check`."""

    event: str
    about: str
    """The log field that holds the names."""
    names: tuple[str, ...]
    hint: str


def notes(config: Config) -> Iterator[Note]:
    """At most one note of each kind."""
    silent = tuple(lane for lane in lanes_without_objectives(config) if lane != OTHER and not _is_meant(config, lane))
    if silent:
        presets = ", ".join(name for name in OBJECTIVE_PRESETS if name != "none")
        hint = (
            "these lanes have no objectives, so they never page: set objectives.LANE.preset to one of"
            f" {presets}, or thresholds; preset none turns this note off"
        )
        yield Note("lanes_without_objectives", "lanes", silent, hint)


def _is_meant(config: Config, lane: str) -> bool:
    return config.objectives.get(lane, LaneObjectivesConfig()) != LaneObjectivesConfig()
