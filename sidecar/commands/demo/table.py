"""The live table: rows as lines of text, or drawn in place if `rich` is installed; alerts are below it.

It contains columns, units and the length of bars. Rows come from `view.py`, alerts from `pager.py`; the caller decides
when to draw.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from sidecar.commands.demo.pager import Notification
from sidecar.commands.demo.view import PHASES, Row
from sidecar.config.folding import WIDTH, folded


BAR = 64
"""Length of a full bar in characters."""
INITIALS = {phase: phase[0] for phase in PHASES}
"""The character that a phase's part of a bar consists of, so that a bar can be read without colours."""
LEGEND = "bars: " + ", ".join(f"{initial} {phase}" for phase, initial in INITIALS.items())
COLOURS = {
    "queue": "red",
    "prefill": "yellow",
    "first_token": "magenta",
    "unattributed": "white",
    "decode": "green",
    "stream": "blue",
    "engine": "bright_red",
    "sidecar": "cyan",
}
PHASES_SHOWN = tuple(phase for phase in PHASES if phase != "unattributed")


class PlainScreen:
    """Prints some lines per lane at each update: for logs, pipes and terminals without `rich`. At most 80 columns."""

    def __init__(self) -> None:
        print(LEGEND, flush=True)

    def show(self, rows: Sequence[Row], status: str, told: Sequence[Notification] = ()) -> None:
        """Print all rows, all alerts and the status."""
        lines = [line for row in rows for line in plain(row)]
        lines += [line for block in blocks(told) for line in paged(block)]
        print("\n".join([*lines, *folded(status, WIDTH, "", "  ")]), flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


class LiveScreen(PlainScreen):
    """A table that is redrawn in place. Raises ImportError without `rich` (the extra `demo`)."""

    def __init__(self) -> None:
        from rich.live import Live  # noqa: PLC0415  an extra: without it the plain screen serves

        # Redrawn only on `show`: a thread of rich would take time from the engine's event loop in this process.
        self._live = Live(auto_refresh=False)

    def show(self, rows: Sequence[Row], status: str, told: Sequence[Notification] = ()) -> None:
        """Redraw the table. It fits 80 columns."""
        from rich.console import Group  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(
            box=None, padding=(0, 1, 0, 0), title="last minute, ms: TTFT and inter-token p50/p95, mean phases"
        )
        table.add_column("\nlane", no_wrap=True)
        for name in ("\nreq", "not\nok", "\nTTFT", "inter-\ntoken"):
            table.add_column(name, justify="right", no_wrap=True)
        for phase in PHASES_SHOWN:
            name = phase.replace("_", "\n") if "_" in phase else f"\n{phase}"
            table.add_column(name, justify="right", style=COLOURS[phase], no_wrap=True)
        bars = []
        for row in rows:
            phases = (milliseconds(row.phases.get(phase)) for phase in PHASES_SHOWN)
            # No commas: a number that is cut off by the edge would be another number.
            numbers = (each.replace(",", "") for each in (*latencies(row), *phases))
            table.add_row(row.lane, str(row.requests), str(row.not_ok or ""), *numbers)
            bar = Text(f"{row.lane:<12}")
            for phase, width in bar_widths(row.phases).items():
                bar.append(INITIALS[phase] * width, style=f"black on {COLOURS[phase]}")
            bars.append(bar)
        alerts = []
        for block in blocks(told):
            head, *rest = paged(block)
            firing = block[0].firing
            style = COLOURS.get(block[0].phase, "white") if firing else "dim"
            alerts += [Text(head, style=style), *(Text(line, style="" if firing else "dim") for line in rest)]
        below = [Text(LEGEND, style="dim"), *([Text(), *alerts] if alerts else []), Text()]
        shown = Group(table, Text(), *bars, *below, *map(Text, folded(status, WIDTH)))
        self._live.update(shown, refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()


def screen(*, terminal: bool) -> PlainScreen:
    """A live screen if `terminal` is set and `rich` is installed, else a plain one."""
    if terminal:
        try:
            return LiveScreen()
        except ImportError:
            pass
    return PlainScreen()


def blocks(told: Sequence[Notification]) -> list[list[Notification]]:
    """The alerts of one message together: those of one receiver that fire, and those that are over."""
    found: dict[tuple[str, bool], list[Notification]] = {}
    for alert in told:
        found.setdefault((alert.receiver, alert.firing), []).append(alert)
    return list(found.values())


def paged(block: Sequence[Notification]) -> list[str]:
    """A message as lines: its phase first, then its receiver and cause, what it says, its runbook's address, and its further alerts."""
    alert, *others = block
    state = f"FIRING {alert.severity}" if alert.firing else "resolved"
    cause = f", cause {alert.cause}" if alert.cause else ""
    lines = [f"{state:<13} phase {alert.phase:<12} {alert.name}"]
    if alert.firing:
        lines += folded(f"-> {alert.receiver}{cause}: {alert.summary}", WIDTH, "  ", "  ")
        lines += folded(f"runbook {alert.runbook_url}", WIDTH, "  ", "  ") if alert.runbook_url else []
        lines += [line for other in others for line in folded(f"and {other.name}: {other.summary}", WIDTH, "  ", "  ")]
    elif others:
        lines += [f"  and {other.name}" for other in others]
    return lines


def plain(row: Row) -> list[str]:
    """A lane as lines: its latencies, its mean phases in ms, and its bar."""
    ttft, inter_token = latencies(row)
    phases = "  ".join(f"{phase} {milliseconds(row.phases.get(phase))}" for phase in PHASES if phase in row.phases)
    bar = "".join(INITIALS[phase] * width for phase, width in bar_widths(row.phases).items())
    head = f"{row.lane:<12} {requests(row):>6} requests  TTFT {ttft} ms  inter-token {inter_token} ms"
    return [*folded(head, WIDTH, "", "  "), *folded(phases, WIDTH, "  "), *([f"  [{bar}]"] if bar else [])]


def requests(row: Row) -> str:
    return f"{row.requests} ({row.not_ok} not ok)" if row.not_ok else str(row.requests)


def latencies(row: Row) -> tuple[str, str]:
    """TTFT and inter-token time, each as median/95th percentile in ms."""
    return (
        f"{milliseconds(row.ttft_p50)}/{milliseconds(row.ttft_p95)}",
        f"{milliseconds(row.inter_token_p50)}/{milliseconds(row.inter_token_p95)}",
    )


def milliseconds(seconds: float | None) -> str:
    """Seconds as milliseconds: one decimal below 10 ms, none above. An unknown value is a dash, never 0."""
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.1f}" if seconds < 0.01 else f"{seconds * 1e3:,.0f}"


def bar_widths(phases: Mapping[str, float], length: int = BAR) -> dict[str, int]:
    """Characters for each phase, `length` in total (0 if all phases are 0). Edges are rounded, so the widths add up."""
    whole = sum(phases.values())
    widths: dict[str, int] = {}
    seconds = 0.0
    for phase in PHASES:
        start = round(length * seconds / whole) if whole else 0
        seconds += phases.get(phase, 0.0)
        widths[phase] = (round(length * seconds / whole) if whole else 0) - start
    return widths
