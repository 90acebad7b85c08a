"""The engine's answers to the sidecar's own questions, and the readers that several engines' files share. Pure.

An engine may answer anything: bytes that are no text, nesting without end. Nothing here raises; a page of an unexpected form
counts as empty. It refuses to know engines.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import msgspec


MODELS_PATH = "/v1/models"
METRICS = "/metrics"
VERSION_PATH = "/version"
SERVER_INFO = "/server_info"

_BEHIND = ("instances", "endpoints", "workers", "healthy_workers", "backends", "upstreams")
"""Names under which a front end's health states what stands behind it: the first two are Dynamo's (1.6.1, `http/service/health.rs`)."""
_LABEL_PAIR = re.compile(rb'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\.)*+)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to one question. Status None: no response came in time."""

    status: int | None
    body: bytes = b""
    server: str = ""
    """The Server header."""


Answers = Mapping[str, Answer]
"""By path."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The engine's description of itself; None, or no models, if it states none."""

    version: str | None = None
    models: tuple[str, ...] | None = None
    quantization: str | None = None
    gpu_type: str | None = None
    adapters: tuple[str, ...] = ()
    """Those of the models that are an adapter on another: they come and go while the engine runs."""


class Model(msgspec.Struct):
    """One entry of /v1/models."""

    id: str
    owned_by: str | None = None
    parent: Any = None
    """The model that this one adapts (vLLM 0.32 and SGLang); null for a model of its own."""


class Models(msgspec.Struct):
    """/v1/models."""

    data: list[Model]


A = TypeVar("A")


def decoded(body: bytes, answer: type[A]) -> A | None:
    """The JSON of an answer; None if it has another form."""
    try:
        return msgspec.json.decode(body, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


@lru_cache(maxsize=2)
def models_in(body: bytes) -> Models | None:
    """/v1/models, parsed once: a long list takes a millisecond, and several callers read it."""
    return decoded(body, Models)


def lists_nothing(body: bytes) -> bool:
    """Whether an answer to the question for the models is a list without one, in whatever spelling."""
    found = decoded(body, object)
    return not (found.get("data") or found.get("models")) if isinstance(found, dict) else found == []


def says_nothing_behind(health: bytes) -> bool:
    """Whether the page of a front end's health says that it has nothing behind it: each of the lists, or numbers, that it states is empty."""
    found = decoded(health, dict[str, Any]) or {}
    stated = [found[name] for name in _BEHIND if name in found]
    return bool(stated) and not any(stated)


def body_at(answers: Answers, path: str) -> bytes:
    """The body of a good answer on this path, else nothing."""
    answer = answers.get(path)
    return b"" if answer is None or answer.status != 200 else answer.body


def text_at(answers: Answers, path: str, *keys: str) -> str | None:
    """`text_in` of the body on this path."""
    return text_in(body_at(answers, path), *keys)


def text_in(body: bytes, *keys: str) -> str | None:
    """The text under these keys of a JSON, each in the object of the one before; None where there is none."""
    for key in keys:
        found = decoded(body, dict[str, msgspec.Raw])
        body = b"" if found is None else bytes(found.get(key, b""))
    return decoded(body, str)


def info_labels(page: bytes, name: bytes) -> dict[str, str]:
    """The labels of an info metric on a page; none if it is there twice with different labels."""
    found: list[dict[str, str]] = []
    at = page.find(name + b"{")
    while at >= 0 and len(found) < 2:
        if at == 0 or page[at - 1 : at] == b"\n":
            line = page[at : page.find(b"\n", at)]
            found.append({key.decode(): value.decode(errors="replace") for key, value in _LABEL_PAIR.findall(line)})
        at = page.find(name + b"{", at + 1)
    return found[0] if found and all(labels == found[0] for labels in found) else {}
