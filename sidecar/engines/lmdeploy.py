"""What LMDeploy says about the time a request took: nothing (read in 0.18.0, `serve/openai/`).

It knows that neither bodies, chunks nor headers carry a duration, that there are no spans, and that no id of a request
comes back. Its `/generate` speaks SGLang's words without SGLang's times. What remains is its `/metrics` page, where one
request's times can be told only if it alone finished between two readings.
`include_usage` is not added: every other chunk then carries `usage: null`.
"""

from sidecar.engines.kind import Channel, EngineKind, Ran


class LMDeploy(EngineKind):
    """LMDeploy."""

    name = "lmdeploy"
    title = "LMDeploy"
    channels = (
        Channel(
            source="none in-band",
            version="read in 0.18.0",
            flags="",
            exact="nothing",
            missing="everything: the wire's marks stand alone",
            ran=Ran.FIXTURES,
            follows="`lmdeploy/serve/openai/endpoints/generate.py`, `chat_completions/serving.py`",
        ),
        Channel(
            source="the growth of its `/metrics` between two readings, where it is one request's alone",
            version="0.10; read in 0.18.0",
            flags="",
            exact="queue, prefill, decode of a request that ended while no other of ours did",
            missing="every other request; all of them for ten minutes after a sign of clients that bypass the sidecar",
            ran=Ran.FIXTURES,
            follows="`lmdeploy/metrics/loggers.py`, `lmdeploy/metrics/stats.py` of 0.18.0",
        ),
    )
    late_report_seconds = 3.0
    """Its page is read half a second after the end at most, and once more would say nothing new."""
