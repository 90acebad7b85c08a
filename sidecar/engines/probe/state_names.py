"""What each engine calls its state on its own page of metrics, and on which path that page stands.

It knows names, the label that picks a series out, and which ranks tell the same thing twice. It refuses to translate what
is not the same: a gauge of requests that are paused now is no count of preemptions (TensorRT-LLM), a frontend's count of
requests before their first token is no queue (Dynamo), and Ollama has no page at all. What an engine does not say in a
way that means ours is left out here, and stays unknown. Read in the versions of each entry; vLLM's was seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Count(StrEnum):
    """What grows, in our words. The last four are compared with our own sums (`agreement.py`)."""

    PREFIX_CACHE_QUERIES = "prefix_cache_queries"
    PREFIX_CACHE_HITS = "prefix_cache_hits"
    PREEMPTIONS = "preemptions"
    REQUESTS = "requests"
    """Requests that ended well, each choice of several by itself where the engine counts so."""
    QUEUE_SECONDS = "queue"
    PREFILL_SECONDS = "prefill"
    DECODE_SECONDS = "decode"


@dataclass(frozen=True, slots=True)
class Name:
    """One name on a page, and which of its series count."""

    name: str
    only: tuple[bytes, ...] = ()
    """`label="value"`: a series counts if one of these stands in its labels. None given: all do."""
    never: tuple[bytes, ...] = ()
    """`label="value"`: a series does not count if one of these stands in its labels."""

    def counts(self, labels: bytes) -> bool:
        """Whether a series with this label text counts. A quote inside a value is escaped, so none can imitate a label."""
        if self.only and not any(only in labels for only in self.only):
            return False
        return not any(never in labels for never in self.never)


@dataclass(frozen=True, slots=True)
class StateNames:
    """How to read one engine's page."""

    path: str = "/metrics"
    waiting: Name | None = None
    running: Name | None = None
    kv_cache_usage: Name | None = None
    counts: Mapping[Count, tuple[Name, ...]] = field(default_factory=dict)
    """Several names are summed; all of them must stand there."""
    same_ranks: tuple[str, ...] = ()
    """Labels of ranks that work on the same requests (tensor, pipeline): of series that differ only in these, one counts."""
    breakdown: str = ""
    """A label that some series carry beside a series with the whole: where there is a whole, the parts are passed over."""

    def names(self) -> tuple[str, ...]:
        """Every name that is looked for, each once."""
        gauges = [name for name in (self.waiting, self.running, self.kv_cache_usage) if name is not None]
        counters = [name for names in self.counts.values() for name in names]
        return tuple(dict.fromkeys(name.name for name in (*gauges, *counters)))


def _finished(prefix: str) -> dict[Count, tuple[Name, ...]]:
    """Sums of the per-request histograms, as vLLM named them and TensorRT-LLM and LMDeploy after it."""
    return {
        Count.QUEUE_SECONDS: (Name(f"{prefix}request_queue_time_seconds_sum"),),
        Count.PREFILL_SECONDS: (Name(f"{prefix}request_prefill_time_seconds_sum"),),
        Count.DECODE_SECONDS: (Name(f"{prefix}request_decode_time_seconds_sum"),),
    }


_BADLY = (b'finished_reason="abort"', b'finished_reason="error"', b'finished_reason="cancelled"')

VLLM = StateNames(  # 0.33, v1/metrics/loggers.py; seen on 0.32
    waiting=Name("vllm:num_requests_waiting"),
    running=Name("vllm:num_requests_running"),
    kv_cache_usage=Name("vllm:kv_cache_usage_perc"),
    counts={
        Count.PREFIX_CACHE_QUERIES: (Name("vllm:prefix_cache_queries_total"),),
        Count.PREFIX_CACHE_HITS: (Name("vllm:prefix_cache_hits_total"),),
        Count.PREEMPTIONS: (Name("vllm:num_preemptions_total"),),
        Count.REQUESTS: (Name("vllm:request_success_total", never=_BADLY),),
        **_finished("vllm:"),
    },
)
SGLANG = StateNames(  # 0.5.23, srt/observability metrics collector; needs --enable-metrics
    waiting=Name("sglang:num_queue_reqs"),
    running=Name("sglang:num_running_reqs"),
    kv_cache_usage=Name("sglang:token_usage"),
    counts={
        Count.PREFIX_CACHE_QUERIES: (Name("sglang:prompt_tokens_total"),),
        Count.PREFIX_CACHE_HITS: (Name("sglang:cached_tokens_total"),),
        Count.PREEMPTIONS: (Name("sglang:num_retracted_requests_total"),),
        Count.REQUESTS: (Name("sglang:num_requests_total"),),
        Count.QUEUE_SECONDS: (Name("sglang:queue_time_seconds_sum"),),
    },
    same_ranks=("tp_rank", "pp_rank", "moe_ep_rank"),  # with --enable-metrics-for-all-schedulers each of them tells
    breakdown="priority",
)
TENSORRT_LLM = (
    StateNames(  # metrics/collector.py of 2026; needs return_perf_metrics. `num_paused_requests` is a gauge: no count.
        path="/prometheus/metrics",
        waiting=Name("trtllm_num_requests_waiting"),
        running=Name("trtllm_num_requests_running"),
        kv_cache_usage=Name("trtllm_kv_cache_utilization"),
        counts={
            Count.PREFIX_CACHE_QUERIES: (
                Name("trtllm_kv_cache_reused_blocks_total"),
                Name("trtllm_kv_cache_missed_blocks_total"),
            ),
            Count.PREFIX_CACHE_HITS: (Name("trtllm_kv_cache_reused_blocks_total"),),
            Count.REQUESTS: (Name("trtllm_request_success_total", never=_BADLY),),
            **_finished("trtllm_"),
        },
    )
)
TRITON = StateNames(
    # 2.73 with the TensorRT-LLM backend. Triton's own queue is another one, and
    # it counts a request once for each step of an ensemble: no count of requests that could be compared
    waiting=Name("nv_trt_llm_request_metrics", only=(b'request_type="waiting"',)),
    running=Name("nv_trt_llm_request_metrics", only=(b'request_type="scheduled"',)),
    kv_cache_usage=Name("nv_trt_llm_kv_cache_block_metrics", only=(b'kv_cache_block_type="fraction"',)),
)
TGI = StateNames(  # 3.3.6-dev0, router; the exporter writes counters without _total
    waiting=Name("tgi_queue_size"),
    running=Name("tgi_batch_current_size"),
    counts={
        Count.REQUESTS: (Name("tgi_request_success"),),
        Count.QUEUE_SECONDS: (Name("tgi_request_queue_duration_sum"),),
    },
)
DYNAMO = StateNames(  # 1.6.1, the frontend; its workers' pages stand on other ports
    counts={Count.REQUESTS: (Name("dynamo_frontend_requests_total", only=(b'status="success"',)),)},
)
LLAMA_CPP = StateNames(  # b11434, needs --metrics; each reading resets two other gauges, for everybody
    waiting=Name("llamacpp:requests_deferred"),
    running=Name("llamacpp:requests_processing"),
    counts={
        Count.PREFIX_CACHE_QUERIES: (
            Name("llamacpp:prompt_tokens_total"),
            Name("llamacpp:prompt_tokens_cached_total"),
        ),
        Count.PREFIX_CACHE_HITS: (Name("llamacpp:prompt_tokens_cached_total"),),
    },
)
LMDEPLOY = StateNames(  # 0.18.0, metrics/loggers.py; whether its prompt tokens include cached ones it does not say
    waiting=Name("lmdeploy:num_requests_waiting"),
    running=Name("lmdeploy:num_requests_running"),
    kv_cache_usage=Name("lmdeploy:gpu_cache_usage_perc"),
    counts={
        Count.REQUESTS: (Name("lmdeploy:request_success_total", only=(b'FINISH"', b'SUCCESS"')),),
        **_finished("lmdeploy:"),
    },
)

STATE_NAMES: Mapping[str, StateNames] = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "tensorrt_llm": TENSORRT_LLM,
    "triton": TRITON,
    "tgi": TGI,
    "dynamo": DYNAMO,
    "llama_cpp": LLAMA_CPP,
    "lmdeploy": LMDEPLOY,
}
"""By the kind's name. Ollama has no page; of what is not recognised, nothing is asked."""
