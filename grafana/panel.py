"""A dashboard, in the words of this folder: rows of panels, each with a population, a unit and queries.

Knows shapes, and nothing of Grafana's JSON (`drawing.py`), of colours (`colours.py`) or of what is measured. A panel cannot be made
without saying which requests its number is about.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from grafana.colours import FINE
from grafana.query import Query
from sidecar.commands.export.expression_names import left_out
from sidecar.metrics.histogram_forms import OF_EACH_PROCESS


class Kind(StrEnum):
    """How a panel draws, by Grafana's name of the plugin; LINES, STACK and BARS are all `timeseries`."""

    LINES = "lines"
    STACK = "stack"
    BARS = "bars"
    TABLE = "table"
    STAT = "stat"
    HEATMAP = "heatmap"
    TIMELINE = "state-timeline"


NO_TRAFFIC = "no traffic"
RATIO = "percentunit"
"""Grafana's unit of a share, 0 to 1."""

SAMPLES_UNIT = "suffix: samples"
PODS_UNIT = "suffix: pods"
AGE = "dtdurations"
"""Grafana's unit of seconds as people say them: 6 minutes, 12 seconds."""

Steps = tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `width` of 24, `height` in Grafana's rows (30 px and a gap of 8)."""

    kind: Kind
    title: str
    about: str
    """The panel's content and how to read it: full sentences."""
    population: str
    """Which requests (or reads, seconds, pods) the numbers are about, without a full stop."""
    unit: str
    queries: tuple[Query, ...]
    width: int = 8
    height: int = 8
    steps: Steps = ()
    """From which value on it has which colour."""
    base: str = FINE
    """The colour below the first of them."""
    empty: str = NO_TRAFFIC
    """The text that stands there instead of nothing or NaN; in a table, where there is no row."""
    words: tuple[tuple[float, str, str], ...] = ()
    """Values that are words: (value, word, colour)."""
    text_colours: tuple[tuple[str, str, str], ...] = ()
    """In a table: (column, cell's text, colour)."""
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """In a table: column to what is shown in place of a cell's text."""
    links: tuple[tuple[str, str, str], ...] = ()
    """In a table: (column, title, address) of where a cell leads."""
    headings: Mapping[str, str] = field(default_factory=dict)
    """In a table: label to the heading of its column, where that is another word."""
    hidden: tuple[str, ...] = ()
    """Columns of a table that only serve links or joins."""
    rows_by: tuple[str, ...] = ()
    """In a table: the labels that make one row; what else the queries answer is folded into it. Empty: each answer is a row."""
    listed: Mapping[str, str] = field(default_factory=dict)
    """In a table with `rows_by`: label to the heading of the column that lists its values, those of the worst first."""
    of_the_worst: tuple[str, ...] = ()
    """In a table with `rows_by`: labels of which the row has the worst one's value."""
    order: tuple[str, ...] = ()
    """Columns of a table from the left; the others follow."""
    tall: bool = False
    """Rows of a table have two lines."""
    sorted_by: str = ""
    """The column of a table that is worst first."""
    total: str = ""
    """In a stack: the legend of the query that is a line over it, for it must equal the sum."""
    by_phase: bool = False
    """Series are named by phase and have the phases' colours."""
    per_lane: bool = False
    """Drawn once for each lane."""
    logarithmic: bool = False
    beyond_one: bool = False
    """A ratio that may exceed 1, such as seconds in each second over several streams: its axis ends at 100 % or at its highest value."""
    decimals: int | None = None

    @property
    def description(self) -> str:
        """As people read it behind the panel's (i)."""
        lean = (
            f"\n\nEmpty for pods of metrics.profile lean: what reads {_listed(self._left_out)}."
            if self._left_out
            else ""
        )
        return f"{self.about}\n\nPopulation: {self.population}.{lean}"

    @property
    def nothing(self) -> str:
        """`empty`, and that it may be the profile of the pods: where all of the panel reads what a lean page leaves out."""
        idle = all(left_out(query.expr) for query in self.queries)
        return f"{self.empty}, or profile lean" if idle and self.empty else self.empty

    @property
    def _left_out(self) -> list[str]:
        names = {name for query in self.queries for name in left_out(query.expr)}
        return sorted(names - {OF_EACH_PROCESS} or names)  # which tells the form of the histogram that is meant

    @property
    def has_pods(self) -> bool:
        """True for a table with a column of pods."""
        return "pod" in self.order


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels below it. Without a title they stand there without a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One more variable, of one value: the values of a label, those first whose pods are the youngest, or the oldest."""

    name: str
    label: str
    title: str
    youngest_first: bool


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


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
