"""PromQL that reads a histogram in whichever form Prometheus has stored it: classic, or native. Pure: text in, text out.

Knows that a classic histogram has the series `_sum`, `_count` and `_bucket`, and that a native one has none of them and is read
by functions, which Prometheus has from 2.40 on; there a fleet without native histograms costs nothing more. VictoriaMetrics does not know
`histogram_sum` and `histogram_count` and refuses a query that has them: for it `classic_only` takes the native half away. The pods
of one fleet may have different forms, so both are asked for; one series of a process tells which form it has. Refuses to know which
metrics are asked for, and why.
"""

import re
from collections.abc import Mapping

from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.self_metrics import EVENT_LOOP_LAG_SECONDS
from sidecar.metrics.target_labels import ONE_PROCESS


SAMPLES_NEEDED: Mapping[float, int] = {0.1: 50, 0.5: 20, 0.95: 100, 0.99: 500}
"""Quantile to the samples that it needs at least: five on its far side, ten for the middle. A p99 of thirty requests is their maximum."""

OF_EACH_PROCESS = EVENT_LOOP_LAG_SECONDS.name
"""A histogram that each process has once, from its start on. It tells the form of all, because one scrape stores all in the same form."""
_ONE_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"')
_HISTOGRAMS = "|".join(metric.name for metric in CATALOGUE if isinstance(metric, Histogram))
_SUM_OR_COUNT = re.compile(rf"(?<![\w:])({_HISTOGRAMS})_(sum|count)(?![\w:])")


def of_any_form(asked: str) -> str:
    """PromQL for the same of a native histogram too, where `asked` reads the `_sum` or the `_count` of one, once.

    `asked`: a selector, or a function of its range, such as `rate(llm_request_seconds_sum{lane="chat"}[5m])`. A pod whose
    histogram is stored in both forms is read once. PromQL that reads no histogram comes back as it is. An `or` stands outermost, so
    the whole belongs into parentheses.
    """
    found = _SUM_OR_COUNT.search(asked)
    if found is None:
        return asked
    return f"{asked} or histogram_{found[2]}({asked.replace(found[0], found[1])})"


def buckets(histogram: str, matchers: str, window: str, function: str = "increase") -> str:
    """PromQL for the classic buckets of pods that have no native histograms. `matchers`: `{...}` or nothing; `window`: without brackets."""
    return f"{function}({histogram}_bucket{matchers}[{window}]) {_unless_native(matchers, window)}"


def _unless_native(matchers: str, window: str) -> str:
    """PromQL that leaves out the processes whose histograms are stored natively.

    One series of each process tells it. The native form of what is left out tells it too, but to read that takes longer than the
    quantile itself: it has a series for each lane, length and phase, and 2.42 decodes every bucket of every sample.
    """
    own = ",".join(found[0] for found in _ONE_MATCHER.finditer(matchers) if found[1] in ONE_PROCESS)
    return f"unless on ({', '.join(ONE_PROCESS)}) increase({OF_EACH_PROCESS}{f'{{{own}}}' if own else ''}[{window}])"


def quantile(
    of: float,
    histogram: str,
    window: str,
    *,
    by: str = "",
    matchers: str = "",
    function: str = "rate",
    at_least: int = 0,
) -> str:
    """PromQL for a quantile by these labels, ", " between them; the higher of two where some pods have one form and others the other.

    Two forms are not one histogram, and the quantile of all lies between those of both. Of a pod that is stored in both forms the native
    one is read, which is the more exact. `matchers`: `{...}` or nothing. `window`: without brackets. `at_least`: a form with fewer
    samples in the window has no quantile.
    """
    read = f"{function}({histogram}{matchers}[{window}])"
    grouped = f" by ({by}) " if by else ""
    edges = f"sum by ({by}{', ' if by else ''}le) ({buckets(histogram, matchers, window, function)})"
    classic = f"histogram_quantile({of}, {edges})"
    native = f"histogram_quantile({of}, sum{grouped}({read}))"
    if at_least:
        grown = f"increase({histogram}{matchers}[{window}])"
        counted = f"sum{grouped}(increase({histogram}_count{matchers}[{window}]) {_unless_native(matchers, window)})"
        classic += f" and on ({by}) {counted} >= {at_least}"
        native += f" and on ({by}) sum{grouped}(histogram_count({grown})) >= {at_least}"
    # Without a label of its own, the native one would stand in the place of the classic one.
    return f'max{grouped}({classic} or label_replace({native}, "form", "native", "", ""))'


# The matchers, the range and the offset of a selector, however its label values are written; a selector; and a function of it.
_ASKED = r'(?:\{(?:[^}"]|"(?:[^"\\]|\\.)*")*\})?(?:\[[^\]]*\])?(?: offset \w+)?'
_SELECTOR = rf"\w+{_ASKED}"
_READ = rf"(?:rate|increase)\({_SELECTOR}\)"
_SUM_BY = r"sum(?: by \([^)]*\) )?"
_ENOUGH = rf" and on \([^)]*\) {_SUM_BY}\(histogram_count\({_READ}\)\) >= \d+"
_NATIVE = re.compile(
    "|".join((
        rf" or histogram_(?:sum|count)\((?:{_READ}|{_SELECTOR})\)",
        rf" unless on \({', '.join(ONE_PROCESS)}\) increase\({OF_EACH_PROCESS}{_ASKED}\)",
        rf' or label_replace\(histogram_quantile\([\d.]+, {_SUM_BY}\({_READ}\)\)(?:{_ENOUGH})?, "form", "native", "", ""\)',
    ))
)  # fmt: skip


def classic_only(promql: str) -> str:
    """PromQL of this module without what it reads of native histograms: for a server that refuses their functions."""
    return _NATIVE.sub("", promql)
