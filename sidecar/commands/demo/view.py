"""The rows of the demo's table, read from the sidecar's /metrics page as any scraper would.

Pure functions: from two pages to one row per lane, for the time between them. It contains the metric names of design
section 6, and nothing internal of the sidecar. It uses only values on the page; without samples a value is None, not 0.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from prometheus_client.parser import text_string_to_metric_families

from sidecar.ledger.account import Phase


PHASES: tuple[str, ...] = tuple(Phase)
TTFT_SERIES, INTER_TOKEN_SERIES = "llm_time_to_first_token_seconds_bucket", "llm_inter_token_seconds_bucket"
REQUESTS, WHOLE, PHASE_SUM = "llm_requests_total", "llm_request_seconds_count", "llm_request_phase_seconds_sum"
_WANTED = (TTFT_SERIES, INTER_TOKEN_SERIES, REQUESTS, WHOLE, PHASE_SUM)
_EDGE = re.compile(r'le="([^"]+)"')

Sums = Mapping[tuple[str, str, str], float]
"""Maps (sample name, lane, then the bucket's edge, phase or outcome) to a value, summed over all other labels."""


@dataclass(frozen=True, slots=True)
class Row:
    """One lane over a window. Times in seconds; None: no samples in the window."""

    lane: str
    requests: int
    """Requests that ended, with any outcome."""
    not_ok: int
    ttft_p50: float | None
    ttft_p95: float | None
    inter_token_p50: float | None
    inter_token_p95: float | None
    phases: Mapping[str, float]
    """Maps a phase to its mean over streamed requests with outcome ok; the means add up to the mean request."""


def read_page(page: str) -> Sums:
    """Sum up the samples that the table needs, by lane; samples of non-streamed requests are left out."""
    sums: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    lines, edges = _of_interest(page)
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            labels = sample.labels
            if labels.get("streaming") != "false":
                what = labels.get("le") or labels.get("phase") or labels.get("outcome") or ""
                sums[sample.name, labels.get("lane", ""), what] += sample.value
    for name, lane in {(name, lane) for name, lane, _ in sums}:
        for edge in edges[name]:
            sums.setdefault((name, lane, edge), 0.0)
    return sums


def rows(earlier: Sums, later: Sums) -> list[Row]:
    """One row for each lane in which a request ended between two pages, in alphabetical order."""
    grown = {key: value - earlier.get(key, 0.0) for key, value in later.items()}
    lanes = sorted({lane for (name, lane, _), value in grown.items() if name == REQUESTS and value > 0})
    return [_row(lane, grown) for lane in lanes]


def quantile(buckets: Mapping[float, float], q: float) -> float | None:
    """The quantile as in Prometheus' histogram_quantile, from cumulative counts by upper edge: linear within a bucket.

    None without samples. Beyond the last finite edge, that edge is returned.
    """
    edges = sorted(buckets)
    if not edges or not buckets[edges[-1]]:
        return None
    rank = q * buckets[edges[-1]]
    below_edge = below = 0.0
    for edge in edges:
        count = buckets[edge]
        if count >= rank and count > below:
            return below_edge if edge == inf else below_edge + (edge - below_edge) * (rank - below) / (count - below)
        below_edge, below = edge, count
    return None


def _row(lane: str, grown: Sums) -> Row:
    def values(wanted: str) -> dict[str, float]:
        return {what: value for (name, of, what), value in grown.items() if (name, of) == (wanted, lane)}

    outcomes = values(REQUESTS)
    ttft = {float(edge): count for edge, count in values(TTFT_SERIES).items()}
    gaps = {float(edge): count for edge, count in values(INTER_TOKEN_SERIES).items()}
    whole = sum(values(WHOLE).values())
    seconds = values(PHASE_SUM)
    return Row(
        lane,
        round(sum(outcomes.values())),
        round(sum(count for outcome, count in outcomes.items() if outcome != "ok")),
        quantile(ttft, 0.5),
        quantile(ttft, 0.95),
        quantile(gaps, 0.5),
        quantile(gaps, 0.95),
        {phase: seconds[phase] / whole for phase in PHASES if phase in seconds} if whole else {},
    )


def _of_interest(page: str) -> tuple[list[str], dict[str, set[str]]]:
    """The lines to parse, and for each bucket sample the edges of its empty buckets: their lines are not parsed.

    A page has thousands of samples, most of them 0. The reference parser takes 20 us for each, in the engine's loop.
    """
    lines: list[str] = []
    edges: defaultdict[str, set[str]] = defaultdict(set)
    for line in page.splitlines():
        if not line.startswith(_WANTED):
            continue
        if not line.endswith((" 0", " 0.0")):
            lines.append(line)
        elif found := _EDGE.search(line):
            edges[line.partition("{")[0]].add(found[1])
    return lines, edges
