"""The live table: rows as lines of text, or with colours in a terminal if `rich` is installed; alerts are below it.

It contains columns, units and the length of bars. Rows come from `view.py`, alerts from `pager.py`; the caller decides
when to draw.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from sidecar.demo.pager import Notification
from sidecar.demo.view import PHASES, Row


BAR, LONG_BAR = 30, 64
"""Length of a full bar in characters: in a line of text, and below the live table."""
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
    """Prints one line per lane at each update: for logs, pipes and terminals without `rich`."""

    def show(self, rows: Sequence[Row], status: str, told: Sequence[Notification] = ()) -> None:
        """Print all rows, all alerts and the status."""
        for row in rows:
            print(plain(row))
        for alert in told:
            print(f"{paged(alert)}: {alert.summary}")
        print(status, flush=True)

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
        """Redraw the table. It fits 80 columns, except for the alerts' summaries."""
        from rich.console import Group  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(
            box=None, padding=(0, 1, 0, 0), title="the last minute, in ms: TTFT and inter-token p50/p95, mean phases"
        )
        table.add_column("\nlane", no_wrap=True)
        for name in ("\nreq", "\nTTFT", "inter-\ntoken"):
            table.add_column(name, justify="right", no_wrap=True)
        for phase in PHASES_SHOWN:
            name = phase.replace("_", "\n") if "_" in phase else f"\n{phase}"
            table.add_column(name, justify="right", style=COLOURS[phase], no_wrap=True)
        bars = []
        for row in rows:
            phases = (milliseconds(row.phases.get(phase)) for phase in PHASES_SHOWN)
            table.add_row(row.lane, requests(row), *latencies(row), *phases)
            bar = Text(f"{row.lane:<12}")
            for phase, width in bar_widths(row.phases, LONG_BAR).items():
                bar.append("█" * width, style=COLOURS[phase])
            bars.append(bar)
        alerts = []
        for alert in told:
            style = COLOURS.get(alert.phase, "white") if alert.firing else "dim"
            alerts += [Text(paged(alert), style=style), Text(f"  {alert.summary}", style="" if alert.firing else "dim")]
        shown = Group(table, Text(), *bars, *([Text(), *alerts] if alerts else []), Text(), Text(status))
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


def paged(alert: Notification) -> str:
    state = f"FIRING {alert.severity}" if alert.firing else "resolved"
    cause = f" cause {alert.cause}" if alert.cause else ""
    return f"{state:<13} phase {alert.phase:<12} {alert.name} -> {alert.receiver}{cause}"


def plain(row: Row) -> str:
    ttft, inter_token = latencies(row)
    phases = "  ".join(f"{phase} {milliseconds(row.phases.get(phase))}" for phase in PHASES if phase in row.phases)
    initials = "".join(phase[0] * width for phase, width in bar_widths(row.phases).items())
    return f"{row.lane:<12} {requests(row):>6} requests  TTFT {ttft} ms  inter-token {inter_token} ms  |  {phases}  [{initials}]"


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
