"""Registries with all that can exist on a page of requests, and their pages."""

from collections.abc import Sequence

from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import NativeForm
from sidecar.metrics.registry import Metrics
from sidecar.metrics.text_page import slices
from sidecar.observe.record import Recorder


BUCKETS = ("0-512", "512-4k", "4k-16k", "16k-64k", "64k+", "unknown")
FEW = BUCKETS[:1]
"""One bucket, for tests that do not depend on the page's size: the reference parsers take 1.5 s for 20,000 series."""


def busy(*, buckets: Sequence[str] = BUCKETS, form: NativeForm = "off", most: int = 2) -> Metrics:
    """A registry with every child that can exist, each with a value: 20,000 series, or a third of them with `FEW`
    buckets. `most`: less than so many observations has a phase, all with one exemplar."""
    metrics = Metrics(
        lanes=["interactive", "batch"],
        prompt_buckets=buckets,
        models=['we"ird\\100%s\n', "m\udcff"],
        constants={"quantization": "fp8", "gpu_type": "H100"},
        native_histograms=form,
    )
    Recorder(metrics)
    phases = metrics.histogram(c.REQUEST_PHASE_SECONDS)
    for number, values in enumerate(phases.combinations()):
        for n in range(number % most or most // 2):
            phases.child(*values).observe(0.2 * 1.04**n * (1 + number % 97), "c" * 32, 1.7e9 + 0.25)
    metrics.info(c.SIDECAR_BUILD_INFO, "1.0", "3.11", "compiled", "full")
    metrics.gauge(c.ENGINE_UP).child().set(1)
    return metrics


def page(metrics: Metrics, *, openmetrics: bool = False) -> bytes:
    return b"".join(slices(metrics, openmetrics=openmetrics, at=0.0)) + (b"# EOF\n" if openmetrics else b"")
