"""The JSON of a request body as msgspec decodes it, as far as anything is read of it.

It knows names and types of members, and refuses to know what they mean. These structs are apart from the code that uses them because
mypyc cannot compile a module with one.
"""

from typing import Any

import msgspec


NOT_STATED = msgspec.Raw(b"")
"""The value of a member that is not there."""


class Scalars(msgspec.Struct, frozen=True):
    """Values that are decoded; None if absent or null, a value that is no scalar if they are none of these types."""

    model: Any = None
    stream: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    user: Any = None
    priority: Any = None
    service_tier: Any = None
    n: Any = None


class Body(msgspec.Struct, frozen=True):
    """Values as they are written: to decode them all would take 50 ms for 32 KiB of numbers near the ends of their range."""

    model: msgspec.Raw = NOT_STATED
    stream: msgspec.Raw = NOT_STATED
    max_tokens: msgspec.Raw = NOT_STATED
    max_completion_tokens: msgspec.Raw = NOT_STATED
    max_output_tokens: msgspec.Raw = NOT_STATED
    user: msgspec.Raw = NOT_STATED
    priority: msgspec.Raw = NOT_STATED
    service_tier: msgspec.Raw = NOT_STATED
    n: msgspec.Raw = NOT_STATED
    stream_options: msgspec.Raw = NOT_STATED
    messages: msgspec.Raw = NOT_STATED
    prompt: msgspec.Raw = NOT_STATED
    text: msgspec.Raw = NOT_STATED
    text_input: msgspec.Raw = NOT_STATED
    inputs: msgspec.Raw = NOT_STATED
    input_ids: msgspec.Raw = NOT_STATED
    token_ids: msgspec.Raw = NOT_STATED
    input: msgspec.Raw = NOT_STATED
    system: msgspec.Raw = NOT_STATED
    instructions: msgspec.Raw = NOT_STATED
    tools: msgspec.Raw = NOT_STATED
    functions: msgspec.Raw = NOT_STATED
    suffix: msgspec.Raw = NOT_STATED
    documents: msgspec.Raw = NOT_STATED
    previous_response_id: msgspec.Raw = NOT_STATED
    conversation: msgspec.Raw = NOT_STATED
    prompt_embeds: msgspec.Raw = NOT_STATED
    input_embeds: msgspec.Raw = NOT_STATED
    image_data: msgspec.Raw = NOT_STATED
    audio_data: msgspec.Raw = NOT_STATED
    video_data: msgspec.Raw = NOT_STATED
    tool_choice: msgspec.Raw = NOT_STATED
    response_format: msgspec.Raw = NOT_STATED
    structured_outputs: msgspec.Raw = NOT_STATED
    guided_json: msgspec.Raw = NOT_STATED
    guided_regex: msgspec.Raw = NOT_STATED
    guided_choice: msgspec.Raw = NOT_STATED
    guided_grammar: msgspec.Raw = NOT_STATED
    grammar: msgspec.Raw = NOT_STATED
    json_schema: msgspec.Raw = NOT_STATED
    regex: msgspec.Raw = NOT_STATED
    ebnf: msgspec.Raw = NOT_STATED
    format: msgspec.Raw = NOT_STATED
    parameters: msgspec.Raw = NOT_STATED
    sampling_params: msgspec.Raw = NOT_STATED


class _Options(msgspec.Struct, frozen=True):
    include_usage: msgspec.Raw = NOT_STATED


class PlainMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of these members alone has no part that is no text, if its content is a string."""

    role: msgspec.Raw = NOT_STATED
    content: msgspec.Raw = NOT_STATED
    name: msgspec.Raw = NOT_STATED
    tool_call_id: msgspec.Raw = NOT_STATED


class PlainBody(Body, frozen=True):
    """A body whose messages are plain; None: it has no messages."""

    messages: list[PlainMessage] | None = None  # type: ignore[assignment]  # read in its own way, or not at all


BODY = msgspec.json.Decoder(Body)
PLAIN_BODY = msgspec.json.Decoder(PlainBody)
STREAM_OPTIONS = msgspec.json.Decoder(_Options | None)
