"""The facts of Triton with the TensorRT-LLM backend (TensorRT-LLM `triton_backend/`, read at 044a90d2).

It knows four output tensors of the generate extension, nanoseconds of one steady clock: `arrival_time_ns`,
`first_scheduled_time_ns`, `first_token_time_ns`, `last_token_time_ns`. They come with the last response where the request
asked for them (`return_perf_metrics`, in the LLM API backend `sampling_param_return_perf_metrics`), as strings or as
numbers, alone or in a list of one. An instant of 0 was never taken and states nothing; instants out of order state nothing at all. The
client must ask: the sidecar adds no input, because a model whose configuration lacks it answers 400.
Its OpenAI front end states none of this. Other backends (vLLM, Python) have no such tensors.

**Its own queue** lies before all of that: the backend takes `arrival_time_ns` when Triton hands the request to it. In-flight batching
queues inside the backend, and Triton's own queue stays near zero; with a dynamic batcher's delay, or fewer instances than requests,
it does not. It stands on the page of metrics alone, as a sum over the requests of each model: `nv_inference_queue_duration_us`, beside
`nv_inference_request_duration_us`, which is queue and compute together (server 2.51, seen on its page). So it is one request's only
where that one ended alone between two readings (`reports/lone_requests.py`). A stream's prefill is then what its TTFT leaves beside
queue and front end, unless a batching engine is inside, whose own queue is in that time too. Of all other requests with the tensors the
time before `arrival_time_ns` may be queue or HTTP: they are not split, unless nothing is left to be split.

**Nothing is estimated.** A request that meets an idle server may wait all the same: a dynamic batcher holds it for its delay, and the page
alone tells how long. So its TTFT is no cost of its prompt. No token is counted unasked: the prompt's bucket is that of its text, at a usual scale.
"""

from collections.abc import Mapping

from sidecar.engines.durations import between_nanoseconds, whole_number
from sidecar.engines.kind import Channel, EngineKind, Start, Wire
from sidecar.engines.probe.replies import text_in
from sidecar.engines.probe.state_names import Name, StateNames
from sidecar.engines.reports.lone_requests import Histogram
from sidecar.engines.reports.report_sources import LoneSums
from sidecar.ledger.report import NO_REPORT, EngineReport
from sidecar.timeline.dialects.field_table import TRITON_TIMES


class Triton(EngineKind):
    name = "triton"
    title = "Triton"
    started = Start(
        known_by="tritonserver",
        port=8000,
        flags=("--http-port",),
        metrics_port=8002,
        metrics_flag="--metrics-port",
        drains_with="curl",
    )
    channels = (
        Channel(
            name="tensors",
            source="tensors `*_time_ns` of `/v2/models/*/generate` and `generate_stream`",
            version="TensorRT-LLM backend; read at 044a90d2 (0.20 and newer), server 2.73",
            flags="each request: `return_perf_metrics` (LLM API backend: `sampling_param_return_perf_metrics`) true",
            exact="the backend's queue, prefill, decode",
            missing="Triton's own queue before it, so that a request with room for one is not split; requests without that parameter; the"
            " OpenAI front end; other backends",
            follows="`triton_backend/all_models/llmapi/tensorrt_llm/1/model.py`, server `docs/protocol/extension_generate.md`",
        ),
        Channel(
            name="page",
            source="growth of `nv_inference_*_duration_us` on its page of metrics between two readings, if it belongs to one request only",
            version="any; seen on 2.51",
            flags="`engine.metrics_port: 8002` in the sidecar's config",
            exact="Triton's own queue",
            missing="prefill of streams is derived, and not stated with an engine inside (vLLM, TensorRT-LLM); ensembles; requests beside others",
        ),
    )
    owned_by = "Triton Inference Server"
    """On its OpenAI front end."""
    refuses_unknown_models = True
    """A model is a part of its path, and `model_name` of its answer: an unknown one has status 400 or 404."""
    is_estimated = False
    usual_tokens_per_byte = 0.25
    """Prose and code have 3 to 5 bytes a token, and most buckets are eight times as wide."""
    page = "/v2"
    page_turn = 4
    metric_prefix = b"nv_inference_"
    shows_engine_inside = True
    asks = ("/v2",)
    # 2.73 with the TensorRT-LLM backend. Triton's own queue is another one, and it counts a request once for each step of an
    # ensemble: no count of requests that could be compared.
    state = StateNames(
        waiting=Name("nv_trt_llm_request_metrics", only=(b'request_type="waiting"',)),
        running=Name("nv_trt_llm_request_metrics", only=(b'request_type="scheduled"',)),
        kv_cache_usage=Name("nv_trt_llm_kv_cache_block_metrics", only=(b'kv_cache_block_type="fraction"',)),
    )
    source = LoneSums(
        path="/metrics",
        hint="Triton serves it on a port of its own: engine.metrics_port: 8002",
        names={
            Histogram.QUEUE: b"nv_inference_queue_duration_us",
            Histogram.WHOLE: b"nv_inference_request_duration_us",
        },
        counted_by=b"nv_inference_request_success",
        per_second=1e6,
        inside=(b"nv_trt_llm_", b"vllm:"),
    )
    late_report_seconds = 3.0
    """Its page is read at most half a second after the end; a second read would have nothing new."""
    advice = "give the sidecar Triton's page (engine.metrics_port: 8002), and have clients send return_perf_metrics: true to the TensorRT-LLM backend's generate_stream"

    page_advice = "engine.metrics_port: 8002 lets the sidecar read Triton's own metrics"

    def is_own(self, body: bytes) -> bool:
        return text_in(body, "name") == "triton"

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        arrived, scheduled, first, last = (whole_number(extras.get(name)) or None for name in TRITON_TIMES)
        instants = [instant for instant in (arrived, scheduled, first, last) if instant is not None]
        if not instants:
            return None
        if instants != sorted(instants):
            return NO_REPORT  # one of them is wrong, and it is unknown which: counted as an incomplete report
        return EngineReport(
            queue_seconds=between_nanoseconds(arrived, scheduled),
            prefill_seconds=between_nanoseconds(scheduled, first),
            decode_seconds=between_nanoseconds(first, last),
            behind_queue=True,
        )
