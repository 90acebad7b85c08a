"""How fast each lane spends its error budget, and which tier that is. Recording rules.

The verdict on each request is the sidecar's own (`llm_slo_*`), so these rules only add and compare: the same text serves every
config and target. Windows above 5 minutes are sums of the recorded 5-minute sums. These rules know no cause.
"""

from dataclasses import dataclass

from sidecar.commands.export.rules.rule import Record
from sidecar.metrics.catalogue import SIDECAR_TIME_SECONDS
from sidecar.metrics.target_labels import ONE_ENGINE, ONE_POD, ONE_PROCESS


ENGINE_LABELS = ", ".join(ONE_ENGINE)
"""Labels of one engine, over its pods."""
WHO = f"{ENGINE_LABELS}, model, lane, objective"
"""Labels of a lane's objective."""
POD_LABELS = ", ".join(ONE_POD)
"""Labels of one pod; its engine may serve several models."""
INSTANCE_LABELS = ", ".join(ONE_PROCESS)
"""Labels of one process."""
PROCESS_AGE = f"{SIDECAR_TIME_SECONDS.name} - process_start_time_seconds"
"""Seconds since a sidecar's process began, whatever its pod's clock says: both instants are that clock's."""
WHICH_POD = f"{ENGINE_LABELS}, model, pod"
"""Labels of one model on one pod."""

_LONG = {"30m": ("1m", 5), "6h": ("5m", 1)}
"""Windows that are summed from recorded 5-minute sums: every how often one is taken, and in how many of them a miss is then."""
JUDGED, ALLOWED_MISSES = "requests", "allowed_misses"


@dataclass(frozen=True, slots=True)
class Row:
    """One condition of a tier: misses against requests or against allowed misses, over a window, and still in a shorter one."""

    tier: str
    against: str
    """`JUDGED`: the threshold is a share of the requests. `ALLOWED_MISSES`: it is a burn rate, 1 is what the target allows."""
    at_least: float
    window: str
    fewest_misses: int
    """In the window: a ratio of few requests is no reason for a page."""
    still: float = 0
    """Threshold of the shorter window, exclusive, so that an idle lane does not pass."""
    still_in: str = ""
    most_requests: int = 0
    """Requests of the last 30 minutes; 0: any number. A busy lane that has a few decided requests is no lane with little traffic."""
    fewest_burns: float = 0
    """A burn rate in the same window, inclusive; 0: any. A lane that may miss a fifth of its requests is not out at a third."""


SLOW = Row("slow", ALLOWED_MISSES, 2, "30m", 10, 1, "5m")
"""The slow burn of a lane, and that of one pod of many (`roots.WORSE`)."""
TIERS = (
    # A queue at 90 % utilisation can grow and be gone within a minute or so, by chance. On the incident bench's healthy day 1 more than
    # half of a minute's requests and 27 % of two minutes' missed.
    Row("outage", JUDGED, 0.5, "1m", 20, 0.33, "2m"),
    Row("outage", JUDGED, 0.5, "2m", 10),
    # The middle of a fleet, such as 7 pods of 16. Pods that miss all are odd while the others miss less than a third
    # (roots.ODD_TIMES), so a lane must page from a third on. A healthy lane at 90 % utilisation has minutes with 10 of 41 missed.
    Row("outage", JUDGED, 0.33, "2m", 30, fewest_burns=2),
    Row("outage", JUDGED, 0.5, "5m", 10, 0.25, "2m"),
    # A lane of one request a minute, all of them missed: 4 misses stand in 5 minutes, and none was met. A healthy lane that
    # spends its whole budget of 5 % misses 4 of 4 requests in 5 minutes by chance 0.04 times in 30 days: 43,200 arrivals x
    # 0.05^4 x P(just 3 others in the 5 minutes before, Poisson) 0.14; at 1 % of misses 0.00006 times.
    Row("outage", JUDGED, 0.9, "5m", 4, 0, "2m", most_requests=60),
    # The same lane's page must last: requests that come by chance leave 3 or fewer in 5 minutes for longer than a page is
    # kept, 1.8 times an hour, and with this row 0.07 times. A healthy lane adds 0.002 pages in 30 days, at most 0.02 at 0.4 requests
    # a minute.
    Row("outage", JUDGED, 0.9, "10m", 4, 0, "5m", most_requests=60),
    Row("fast", ALLOWED_MISSES, 10, "5m", 10, 10, "2m"),
    Row("steady", ALLOWED_MISSES, 6, "30m", 10, 6, "5m"),
    SLOW,
    Row("slow", ALLOWED_MISSES, 1, "6h", 10, 1, "30m"),
)
"""Every tier, spelled here alone."""
PAGING = "outage|fast|steady"
"""The tiers that page; `slow` is a ticket."""
_WHY = {
    "outage": "Half of the requests miss: reachable for every target. A third is for fleets, 5 minutes and more for little traffic.",
    "fast": "A month's budget would be gone in three days.",
    "steady": "A month's budget would be gone in five days (the SRE workbook pages at this rate over six hours).",
    "slow": "Twice what the target allows for half an hour and still, or all of it for six hours.",
}


def without_odd_pods(selected: str) -> str:
    """The series, but those of pods that have a page of their own, now or within 5 minutes."""
    return f"{selected} unless on ({WHICH_POD}) max_over_time(pod:llm_slo:odd[5m])"


def grown(what: str, window: str) -> str:
    """A lane's growth of `llm_slo_{what}_total` over a window: the recorded sum, or a sum of recorded sums."""
    if window in _LONG:
        every, times = _LONG[window]
        summed = f"sum_over_time(lane:llm_slo_{what}:increase5m[{window}:{every}])"
        return summed if times == 1 else f"({summed} / {times})"
    recorded = f"lane:llm_slo_{what}:increase"
    return f"({recorded}5m + {recorded}5m offset 5m)" if window == "10m" else f"{recorded}{window}"


def _sum(what: str, window: str, why: str) -> Record:
    growth = without_odd_pods(f"increase(instance:llm_slo_{what}:sum[{window}])")
    return Record(f"lane:llm_slo_{what}:increase{window}", f"sum by ({WHO}) (\n  {growth}\n)", why)


INSTANCES = tuple(
    Record(
        f"instance:llm_slo_{what}:sum",
        f"sum by ({WHO}, pod, instance) (llm_slo_{what}_total)",
        f"{words} of one process, over prompt lengths: its counters begin anew together, so that the growth of the sum is the sum of"
        " their growth, and the many raw series are read once.",
    )
    for what, words in (
        ("misses", "Misses"),
        (JUDGED, "Judged requests"),
        (ALLOWED_MISSES, "Misses that the target allows"),
    )
)
SUMS = (
    *(_sum("misses", window, f"Misses, {window}.") for window in ("1m", "2m", "5m")),
    *(_sum(JUDGED, window, f"Requests that were judged, {window}.") for window in ("1m", "2m", "5m")),
    *(_sum(ALLOWED_MISSES, window, f"Misses that the target allows, {window}.") for window in ("2m", "5m")),
)
"""Pods with a page of their own are left out."""


def condition(row: Row) -> str:
    """PromQL for the lanes for which this row holds; the value is their misses in its window."""
    misses = grown("misses", row.window)
    text = f"{misses} >= {row.at_least} * {grown(row.against, row.window)}\n  and {misses} >= {row.fewest_misses}"
    if row.still_in:
        text += f"\n  and {grown('misses', row.still_in)} > {row.still} * {grown(row.against, row.still_in)}"
    if row.fewest_burns:
        text += f"\n  and {misses} >= {row.fewest_burns} * {grown(ALLOWED_MISSES, row.window)}"
    if row.most_requests:
        text += f"\n  and {grown(JUDGED, '30m')} <= {row.most_requests}"
    return f"  {text}"


def _tier(tier: str) -> str:
    rows = "\nor\n".join(condition(row) for row in TIERS if row.tier == tier)
    return f'label_replace((\n{rows}\n) * 0 + 1, "tier", "{tier}", "", "")'


BURN_TIERS = Record(
    "lane:llm_slo_burn:tier",
    "\nor\n".join(map(_tier, _WHY)),
    "\n".join(f"{tier}: {why}" for tier, why in _WHY.items()),
)

NUMBERS = (
    *(
        Record(
            f"lane:llm_slo_burn:ratio_rate{window}",
            f"{grown('misses', window)} / {grown(ALLOWED_MISSES, window)}",
            f"Error budget spent over error budget earned, {window}: 1 is what the target allows.",
        )
        for window in ("2m", "5m", "30m", "6h")
    ),
    Record(
        "lane:llm_slo_miss:ratio_rate5m",
        f"{grown('misses', '5m')} / {grown(JUDGED, '5m')}",
        "Share of the requests that missed, 5m.",
    ),
    Record("lane:llm_slo_misses:increase30m", grown("misses", "30m"), "Misses, 30m."),
)
"""For dashboards, messages and diagnosis; no tier reads them."""
