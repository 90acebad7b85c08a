"""Writes docs/metrics.md from the catalogue.

Knows how to write a declaration as a row. The prose around the rows stands here too, so that the page has one source.
"""

from sidecar.metrics.catalogue import CATALOGUE, LEAN, series_ceiling, series_in_use
from sidecar.metrics.declaration import SERIES_LIMIT, Label, Metric, Sizes
from tools.markdown import row, table


_LANES, _BUCKETS, _MODELS = 2, 6, 2
"""Label values under the default config with an engine of one model, fallback values included."""

_BEFORE = """# Metrics

<!-- Written by `make docs`; a test holds the page to the code. -->

`/metrics` on the admin port (default 9901) answers in Prometheus text 0.0.4, or in OpenMetrics 1.0 with exemplars where
the scraper prefers it (Prometheus does), gzipped where accepted; with `web.native_histograms` also as protobuf. Durations are seconds. An inference request is a POST on
a generating path of a known API; all other requests are counted in `llm_passthrough_requests_total`.

- **Unknown is never zero.** A gauge without a value is not on the page. A phase that no source can tell is absent, and
  its time is in `phase="unattributed"`.
- **Populations.** Phase and whole-request histograms hold requests with `outcome="ok"`; time to first token holds every
  streamed request that got a token. Each HELP text names its population.
- **Phases add up** to `llm_request_seconds`, request by request. Means (`_sum / _sum`) add up too; quantiles do not.
- **Alerts read counters and gauges**, and no histogram: a native one has no `_bucket`, `_sum` and `_count`. Where an alert needs
  what a histogram observes, a counter says it too.
- **(lean)** stands behind what `metrics.profile: lean` shows too, summed over `prompt_bucket`; [sizing.md](sizing.md#series) says why.
- **Constant labels** `quantization` and `gpu_type` are on every series except those of `llm_sidecar_`. Their values do
  not change while the process lives.
- **Closed labels.** No value that a client sends becomes a label: a value outside a label's set is counted under the
  label's fallback (`other`; `unknown` for the prompt bucket) and in `llm_sidecar_label_overflow_total`.

## `rate()` and the first event

A counter that appears with the value 1 has, for Prometheus, not grown. So every counter that a rule may read is on the
page at 0 from the start, for every lane, prompt bucket, outcome and reason of its sets, and for every model from the
moment that the engine has stated its list. An engine that describes itself without a list, and `engine.kind: none`, have one model,
`other`.

In all other cases the series of a lane or a model `other` appear once there was a request under it, such as before the engine has
stated its list, and those that a rule may read then begin at 0 beside it, in all combinations; growth of `other` before the first scrape of it is not seen by `rate()`.

A histogram's children appear
with their first observation, because all of them at 0 would be ten thousand empty series, and so do those of most counters of a lane that no
rule reads. (What is seldom, such as pauses or late tokens, appears at 0 with the first stream.) So `rate()` misses the first observation of
a new combination and sees all later ones. Do not build an alert on the first request of a histogram's child; use
`llm_requests_total` for that.

## How many series

A histogram's child has one series per finite edge and three more. The columns hold for the default config in front of an
engine with one model (2 lanes, 6 prompt buckets, 2 model values, fallbacks counted): *ceiling* is the most that
can be reached, *full use* what a pod has in which each lane carries streams of each model and each prompt length, the engine reports
on each request, each lane has all three objectives, and nothing lands in `other`. The
combinations of `streaming`, `phase` and `source` are those that the ledger can produce, not the product of the sets.
`sidecar check` prints both sums for your config. In every case the process holds at most `metrics.series_limit`
series (default {limit:,}): a child beyond that is counted under its fallbacks, and as `label="series"` in the overflow counter.

With L lanes, M models and B prompt lengths (the edges and one more; no fallbacks counted), full use is the sum of these rows. A lane with fewer
objectives has less of the second column, in proportion. A lane that is answered in both ways, streamed and not, has {whole} series
more for each model and prompt length; one of whose requests only some are reported has further sources.

{formula}
"""


_HEAD = """| metric | type | labels | meaning | ceiling | full use |
|---|---|---|---|---:|---:|
"""

_AFTER = """
## Also on the page

`process_*` and, unless lean, `python_*`, as in every Python exporter, written by prometheus_client.

## Limits on the scraper's side

```yaml
scrape_configs:
  - job_name: llm-phase-sidecar
    sample_limit: 60000
    label_value_length_limit: 300
    body_size_limit: 16MB
```
"""


def page() -> str:
    """The whole page."""
    sizes = Sizes(_LANES, _BUCKETS, _MODELS)
    ceiling, used = series_ceiling(_LANES, _BUCKETS, _MODELS), series_in_use(_LANES, _BUCKETS, _MODELS)
    before = _BEFORE.format(limit=SERIES_LIMIT, whole=_not_streamed(), formula=_formula())
    parts = [before, f"\nIn sum: ceiling {ceiling:,}, full use {used:,}.\n"]
    for title, prefix in (("Requests", "llm_"), ("The engine", "llm_engine_"), ("The sidecar itself", "llm_sidecar_")):
        parts.append(f"\n## {title}\n\n{_HEAD}")
        parts.extend(_row(metric, sizes) for metric in CATALOGUE if _chapter(metric) == prefix)
    edges = ((f"`{metric.name}`", _edges(metric)) for metric in CATALOGUE if metric.buckets)
    parts.append(f"\n## Labels\n\n{table(('label', 'values'), _labels())}")
    parts.append(f"\n## Edges\n\n{table(('metric', 'edges'), edges)}")
    parts.append(_AFTER)
    return "".join(parts)


def _chapter(metric: Metric) -> str:
    if metric.name == "llm_engine_connect_seconds":
        return "llm_"  # a phase of a request's life, whatever its name begins with
    return next(prefix for prefix in ("llm_sidecar_", "llm_engine_", "llm_") if metric.name.startswith(prefix))


def _row(metric: Metric, sizes: Sizes) -> str:
    labels = ", ".join(f"`{label.name}`" for label in metric.labels) or "none"
    series = metric.series(sizes)
    used = round(metric.in_use(sizes, 1.0))
    lean = " (lean)" if metric in LEAN else ""
    return row((f"`{metric.name}`{lean}", metric.kind, labels, metric.help, f"{series:,}", f"{used:,}"))


def _formula() -> str:
    """Full use as a sum: what multiplies, the series of each such combination, and those of them that count objectives."""
    letters = {"lane": "L", "model": "M", "prompt_bucket": "B"}
    rows: dict[tuple[str, ...], list[float]] = {}
    for metric in CATALOGUE:
        found = {letters[label.name] for label in metric.labels if label.name in letters}
        told = tuple(letter for letter in letters.values() if letter in found)
        if "B" in found and not metric.buckets:  # its bucket `unknown` begins at 0
            told = (*told[:-1], "(B + 1)")
        row_of = rows.setdefault(told, [0, 0])
        series = metric.in_use(Sizes(2, 1 + bool(metric.buckets), 2), 1.0)
        row_of[0] += series
        row_of[1] += series if "objective" in {label.name for label in metric.labels} else 0
    lines = (
        (" x ".join(times) or "1", f"{series:,.0f}", f"{aimed:,.0f}")
        for times, (series, aimed) in sorted(rows.items(), key=lambda row: (len(row[0]), row[0]))
    )
    return table(("times", "series", "of them for objectives"), lines)


def _not_streamed() -> int:
    """The series of a model, lane and prompt length that are answered whole, by an engine that reports."""
    whole = {"llm_request_seconds": 1, "llm_request_phase_seconds": 4}
    return sum(metric.series_per_child * whole.get(metric.name, 0) for metric in CATALOGUE)


def _labels() -> list[tuple[str, str]]:
    rows: dict[str, list[str]] = {}
    for metric in CATALOGUE:
        for label in metric.labels:
            said = _values(label)
            if said not in rows.setdefault(label.name, []):
                rows[label.name].append(said)
    return [(f"`{name}`", "; or: ".join(sets)) for name, sets in rows.items()]


def _values(label: Label) -> str:
    if label.values:
        return ", ".join(f"`{value}`" for value in label.values)
    return f"from {label.told_by}; else `{label.fallback}`"


def _edges(metric: Metric) -> str:
    return " ".join(f"{edge:g}" for edge in metric.buckets)
