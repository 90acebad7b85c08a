"""The operation of a request, in the words of OpenTelemetry's GenAI conventions (`gen_ai.operation.name`), from a closed set.

The conventions have a word for chats, for completions of a text and for embeddings
(open-telemetry/semantic-conventions-genai at 002c8a6, `docs/gen-ai/gen-ai-spans.md`). What they have no word for gets one of its own,
which they allow: scores, ranks and classes are `encode` here, and a transcription is `transcribe`. Knows the names of APIs and the
words of paths; refuses to know the body.
"""

CHATS, TEXT, CONTENT, EMBEDDINGS = "chat", "text_completion", "generate_content", "embeddings"
ENCODE, TRANSCRIBE = "encode", "transcribe"
_OF_API = {
    "openai_chat": CHATS,
    "openai_responses": CHATS,
    "anthropic_messages": CHATS,
    "ollama": CHATS,
    "encode": ENCODE,
    "transcription": TRANSCRIBE,
    "invocations": CONTENT,
}
"""By the name of a dialect; all others complete a text. `invocations` is a request whose body does not tell its API."""


def operation_of(api: str, target: bytes) -> str:
    """The operation of a request to this API, the name of a dialect. `target`: its path, where one API has several operations."""
    operation = _OF_API.get(api, TEXT)
    if operation is ENCODE and b"embed" in target.partition(b"?")[0]:
        return EMBEDDINGS
    if api == "ollama" and b"/api/generate" in target:
        return TEXT
    return operation
