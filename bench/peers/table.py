"""The arithmetic of the comparison: medians over rounds, ratios round by round, and both as a table of Markdown.

A ratio is taken within a round, where both proxies met the same minute of the machine, and then the median over rounds: a
minute in which the machine is slow changes both figures of a round, and hardly their ratio. Pure: knows no process and no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the lowest and the highest round."""

    median: float
    lowest: float
    highest: float

    def text(self, digits: int) -> str:
        if self.lowest == self.highest:
            return f"{self.median:.{digits}f}"
        return f"{self.median:.{digits}f} ({self.lowest:.{digits}f} to {self.highest:.{digits}f})"


def spread(values: Sequence[float]) -> Spread:
    """The figures of at least one value."""
    return Spread(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Column:
    """One figure: its heading with the unit, its digits, and whether it is compared with the base row."""

    key: str
    title: str
    digits: int = 1
    compared: bool = True


@dataclass(slots=True)
class Results:
    """All figures of a run: by row and column, one per round. A row that failed has a reason."""

    rounds: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)

    def add(self, row: str, column: str, round_: int, value: float) -> None:
        self.rounds.setdefault(row, {}).setdefault(column, {})[round_] = value

    def fail(self, row: str, reason: str) -> None:
        """A row, or a window of it, that has no figures, and why."""
        known = self.reasons.setdefault(row, [])
        if reason not in known:
            known.append(reason)

    def values(self, row: str, column: str) -> dict[int, float]:
        """By round; empty if it was not measured."""
        return self.rounds.get(row, {}).get(column, {})


def ratios(own: Mapping[int, float], base: Mapping[int, float]) -> list[float]:
    """Round by round, of the rounds that both have and in which the base is above 0."""
    return [own[each] / base[each] for each in sorted(own) if base.get(each, 0.0) > 0]


def cell(results: Results, row: str, column: Column, base: str | None) -> str:
    """A figure with the spread of its ratio to the base row, or else with its own; a dash if it was not measured."""
    own = results.values(row, column.key)
    if not own:
        return "-"
    if not any(own.values()):
        return "0"
    figure = spread(list(own.values()))
    found = ratios(own, results.values(base, column.key)) if base and base != row and column.compared else []
    return f"{figure.median:.{column.digits}f}, **x {spread(found).text(2)}**" if found else figure.text(column.digits)


def table(results: Results, rows: Mapping[str, str], columns: Sequence[Column], base: str | None) -> list[str]:
    """The lines of a table. `rows`: key to title, in order. `base`: the row with which others are compared."""
    shown = [column for column in columns if any(results.values(row, column.key) for row in rows)]
    lines = [f"| proxy | {' | '.join(column.title for column in shown)} |", "|---" * (len(shown) + 1) + "|"]
    for row, title in rows.items():
        if row not in results.rounds:
            reason = "; ".join(results.reasons.get(row, ["not measured"]))
            lines.append(f"| {title} | **{reason}** |" + " |" * (len(shown) - 1))
            continue
        lines.append(f"| {title} | {' | '.join(cell(results, row, column, base) for column in shown)} |")
    return lines


def failures(results: Results, rows: Mapping[str, str]) -> list[str]:
    """A line for each row that lacks figures, with its reasons."""
    return [f"{title}: {reason}" for row, title in rows.items() for reason in results.reasons.get(row, [])]
