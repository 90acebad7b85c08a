"""The simulated engine's /metrics page: vLLM's names, labels and buckets (0.33.0), filled from a simulation.

It contains the names, and the place from which each number is read. It measures nothing: gauges and counters are the
simulation's own state at the scrape, histograms are the exact phases of requests.
"""

from collections.abc import Iterator
from itertools import pairwise

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sidecar.commands.simulator.simulation import Progress, SimulatedRequest, Simulation


LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
"""vLLM's own layout. All times below 0.3 s fall into one bucket, which is one reason for a sidecar."""
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80),
    *(160, 640, 2560),
)
VLLM_INTER_TOKEN_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
LABELS = ("model_name", "engine")


class VllmMetrics(Collector):
    def __init__(self, simulation: Simulation, model: str) -> None:
        self._registry = CollectorRegistry()
        self._simulation = simulation
        self._labels = (model, "0")
        self._registry.register(self)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            family = Histogram(f"vllm:{name}", text, LABELS, registry=self._registry, buckets=buckets)
            return family.labels(*self._labels)

        self._ttft = histogram("time_to_first_token_seconds", "Time to first token.", FIRST_TOKEN)
        self._inter_token = histogram("inter_token_latency_seconds", "Inter-token latency.", VLLM_INTER_TOKEN_EDGES)
        self._e2e = histogram("e2e_request_latency_seconds", "End to end request latency.", LATENCY)
        self._queue = histogram("request_queue_time_seconds", "Time in the WAITING phase.", LATENCY)
        self._prefill = histogram("request_prefill_time_seconds", "Time in the PREFILL phase.", LATENCY)
        self._decode = histogram("request_decode_time_seconds", "Time in the DECODE phase.", LATENCY)
        self._inference = histogram("request_inference_time_seconds", "Time in the RUNNING phase.", LATENCY)
        self._success = Counter(
            "vllm:request_success", "Finished requests.", (*LABELS, "finished_reason"), registry=self._registry
        )

    def on_tokens(self, progress: Progress) -> None:
        """Record new tokens of a request. As in vLLM, aborted requests are only in the first two histograms."""
        request, first = progress.request, progress.first
        instants = request.token_instants
        if first == 0:
            self._ttft.observe(instants[0] - request.arrived_at + request.delivery_seconds)
        for earlier, later in pairwise(instants[max(first - 1, 0) : first + progress.tokens]):
            self._inter_token.observe(later - earlier)
        if progress.complete:
            self._finish(request)

    def _finish(self, request: SimulatedRequest) -> None:
        phases = request.phases
        self._queue.observe(phases.queue_seconds)
        self._prefill.observe(phases.prefill_seconds)
        self._decode.observe(phases.decode_seconds)
        self._inference.observe(phases.prefill_seconds + phases.decode_seconds)
        self._e2e.observe(request.token_instants[-1] - request.arrived_at + request.delivery_seconds)

    def on_finish_reason(self, reason: str) -> None:
        """Count a request that was answered in full."""
        self._success.labels(*self._labels, reason).inc()

    def page(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The gauges and counters, which are the simulation's own state."""
        simulation, totals = self._simulation, self._simulation.totals
        gauges = (
            ("num_requests_running", "Requests in model execution batches.", len(simulation.running)),
            ("num_requests_waiting", "Requests waiting to be processed.", len(simulation.waiting)),
            (
                "kv_cache_usage_perc",
                "KV-cache usage. 1 means 100 percent usage.",
                simulation.pool.used / simulation.pool.blocks,
            ),
        )
        counters = (
            ("prompt_tokens", "Prefill tokens processed.", totals.prompt_tokens),
            ("generation_tokens", "Generation tokens processed.", totals.generation_tokens),
            ("prefix_cache_queries", "Prefix cache queries, in tokens.", totals.prefix_queries),
            ("prefix_cache_hits", "Prefix cache hits, in tokens.", totals.prefix_hits),
            ("num_preemptions", "Preemptions of requests.", totals.preemptions),
        )
        for made, rows in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
            for name, text, value in rows:
                family = made(f"vllm:{name}", text, labels=LABELS)
                family.add_metric(self._labels, value)
                yield family
        yield self._cache_config()

    def _cache_config(self) -> Metric:
        limits = self._simulation.limits
        info = GaugeMetricFamily(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig.",
            labels=("block_size", "num_gpu_blocks", "enable_prefix_caching", "engine"),
        )
        info.add_metric((str(limits.block_size), str(limits.kv_blocks), str(limits.prefix_caching), "0"), 1)
        return info
