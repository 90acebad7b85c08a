"""The facts of llama.cpp's server (read in b11434, `tools/server/server-task.cpp` and
`server-context.cpp`, and seen on its wire).

It knows `timings`, which stand in the last event of every stream and in every whole answer, without a flag: `prompt_ms`
runs from the moment a slot starts on the prompt until the first token is sampled, so it is the prefill; `predicted_ms`
from there to the last token, so it is the decode. Both are exact. It does not state the queue, so that is `derived`:

- **an upper bound** is what the prefill leaves of the TTFT (streamed), or prefill and decode of the time to the response's
  head (whole): HTTP, template and tokenising are in it, a few ms for short prompts;
- **streams of b9417 and newer** say more: the response's head is sent when the slot starts on the prompt, so the queue is
  from request sent to head read, tokenising still in it, and what comes after the prefill is first_token. No field says
  which build it is, so the rule proves itself each time: head + `prompt_ms` must lead to the first token. Builds before
  send the head at once, or with the first token; there it does not, and the bound stands.

Several choices have timings of their own, and no one report. Whole answers of `/v1/responses` carry none,
`/v1/messages` never. `include_usage` is not added: with it `timings` move from the chunk with the finish reason into
the usage chunk, so a client that did not ask for usage would lose them. The counts stand in `timings` anyway.
"""

from collections.abc import Mapping

import msgspec

from sidecar.engines.durations import MILLISECONDS, between, seconds_of
from sidecar.engines.kind import Channel, EngineKind, Start, Wire
from sidecar.engines.probe.replies import Answers, Identity, decoded, text_at
from sidecar.engines.probe.state_names import Count, Name, StateNames
from sidecar.ledger.account import Source
from sidecar.ledger.report import EngineReport


SLOT_START_SECONDS = 0.02
SLOT_START_RATIO = 0.02
"""Largest difference between head + prefill and the first token (time held back excluded) at which the head counts as
the slot's start. On a real b11434 that shared two cores with other processes, half of the streams were off by under 0.5
ms, the worst of 120 by 8 ms. It bounds the time that a wrong conclusion moves between queue and first_token."""


class _Props(msgspec.Struct):
    build_info: str
    default_generation_settings: object = None
    role: str | None = None


class LlamaCpp(EngineKind):
    name = "llama_cpp"
    title = "llama.cpp"
    started = Start(
        known_by=r"llama\.cpp|llama-server",
        port=8080,
        flags=("--port",),
        variable="LLAMA_ARG_PORT",
        tls_flags=("--ssl-cert-file", "--ssl-key-file"),
        drains_with="curl",
    )
    channels = (
        Channel(
            name="timings",
            source="`timings` (chat, completions, `/completion`, `/infill`; `/v1/responses` streamed)",
            version="any; seen on b11434",
            exact="prefill, decode",
            missing="queue is derived: an upper bound that includes HTTP, template and tokenising; several choices; `/v1/messages`",
            follows="`tools/server/server-task.cpp` of b11434",
        ),
        Channel(
            name="head",
            source="instant of a stream's response head, with `timings`",
            version="b9417; seen on b11434",
            exact="start of the slot, within 20 ms or 2 % of the prefill",
            missing="queue is derived: it includes template and tokenising",
            follows="`tools/server/server-context.cpp` of b11434",
        ),
    )

    server = "llama.cpp"
    owned_by = "llamacpp"
    page = "/props"
    page_turn = 1
    metric_prefix = b"llamacpp:"
    reading_resets = True
    asks = ("/props",)
    state = StateNames(  # b11434, needs --metrics; each reading resets two other gauges, for all readers
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
    advice = "llama.cpp states its timings in every answer: a proxy between it and the sidecar removes them"
    page_advice = "--metrics makes llama.cpp expose its queue"

    def is_own(self, body: bytes) -> bool:
        """Its /props has its build beside its settings, or beside its role as a router."""
        props = decoded(body, _Props)
        return props is not None and (props.default_generation_settings is not None or props.role is not None)

    def describes(self, answers: Answers) -> Identity:
        build, weights = (text_at(answers, self.page, key) for key in ("build_info", "model_ftype"))
        return Identity(build, quantization=weights)

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:
        timings = extras.get("timings")
        if not isinstance(timings, Mapping) or wire.choices > 1:
            return None
        prefill = seconds_of(timings.get("prompt_ms"), MILLISECONDS)
        decode = seconds_of(timings.get("predicted_ms"), MILLISECONDS)
        if prefill is None:
            return None if decode is None else EngineReport(decode_seconds=decode)
        queue = _streamed_queue(wire, prefill, decode) if wire.streaming else _whole_queue(wire, prefill, decode)
        return EngineReport(queue, prefill, decode, queue_source=Source.DERIVED)


def _streamed_queue(wire: Wire, prefill: float, decode: float | None) -> float | None:
    marks = wire.marks
    ttft = between(marks.received_at, marks.first_token_at)
    if ttft is None:
        return None
    held = _held(wire, decode)
    # A prefill longer than the TTFT is a contradiction, and the ledger's to judge: not to be hidden here.
    bound = max(0.0, ttft - prefill - held)
    waited = between(marks.sent_at, marks.headers_at)
    if waited is None or marks.headers_at is None or marks.first_token_at is None:
        return bound
    missed = abs(marks.first_token_at - held - marks.headers_at - prefill)
    return min(bound, waited) if missed <= max(SLOT_START_SECONDS, SLOT_START_RATIO * prefill) else bound


def _held(wire: Wire, decode: float | None) -> float:
    """Seconds from the first token's creation to its arrival here: the engine decoded for that much longer than tokens passed."""
    passed = between(wire.marks.first_token_at, wire.marks.flushed_at)
    return 0.0 if decode is None or passed is None else max(0.0, decode - passed)


def _whole_queue(wire: Wire, prefill: float, decode: float | None) -> float | None:
    answered = between(wire.marks.received_at, wire.marks.headers_at)
    if answered is None or decode is None:
        return None
    return max(0.0, answered - prefill - decode)
