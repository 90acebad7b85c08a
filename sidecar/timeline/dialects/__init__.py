"""The dialects of the APIs that generate, one file each, and the dialect of each path.

It knows paths only as engines serve them. It refuses to guess: a path that is not in the table has no dialect, and its
stream gets wire marks alone.
"""

import re
from collections.abc import Mapping

from sidecar.timeline.dialects.anthropic_messages import AnthropicMessages
from sidecar.timeline.dialects.llama_completion import LlamaCompletion
from sidecar.timeline.dialects.ollama_api import Ollama
from sidecar.timeline.dialects.openai_chat import OpenAIChat
from sidecar.timeline.dialects.openai_completions import OpenAICompletions
from sidecar.timeline.dialects.openai_responses import OpenAIResponses
from sidecar.timeline.dialects.sglang_generate import SGLangGenerate
from sidecar.timeline.dialects.tgi_generate import TGIGenerate
from sidecar.timeline.dialects.triton_generate import TritonGenerate
from sidecar.timeline.events import Dialect, Reading


__all__ = ["dialect_for"]


class Either(Dialect):
    """A path that two engines serve, each in its own dialect, before the engine's kind is known.

    `key`, with no blank before its colon, is in every event of `first` and in none of `second`. It is searched for, and
    nothing is decoded; the same key inside a string of text is escaped and is not found.
    """

    def __init__(self, key: str, first: Dialect, second: Dialect) -> None:
        self.name = f"{first.name}_or_{second.name}"
        self.streams_unsaid = first.streams_unsaid and second.streams_unsaid
        self._key = b'"%s":' % key.encode()
        self._first = first
        self._second = second

    def read_event(self, event: bytes, data: bytes) -> Reading:
        return self._spoken(data).read_event(event, data)

    def read_body(self, body: bytes) -> Reading:
        return self._spoken(body).read_body(body)

    def _spoken(self, data: bytes) -> Dialect:
        return self._first if self._key in data else self._second


_BY_PATH: dict[bytes, Dialect] = {
    b"/v1/chat/completions": OpenAIChat(),
    b"/v1/completions": OpenAICompletions(),
    b"/v1/responses": OpenAIResponses(),
    b"/v1/messages": AnthropicMessages(),
    b"/api/chat": Ollama(),
    b"/api/generate": Ollama(),
    b"/generate": Either("meta_info", SGLangGenerate(), TGIGenerate()),
    b"/generate_stream": TGIGenerate(streams_unsaid=True),
    b"/completion": LlamaCompletion(),
    b"/infill": LlamaCompletion(),
    # llama.cpp's native dialect (b11434, tools/server), or OpenAI's on gateways that also serve their paths without
    # /v1.
    b"/completions": Either("choices", OpenAICompletions(), LlamaCompletion()),
}
# llama.cpp serves these two without /v1 as well.
_BY_PATH[b"/chat/completions"] = _BY_PATH[b"/v1/chat/completions"]
_BY_PATH[b"/responses"] = _BY_PATH[b"/v1/responses"]

_TRITON = re.compile(rb"/v2/models/[^/]+(?:/versions/[^/]+)?/generate(_stream)?")
_TRITON_WHOLE = TritonGenerate(streams_unsaid=False)
_TRITON_STREAMED = TritonGenerate(streams_unsaid=True)


def dialect_for(path: bytes, own: Mapping[bytes, Dialect] = {}) -> Dialect | None:
    """The dialect of a raw request target, its query stripped; None for a path that does not generate.

    Origin form (`/v1/messages?beta=true`) or absolute form (`http://engine/v1/messages`, RFC 9112 3.2.2). Paths are
    compared unchanged: no supported engine serves them in another case, with escapes or a trailing slash. `own`: paths
    that generate only on the known engine.
    """
    path = path.partition(b"?")[0]
    if path[:1] != b"/":
        scheme, _, rest = path.partition(b"://")
        if scheme.lower() not in (b"http", b"https"):
            return None
        path = b"/" + rest.partition(b"/")[2]
    found = own.get(path) or _BY_PATH.get(path)
    if found is None and path[:11] == b"/v2/models/":
        triton = _TRITON.fullmatch(path)
        if triton is not None:
            found = _TRITON_STREAMED if triton[1] else _TRITON_WHOLE
    return found
