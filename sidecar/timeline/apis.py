"""The API of a request, told by its method and the last segments of its path.

Engines mount the same API at many places: KServe below `/openai/v1`, OVMS below `/v3`, Docker's model runner below `/engines/v1`, gateways
below a prefix of their own. What stands before the API's own segments says nothing, so only the last ones are compared, the longest entry
first. Empty segments are passed over: a trailing or a doubled slash changes nothing. Segments themselves are compared as they are
written: no server takes them in another case or with escapes.

So `/v1/messages/count_tokens`, `/v1/batches` and `/v1/responses/ID/cancel` are no inference: their last segment is in no entry.

It knows paths and refuses to guess: a path without an entry has no API, and its stream gets no marks. `engine.paths` in the config adds
entries and takes some away.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from sidecar.timeline.dialects.anthropic_messages import ANTHROPIC_MESSAGES
from sidecar.timeline.dialects.field_table import (
    ENCODES,
    LLAMA_COMPLETION,
    OLLAMA,
    OPENAI_CHAT,
    OPENAI_COMPLETIONS,
    SGLANG_GENERATE,
    VLLM_GENERATE,
    tgi,
    triton,
)
from sidecar.timeline.dialects.openai_responses import OPENAI_RESPONSES
from sidecar.timeline.dialects.spoken import Spoken, Told
from sidecar.timeline.dialects.transcription import TRANSCRIPTION
from sidecar.timeline.events import Dialect


class Purpose(StrEnum):
    """The kind of answer that an API gives, which decides which of its times mean something."""

    GENERATES = "generates"
    """Tokens, one after the other: prefill and decode."""
    ENCODES = "encodes"
    """Numbers, at once: it has no first token, and its time teaches nothing about prefill or decode."""
    TRANSCRIBES = "transcribes"
    """The words of an audio: tokens come, and the length of the prompt is not that of a text."""
    DELIVERS = "delivers"
    """The stream of an answer that an earlier request ordered: it began before this request came."""
    TOLD_BY_BODY = "told_by_body"
    """The path serves several APIs: `told_by_body` says which."""


class Api(NamedTuple):
    dialect: Dialect
    purpose: Purpose = Purpose.GENERATES


TEACHES = (Purpose.GENERATES, Purpose.TOLD_BY_BODY)
"""Purposes whose times are those of prompts and tokens, which objectives and costs are about."""


_TGI = tgi()
_ENCODES = Api(ENCODES, Purpose.ENCODES)
_TRANSCRIBES = Api(TRANSCRIPTION, Purpose.TRANSCRIBES)
_INVOCATIONS = Spoken(
    "invocations",
    (
        Told(("delta",), OPENAI_CHAT),
        Told(("choices", "message"), OPENAI_CHAT),
        Told(("choices", "text"), OPENAI_COMPLETIONS),
        Told(("choices",), OPENAI_CHAT),
        Told(("token",), _TGI),
        Told(("generated_text",), _TGI),
    ),
    _ENCODES.dialect,
)

API_OF_NAME: dict[str, Api] = {
    api.dialect.name: api
    for api in (
        *map(
            Api,
            (
                OPENAI_CHAT,
                OPENAI_COMPLETIONS,
                OPENAI_RESPONSES,
                ANTHROPIC_MESSAGES,
                OLLAMA,
                LLAMA_COMPLETION,
                _TGI,
                SGLANG_GENERATE,
                VLLM_GENERATE,
            ),
        ),
        Api(triton(streams_unsaid=False)),
        _ENCODES,
        _TRANSCRIBES,
    )
}
"""The APIs by the name that `engine.paths.add` gives them."""

_ANY = b"*"
_STREAMS = re.compile(rb"[?&]stream=(?:[Tt]rue|1)(?:&|$)")
_PLAIN_PATH = re.compile(rb"[A-Za-z0-9._~/-]{1,128}")
MOST_TARGETS, LONGEST_TARGET_BYTES = 64, 256
"""Request targets that are remembered, and their longest: clients choose them."""
SERVED: tuple[tuple[str, Api], ...] = (
    ("chat/completions", API_OF_NAME["openai_chat"]),
    ("v1/completions", API_OF_NAME["openai_completions"]),
    # llama.cpp's own API (b11434, tools/server), or OpenAI's on servers that leave out /v1.
    (
        "completions",
        Api(
            Spoken(
                "openai_completions_or_llama_completion", (Told(("choices",), OPENAI_COMPLETIONS),), LLAMA_COMPLETION
            )
        ),
    ),
    ("responses", API_OF_NAME["openai_responses"]),
    ("v1/messages", API_OF_NAME["anthropic_messages"]),
    ("api/chat", API_OF_NAME["ollama"]),
    ("api/generate", API_OF_NAME["ollama"]),
    ("generate", Api(Spoken("sglang_generate_or_tgi_generate", (Told(("meta_info",), SGLANG_GENERATE),), _TGI))),
    ("generate_stream", Api(tgi(streams_unsaid=True))),
    ("completion", API_OF_NAME["llama_completion"]),
    ("infill", API_OF_NAME["llama_completion"]),
    ("inference/v1/generate", API_OF_NAME["vllm_generate"]),
    ("invocations", Api(_INVOCATIONS, Purpose.TOLD_BY_BODY)),
    *(
        (f"v2/models/*{version}/generate{ending}", Api(triton(streams_unsaid=bool(ending))))
        for version in ("", "/versions/*")
        for ending in ("", "_stream")
    ),
    *(
        (path, _ENCODES)
        for path in (
            "embeddings",
            "embedding",
            "embed",
            "embed_all",
            "rerank",
            "reranking",
            "score",
            "pooling",
            "classify",
        )
    ),
    ("audio/transcriptions", _TRANSCRIBES),
    ("audio/translations", _TRANSCRIBES),
)
"""The last segments of a path, `*` for any one, and the API that is served there."""
_UNSPLIT = ("realtime", "audio/speech", "images/generations", "images/edits", "images/variations")
"""The last segments of paths that serve inference without tokens, or over a websocket: nothing of it is read."""
_BY_KEY = (
    (b'"messages":', API_OF_NAME["openai_chat"]),
    (b'"prompt":', API_OF_NAME["openai_completions"]),
    (b'"inputs":', Api(_TGI)),
    *((key, _ENCODES) for key in (b'"input":', b'"query":', b'"queries":', b'"documents":', b'"text_1":')),
)
API_NAMES = tuple(dict.fromkeys(api.dialect.name for api in (*API_OF_NAME.values(), *(api for _, api in SERVED))))
"""The names of all dialects, for a label."""
_DELIVERED = Api(OPENAI_RESPONSES, Purpose.DELIVERS)


def segments_of(target: bytes) -> tuple[bytes, ...] | None:
    """The segments of a request target that are not empty, without its query; None for a target that has no path.

    Origin form (`/v1/messages?beta=true`) or absolute form (`http://engine/v1/messages`, RFC 9112 3.2.2).
    """
    path = target.partition(b"?")[0]
    if path[:1] != b"/":
        scheme, _, rest = path.partition(b"://")
        if scheme.lower() not in (b"http", b"https"):
            return None
        path = rest.partition(b"/")[2]
    return tuple(filter(None, path.split(b"/")))


class _Entry(NamedTuple):
    segments: tuple[bytes, ...]
    """The last ones of a path; `*` is any one segment."""
    api: Api | None
    """None: it is no inference, whatever shorter entry would say so."""

    def holds(self, segments: tuple[bytes, ...]) -> bool:
        own = self.segments
        last = segments[-len(own) :]
        return len(last) == len(own) and all(a in (_ANY, b) for a, b in zip(own, last, strict=True))


class Apis:
    """The paths on which this sidecar's engine serves inference."""

    def __init__(self, add: Mapping[str, str] = {}, exclude: Iterable[str] = ()) -> None:
        """`add`: last segments of a path (`/my/llm`) to the name of an API, a key of API_OF_NAME. `exclude`: such segments."""
        entries: dict[tuple[bytes, ...], Api | None] = {_split(path): api for path, api in SERVED}
        entries.update((_split(path), API_OF_NAME[name]) for path, name in add.items())
        entries.update((_split(path), None) for path in exclude)
        self._seen: dict[bytes, Api] = {}
        """Paths that were asked for, and their APIs: nearly all requests of a server come on one or two."""
        self._by_last: dict[bytes, list[_Entry]] = {}
        for segments, api in entries.items():
            self._by_last.setdefault(segments[-1], []).append(_Entry(segments, api))
        for found in self._by_last.values():
            found.sort(key=lambda entry: -len(entry.segments))

    def excludes(self, target: bytes) -> bool:
        """Whether the config says that this path is no inference."""
        segments = segments_of(target) or ()
        found = self._by_last.get(segments[-1], ()) if segments else ()
        return next((entry.api is None for entry in found if entry.holds(segments)), False)

    def models_beside(self, target: bytes) -> str | None:
        """The path at which an engine lists its models, if it serves inference at this one: `/openai/v1/chat/completions` has
        `/openai/v1/models` beside it. None for a path that is no inference, or has unusual signs.
        """
        segments = segments_of(target) or ()
        for entry in self._by_last.get(segments[-1], ()) if segments else ():
            if entry.api is not None and entry.holds(segments):
                before = segments[: len(segments) - len(entry.segments)]
                path = b"/".join((b"", *before, *((b"v1",) if entry.segments[0] == b"v1" else ()), b"models"))
                return path.decode() if _PLAIN_PATH.fullmatch(path) else None
        return None

    def of(self, method: bytes, target: bytes, own: Mapping[bytes, Dialect] = {}) -> Api | None:
        """The API of a request; None if it is no inference. `own`: whole paths on which the known engine alone generates."""
        if method == b"POST":
            return self._seen.get(target) or self._find(target, own)
        if method == b"GET" and _STREAMS.search(target):
            segments = segments_of(target) or ()
            return _DELIVERED if len(segments) > 1 and segments[-2] == b"responses" else None
        return None

    def _find(self, target: bytes, own: Mapping[bytes, Dialect]) -> Api | None:
        api = self.at(target, own)
        if api is not None and not own and len(target) <= LONGEST_TARGET_BYTES and len(self._seen) < MOST_TARGETS:
            self._seen[target] = api
        return api

    def at(self, target: bytes, own: Mapping[bytes, Dialect] = {}) -> Api | None:
        """The API of a path, whatever the method."""
        segments = segments_of(target)
        if segments is None:
            return None
        if own and (dialect := own.get(b"/" + b"/".join(segments))) is not None:
            return Api(dialect)
        for entry in self._by_last.get(segments[-1], ()) if segments else ():
            if entry.holds(segments):
                return entry.api
        return None


def is_unsplit(target: bytes) -> bool:
    """Whether inference is served on this path that nothing can split."""
    segments = segments_of(target) or ()
    return any(segments[-len(last) :] == last for last in map(_split, _UNSPLIT))


def model_in_path(target: bytes) -> str | None:
    """The model that a path names, `/v2/models/MODEL/...` (Triton); None if it names none, or one that is no UTF-8."""
    segments = segments_of(target) or ()
    for at in range(len(segments) - 3, -1, -1):
        if segments[at : at + 2] == (b"v2", b"models"):
            with suppress(UnicodeDecodeError):
                return unquote_to_bytes(segments[at + 2]).decode()
    return None


def told_by_body(body: bytes | bytearray, api: Api) -> Api:
    """The API of a request on a path that serves several: told by the first of these keys that its body has, else `api`."""
    return next((found for key, found in _BY_KEY if key in body), api)


def cancelled_by(method: bytes, target: bytes) -> bytes | None:
    """The id of the response that this request cancels, `POST .../responses/ID/cancel`; None if it cancels none."""
    if method != b"POST" or not target.partition(b"?")[0].rstrip(b"/").endswith(b"/cancel"):
        return None
    segments = segments_of(target) or ()
    return segments[-2] if len(segments) > 2 and segments[-3] == b"responses" else None


def _split(path: str) -> tuple[bytes, ...]:
    return tuple(filter(None, path.encode().split(b"/")))
