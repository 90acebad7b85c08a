"""What a dashboard is, in the words of this folder: rows of panels, each with a population, a unit and queries.

Knows shapes and colours, and nothing of Grafana's JSON (`drawing.py`) or of what is measured. A panel cannot be made without saying
which requests its number is about.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from grafana.query import Query


class Kind(StrEnum):
    """How a panel draws, by Grafana's name of the plugin; LINES, STACK and BARS are all `timeseries`."""

    LINES = "lines"
    STACK = "stack"
    BARS = "bars"
    TABLE = "table"
    STAT = "stat"
    BAR_GAUGE = "bargauge"
    HEATMAP = "heatmap"
    TIMELINE = "state-timeline"


NO_TRAFFIC = "no traffic"
GREEN, YELLOW, ORANGE, RED, GREY = "green", "yellow", "orange", "red", "#808080"

PHASE_COLOURS = {
    "queue": "orange",
    "prefill": "blue",
    "first_token": "purple",
    "unattributed": GREY,
    "decode": "green",
    "stream": "yellow",
    "engine": "red",
}
"""The same in every panel that shows phases, so that one learns them once."""

Steps = tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `width` of 24, `height` in Grafana's rows (30 px)."""

    kind: Kind
    title: str
    about: str
    """What it shows and how to read it: full sentences."""
    population: str
    """Which requests (or reads, seconds, pods) the numbers are about, without a full stop."""
    unit: str
    queries: tuple[Query, ...]
    width: int = 12
    height: int = 8
    steps: Steps = ()
    """From which value on it has which colour."""
    base: str = GREEN
    """The colour below the first of them."""
    empty: str = NO_TRAFFIC
    """What stands there instead of nothing or NaN."""
    words: tuple[tuple[float, str, str], ...] = ()
    """Values that are words: (value, word, colour)."""
    text_colours: tuple[tuple[str, str, str], ...] = ()
    """In a table: (column, cell's text, colour)."""
    links: tuple[tuple[str, str, str], ...] = ()
    """In a table: (column, title, address) of where a cell leads."""
    hidden: tuple[str, ...] = ()
    """Columns of a table that only serve links."""
    sorted_by: str = ""
    """The column of a table that is worst first."""
    total: str = ""
    """In a stack: the legend of the query that is a line over it, for it must equal the sum."""
    by_phase: bool = False
    """Series are named by phase and have the phases' colours."""
    per_lane: bool = False
    """Drawn once for each lane."""
    logarithmic: bool = False
    decimals: int | None = None

    @property
    def description(self) -> str:
        """As people read it behind the panel's (i)."""
        return f"{self.about}\n\nPopulation: {self.population}."


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels below it."""

    title: str
    panels: tuple[Panel, ...]
    per_lane: bool = False
    """The whole row once for each lane."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One more variable, of one value: a label's values as the series has them."""

    name: str
    label: str
    series: str
    title: str


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard. `uid` is its address for ever: alerts link to it."""

    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]
    runbooks: tuple[str, ...] = ()
    """Alerts whose runbook this dashboard follows."""
    choices: tuple[Choice, ...] = field(default=())
    hours: int = 1
    """The time that it opens with."""
