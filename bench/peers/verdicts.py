"""The bounds that the sidecar was promised to keep beside vllm-router, and what a run says about each.

The bounds are for the build that `pip install` gives; the figures and bounds of pure Python stand beside them. Figures that no proxy
is needed for are not here: the longest turn of the loop (`make bounds`), calls a request and an event (`make test`). Pure.
"""

from dataclasses import dataclass

from bench.peers.table import Results, Spread, ratios, spread


@dataclass(frozen=True, slots=True)
class Bound:
    """One promise. `base` None: the figure itself counts, else its ratio to the base's, round by round."""

    title: str
    row: str
    column: str
    base: str | None
    most: float
    stretch: float
    pure: float
    at_least: bool = False
    digits: int = 2


ROUTER = "vllm-router"
BOUNDS = (
    Bound("CPU per event, 300 streams, to vllm-router", "sidecar-silent", "event-300", ROUTER, 1.0, 0.9, 1.25),
    Bound("... with usage asked and cut", "sidecar", "event-300", ROUTER, 1.25, 1.0, 1.75),
    Bound("CPU per one-token request, to vllm-router", "sidecar", "request", ROUTER, 2.0, 1.5, 2.3),
    Bound(
        "events/s on one core, added p99 up to 10 ms",
        "sidecar",
        "rate",
        None,
        30e3,
        40e3,
        22e3,
        at_least=True,
        digits=0,
    ),
    Bound("added p99 of a token, 300 streams, to vllm-router", "sidecar", "p99-300", ROUTER, 1.0, 0.7, 1.3),
    Bound("2 MB prompt to the engine's first byte, to vllm-router", "sidecar", "first-2000000", ROUTER, 1.0, 0.6, 1.0),
    Bound("RSS at rest, MB", "sidecar", "rest", None, 55, 45, 55, digits=0),
    Bound("RSS at 300 streams, MB", "sidecar", "resident-300", None, 66, 56, 66, digits=0),
    Bound("start to first answer, ms", "sidecar", "start", None, 400, 250, 400, digits=0),
)


PURE = {"sidecar-silent": "pure-silent", "sidecar": "pure"}
"""The rows of the same wheel in pure Python."""


def measured(bound: Bound, results: Results, row: str) -> Spread | None:
    """The figure of this row, or its ratio over the rounds; None if it was not measured."""
    own = results.values(row, bound.column)
    found = list(own.values()) if bound.base is None else ratios(own, results.values(bound.base, bound.column))
    return spread(found) if found else None


def verdict(bound: Bound, value: float, limit: float) -> str:
    """`met`, or by how many per cent it is missed."""
    missing = limit / value - 1 if bound.at_least else value / limit - 1
    return "met" if missing <= 0 else f"**missed by {missing * 100:.0f} %**"


def lines(results: Results) -> list[str]:
    """A table of all bounds that were measured."""
    found = []
    for bound in BOUNDS:
        own, pure = measured(bound, results, bound.row), measured(bound, results, PURE[bound.row])
        if own is not None or pure is not None:
            cells = [*judged(bound, own, bound.most, bound.stretch), *judged(bound, pure, bound.pure)]
            found.append(f"| {bound.title} | {' | '.join(cells)} |")
    head = ["| figure | measured | bound | stretch | pure Python | its bound |", "|---|---|---|---|---|---|"]
    return head + found if found else []


def judged(bound: Bound, value: Spread | None, *limits: float) -> list[str]:
    """A cell with the figure, and one for each limit."""
    if value is None:
        return ["-"] * (1 + len(limits))
    return [
        value.text(bound.digits),
        *(f"{limit:.{bound.digits}f}: {verdict(bound, value.median, limit)}" for limit in limits),
    ]
