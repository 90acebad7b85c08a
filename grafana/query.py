"""PromQL as it is written in this folder, and as it stands in a dashboard: every selector gets the variables that its labels allow.

Knows which labels a metric carries (the catalogue) and which a recorded series keeps (the level in its name). Refuses to know panels.
Writing `llm_requests_total{outcome="ok"}` here means the requests of the chosen namespaces, pods, models, lanes and lengths;
none is forgotten. The tests parse what came out with a real parser and find every variable again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.commands.export.rules.dashboard_rules import (
    BUDGET_DAYS,
    LANE_OF,
    NOW,
    budget_name,
    process_name,
    quantile,
    quantile_name,
    rate_name,
    rates_of,
    samples,
    samples_name,
)
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED, buckets, of_any_form
from sidecar.metrics.target_labels import CLUSTER


VARIABLES = (CLUSTER, "namespace", "pod", "model", "lane", "prompt_bucket")
"""Labels that a dashboard's variables choose from; each variable is called like its label."""
WHO = f"{CLUSTER}, namespace, model, lane"
POD = f"{CLUSTER}, namespace, pod"
COMPUTED = "computed"
"""The variable that says which jobs' raw series are read where a recorded one could be: `.*`, or a pattern that matches none."""
_RAW, _STORED = f'job=~"${COMPUTED}"', f'job!~"${COMPUTED}"'

LEVELS: Mapping[str, tuple[str, ...]] = {
    "instance": (CLUSTER, "namespace", "pod", "model", "lane"),
    "job": (CLUSTER, "namespace"),
    "lane": (CLUSTER, "namespace", "model", "lane"),
    "pod": (CLUSTER, "namespace", "pod", "model"),
}
"""Labels that a recorded series still carries, by the level that its name begins with. None of them carries the prompt bucket."""

_NAME = re.compile(r"(?<![\w:$])((?:llm_|process_|(?:instance|job|lane|pod):llm_)[\w:]*)(\{[^}]*\})?")
_WORDS = {"WHO": WHO, "POD": POD}


def _labels() -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for metric in CATALOGUE:
        names = {label.name for label in metric.labels}
        suffixes = ("", "_bucket", "_sum", "_count") if isinstance(metric, Histogram) else ("",)
        known |= {metric.name + suffix: names for suffix in suffixes}
    return known


_OWN_LABELS = _labels()


def variables_of(series: str) -> tuple[str, ...]:
    """The variables that a selector of this series has to honour. Raises KeyError for a series that is neither exposed nor recorded."""
    if ":" in series:
        return LEVELS[series.split(":", 1)[0]]
    own = set() if series.startswith("process_") else _OWN_LABELS[series]
    return tuple(name for name in VARIABLES if name in {CLUSTER, "namespace", "pod"} | own)


def promql(text: str, *, without: tuple[str, ...] = ()) -> str:
    """A query in full. `[R]` is the rate interval, `[W]` the whole time shown, `[N]` the last minutes (`NOW`), WHO and POD the two
    usual groupings.

    `without`: variables that this query must not obey, because it compares with the others.
    """

    def selector(match: re.Match[str]) -> str:
        chosen = [f'{name}=~"${name}"' for name in variables_of(match[1]) if name not in without]
        own = (match[2] or "{}")[1:-1]
        return f"{match[1]}{{{','.join([*chosen, *([own] if own else [])])}}}"

    text = " ".join(text.split()).replace("[R", "[$__rate_interval").replace("[W", "[$__range")
    text = text.replace("[N", f"[{NOW}")
    text = re.sub(r"\b(WHO|POD)\b", lambda match: _WORDS[match[1]], text)
    return _NAME.sub(selector, text)


@dataclass(frozen=True, slots=True)
class Query:
    """One target of a panel. `text` is completed by `promql`."""

    text: str
    legend: str = ""
    """The name of a line: `{{lane}} p99`. In a table: the column's name."""
    unit: str = ""
    """The unit, where it differs from the panel's."""
    exemplars: bool = False
    dashed: bool = False
    """Beside a line of the same name: dashed, in its colour, and without a row in the legend."""
    counts: bool = False
    """The samples behind a quantile: a number in the tooltip, no line, and no row in the legend. Its unit says that it counts samples."""
    without: tuple[str, ...] = ()
    colours: tuple[tuple[float, str], ...] = ()
    """In a table: from which value on the cell has which colour."""
    decimals: int | None = None
    """In a table, where it differs from what Grafana chooses."""
    folded: str = "firstNotNull"
    """In a table with `rows_by`: the number that stands in a row for several: that of the worst, or Grafana's `max` or `min`."""
    ranges: tuple[tuple[float, float, str, str], ...] = ()
    """In a tile or a table: a number from here to there (both included) is this word, in this colour; the first that fits."""

    @property
    def expr(self) -> str:
        """As Grafana sends it, variables still in it."""
        return promql(self.text, without=self.without)


LANE, PODS_NAME = "{{lane}}", "{{pod}}"
"""A line's name is the lane's or the pod's bare name, because its colour follows from its name: the same on every dashboard."""


def either(recorded: str, computed: str, matchers: str = "") -> str:
    """A series of the optional rule file where that is loaded, else the expression that it was recorded from.

    The selectors of `computed` have the matchers of `measured`. Prometheus evaluates both sides of an `or`; so the variable
    `computed` (surroundings.py) matches every job on one side and none on the other, and what is not drawn reads nothing.
    """
    return f"({recorded}{_braces(matchers, _STORED)} or {computed})"


def measured(matchers: str = "") -> str:
    """The matchers of a raw series that stands beside a recorded one, in braces."""
    return _braces(matchers, _RAW)


def _braces(*matchers: str) -> str:
    return f"{{{','.join(filter(None, matchers))}}}"


def quantile_of(of: float, histogram: str, *, matchers: str = "", by: str = "") -> str:
    """A lane's quantile of the last minutes (`NOW`) where its samples carry it, else nothing; the slowest of several models, jobs or
    namespaces.

    `by`: labels beside the lane's that `matchers` name.
    """
    labels = f"{LANE_OF}, {by}" if by else LANE_OF
    computed = quantile(of, histogram, by=labels, matchers=measured(matchers))
    return f"max by (lane) {either(quantile_name(of, histogram), computed, matchers)} >= 0"


def over_range(of: float, histogram: str, *, by: str, selector: str = "") -> str:
    """The same over the whole time shown, as one number: for tables."""
    return quantile(of, histogram, by=by, matchers=selector, window="$__range", function="increase")


def lane_quantile(histogram: str, *, of: float = 0.95, matchers: str = "", by: str = "") -> Query:
    """One line for each lane."""
    return Query(quantile_of(of, histogram, matchers=matchers, by=by), LANE, exemplars=True)


def samples_behind(histogram: str, *, of: float = 0.95, matchers: str = "", by: str = "", legend: str = LANE) -> Query:
    """The samples that a lane's quantile stands on: of several models, jobs or namespaces, the fewest of those that are enough for it.
    Both forms together: in a fleet of both the number may stand alone, as each form needs enough for its quantile.
    """
    labels = f"{LANE_OF}, {by}" if by else LANE_OF
    counted = either(samples_name(histogram), samples(histogram, by=labels, matchers=measured(matchers)), matchers)
    return Query(f"min by (lane) ({counted} >= {SAMPLES_NEEDED[of]}) > 0", legend, counts=True)


def promised(objective: str, histogram: str, of: float = 0.95) -> Query:
    """The threshold of each lane with enough samples, of both forms together, dashed and in the lane's colour: the most relaxed of its
    prompt lengths. In a fleet of both forms it may stand alone: each form needs enough for its quantile.
    """
    counted = either(samples_name(histogram), samples(histogram, by=LANE_OF, matchers=measured()))
    return Query(
        f'max by (lane) (llm_slo_threshold_seconds{{objective="{objective}"}})'
        f" and on (lane) max by (lane) {counted} >= {SAMPLES_NEEDED[of]}",
        LANE,
        dashed=True,
    )


def rate_of(part: str, *, matchers: str, by: str) -> str:
    """A second's growth of a `_sum` or `_count` over what is chosen, of the last minutes (`NOW`). `by`: labels that `matchers` name."""
    computed = rates_of(part, by=f"{LANE_OF}, {by}", matchers=measured(matchers))
    return f"sum{either(rate_name(part), computed, matchers)}"


def pod_mean(histogram: str, *, by: str) -> str:
    """The mean of a histogram over the whole time shown, by pod."""
    total, count = (grown(f"{histogram}_{part}", by=by) for part in ("sum", "count"))
    return f"{total} / {count} >= 0"


def grown(part: str, *, by: str, matchers: str = "") -> str:
    """The growth of a counter, `_sum` or `_count` over the whole time shown, by pod."""
    recorded, raw = (
        summed(f"increase({name}[W])", by=by)
        for name in (f"{process_name(part)}{_braces(matchers, _STORED)}", f"{part}{measured(matchers)}")
    )
    return f"({recorded} or {raw})"


def over_the_budget(counter: str, *, by: str) -> str:
    """Misses, or allowed ones, of the days of a budget (`BUDGET_DAYS`).

    `counter`: `misses` or `allowed_misses`. What is recorded is of an hour, and summed hour by hour.
    """
    recorded = f"sum by ({by}) (sum_over_time({budget_name(counter)}{_braces(_STORED)}[{BUDGET_DAYS}d:1h]))"
    return f"({recorded} or sum by ({by}) (increase(llm_slo_{counter}_total{measured()}[{BUDGET_DAYS}d])))"


def summed(asked: str, *, by: str = "") -> str:
    """A sum by these labels. `asked`: a function of a range of one counter, `_sum` or `_count`; the histogram may be a native one."""
    return f"sum{f' by ({by}) ' if by else ''}({of_any_form(asked)})"


def mean_of(histogram: str, *, by: str, matchers: str = "", ago: str = "") -> str:
    """The mean of a histogram over the whole time shown. `ago`: nothing, or such as ` offset 1w`."""
    total, count = (summed(f"increase({histogram}_{part}{matchers}[W]{ago})", by=by) for part in ("sum", "count"))
    return f"{total} / {count} >= 0"


def distribution(histogram: str) -> tuple[Query, Query]:
    """A heatmap's queries: the first finds classic histograms, the second native ones. A pod that has both forms is in the second alone."""
    return (
        Query(f"sum by (le) ({buckets(histogram, '', 'R')})", "{{le}}", exemplars=True),
        Query(f"sum(increase({histogram}[R]))", exemplars=True),
    )


def share(part: str, whole: str, *, by: str = "lane", legend: str = LANE) -> Query:
    """One counter over another; no traffic is no number."""
    return Query(f"sum by ({by}) (rate({part}[R])) / sum by ({by}) (rate({whole}[R])) >= 0", legend)


def rates(counter: str, *, by: str = "lane", legend: str = LANE) -> Query:
    """Events a second, without the children that stand at 0."""
    return Query(f"sum by ({by}) (rate({counter}[R])) > 0", legend)


def gauge(name: str, *, by: str = "pod", legend: str = PODS_NAME, how: str = "max") -> Query:
    """A gauge, aggregated, where it is not 0."""
    return Query(f"{how} by ({by}) ({name}) > 0", legend)


def state(name: str, *, by: str = "pod", legend: str = PODS_NAME, how: str = "max") -> Query:
    """A gauge whose 0 is a word too."""
    return Query(f"{how} by ({by}) ({name})", legend)
