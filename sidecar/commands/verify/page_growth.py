"""How far the histograms on an engine's page grew around one probe. Pure; bytes in, seconds out.

The engine's kind names them (`StateNames.times`). Sums are added up over all series: one request adds to one series of each front end's
histogram. If more than one request was counted as whole meanwhile, other clients use the engine, and the growth is not the probe's.
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
    """Requests that the page counted as whole, or whose first token it counted, between two readings."""
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
    ends = [grown[name][1] for name in (PageTime.WHOLE, PageTime.FIRST_TOKEN) if name in grown]
    requests = max(ends, default=0)
    if requests != 1 or any(count < 0 or seconds < 0 for seconds, count in grown.values()):
        return Growth(max(0, requests), {})
    # Ranks that work on the same request each count it: the mean is that request's time.
    return Growth(1, {name: seconds / count for name, (seconds, count) in grown.items() if count})


def _total(page: bytes, name: str) -> float | None:
    found = re.findall(rb"^%b%b" % (re.escape(name.encode()), _LABELS_AND_VALUE), page, re.MULTILINE)
    try:
        total = math.fsum(map(float, found))
    except (ValueError, OverflowError):
        return None
    return total if found and math.isfinite(total) else None
