"""Finds what expressions read of all that `metrics.profile: lean` leaves out, and takes panels that read nothing else off a dashboard.

Knows the names in an expression and where a dashboard keeps its panels; refuses to know what a panel means. A panel of which one
query is answered stays whole: its description names what is missing. Pure.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sidecar.commands.export.expression_names import declared_as, grouped_by, metrics_in
from sidecar.metrics.catalogue import CATALOGUE, LEAN, LEAN_SUMS_OVER


_LEFT_OUT = frozenset(metric.name for metric in CATALOGUE) - {metric.name for metric in LEAN}

Json = dict[str, Any]


def left_out(expression: str) -> list[str]:
    """The metrics in an expression that a lean page does not have, and the labels that it sums over and the expression groups by."""
    metrics = {declared_as(name) for name in metrics_in(expression)} & _LEFT_OUT
    grouped = grouped_by(expression)
    return [*sorted(metrics), *(label.name for label in LEAN_SUMS_OVER if label.name in grouped)]


def idle_panels(dashboard: Mapping[str, Any]) -> list[str]:
    """The titles of the panels that show nothing of lean pods."""
    return [str(panel.get("title", "")) for panel in _panels(dashboard) if _is_idle(panel)]


def lean_dashboard(text: str) -> str:
    """The dashboard's JSON without these panels, and without rows that have no others."""
    board: Json = json.loads(text)
    board["panels"] = list(_kept(board["panels"]))
    return json.dumps(board, indent=2, ensure_ascii=False) + "\n"


def _kept(panels: list[Json]) -> Iterator[Json]:
    heading: Json | None = None
    for panel in panels:
        if panel.get("type") == "row":
            heading = panel
        elif not _is_idle(panel):
            if heading is not None:
                yield heading
                heading = None
            yield panel


def _panels(dashboard: Mapping[str, Any]) -> Iterator[Json]:
    for panel in dashboard.get("panels", ()):
        yield panel
        yield from panel.get("panels", ())


def _is_idle(panel: Json) -> bool:
    asked = [str(target.get("expr", "")) for target in panel.get("targets", ())]
    return bool(asked) and all(left_out(expression) for expression in asked)
