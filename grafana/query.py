"""PromQL as it is written in this folder, and as it stands in a dashboard: every selector gets the variables that its labels allow.

Knows which labels a metric carries (the catalogue) and which a recorded series keeps (the level in its name). Refuses to know panels.
Writing `llm_requests_total{outcome="ok"}` here means the requests of the chosen namespaces, pods, models, lanes and lengths;
nobody can forget one. The tests parse what came out with a real parser and find every variable again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Histogram


VARIABLES = ("namespace", "pod", "model", "lane", "prompt_bucket")
"""Labels that a dashboard's variables choose from; each variable is called like its label."""
WHO = "namespace, model, lane"
POD = "namespace, pod"

LEVELS: Mapping[str, tuple[str, ...]] = {
    "lane": ("namespace", "model", "lane"),
    "pod": ("namespace", "pod", "model"),
}
"""What a recorded series still carries, by the level that its name begins with. None of them carries the prompt bucket."""

_NAME = re.compile(r"(?<![\w:$])((?:llm_|process_|(?:lane|pod):llm_)[\w:]*)(\{[^}]*\})?")
_WORDS = {"WHO": WHO, "POD": POD}


def _labels() -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for metric in CATALOGUE:
        names = {label.name for label in metric.labels}
        suffixes = ("_bucket", "_sum", "_count") if isinstance(metric, Histogram) else ("",)
        known |= {metric.name + suffix: names for suffix in suffixes}
    return known


_OWN_LABELS = _labels()


def variables_of(series: str) -> tuple[str, ...]:
    """The variables that a selector of this series has to honour. Raises KeyError for a series that nobody exposes or records."""
    if ":" in series:
        return LEVELS[series.split(":", 1)[0]]
    own = set() if series.startswith("process_") else _OWN_LABELS[series]
    return tuple(name for name in VARIABLES if name in {"namespace", "pod"} | own)


def promql(text: str, *, without: tuple[str, ...] = ()) -> str:
    """A query in full. `[R]` is the rate interval, `[W]` the whole time shown, WHO and POD the two usual groupings.

    `without`: variables that this query must not obey, because it compares with the others.
    """

    def selector(match: re.Match[str]) -> str:
        chosen = [f'{name}=~"${name}"' for name in variables_of(match[1]) if name not in without]
        own = (match[2] or "{}")[1:-1]
        return f"{match[1]}{{{','.join([*chosen, *([own] if own else [])])}}}"

    text = " ".join(text.split()).replace("[R", "[$__rate_interval").replace("[W", "[$__range")
    text = re.sub(r"\b(WHO|POD)\b", lambda match: _WORDS[match[1]], text)
    return _NAME.sub(selector, text)


@dataclass(frozen=True, slots=True)
class Query:
    """One target of a panel. `text` is completed by `promql`."""

    text: str
    legend: str = ""
    """Of a line: `{{lane}} p99`. In a table: the column's name."""
    unit: str = ""
    """Where it differs from the panel's."""
    exemplars: bool = False
    without: tuple[str, ...] = ()
    colours: tuple[tuple[float, str], ...] = ()
    """In a table: from which value on the cell has which colour."""

    @property
    def expr(self) -> str:
        """As Grafana sends it, variables still in it."""
        return promql(self.text, without=self.without)


LANE = "{{lane}} ({{model}} {{namespace}})"
"""Who a line is about, where it is about a lane: the lane first, because legends are cut at their end."""
ENGINE_OF = "({{model}} {{namespace}} {{job}})"
"""The engine of a recorded series of a lane."""


def quantiles(
    histogram: str,
    *,
    by: str = "WHO",
    legend: str = LANE,
    selector: str = "",
    of: tuple[float, ...] = (0.5, 0.95, 0.99),
    exemplars: bool = False,
) -> tuple[Query, ...]:
    """Quantiles of a histogram over the rate interval, one target each; never across lanes unless `by` says so."""
    return tuple(
        Query(
            f"histogram_quantile({q}, sum by ({by}, le) (rate({histogram}_bucket{selector}[R])))",
            f"p{q * 100:g} {legend}",
            exemplars=exemplars,
        )
        for q in of
    )


def mean(histogram: str, *, by: str = "WHO", selector: str = "", legend: str = LANE) -> Query:
    """The mean of a histogram: sums over counts, so that it may be compared and added."""
    return Query(
        f"sum by ({by}) (rate({histogram}_sum{selector}[R])) / sum by ({by}) (rate({histogram}_count{selector}[R]))",
        legend,
    )


def share(part: str, whole: str, *, by: str = "WHO", legend: str = LANE) -> Query:
    """One counter over another; no traffic is no number."""
    return Query(f"sum by ({by}) (rate({part}[R])) / sum by ({by}) (rate({whole}[R]))", legend)


def rates(counter: str, *, by: str = "WHO", legend: str = LANE) -> Query:
    """Events a second."""
    return Query(f"sum by ({by}) (rate({counter}[R]))", legend)


def gauge(name: str, *, by: str = "POD", legend: str = "{{pod}} {{namespace}}", how: str = "max") -> Query:
    """A gauge, aggregated."""
    return Query(f"{how} by ({by}) ({name})", legend)
