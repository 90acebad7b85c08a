"""What the engine behind NVIDIA Dynamo says in its spans (Dynamo 1.6.1, `docs/observability/tracing.md`; from fixtures).

It knows that Dynamo hands the trace on to its workers, so that the engine's own `llm_request` (vLLM's or TensorRT-LLM's)
hangs somewhere under the minted span, below Dynamo's `http-request` and `handle_payload`. Dynamo's own spans say nothing of
the split, but lead up to the request (`ancestry.py`) where they come here too; else the trace alone leads there, while it is
one request's.

It refuses where two engines had a part in one request (disaggregated prefill and decode): neither's numbers are the
request's, and nothing in a span says which it is. That is why a word is held until another would have come.
"""

from sidecar.engines import tensorrt_llm_spans, vllm_spans
from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport


HOLD_SECONDS = 6.0
"""Two engines' batches come at most so far apart: each sends one every 5 s."""


def report_of(span: Span) -> EngineReport | None:
    """What the span of either engine says; vLLM alone states its prefill as such."""
    if "gen_ai.latency.time_in_model_prefill" in span.attributes:
        word = vllm_spans.word_of(span)
        return None if word is None else word.report
    return tensorrt_llm_spans.report_of(span)
