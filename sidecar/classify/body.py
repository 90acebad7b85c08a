"""A bounded, partial reading of a request body's top-level JSON keys, before the request is forwarded.

It knows the few keys that classify a request, of all APIs. It refuses to judge: a value that is missing, of an odd type
or cut off is None, and the engine decides whether it is an error. If a key stands twice, the last one counts, as in
Python's json, with which the engines read. Nothing here raises, whatever the bytes. Client text is not kept longer than
needed, and prompts are measured but never decoded.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from sidecar.classify.at_most import has_at_most
from sidecar.classify.decoders import BODY, NOT_STATED, Body, PlainBody, Scalars
from sidecar.classify.escapes import ESCAPE_BEGINS, EscapedBytes
from sidecar.classify.found import Asked, Peek, Place
from sidecar.classify.long_json import checked_members
from sidecar.classify.media import (
    BEGINNING_BYTES,
    INLINE,
    LONGEST_MATCH_BYTES,
    Look,
    MediaBytes,
    has_many_braces,
    holds_inline,
    looks_for,
    plain_bytes,
    plain_texts,
    taken_apart,
)
from sidecar.classify.top_level import elements, elements_in_steps, members
from sidecar.classify.usage_option import asked_in, place_of_null_in_steps
from sidecar.timeline.events import UNREADABLE


MAX_STRING = 1024
"""Characters of a name (model, user, service tier); a longer value is None."""

_OPENAI_TEXT = ("messages", "prompt", "input", "system", "instructions", "tools", "functions", "suffix", "documents")
_TEXT = (*_OPENAI_TEXT, "text", "text_input", "inputs")  # the last three: SGLang's own API, Triton, TGI
_BESIDE_MESSAGES = _TEXT[1:]
_IS_OBJECT = re.compile(rb"\s*+\{")
_CONTAINER = b"{["
_QUOTE = 0x22
_NO_SCALAR = b""
_NULL = b"null"
_SCALARS = Scalars.__struct_fields__
_scalars_of: Callable[[Body], tuple[msgspec.Raw, ...]] = attrgetter(*_SCALARS)
_FIELDS = frozenset(Body.__struct_fields__)
_MAX_SCALAR_BYTES = 12 * MAX_STRING + 2  # a name in which every character is two \uXXXX escapes

# The forms of structured output: OpenAI's, vLLM's (the guided_ ones until 0.12), llama.cpp's, SGLang's, Ollama's. TGI and
# SGLang's own API nest theirs.
_GRAMMARS = (
    *("response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    *("grammar", "json_schema", "regex", "ebnf", "format"),
)
_text_of: Callable[[Body], tuple[msgspec.Raw, ...]] = attrgetter(*_TEXT)
_FREE = frozenset({b"", b"null", b'""', b'"auto"', b'"none"'})
_NOT_HELD = _FREE | {b"[]"}
_FREE_FORM = re.compile(rb'\{\s{0,64}+"type"\s{0,64}+:\s{0,64}+"text"\s{0,64}+\}')
_NESTED_GRAMMAR = re.compile(rb'"(?:grammar|json_schema|json_object|regex|ebnf|structural_tag)"')
SERVER_TOOL = re.compile(
    rb'"type"\s*+:\s*+"(?:browser|code_interpreter|computer|container|file_search|image_generation|local_shell|mcp|python|web_search)'
)

_NESTED_IN = ("text", "parameters", "sampling_params")
_BINDING = (*_GRAMMARS, "tool_choice", *_NESTED_IN)
_binding_of: Callable[[Body], tuple[msgspec.Raw, ...]] = attrgetter(*_BINDING)
_NOTHING_BINDS = (NOT_STATED,) * len(_BINDING)
# Fields of the Responses API, of vLLM's completions and of SGLang's own API: a prompt, or a part of it, that is no text of the body.
_BESIDE = (
    *("previous_response_id", "conversation", "prompt_embeds", "input_embeds"),
    *("image_data", "audio_data", "video_data"),
)
_beside_of: Callable[[Body], tuple[msgspec.Raw, ...]] = attrgetter(*_BESIDE)
_NOTHING_BESIDE = (NOT_STATED,) * len(_BESIDE)
_LIST = re.compile(rb"\s*+\[")
_TOKEN_IDS = re.compile(rb"\s*+\[\s*+-?\d")
_LISTS = re.compile(rb"\s*+\[\s*+\[")

_WINDOW_BYTES = 65_536
"""Bytes of a long text that are searched in one step; windows overlap by `media.LONGEST_MATCH_BYTES`."""

AT_ONCE_BYTES = 131_072
"""Bytes of a body whose members are found in one call: 40 us for prose or code, at most 1 ms whatever stands in it. In pieces
it takes ten times as long."""
_SPARSE_AT_ONCE_BYTES = 6 * AT_ONCE_BYTES
_GIVEN_UP_BYTES = 2 * AT_ONCE_BYTES
"""Bytes of a long body that are looked at if it is no JSON, or none that an encoder of prompts writes: at most 1.5 ms."""
_BYTES_A_TOKEN = 24
_MOST_TOKENS = 16_384
"""Fewest bytes for each colon of a longer body whose members are found in one call, and the most colons; beyond twice the length also of
commas and of opening brackets. A colon, behind the name of a member, may cost 40 ns, the others cost 4."""


class _Steps(NamedTuple):
    """The finds of all steps in a long body."""

    read: Body
    plain: int | None
    """Bytes of messages that need no look."""
    said: Scalars
    null_at: Place | None
    prompts: tuple[int | None, int | None]
    not_text: set[str]
    least: int
    """Bytes of text without those of media and of escapes; where no field is not text, 0."""
    escaped: int
    """Bytes of text that are there only for their escapes (`escapes.py`)."""
    nested: set[str]
    server_tools: bool


def peek_in_steps(body: bytes | bytearray) -> Generator[None, None, Peek]:
    """As `peek` of a whole body; each step takes up to 1 ms, at most 2 ms (`make bounds`). Never raises.

    The result is the same but for two things. Where a long list of prompts has more tokens, deeper brackets or more blanks than are
    stepped over, `choices` is None. And in a body of more than 768 KiB, or one that is dense, messages count as they are written.
    """
    size: int | None = None
    try:
        quick = yield from _is_quick(body)
        apart: PlainBody | None = None
        if quick and not has_many_braces(body):
            yield
            if not holds_inline(body):
                yield
                apart = taken_apart(body)
            yield
            size = None if apart is None else plain_bytes(apart.messages)
        if apart is not None and size is not None:
            read: Body = apart
        elif quick:
            yield
            read = BODY.decode(body)
        else:
            view, found = memoryview(body), (yield from checked_members(body))
            # In order: a member ends behind its beginning.
            read = Body(**{m.name: msgspec.Raw(view[m.start : m.end]) for m in found if m.name in _FIELDS})
        yield
        said = _scalars(zip(_SCALARS, _scalars_of(read), strict=True))
    except UNREADABLE:
        yield
        return peek(bytes(body[:_GIVEN_UP_BYTES]), whole=False)
    null = said.stream is True and read.stream_options is not NOT_STATED and asked_in(read.stream_options) is Asked.NULL
    null_at = (yield from place_of_null_in_steps(body)) if null else None
    yield
    prompt = _prompt_of(read)
    if _TOKEN_IDS.match(prompt):
        prompts: tuple[int | None, int | None] = 1, (yield from _ids_in_steps(bytes(prompt)))
    else:
        prompts = _one_prompt(prompt) or ((yield from elements_in_steps(bytes(prompt))) or None, None)
    yield
    fields, inline = (_TEXT, True) if size is None else (_BESIDE_MESSAGES, False)
    not_text = yield from _searched(read, fields, partial(looks_for, inline=inline))
    least = (yield from _without_media(read, size)) if not_text or _is_held(read) else 0
    nested = yield from _searched(read, _NESTED_IN, lambda _field: (_NESTED_GRAMMAR.search,))
    tools = yield from _searched(read, ("tools",), lambda _field: (SERVER_TOOL.search,))
    escaped = yield from _escaped_bytes(read, size)
    steps = _Steps(read, size, said, null_at, prompts, not_text, least, escaped, nested, bool(tools))
    return peek(b"", whole=True, steps=steps)


def _is_quick(body: bytes | bytearray) -> Generator[None, None, bool]:
    """Whether the members can be found in one call that takes at most 1 ms. Prose and code have few brackets and commas."""
    if len(body) > _SPARSE_AT_ONCE_BYTES:
        return False
    dear = () if len(body) <= AT_ONCE_BYTES else (b":",) if len(body) <= 2 * AT_ONCE_BYTES else (b":", b",", b"[")
    for byte in dear:
        if not has_at_most(min(len(body) // _BYTES_A_TOKEN, _MOST_TOKENS), byte, body):
            return False
        yield
    return True


def _searched(
    read: Body, fields: Iterable[str], looks: Callable[[str], tuple[Look, ...]]
) -> Generator[None, None, set[str]]:
    """The fields in which one of their looks finds something; a step for each window's length that was searched."""
    found, searched = set(), 0
    for name in fields:
        raw = getattr(read, name)
        if raw is NOT_STATED:
            continue
        text = bytes(raw)
        for look in looks(name):
            for at in range(0, len(text), _WINDOW_BYTES):
                searched += min(_WINDOW_BYTES, len(text) - at)
                if searched > _WINDOW_BYTES:
                    searched = 0
                    yield
                if look(text, max(0, at - LONGEST_MATCH_BYTES), at + _WINDOW_BYTES):
                    found.add(name)
                    break
    return found


def _texts(read: Body, plain: int | None) -> Iterator[bytes]:
    """The texts as they are written. `plain`: bytes of messages that need no look; these are left out."""
    for name in _TEXT if plain is None else _BESIDE_MESSAGES:
        text = bytes(getattr(read, name))
        if text != _NULL and not (name == "text" and _IS_OBJECT.match(text)):
            yield text


def _without_media(read: Body, plain: int | None) -> Generator[None, None, int]:
    """Bytes of all texts, without those of media and of escapes; two steps for each window of them."""
    total = (plain or 0) - (yield from _escaped_bytes(read, plain))
    for text in _texts(read, plain):
        media = MediaBytes()
        for at in range(0, len(text), _WINDOW_BYTES):
            if at:
                yield
            media.feed(text[at : at + _WINDOW_BYTES])
        total += len(text) - media.found
    return max(0, total)


def _escaped_bytes(read: Body, plain: int | None) -> Generator[None, None, int]:
    """Bytes of all texts that are there only for their escapes; a step for each window of them."""
    escapes = EscapedBytes()
    for text in chain(_texts(read, plain), plain_texts(read)):
        for at in range(0, len(text), _WINDOW_BYTES):
            escapes.feed(text[at : at + _WINDOW_BYTES])
            yield
    return escapes.found


def peek_outline(
    outline: bytes, sizes: Mapping[str, int], *, cut: bool, media_bytes: int | None, server_tools: bool
) -> Peek:
    """Read the outline of a body (`timeline/outline.py`). Never raises.

    `sizes`: bytes of each member's value in the body, less those of its escapes. `cut`: elements of lists were left out. `media_bytes`:
    bytes of media that the body holds, None if it shows no sign of media. `server_tools`: it shows a sign of them.
    """
    found = peek(outline, whole=True)
    try:
        read = BODY.decode(outline)
    except UNREADABLE:
        return found
    ids = _TOKEN_IDS.match(_prompt_of(read)) or _LISTS.match(_prompt_of(read))
    stated = ((name, bytes(getattr(read, name))) for name in _TEXT if name in sizes)
    texts = [name for name, raw in stated if not (raw == _NULL or (name == "text" and _IS_OBJECT.match(raw)))]
    total = 0 if ids else sum(sizes[name] for name in texts)
    is_text = media_bytes is None and not ids and not _is_held(read)
    return replace(
        found,
        text_bytes=total if is_text else None,
        least_text_bytes=max(0, total - (media_bytes or 0)),
        grammar_bytes=found.grammar_bytes + (_left_out_of_grammar(read, sizes) if found.grammar_bytes else 0),
        server_tools=found.server_tools or (server_tools and read.tools is not NOT_STATED),
        choices=None if cut and _LIST.match(_prompt_of(read)) else found.choices,
        prompt_tokens=None if cut else found.prompt_tokens,
    )


def _left_out_of_grammar(read: Body, sizes: Mapping[str, int]) -> int:
    """Bytes of what binds the answer's form that are in the body, and not in its outline."""
    binds_tools = read.tool_choice is not NOT_STATED and bytes(read.tool_choice) not in _FREE
    names = (*_GRAMMARS, *_NESTED_IN, *(("tools",) if binds_tools else ()))
    stated = ((name, bytes(getattr(read, name))) for name in names if name in sizes)
    return sum(max(0, sizes[name] - len(raw)) for name, raw in stated if raw not in _FREE)


def peek(body: bytes | bytearray, *, whole: bool, steps: _Steps | None = None) -> Peek:
    """Read a request body; `whole`: these are all its bytes, not only its beginning up to the look-in bound. Never
    raises. `steps`: what `peek_in_steps` has found in it.

    Of a beginning, only the members that end within it are read, and the values that depend on the rest (choices,
    usage_asked, text_bytes) stay unclear. A whole body that is no JSON object is read as far as it looks like one.
    """
    read: Body | None = None
    plain: int | None = None
    choices, usage_asked, text_bytes, prompt_tokens, least = None, Asked.UNCLEAR, None, None, 0
    grammar_bytes, server_tools = 0, False
    try:
        if steps is not None:
            read, said, plain = steps.read, steps.said, steps.plain
        elif whole:
            if len(body) <= BEGINNING_BYTES:
                apart = None if body.find(INLINE) >= 0 else taken_apart(body)  # `in` makes an exception first
            else:
                apart = None if has_many_braces(body) or holds_inline(body) else taken_apart(body)
            plain = None if apart is None else plain_bytes(apart.messages)
            read = BODY.decode(body) if apart is None or plain is None else apart
            said = _scalars(zip(_SCALARS, _scalars_of(read), strict=True))
        else:
            said = _beginning(body)
    except UNREADABLE:
        read, said = None, _beginning(body)
    if read is not None:
        prompt = _prompt_of(read)
        prompts, prompt_tokens = (
            steps.prompts if steps is not None else (1, None) if prompt is NOT_STATED else _prompts(prompt)
        )
        choices = prompts if said.n is None else _choices(said.n, prompts)
        usage_asked = Asked.ABSENT if read.stream_options is NOT_STATED else asked_in(read.stream_options)
        exact = prompt_tokens is not None or _LISTS.match(prompt)
        text_bytes = None if exact else _text_bytes(read, plain, steps, body)
        if text_bytes is None and not exact:
            least = steps.least if steps is not None else _at_once(_without_media(read, plain))
        grammar_bytes = 0 if _binding_of(read) == _NOTHING_BINDS else _grammar_bytes(read, steps)
        if steps is not None:
            server_tools = steps.server_tools
        else:
            server_tools = read.tools is not NOT_STATED and SERVER_TOOL.search(read.tools) is not None
    return Peek(
        whole=read is not None,
        model=_name(said.model),
        stream=said.stream if isinstance(said.stream, bool) else None,
        max_tokens=_max_tokens(said.max_completion_tokens, said.max_tokens, said.max_output_tokens),
        user=None if said.user is None else _name(said.user),
        priority=said.priority if type(said.priority) is int else None,
        service_tier=None if said.service_tier is None else _name(said.service_tier),
        choices=choices,
        usage_asked=usage_asked,
        null_at=None if steps is None else steps.null_at,
        text_bytes=text_bytes,
        least_text_bytes=least if text_bytes is None else text_bytes,
        prompt_tokens=prompt_tokens,
        grammar_bytes=grammar_bytes,
        server_tools=server_tools,
    )


def _beginning(body: bytes | bytearray) -> Scalars:
    """Read the scalar members that are complete in the first bytes of an object."""
    # In order: a member ends behind its beginning.
    found = {m.name: body[m.start : m.end] for m in members(body) if m.name in _SCALARS}
    short = ((name, raw) for name, raw in found.items() if len(raw) <= _MAX_SCALAR_BYTES)
    return _scalars(short, strict=False)


def _scalars(named: Iterable[tuple[str, Any]], *, strict: bool = True) -> Scalars:
    """The decoded values. Containers, and strings longer than any name, are not decoded: it takes long, and nothing follows from it.

    `strict`: a value that cannot be decoded raises one of UNREADABLE; else it is None.
    """
    found: dict[str, Any] = {}
    for name, raw in named:
        if raw is not NOT_STATED:
            view = memoryview(raw)
            if view[0] in _CONTAINER or (view[0] == _QUOTE and len(view) > _MAX_SCALAR_BYTES):
                found[name] = _NO_SCALAR
                continue
            try:
                found[name] = msgspec.json.decode(raw)
            except UNREADABLE:
                if strict:
                    raise
    return Scalars(**found)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= MAX_STRING else None


def _max_tokens(*stated: object) -> int | None:
    for value in stated:
        if type(value) is int and value >= 0:
            return value
    return None


def _prompt_of(read: Body) -> msgspec.Raw:
    """The prompt or prompts: a completions' `prompt`, SGLang's `input_ids`, the `token_ids` of vLLM's API of tokens, or its `prompt_embeds`."""
    if read.prompt is not NOT_STATED:
        return read.prompt
    if read.input_ids is not NOT_STATED:
        return read.input_ids
    return read.prompt_embeds if read.token_ids is NOT_STATED else read.token_ids


def _prompts(prompt: msgspec.Raw) -> tuple[int | None, int | None]:
    """Number of prompts in a `prompt` field, 1 if there is none, and its length in tokens if it is one list of token ids."""
    return _one_prompt(prompt) or (elements(bytes(prompt)) or None, None)


def _one_prompt(prompt: msgspec.Raw) -> tuple[int, int | None] | None:
    """As `_prompts` for a text, for one list of token ids and for none at all; None for a list of prompts."""
    if not _LIST.match(prompt):
        return 1, None
    return (1, bytes(prompt).count(b",") + 1) if _TOKEN_IDS.match(prompt) else None


def _ids_in_steps(prompt: bytes) -> Generator[None, None, int]:
    """The length of one list of token ids."""
    found = 1
    for at in range(0, len(prompt), _WINDOW_BYTES):
        found += prompt.count(b",", at, at + _WINDOW_BYTES)
        yield
    return found


def _choices(n: object, prompts: int | None) -> int | None:
    if type(n) is not int or n < 1 or prompts is None:
        return None
    return n * prompts


def _is_held(read: Body) -> bool:
    """Whether a part of the prompt is no text of the body: the server has it already, or it comes as numbers or pixels."""
    return any(each is not NOT_STATED and bytes(each) not in _NOT_HELD for each in _beside_of(read))


def _at_once(steps: Generator[None, None, int]) -> int:
    while True:
        try:
            next(steps)
        except StopIteration as over:
            return int(over.value)


def _text_bytes(read: Body, plain: int | None, steps: _Steps | None, body: bytes | bytearray) -> int | None:
    """`plain`: bytes of messages that need no look."""
    if _beside_of(read) != _NOTHING_BESIDE and _is_held(read):
        return None
    total, inline = plain or 0, plain is None and body.find(INLINE) >= 0
    for name, stated in zip(_TEXT, _text_of(read), strict=True):
        if stated is NOT_STATED or (plain is not None and name == "messages"):
            continue
        many = memoryview(stated).nbytes
        if many == len(_NULL) and bytes(stated) == _NULL:
            continue
        if name == "text" and _IS_OBJECT.match(stated):
            continue  # in a Responses request, `text` states the format of the answer
        if steps is not None:
            if name in steps.not_text:
                return None
        else:
            raw = bytes(stated)
            for look in looks_for(name, inline=inline):
                if look(raw, 0, len(raw)):
                    return None
        total += many
    has_escapes = steps is None and body.find(b"\\") >= 0 and body.rfind(ESCAPE_BEGINS) >= 0
    escaped = _at_once(_escaped_bytes(read, plain)) if has_escapes else 0
    return total - (escaped if steps is None else steps.escaped)


def _grammar_bytes(read: Body, steps: _Steps | None) -> int:
    total = 0
    for stated in _binding_of(read)[: len(_GRAMMARS)]:
        if stated is not NOT_STATED:
            raw = bytes(stated)
            if raw not in _FREE and not _FREE_FORM.fullmatch(raw):
                total += len(raw)
    if read.tool_choice is not NOT_STATED and bytes(read.tool_choice) not in _FREE:
        total += len(bytes(read.tools))
    for name in _NESTED_IN:
        nested = getattr(read, name)
        if nested is NOT_STATED:
            continue
        raw = bytes(nested)
        if _IS_OBJECT.match(raw) and (_NESTED_GRAMMAR.search(raw) if steps is None else name in steps.nested):
            total += len(raw)
    return total
