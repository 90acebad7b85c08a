"""The text of a page, Prometheus text 0.0.4 and OpenMetrics 1.0 alike: every series of the registry, in slices of bounded length.

Both formats write samples alike (edges as `1.0`, counters with `_total`), so one rendering serves both; they differ in heads
and in exemplars. Everything but the numbers is a template that a child keeps, because that is nine tenths of the work. One child's
lines always stand in one slice, so a histogram on the page is consistent in itself (`_count` is the +Inf bucket). Refuses to know
which families stand on the page, and who asks.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from sidecar.metrics.children import Child, Exemplar, HistogramChild
from sidecar.metrics.declaration import Metric
from sidecar.metrics.lean_page import LeanFamily
from sidecar.metrics.registry import Family, Metrics


SLICE_BYTES = 16_384
"""A slice ends once it has so many bytes: rendering and gzipping them takes about 0.2 ms; one child at most 8 KiB."""
_OPENMETRICS_UNITS = ("seconds", "ratio")


def slices(
    metrics: Metrics, *, openmetrics: bool, at: float, families: Iterable[Family[Any] | LeanFamily] | None = None
) -> Iterator[bytes]:
    """The registry's part of the page, in steps of bounded length; `at` is the monotonic instant of the scrape.

    `families`: those on the page; None: all of the registry.
    """
    metrics.refresh(at)
    parts: list[bytes] = []
    size = 0
    for family in metrics.families if families is None else families:
        metric = family.metric
        parts.append(head(metric, openmetrics=openmetrics))
        size += len(parts[-1])
        # A copy: children may be added between two slices.
        children: list[Child] = list(family.children.values())
        for child in children:
            lines = rendered(metric, metrics.constants, child)
            if openmetrics and isinstance(child, HistogramChild) and child.exemplars:
                lines = with_exemplars(lines, child.exemplars)
            parts.append(lines)
            size += len(lines)
            if size >= SLICE_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
    if parts:
        yield b"".join(parts)


def head(metric: Metric, *, openmetrics: bool) -> bytes:
    """HELP and TYPE of one family. OpenMetrics drops a counter's `_total`, an info's `_info`, and adds UNIT."""
    name, kind = metric.name, metric.kind
    if openmetrics:
        ending = {"counter": "_total", "info": "_info"}.get(kind, "")
        name = name.removesuffix(ending)
    elif kind == "info":
        kind = "gauge"
    unit = next((f"# UNIT {name} {unit}\n" for unit in _OPENMETRICS_UNITS if name.endswith(f"_{unit}")), "")
    return f"# HELP {name} {metric.help}\n# TYPE {name} {kind}\n{unit if openmetrics else ''}".encode()


def rendered(metric: Metric, constants: Mapping[str, str], child: Child) -> bytes:
    """All lines of one child, from its cache if nothing was written since. Empty for a gauge without a value."""
    if child.constants is not constants:
        child.constants = constants
        child.template = child.rendered = None
    if child.rendered is not None:
        return child.rendered
    if child.template is None:
        child.template = _template(metric, constants, child)
    if isinstance(child, HistogramChild):
        counts = tuple(accumulate(child.counts))
        child.rendered = child.template % (*counts, counts[-1], number(child.sum))
    else:
        child.rendered = b"" if child.value is None else child.template % number(child.value)
    return child.rendered


def with_exemplars(lines: bytes, exemplars: Mapping[int, Exemplar]) -> bytes:
    """A histogram's lines with its exemplars, as OpenMetrics writes them behind a bucket."""
    each = lines.split(b"\n")
    for index, (trace_id, value, at_unix) in exemplars.items():
        stamp = b"" if at_unix is None else b" %.3f" % at_unix
        each[index] += b' # {trace_id="%b"} %b%b' % (trace_id.encode(), number(value), stamp)
    return b"\n".join(each)


MOST_WHOLE = 10**15
"""Beyond it, a whole number is written as repr does."""


def number(value: float) -> bytes:
    """A value as both formats write it."""
    if value != value:  # noqa: PLR0124  NaN
        return b"NaN"
    if value in (float("inf"), float("-inf")):
        return b"+Inf" if value > 0 else b"-Inf"
    whole = int(value)  # as text, 3 and 3.0 and True are 1 number
    return b"%d" % whole if whole == value and -MOST_WHOLE < whole < MOST_WHOLE else repr(value).encode()


def _template(metric: Metric, constants: Mapping[str, str], child: Child) -> bytes:
    pairs = [_pair(name, value) for name, value in metric.pairs(constants, child.labels)]
    if not isinstance(child, HistogramChild):
        return f"{metric.name}{_braces(pairs)} %b\n".encode("utf-8", "replace")
    buckets = "".join(
        f"{metric.name}_bucket{_braces([*pairs, _pair('le', edge)])} %d\n"
        for edge in (*(repr(float(bound)) for bound in child.bounds), "+Inf")
    )
    return (f"{buckets}{metric.name}_count{_braces(pairs)} %d\n{metric.name}_sum{_braces(pairs)} %b\n").encode(
        "utf-8", "replace"
    )


def _pair(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'{name}="{escaped}"'


def _braces(pairs: Iterable[str]) -> str:
    inside = ",".join(pairs)
    return f"{{{inside}}}" if inside else ""
