"""What vLLM says in its spans (V1 engine, 0.10.2 and newer; `v1/engine/output_processor.py` and `tracing/` read in 0.32, seen on its wire).

It knows the one span, `llm_request`, that the engine's front end makes of each generation when it has finished: durations in
seconds on the engine core's monotonic clock, the very numbers of the in-band report, for every API and with every number of
choices. Several choices or prompts are several generations, each with a span under the same parent. It comes with the
exporter's next batch (5 s). No span comes for a request that was cut off, and none at all where the client's `traceparent`
said unsampled; that is why the sidecar raises the flag.

The generation's id is the answer's with the part it is: `cmpl-X-0` is prompt 0 of `cmpl-X`, `resp_X_0` the first turn of
`resp_X`. It refuses later turns (they begin after the first token) and beam search (one generation a beam and step): neither
is the request's split. What is left unsaid: of an answer that took several turns with the server's own tools, decode is the
first turn's.
"""

import re

from sidecar.engines.span import Span, seconds_in
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, RequestKey, response_key, span_key


NAME = "llm_request"
_PROMPT = re.compile(r"(cmpl-.+)-[0-9]+")
_TURN = re.compile(r"(resp_.+)_([0-9]+)")
_BEAM = re.compile(r".+-beam-[0-9]+")


def word_of(span: Span) -> KeyedReport | None:
    """The word in one span; None where it is no generation's, or one that does not split its request."""
    if span.name != NAME:
        return None
    report = EngineReport(
        queue_seconds=seconds_in(span.attributes, "gen_ai.latency.time_in_queue"),
        prefill_seconds=seconds_in(span.attributes, "gen_ai.latency.time_in_model_prefill"),
        decode_seconds=seconds_in(span.attributes, "gen_ai.latency.time_in_model_decode"),
        spoke_at=_spoke_at(span),
    )
    generation = span.attributes.get("gen_ai.request.id")
    if report == NO_REPORT or (isinstance(generation, str) and not _begins_the_answer(generation)):
        return None
    keys: list[RequestKey] = [span_key(span.parent_span_id)] if span.parent_span_id else []
    if isinstance(generation, str) and generation:
        keys.append(response_key(_answer_of(generation)))
    return KeyedReport(tuple(keys), report, span.trace_id or None, part=span.span_id)


def _spoke_at(span: Span) -> float | None:
    """Both are of the front end's wall clock: the span begins with the request's arrival there."""
    first_token = seconds_in(span.attributes, "gen_ai.latency.time_to_first_token")
    return None if first_token is None else span.start_unix_nano / 1e9 + first_token


def _begins_the_answer(generation: str) -> bool:
    turn = _TURN.fullmatch(generation)
    return (turn is None or int(turn[2]) == 0) and _BEAM.fullmatch(generation) is None


def _answer_of(generation: str) -> str:
    """The id that the answer gives itself, of the generation's id."""
    found = _PROMPT.fullmatch(generation) or _TURN.fullmatch(generation)
    return generation if found is None else found[1]
