"""What TensorRT-LLM's `trtllm-serve` says in the answer itself about the time it took: nothing (read in 1.4.0rc1, `tensorrt_llm/serve/`).

It knows that the answer's id is `chatcmpl-` or `cmpl-` and the number by which `/perf_metrics` and the engine's spans
call the request: what is told, is told there.
`include_usage` is not added. Completions write `usage: null` into every chunk, asked or not. Chat sends one usage chunk at
the end, but for gpt-oss models builds of 2025 (`harmony_adapter.py` at 02238b67) send it unasked too: cut out, a client
would lose what it gets today.
"""

from sidecar.engines.kind import Channel, EngineKind, Ran


class TensorRTLLM(EngineKind):
    """TensorRT-LLM."""

    name = "tensorrt_llm"
    title = "TensorRT-LLM"
    channels = (
        Channel(
            source="none in-band",
            version="read in 1.4.0rc1",
            flags="",
            exact="nothing",
            missing="everything: what it tells comes out-of-band",
            ran=Ran.FIXTURES,
            follows="`tensorrt_llm/serve/postprocess_handlers.py` at 01bf1923",
        ),
    )
