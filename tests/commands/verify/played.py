"""Answers to probes with instants that were chosen, and what is known of them: no socket, no clock."""

import json
from collections.abc import Sequence

from sidecar.commands.asking import Exchange
from sidecar.commands.verify.answer_times import Answer, answer_of
from sidecar.commands.verify.probe_shapes import VERIFY_PROBES
from sidecar.commands.verify.verify_findings import Evidence, Probed
from sidecar.engines.kinds import kind_named
from sidecar.ledger.report import EngineReport


VLLM = kind_named("vllm")
SENT_AT = 100.0
BY_NAME = {probe.name: probe for probe in VERIFY_PROBES}


def event(data: object) -> bytes:
    return b"data: %b\n\n" % (data.encode() if isinstance(data, str) else json.dumps(data).encode())


def token(finish: str | None = None) -> bytes:
    return event({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": finish}]})


def usage(prompt: int, made: int, metrics: dict[str, float] | None = None) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": made}
    return event({"id": "chatcmpl-1", "choices": [], "usage": counts, "metrics": metrics})


def stream(
    tokens: int, at: Sequence[float], *, prompt: int = 40, metrics: dict[str, float] | None = None
) -> list[tuple[float, bytes]]:
    """A chat stream of so many tokens, evenly spread over reads at these instants (seconds since the request was written)."""
    pieces = [b""] * len(at)
    for number in range(tokens):
        pieces[number * len(at) // tokens] += token("length" if number == tokens - 1 else None)
    pieces[-1] += usage(prompt, tokens, metrics) + event("[DONE]")
    return [(SENT_AT + seconds, piece) for seconds, piece in zip(at, pieces, strict=True)]


def exchange(
    pieces: Sequence[tuple[float, bytes]], *fields: tuple[str, str], status: int | None = 200, failure: str = ""
) -> Exchange:
    given = dict(fields)
    named = {"content-type": "text/event-stream", **given}
    ended_at = pieces[-1][0] if pieces else SENT_AT
    return Exchange("http://there", SENT_AT, ended_at, status, SENT_AT, tuple(named.items()), tuple(pieces), failure)


def answer(seen: Exchange) -> Answer:
    return answer_of(seen, VLLM)


def every(seconds: float, count: int, first: float) -> list[float]:
    """So many instants, this far apart."""
    return [first + number * seconds for number in range(count)]


def probed(
    name: str,
    *,
    first: float = 0.2,
    each: float = 0.01,
    reads: int | None = None,
    report: EngineReport | None = None,
    fields: Sequence[tuple[str, str]] = (),
) -> Probed:
    """One probe that came well: its first token after `first` seconds, then one in `each`. `reads`: in so many reads, at the end of their time."""
    probe = BY_NAME[name]
    tokens = probe.max_tokens
    at = every(each, tokens, first)
    if reads is not None:
        at = [at[(number + 1) * tokens // reads - 1] for number in range(reads)]
    metrics = None
    if report is not None:
        names = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")
        parts = (report.queue_seconds, report.prefill_seconds, report.decode_seconds)
        metrics = {name: 1000 * part for name, part in zip(names, parts, strict=True) if part is not None}
    prompt = max(8, len(probe.prompt("", "")) // 5)
    seen = exchange(stream(tokens, at, prompt=prompt, metrics=metrics), *fields)
    return Probed(probe, answer(seen))


def document(tokens: int, *, prompt: int = 40, text: str = "a ") -> bytes:
    """A whole chat answer of so many tokens."""
    message = {"role": "assistant", "content": text * tokens}
    counts = {"prompt_tokens": prompt, "completion_tokens": tokens}
    choices = [{"index": 0, "message": message, "finish_reason": "length"}]
    return json.dumps({"id": "chatcmpl-1", "choices": choices, "usage": counts}).encode()


def collected(name: str, *fields: tuple[str, str]) -> Probed:
    """A probe for a stream that a hop answered with one document, after the time of the whole answer."""
    probe = BY_NAME[name]
    body = document(probe.max_tokens, prompt=max(8, len(probe.prompt("", "")) // 5))
    at = SENT_AT + 0.2 + 0.01 * probe.max_tokens
    return Probed(probe, answer(exchange([(at, body)], ("content-type", "application/json"), *fields)))


def cut_short(name: str) -> Probed:
    """A probe for a stream whose second half is missing, although the framing ends well."""
    probe = BY_NAME[name]
    at = every(0.01, max(1, probe.max_tokens // 2), SENT_AT + 0.2)
    return Probed(probe, answer(exchange([(instant, token()) for instant in at])))


STREAMED = list(BY_NAME)


def evidence(engine: Sequence[Probed] = (), entry: Sequence[Probed] = ()) -> Evidence:
    return Evidence(kind=VLLM, version="0.33.0", engine=engine, entry=entry)
