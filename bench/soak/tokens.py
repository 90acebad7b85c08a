"""The bytes of a soak's answers, computed from the number of the request: the engine sends them, the client expects them. Pure.

Each event carries its place in the stream and a checksum over all events before it, so that a lost, doubled or moved byte shows
in the first event behind it.
"""

import json
import zlib
from collections.abc import Iterator
from typing import NamedTuple


class Asked(NamedTuple):
    """One request of the soak; its prompt states it in words."""

    number: int
    """The request's own: no other has it in a run."""
    events: int
    """Events of its answer; 0 for an answer that is no stream."""
    gap_milliseconds: int
    usage: bool = False
    """The client itself asks for usage."""

    @property
    def prompt(self) -> str:
        return f"{self.number} {self.events} {self.gap_milliseconds}"

    def body(self, padding: int = 0) -> bytes:
        """The request's body; `padding`: bytes of a prompt that an upload carries besides."""
        said: dict[str, object] = {
            "model": "soak",
            "prompt": f"{self.prompt} {'x' * padding}",
            "stream": self.events > 0,
        }
        if self.usage:
            said["stream_options"] = {"include_usage": True}
        return json.dumps(said, separators=(",", ":")).encode()


def asked_in(body: bytes) -> tuple[Asked, bool]:
    """The request that a body states, and whether usage is to be sent. Raises ValueError for any other body."""
    said = json.loads(body)
    number, events, gap = said["prompt"].split()[:3]
    usage = bool((said.get("stream_options") or {}).get("include_usage"))
    return Asked(int(number), int(events), int(gap)), usage


def events_of(asked: Asked) -> Iterator[bytes]:
    """The events with output, in order."""
    checksum = zlib.crc32(asked.prompt.encode())
    for place in range(asked.events):
        reason = '"length"' if place == asked.events - 1 else "null"
        event = (
            f'data: {{"id":"cmpl-{asked.number}","object":"text_completion","created":1700000000,"model":"soak","choices":'
            f'[{{"index":0,"text":" {place}:{checksum:08x}","logprobs":null,"finish_reason":{reason}}}]}}\n\n'
        ).encode()
        yield event
        checksum = zlib.crc32(event, checksum)


def usage_of(asked: Asked) -> bytes:
    """The chunk that `include_usage` adds: cut out for a client that did not ask."""
    return (
        f'data: {{"id":"cmpl-{asked.number}","object":"text_completion","created":1700000000,"model":"soak","choices":[],'
        f'"usage":{{"prompt_tokens":9,"total_tokens":{9 + asked.events},"completion_tokens":{asked.events}}},"metrics":'
        f'{{"time_to_first_token_ms":1.0,"generation_time_ms":1.0,"queue_time_ms":0.5}}}}\n\n'
    ).encode()


DONE = b"data: [DONE]\n\n"


def expected(asked: Asked, body: bytes) -> bytes:
    """The whole answer as the client must get it."""
    if not asked.events:
        return whole_answer(asked, body)
    return b"".join(events_of(asked)) + (usage_of(asked) if asked.usage else b"") + DONE


def whole_answer(asked: Asked, body: bytes) -> bytes:
    """The answer to an upload: it states the length and the checksum of the body that arrived."""
    return json.dumps(
        {
            "id": f"cmpl-{asked.number}",
            "object": "text_completion",
            "choices": [{"index": 0, "text": f"{len(body)} {zlib.crc32(body):08x}", "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "total_tokens": 10, "completion_tokens": 1},
        }
    ).encode()
