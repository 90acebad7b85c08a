"""The facts of Ollama, which states times on its own `/api/chat` and `/api/generate` (read in fb307609, `server/routes.go`).

It knows the four durations of the last line, in nanoseconds. `prompt_eval_duration` is the prefill and `eval_duration`
the decode, both as the runner measured them. There is no queue among them: a request waits behind `OLLAMA_NUM_PARALLEL`
others after the model is loaded, and no duration covers that. What load, prefill and decode leave of `total_duration` is
an upper bound (`derived`): template and tokenising are in it, and where the client was slow, so is its time; what load
and prefill leave of the TTFT on the wire is another, and the lesser of the two counts.

`load_duration` is no queue, since no other request is waited for that more slots could help, and no prefill: it stays in
**first_token**, which is what is left of the TTFT. A cold model therefore shows as a long first_token. (Waiting for
another model to be unloaded lies within it, and Ollama does not tell that apart.) Durations of zero are left out by Ollama
(`omitempty`), but a missing one may have other reasons, so it is not stated. `/v1/*` states none of all this.
`include_usage` is added on chat alone: on `/v1/completions` it puts an empty `usage` into every chunk.
"""

from collections.abc import Mapping

import msgspec

from sidecar.engines.durations import NANOSECONDS, between, seconds_of
from sidecar.engines.kind import Channel, EngineKind, Start, Wire
from sidecar.engines.probe.replies import Answers, Identity, body_at, decoded, text_at
from sidecar.ledger.account import Source
from sidecar.ledger.report import NO_REPORT, EngineReport
from sidecar.timeline.dialects.field_table import OLLAMA_DURATIONS


CLOCKS_SECONDS = 0.002
"""Seconds by which the parts may exceed the whole: the total is Ollama's, the parts are its runner's."""


class _Details(msgspec.Struct):
    quantization_level: str | None = None


class _Tag(msgspec.Struct):
    details: _Details | None = None


class _Tags(msgspec.Struct):
    models: list[_Tag]


class Ollama(EngineKind):
    name = "ollama"
    title = "Ollama"
    started = Start(known_by="ollama", port=11434, variable="OLLAMA_HOST", variable_has_host=True)
    channels = (
        Channel(
            name="durations",
            source="durations in the last line of `/api/chat` and `/api/generate`, streamed and whole",
            version="any; read in fb307609 (August 2026)",
            exact="prefill, decode",
            missing="queue is derived: an upper bound that includes template and tokenising; a model's load is in first_token; `/v1/*`",
            follows="`api/types.go`, `server/routes.go` of fb307609",
        ),
    )
    unloads_after_seconds = 300.0
    """OLLAMA_KEEP_ALIVE, 5 minutes (`envconfig/config.go`, fb307609)."""
    takes_include_usage_on = ("openai_chat",)
    """There it adds one chunk at the end (`middleware/openai.go`)."""
    page = "/"
    page_turn = 3
    asks = ("/api/version", "/api/tags")
    advice = "have clients use /api/chat: Ollama's OpenAI paths state no times"

    def is_own(self, body: bytes) -> bool:
        return body.strip() == b"Ollama is running"

    def shows_forced_usage(self, version: str | None) -> bool:  # noqa: ARG002  the interface
        """No setting states it (`middleware/openai.go`)."""
        return True

    def same_model(self, name: str) -> str:
        """`types/model/name.go`: host, namespace and tag may be left out, and case does not matter. An answer repeats the name as it came."""
        name = name.casefold().removeprefix("registry.ollama.ai/").removeprefix("library/")
        return name if ":" in name.rpartition("/")[2] else f"{name}:latest"

    def describes(self, answers: Answers) -> Identity:
        """The version, and the format that all its models have."""
        tags = decoded(body_at(answers, "/api/tags"), _Tags)
        levels = {tag.details.quantization_level for tag in (tags.models if tags else ()) if tag.details is not None}
        return Identity(
            text_at(answers, "/api/version", "version"), quantization=levels.pop() if len(levels) == 1 else None
        )

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:
        total, load, prefill, decode = (seconds_of(extras.get(name), NANOSECONDS) for name in OLLAMA_DURATIONS)
        queue = None if load is None or prefill is None else _queue(wire, total, load + prefill, decode)
        report = EngineReport(queue, prefill, decode, queue_source=Source.DERIVED)
        return None if report in (NO_REPORT, _NOTHING) else report


_NOTHING = EngineReport(queue_source=Source.DERIVED)


def _queue(wire: Wire, total: float | None, before_token: float, decode: float | None) -> float | None:
    bounds = []
    if total is not None and decode is not None:
        bounds.append(total - before_token - decode)
    if wire.streaming:
        ttft = between(wire.marks.received_at, wire.marks.first_token_at)
        if ttft is not None:
            bounds.append(ttft - before_token)
    least = min(bounds, default=-1.0)
    # Parts that exceed their whole by more than two clocks differ are wrong, and it is unknown which of them.
    return max(0.0, least) if least >= -CLOCKS_SECONDS else None
