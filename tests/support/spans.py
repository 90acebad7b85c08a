"""The spans of tests/spans: each engine's for one request, as its own source makes them, ready for a walk.

A fixture names the engine's version, the files that it follows and the times in its spans, in seconds. The word MINTED
stands in place of the id of the span that the sidecar mints for the request; one played request fits each of these
splits.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sidecar.engines.span import Span


FOLDER = Path(__file__).parents[1] / "spans"
MINTED = "MINTED"


@dataclass(frozen=True, slots=True)
class Fixture:
    """One file: `says` has the seconds of each phase that the engine states, and null for one that it does not."""

    name: str
    engine: str
    follows: str
    says: Mapping[str, float | None]
    spans: tuple[Span, ...]

    def under(self, minted: str, trace_id: str = "") -> list[Span]:
        """The spans as they come for the request for which this span was minted."""
        return [
            replace(
                span,
                parent_span_id=minted if span.parent_span_id == MINTED else span.parent_span_id,
                trace_id=trace_id or span.trace_id,
            )
            for span in self.spans
        ]


def fixture(name: str) -> Fixture:
    """The fixture in tests/spans/NAME.json."""
    said: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    spans = tuple(Span(**span) for span in said["spans"])
    return Fixture(name, said["engine"], said["follows"], said["says"], spans)


def fixtures() -> list[str]:
    """The names of all fixtures."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))
