"""How far the histograms on an engine's page grew around one probe. Pure; bytes in, seconds out.

The engine's kind names them (`StateNames.times`). Sums are added up over all series: one request adds to one series of each front end's
histogram. If any histogram counted more than one request meanwhile, other clients use the engine, or each rank counts, and the mean is not
the probe's time.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from sidecar.engines.probe.state_names import PageTime


Sums = Mapping[PageTime, tuple[float, float]]
"""Sum in seconds and count of each histogram that is on the page."""
_LABELS_AND_VALUE = rb"(?:\{(?:[^\"}\n]|\"(?:[^\"\\\n]|\\.)*+\")*+\})?[ \t]++([0-9.eE+-]{1,40})"


class Growth(NamedTuple):
    requests: int
    """Most requests that a histogram counted between two readings."""
    times: Mapping[PageTime, float]
    """Seconds of that one request; empty unless it was one."""


def sums_on(page: bytes, names: Mapping[PageTime, str]) -> Sums:
    """The histograms of these names."""
    found = {name: tuple(_total(page, f"{text}_{what}") for what in ("sum", "count")) for name, text in names.items()}
    return {name: (total, count) for name, (total, count) in found.items() if total is not None and count is not None}


def growth(before: Sums, after: Sums) -> Growth:
    """The growth between two readings of one page. Falling counts (a restart) give no growth."""
    grown = {
        name: (after[name][0] - before[name][0], round(after[name][1] - before[name][1]))
        for name in after
        if name in before
    }
    requests = max((count for _, count in grown.values()), default=0)
    fell = any(count < 0 or seconds < 0 for seconds, count in grown.values())
    ended = any(grown[name][1] for name in (PageTime.WHOLE, PageTime.FIRST_TOKEN) if name in grown)
    if requests != 1 or fell or not ended:
        return Growth(max(0, requests) if ended else 0, {})
    return Growth(1, {name: seconds for name, (seconds, count) in grown.items() if count})


def _total(page: bytes, name: str) -> float | None:
    found = re.findall(rb"^%b%b" % (re.escape(name.encode()), _LABELS_AND_VALUE), page, re.MULTILINE)
    try:
        total = math.fsum(map(float, found))
    except (ValueError, OverflowError):
        return None
    return total if found and math.isfinite(total) else None
