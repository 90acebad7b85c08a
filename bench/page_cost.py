"""Compares what a scrape costs in each format: CPU of one whole page of 10,000 series, and of its longest slice.

The registries are filled alike: 200 observations in each histogram, spread as latencies are and counted 500 times, as in a pod of
some hours; an exemplar in one bucket; and another observation before each page, so that no histogram is cached. The formats take turns, each with gzip and without; the
medians of the pairs decide. Exit code 1 if a protobuf page costs more CPU than OpenMetrics, or has a slice above 1 ms.
Run: `.venv/bin/python -m bench.page_cost`.
"""

import argparse
import random
import statistics
import sys
import time
import zlib
from array import array
from collections.abc import Iterable

from bench.exposition import filled
from sidecar.metrics import catalogue as c
from sidecar.metrics.children import HistogramChild
from sidecar.metrics.declaration import NativeForm
from sidecar.metrics.exposition import Pages
from sidecar.metrics.negotiation import Format
from sidecar.metrics.registry import Metrics


LONGEST_SLICE_MS = 1.0
FORMS: tuple[tuple[str, NativeForm, Format], ...] = (
    ("OpenMetrics", "off", Format.OPENMETRICS),
    ("protobuf, beside", "beside", Format.PROTOBUF),
    ("protobuf, only", "only", Format.PROTOBUF),
)
"""The first is what the others are compared with."""


def observed(metrics: Metrics, rng: random.Random, each: int) -> None:
    """So many more observations in each histogram, around a centre of its own."""
    for number, child in enumerate(_phases(metrics)):
        centre = random.Random(number).uniform(-4, 1)
        for _ in range(each):
            child.observe(rng.lognormvariate(centre, 0.5))


def aged(metrics: Metrics, times: int) -> None:
    """Each histogram as after so many times its observations: a number that is rare on a young page is usual on an old one."""
    for child in _phases(metrics):
        child.counts = [count * times for count in child.counts]
        child.sum *= times
        if child.native is not None:
            child.native.counts = array("I", [count * times for count in child.native.counts])
            child.native.zeros *= times


def _phases(metrics: Metrics) -> Iterable[HistogramChild]:
    return metrics.histogram(c.REQUEST_PHASE_SECONDS).children.values()


def page(pages: Pages, form: Format, *, gzip: bool) -> tuple[float, float, int]:
    """CPU of one page in ms, of its longest slice in ms, and its bytes. As the listener writes it, but for the socket."""
    squeeze = zlib.compressobj(level=1, wbits=31) if gzip else None
    longest = 0.0
    size = 0
    began = before = time.thread_time()
    for part in pages.slices(form, at=0.0):
        size += len(squeeze.compress(part) if squeeze else part)
        now = time.thread_time()
        longest, before = max(longest, now - before), now
    size += len(squeeze.flush()) if squeeze else 0
    return (time.thread_time() - began) * 1e3, longest * 1e3, size


def main(series: int, repeats: int, observations: int, times: int) -> int:
    rng = random.Random(1)
    registries = [(name, filled(series, native_histograms=native), form) for name, native, form in FORMS]
    writers = [(name, metrics, Pages(metrics), form) for name, metrics, form in registries]
    for _, metrics, _ in registries:
        observed(metrics, rng, 200)
        aged(metrics, times)
    print(f"{registries[0][1].series:,} series in their classic form, medians of {repeats} turns, ms of CPU")
    failed = False
    for gzip in (False, True):
        found: dict[str, list[tuple[float, float, int]]] = {name: [] for name, _, _ in FORMS}
        for turn in range(-2, repeats):  # the first two make templates
            for name, metrics, pages, form in writers if turn % 2 else reversed(writers):
                observed(metrics, rng, observations)
                taken = page(pages, form, gzip=gzip)
                if turn >= 0:
                    found[name].append(taken)
        base = found[FORMS[0][0]]
        for name, each in found.items():
            ratio = statistics.median(mine[0] / theirs[0] for mine, theirs in zip(each, base, strict=True))
            whole, longest = (statistics.median(one[place] for one in each) for place in (0, 1))
            bad = each is not base and (ratio > 1 or longest > LONGEST_SLICE_MS)
            failed |= bad
            what = f"{name}{', gzip' if gzip else ''}"
            print(
                f"{what:>24}: page {whole:6.2f} ({ratio:4.0%} of OpenMetrics), longest slice {longest:5.3f},"
                f" {each[-1][2]:>9,} bytes{'   <== above its bound' if bad else ''}"
            )
    return int(failed)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--series", type=int, default=10_000)
    arguments.add_argument("--repeats", type=int, default=25)
    arguments.add_argument("--observations", type=int, default=1, help="in each histogram before each page")
    arguments.add_argument(
        "--times", type=int, default=500, help="the first 200 observations of each count so many times"
    )
    parsed = arguments.parse_args()
    sys.exit(main(parsed.series, parsed.repeats, parsed.observations, parsed.times))
