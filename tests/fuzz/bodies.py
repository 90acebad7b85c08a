"""The readers of JSON texts and of one header: bodies of requests, their members, a model's config, the trace context.

Python's `json` reads the same text: where it does, both must find the same values at the same places, and the body into which
a key was spliced must be the body with that key.
"""

import json
import tempfile
from pathlib import Path

import msgspec

from sidecar.classify.body import MAX_STRING, peek, peek_in_steps
from sidecar.classify.found import Peek
from sidecar.classify.json_text import JsonText, TooLongError, UnreadableError
from sidecar.classify.long_body import LongBody
from sidecar.classify.top_level import elements, members
from sidecar.classify.trace import trace_context, traceparent
from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.model_config import load
from sidecar.observe.usage_chunk import ask_for_usage
from sidecar.proxy.observer import Splice
from sidecar.timeline.events import UNREADABLE
from tests.fuzz.target import Target, cuts


_ONE_SCAN = 1 << 20


class _Pairs(list[tuple[str, object]]):
    """An object with its members in order, duplicates included."""


def _said(text: bytes) -> object:
    """The value as Python's json reads it; raises ValueError also where it is nested too deeply."""
    try:
        return json.loads(text.decode(), object_pairs_hook=_Pairs)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _plain(value: object) -> object:
    """The value with objects as dicts, the last of duplicates counting."""
    if isinstance(value, _Pairs):
        return {name: _plain(member) for name, member in value}
    return [_plain(each) for each in value] if isinstance(value, list) else value


# --- bodies of requests --------------------------------------------------------------------------------------------------


def check_bodies(data: bytes) -> None:
    found = peek(data, whole=True)
    if found.whole and _is_text(data):
        _as_json_reads_it(data, found)
        splice = ask_for_usage(data, found)
        if isinstance(splice, Splice):
            spliced = data[: splice.start] + splice.text + data[splice.end :]
            expected = {**_object(data), "stream_options": {"include_usage": True}}
            assert _object(spliced) == expected, "the splice changed another key"
            assert len(spliced) > len(data)
    steps = in_steps(data)
    assert msgspec.structs.replace(steps, null_at=None) == found or not steps.whole or not _is_text(data), (
        "a body read in steps says something else"
    )
    passed = LongBody()
    for piece in list(cuts(data))[-1]:
        passed.feed(piece)
    seen = passed.peek()
    if seen is not None and seen.whole and found.whole and _is_text(data):
        assert (seen.model, seen.stream) == (found.model, found.stream), (
            "a body read while it passes says something else"
        )
    for length in (len(data) // 2, len(data) - 1):
        beginning = peek(data[: max(length, 0)], whole=False)
        assert not beginning.whole
        assert beginning.text_bytes is None
        if found.whole and data.count(b'"model"') == 1 and b"\\" not in data:
            assert beginning.model in (None, found.model)


def in_steps(data: bytes) -> Peek:
    """A whole body, read in steps."""
    steps = peek_in_steps(data)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Peek = end.value
            return found


def _is_text(data: bytes) -> bool:
    """msgspec steps over names and strings that nothing asks for without decoding them, and a body read in steps has more of
    them (containers in the place of a name, all but the last of duplicates); json refuses the text then."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _object(text: bytes) -> dict[str, object]:
    value = json.loads(text.decode())
    assert isinstance(value, dict)
    return value


def _as_json_reads_it(data: bytes, found: Peek) -> None:
    try:
        said = _object(data)
    except ValueError as error:
        assert "int string conversion" in str(error)  # only the size of a number may part the two
        return
    for name, value in (("model", found.model), ("user", found.user), ("service_tier", found.service_tier)):
        stated = said.get(name)
        assert value == (stated if isinstance(stated, str) and len(stated) <= MAX_STRING else None)
    stated = said.get("stream")
    assert found.stream == (stated if isinstance(stated, bool) else None)
    prompt = said.get("prompt")
    if isinstance(prompt, list) and prompt and type(prompt[0]) is int:
        assert found.prompt_tokens is not None


# --- members, elements, any text -----------------------------------------------------------------------------------------


def check_json_text(data: bytes) -> None:
    pairs = [(member.name, data[member.start : member.end]) for member in members(data)]
    assert all(raw for _, raw in pairs)
    for pause_tokens in (1, 3):
        assert _skipped(data, pause_tokens) == _skipped(data, _ONE_SCAN), "pauses change where a value ends"
    try:
        said = _said(data)
    except ValueError:
        return
    if not isinstance(said, _Pairs):
        counted = len(said) if isinstance(said, list) else 0
        assert (elements(data) or 0) == counted or not _strict(data)
        return
    assert [_plain(_said(raw)) for _, raw in pairs] == [_plain(value) for _, value in said] or b"NaN" in data
    for (name, _), (stated, _) in zip(pairs, said, strict=True):
        assert name in (stated, "")


def _strict(data: bytes) -> bool:
    """Whether it is JSON to the library too: NaN and Infinity are not."""
    try:
        msgspec.json.decode(data, type=list[msgspec.Raw])
    except UNREADABLE:
        return False
    return True


def _skipped(data: bytes, pause_tokens: int) -> int | str:
    text = JsonText(data, pause_tokens=pause_tokens, max_tokens=_ONE_SCAN)
    try:
        while not text.skip():
            pass
    except TooLongError:
        return "too long"
    except UnreadableError:
        return "unreadable"
    return text.at


# --- a model's config.json -----------------------------------------------------------------------------------------------

_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-config-")


def check_model_config(data: bytes) -> None:
    """Only the two exceptions that the command catches; and a model that is taken has layers and bytes above 0."""
    config, _, index = data.partition(b"\0")
    path = Path(_FOLDER.name, "config.json")
    path.write_bytes(config)
    path.with_name("model.safetensors.index.json").write_bytes(index)
    try:
        model = load(path)
    except (ValueError, RefusedError) as refused:
        assert str(refused)
        return
    assert model.layers
    assert all(group.count > 0 for group in model.layers)
    assert model.weights_bytes is None or model.weights_bytes > 0


# --- trace context -------------------------------------------------------------------------------------------------------


def check_trace(data: bytes) -> None:
    fields = [(b"TraceParent", line) for line in data.split(b"\n")]
    found = trace_context(fields)
    if found is None:
        return
    assert len(fields) == 1
    version, trace_id, parent_id, flags = data.strip().decode(errors="replace").split("-")[:4]
    assert (trace_id, parent_id) == (found.trace_id, found.parent_id)
    assert len(version) == len(flags) == 2
    assert version != "ff"
    assert int(trace_id, 16) > 0 < int(parent_id, 16)
    assert found.sampled == (int(flags, 16) % 2 == 1)
    again = trace_context([(b"traceparent", traceparent(found.trace_id, found.parent_id))])
    assert again == found._replace(sampled=True)


_CHAT = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi \\"\\u00e9"}],"max_tokens":9,"n":1}'
_COMPLETION = b'{"prompt":[1,2,3],"model":"m","stream":true,"stream_options":null,"user":"u","priority":-1}'
_WORDS = (
    *(b'"model":', b'"stream":true', b'"stream_options":{"include_usage":false}', b'"stream_options":null', b'"n":2'),
    *(b'"prompt":[[1],[2]]', b'"messages":[', b'"type":"image_url"', b";base64,", b"\\u0022", b"\\\\", b'\\"', b"null"),
    *(
        b'"max_tokens":',
        b'"input_ids":[',
        b"1e999",
        b"NaN",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"{}",
        b"[]",
        b'"text":{',
    ),
)
_LLAMA = (
    b'{"model_type":"llama","num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"hidden_size":4096,'
    b'"intermediate_size":14336,"vocab_size":128256,"torch_dtype":"bfloat16","max_position_embeddings":131072}'
)

BODIES = (
    Target("bodies", check_bodies, (_CHAT, _COMPLETION, b'{"inputs":"a"}', b" {} "), _WORDS, 512),
    Target("json_text", check_json_text, (_CHAT, _COMPLETION, b'[1,"a",{"b":[]}]', b'{"a":"\\\\\\"b"}'), _WORDS, 512),
    Target(
        "model_config",
        check_model_config,
        (
            *(_LLAMA, _LLAMA + b'\0{"metadata":{"total_size":16060522496}}', b'{"text_config":%b}' % _LLAMA),
            _LLAMA[:-1] + b',"sliding_window":4096,"layer_types":["full_attention"]}',
            b'{"num_hidden_layers":2,"num_attention_heads":2,"kv_lora_rank":512,"qk_rope_head_dim":64}',
        ),
        (
            *(
                b'"sliding_window":1',
                b'"sliding_window_pattern":0',
                b'"head_dim":',
                b'"text_config":{',
                b"null",
                b"1e999",
            ),
            *(
                b'"layer_types":[',
                b'"sliding_attention"',
                b'"kv_lora_rank":',
                b'"mamba_d_state":1',
                b"Infinity",
                b"true",
            ),
        ),
        512,
    ),
    Target(
        "trace",
        check_trace,
        (
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-x",
        ),
        (b"ff-", b"0" * 32, b"-", b"\n", b" "),
        128,
    ),
)
