"""`make bench ARGS=--check`: whether CPU per event and per request are far above their bounds. It runs in `make thorough`.

Few rounds of short windows say little about a figure, so a limit is the bound of `verdicts.py` times a margin that no noise of a
machine reaches. A miss is measured once more, and counts if it is missed both times. The control of a busy machine is the router, whose windows
stand between those of the sidecar. Knows no proxy but those of the bounds.
"""

from collections.abc import Callable

from bench.peers.parts import MAIN_STREAMS
from bench.peers.table import Results
from bench.peers.verdicts import BOUNDS, Bound, measured


MARGINS = {f"event-{MAIN_STREAMS}": 1.5, "request": 2.0}
"""A limit is so many times its bound, by column. The ratio of a request depends on the processor: the router takes over a quarter less on
an Intel Xeon than on an AMD EPYC, where the sidecar takes as long.
"""
CHECKED = tuple(bound for bound in BOUNDS if bound.column in MARGINS)
ROWS = ",".join(dict.fromkeys(name for bound in CHECKED for name in (bound.base or "", bound.row) if name))
ROUNDS, SECONDS = 3, 2.0
STREAMS = ((MAIN_STREAMS, 20_000),)


def judged(results: Results) -> dict[Bound, tuple[bool, str]]:
    """Each limit: whether it is kept, and the figure in words. A figure that was not measured is not kept."""
    found: dict[Bound, tuple[bool, str]] = {}
    for bound in CHECKED:
        what = f"{bound.column} of {bound.row} to {bound.base}"
        value, limit = measured(bound, results, bound.row), bound.most * MARGINS[bound.column]
        if value is None:
            reasons = [why for row in (bound.row, bound.base or "") for why in results.reasons.get(row, [])]
            found[bound] = False, f"{what} was not measured: {'; '.join(reasons) or 'no window had figures'}"
        else:
            found[bound] = value.median <= limit, f"{what} is {value.text(2)}, and {limit:.2f} at most is allowed"
    return found


def broken(measure: Callable[[], Results]) -> list[str]:
    """The limits that two measurements miss, in words of the second one, which is made only after a miss."""
    missed = set(CHECKED)
    for _ in range(2):
        states = judged(measure())
        print("\n".join(words for _, words in states.values()), flush=True)
        missed = {bound for bound in missed if not states[bound][0]}
        if not missed:
            return []
    return [words for bound, (_, words) in states.items() if bound in missed]
