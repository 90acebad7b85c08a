"""A lane in trouble, written into a registry: what the diagnosis of a pod is read from."""

from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


def broken(registry: Metrics) -> None:
    """A lane whose requests miss TTFT in the queue. To be called after the listener has started."""
    registry.gauge(c.SLO_THRESHOLD_SECONDS).child("chat", "0-512", "ttft").set(1.0)
    registry.counter(c.REQUESTS_RECEIVED_TOTAL).child("llama", "chat").inc(400)
    registry.counter(c.SLO_REQUESTS_TOTAL).child("llama", "chat", "0-512", "ttft").inc(400)
    registry.counter(c.SLO_ALLOWED_MISSES_TOTAL).child("llama", "chat", "0-512", "ttft").inc(20)
    registry.counter(c.SLO_MISSES_TOTAL).child("llama", "chat", "0-512", "ttft").inc(200)
    registry.counter(c.SLO_ROOT_MISSES_TOTAL).child("llama", "chat", "ttft", "queue").inc(160)
    registry.counter(c.SLO_ROOT_CAUSE_MISSES_TOTAL).child("llama", "queue", "slots").inc(160)
    registry.counter(c.SLO_BLAMED_MISSES_TOTAL).child("llama", "chat", "ttft", "queue").inc(150)
    for _ in range(400):
        registry.histogram(c.TIME_TO_FIRST_TOKEN_SECONDS).child("llama", "chat", "0-512").observe(2.5)
        registry.histogram(c.INTER_TOKEN_SECONDS).child("llama", "chat").observe(0.02)
