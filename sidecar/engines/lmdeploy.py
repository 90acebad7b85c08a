"""The facts of LMDeploy, which says nothing about the time a request took (read in 0.18.0, `serve/openai/`).

Neither bodies, chunks nor headers carry a duration, there are no spans, and no id of a request comes
back. Its `/generate` speaks SGLang's words without SGLang's times. What remains is its `/metrics` page, where one
request's times can be told only if it alone finished between two readings.
`include_usage` is not added: every other chunk then carries `usage: null`.
"""

from sidecar.engines.kind import Channel, EngineKind, Start
from sidecar.engines.probe.replies import METRICS, Answers, Identity, body_at, info_labels
from sidecar.engines.probe.state_names import Count, Name, StateNames, finished_seconds, request_times
from sidecar.engines.reports.lone_requests import Histogram
from sidecar.engines.reports.report_sources import LoneSums


class LMDeploy(EngineKind):
    name = "lmdeploy"
    title = "LMDeploy"
    started = Start(
        known_by="lmdeploy", port=23333, flags=("--server-port",), tls_flags=("--ssl",), drains_with="python3"
    )
    channels = (
        Channel(
            name="answer",
            source="none in-band",
            version="read in 0.18.0",
            exact="nothing",
            missing="all phases; the sidecar's own marks are all that is known",
            follows="`lmdeploy/serve/openai/endpoints/generate.py`, `chat_completions/serving.py`",
        ),
        Channel(
            name="page",
            source="growth of its `/metrics` between two readings, if it belongs to one request only",
            version="0.10; read in 0.18.0",
            exact="queue, prefill, decode of a request, if no other request of the sidecar ended between the readings",
            missing="every other request; every request for ten minutes after a sign that clients bypass the sidecar",
            follows="`lmdeploy/metrics/loggers.py`, `lmdeploy/metrics/stats.py` of 0.18.0",
        ),
    )
    owned_by = "lmdeploy"
    metric_prefix = b"lmdeploy:"
    asks = (METRICS,)
    state = StateNames(  # 0.18.0, metrics/loggers.py; whether its prompt tokens include cached ones it does not say
        waiting=Name("lmdeploy:num_requests_waiting"),
        running=Name("lmdeploy:num_requests_running"),
        kv_cache_usage=Name("lmdeploy:gpu_cache_usage_perc"),
        counts={
            Count.REQUESTS: (Name("lmdeploy:request_success_total", only=(b'FINISH"', b'SUCCESS"')),),
            **finished_seconds("lmdeploy:"),
        },
        times=request_times("lmdeploy:"),
    )
    source = LoneSums(
        path=METRICS,
        hint="LMDeploy serves it unless it was started with --disable-metrics",
        names={
            Histogram.QUEUE: b"lmdeploy:request_queue_time_seconds",
            Histogram.PREFILL: b"lmdeploy:request_prefill_time_seconds",
            Histogram.DECODE: b"lmdeploy:request_decode_time_seconds",
            Histogram.WHOLE: b"lmdeploy:e2e_request_latency_seconds",
            Histogram.PROMPT: b"lmdeploy:request_prompt_tokens",
        },
    )
    late_report_seconds = 3.0
    """Its page is read at most half a second after the end; a second read would have nothing new."""
    advice = "LMDeploy does not report single requests: the split can only be estimated"
    page_advice = "without --disable-metrics LMDeploy exposes its queue and its cache"

    def describes(self, answers: Answers) -> Identity:
        """The weights' format, where it names a quantisation; `hf` is a file format."""
        weights = info_labels(body_at(answers, METRICS), b"lmdeploy:backend_config_info").get("model_format")
        return Identity(quantization=weights if weights in ("awq", "gptq", "fp8", "mxfp4") else None)
