"""The APIs that generate, one file each, and which path speaks which.

It knows paths only as engines serve them; it refuses to guess: a path that is not in the table has no dialect, and its
stream gets wire marks alone.
"""

from sidecar.timeline.dialects.anthropic_messages import AnthropicMessages
from sidecar.timeline.dialects.openai_chat import OpenAIChat
from sidecar.timeline.dialects.openai_completions import OpenAICompletions
from sidecar.timeline.dialects.openai_responses import OpenAIResponses
from sidecar.timeline.reading import Dialect


__all__ = ["dialect_for"]

_BY_PATH: dict[bytes, Dialect] = {
    b"/v1/chat/completions": OpenAIChat(),
    b"/v1/completions": OpenAICompletions(),
    b"/v1/responses": OpenAIResponses(),
    b"/v1/messages": AnthropicMessages(),
}
# llama.cpp serves these two without /v1 as well. Its /completions and /completion are NOT here: they speak its native
# dialect, not OpenAI's (llama.cpp b11434, tools/server).
_BY_PATH[b"/chat/completions"] = _BY_PATH[b"/v1/chat/completions"]
_BY_PATH[b"/responses"] = _BY_PATH[b"/v1/responses"]


def dialect_for(path: bytes) -> Dialect | None:
    """The dialect of a raw request target, its query stripped; None for a path that does not generate.

    Origin form (`/v1/messages?beta=true`) or absolute form (`http://engine/v1/messages`, RFC 9112 3.2.2). Paths are compared as they stand:
    no engine of ours serves them with other cases, escapes or a trailing slash.
    """
    path = path.partition(b"?")[0]
    if path[:1] != b"/":
        scheme, _, rest = path.partition(b"://")
        if scheme.lower() not in (b"http", b"https"):
            return None
        path = b"/" + rest.partition(b"/")[2]
    return _BY_PATH.get(path)
