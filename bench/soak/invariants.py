"""The invariants of a soak, as a comparison of what the parties counted. Pure: counts in, sentences about what is broken out.

It knows the accounting of requests by all parties: the client's lines, the sidecar's log and metrics, the engine's counts, the
relays' injuries. It refuses to know how any of them was made.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.timeline.outcome import Outcome


OF_THE_LIMIT = 0.6
"""Part of the manifest's memory limit that a soak may take."""
LEFT_MIB = 38
"""The most resident memory that is left SETTLE_SECONDS after a load, in MiB beyond that before it."""
LEFT_BY_MANY_MIB = 60
"""The same after 70,000 heads that waited at once, and after 2,000 streams with a fault a second. They left 35 to 55 on several
machines: trace ids, readings and times of the last requests lie far apart, each in an arena of 1 MiB of Python's heap that it
keeps. It is no multiple of what was there before, so the bound is none."""
SETTLE_SECONDS = 60.0
NAMES_THE_ENGINE = tuple(outcome for outcome in Outcome if outcome.value.startswith("engine_"))
LEAVES = "leave"
"""The kind of a client that goes before its answer has ended."""
_MOST_NAMED = 5


@dataclass
class Books:
    """All that the parties say at the end of one run."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    """The clients' lines: trace_id, kind, result, answered."""
    logged: list[dict[str, Any]] = field(default_factory=list)
    """The sidecar's lines on requests: trace_id (None: a hostile writer's), outcome."""
    outcomes: Mapping[str, float] = field(default_factory=dict)
    """The sidecar's counter of requests, by outcome."""
    lines_held_back: int = 0
    """Lines that the log's rate limit held back, by the sidecar's own count."""
    engine_requests: int = 0
    engine_injuries: int = 0
    """Connections to the engine that were reset, half-closed or refused by order."""
    client_injuries: int = 0
    """Connections of clients that were reset or half-closed by order."""

    @property
    def cut(self) -> int:
        """Answers that ended before they were whole, and not because their client left."""
        return sum(line["result"] == "cut" and line["kind"] != LEAVES for line in self.requests)


def read_log(lines: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The lines on requests, and what no line may be: no JSON, or with an exception of the sidecar's own."""
    requests, odd = [], []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            odd.append(f"a line of the log is no JSON: {line.strip()[:200]}")
            continue
        if entry.get("event") == "request":
            requests.append({"trace_id": entry.get("trace_id"), "outcome": entry.get("outcome")})
        elif "exception" in entry or "Traceback" in line:
            odd.append(f"a line of the log has an exception: {line.strip()[:400]}")
    return requests, odd


def broken_accounts(books: Books) -> list[str]:
    """Every request has one outcome, and no more have one than were sent."""
    broken = []
    sent = {line["trace_id"]: line for line in books.requests}
    logged = Counter(line["trace_id"] for line in books.logged if line["trace_id"] is not None)
    broken += _named("was logged more than once", (trace for trace, count in logged.items() if count > 1))
    broken += _named("was logged and never sent", (trace for trace in logged if trace not in sent))
    unlogged = [trace for trace, line in sent.items() if line["answered"] and trace not in logged]
    if len(unlogged) > books.lines_held_back:
        broken += _named("was answered and never logged", unlogged)
    ok = {line["trace_id"] for line in books.logged if line["outcome"] == Outcome.OK}
    whole = (trace for trace, line in sent.items() if line["result"] == "whole" and trace in logged and trace not in ok)
    broken += _named("arrived whole and has another outcome than ok", whole)
    total = sum(books.outcomes.values())
    if not 0 <= total - len(books.logged) <= books.lines_held_back:
        broken.append(
            f"{total:.0f} requests are counted and {len(books.logged)} are logged, with {books.lines_held_back} lines held back"
        )
    if books.engine_requests > total:
        broken.append(f"the engine got {books.engine_requests} requests, and {total:.0f} have an outcome")
    if books.cut > books.engine_injuries + books.client_injuries:
        broken.append(
            f"{books.cut} answers are cut, and {books.engine_injuries} + {books.client_injuries} connections were injured"
        )
    if errors := books.outcomes.get(Outcome.SIDECAR_ERROR.value):
        broken.append(f"{errors:.0f} requests have the outcome {Outcome.SIDECAR_ERROR}")
    return broken + broken_blame(books.outcomes, books.engine_injuries)


def broken_blame(outcomes: Mapping[str, float], injuries: int) -> list[str]:
    """An outcome that names the engine needs a connection to it that was broken by order: one for each."""
    blamed = {outcome.value: outcomes.get(outcome.value, 0.0) for outcome in NAMES_THE_ENGINE}
    if sum(blamed.values()) <= injuries:
        return []
    said = ", ".join(f"{count:.0f} {name}" for name, count in blamed.items() if count)
    return [f"the engine is blamed more often ({said}) than its side was injured ({injuries})"]


def _named(what: str, traces: Iterable[str]) -> list[str]:
    found = list(traces)
    return [f"{len(found)} requests: {what}: {', '.join(found[:_MOST_NAMED])}"] if found else []
