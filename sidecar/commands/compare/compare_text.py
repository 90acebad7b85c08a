"""The comparison as text for a terminal: eighty columns, and words for what moved. Knows columns and units, and asks nothing."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from sidecar.commands.compare.intervals import CONFIDENCE, LEAST_BLOCKS
from sidecar.commands.compare.measures import OF_ENGINE, Unit
from sidecar.commands.compare.two_sides import BLOCK_SECONDS, Comparison, Moved, Part
from sidecar.config.folding import folded


_DIGITS_SHOWN = 3
_INTERVAL_HEAD = f"{CONFIDENCE:.0%} interval"
_OPTIMISTIC = (
    f"Intervals take blocks of {BLOCK_SECONDS // 60} minutes as independent. Misses come in clumps: where a clump lasts"
    " longer, as a full queue may within a window of half an hour, the intervals are too narrow, and what is called"
    " better or worse may be chance. Compare longer windows, or more than one."
)


def comparison_text(found: Comparison, old: Part, new: Part, expected: Sequence[str], columns: int) -> str:
    """The whole answer; each lane is a table of its own, and so are the engine's own counts."""
    lines = [*folded(_side(old), columns, "old: "), *folded(_side(new), columns, "new: ")]
    of_lanes, of_engine = ([name for name in expected if (name in OF_ENGINE) == engine] for engine in (False, True))
    tables = [(f"lane {one.lane}, model {one.model or 'unknown'}", one.rows, of_lanes) for one in found.lanes]
    if found.engine or of_engine:
        tables.append(("the engine, all lanes together", found.engine, of_engine))
    for title, rows, awaited in tables:
        lines += ["", *folded(title, columns), *_table(rows, awaited)]
        for said in _said(rows, awaited):
            lines += folded(said, columns, rest="  ")
    lines += ["", *folded(_OPTIMISTIC, columns)]
    return "\n".join((*lines, ""))


def _side(part: Part) -> str:
    begins, ends = (datetime.fromtimestamp(at, UTC) for at in (part.begins_at, part.ends_at))
    return f"{part.words}, {begins:%Y-%m-%d %H:%M} to {ends:%H:%M} UTC"


def _table(rows: Sequence[Moved], expected: Sequence[str]) -> Iterator[str]:
    yield f"{'':<20} {'old':>9} {'new':>9} {'change':>9}  {_INTERVAL_HEAD:<20} "
    for row in rows:
        unit, change = row.measure.unit, row.change
        between = _too_few(row)
        if change.low is not None and change.high is not None:
            between = f"{_signed(change.low, unit)} to {_signed(change.high, unit)}"
        verdict = {"better": "better", "worse": "WORSE", "other": "differs"}.get(row.verdict, "")
        mark = "*" if row.measure.name in expected else " "
        cells = f"{_shown(row.old.value, unit):>9} {_shown(row.new.value, unit):>9} {_signed(change.value, unit):>9}"
        yield f"{mark}{row.measure.title:<19} {cells}  {between:<20} {verdict}".rstrip()


def _said(rows: Sequence[Moved], expected: Sequence[str]) -> Iterator[str]:
    """Each number that was expected to move, with its outcome; then those that moved beside them."""
    by_name = {row.measure.name: row for row in rows}
    for name in expected:
        row = by_name.get(name)
        if row is None:
            yield f"* expected to move: {name}; neither side has it."
        else:
            yield f"* expected to move: {name}; {_outcome(row)}."
    beside = [row for row in rows if row.measure.name not in expected and row.change.sure and row.measure.judged]
    if expected and beside:
        yield "Moved too: " + ", ".join(f"{row.measure.name} ({row.verdict})" for row in beside) + "."


def _too_few(row: Moved) -> str:
    blocks = min(row.old.blocks, row.new.blocks)
    return "too few blocks" if blocks < LEAST_BLOCKS else "too few requests"


def _outcome(row: Moved) -> str:
    unit, change = row.measure.unit, row.change
    if change.low is None or change.high is None:
        return f"{_too_few(row)} to say"
    if not change.sure:
        most = max(abs(change.low), abs(change.high))
        return f"no change seen: if there is one, it is below {_shown(most, unit)}"
    return f"{row.verdict}, by {_shown(abs(change.value), unit)}"


def _shown(value: float, unit: Unit) -> str:
    match unit:
        case Unit.SHARE:
            return f"{100 * value:.{_DIGITS_SHOWN}g} %"
        case Unit.SECONDS if abs(value) < 1:
            return f"{1000 * value:.{_DIGITS_SHOWN}g} ms"
        case Unit.SECONDS:
            return f"{value:.{_DIGITS_SHOWN}g} s"
        case Unit.TOKENS:
            return f"{value:,.0f}"


def _signed(value: float, unit: Unit) -> str:
    return ("+" if value > 0 else "") + _shown(value, unit)
