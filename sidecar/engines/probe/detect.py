"""Which engine stands behind the sidecar, decided from what it answers. Pure; answers in, the next question or the kind out.

It knows by which answer each engine gives itself away, and the order that disturbs least. It refuses to guess: answers that
point to several engines, or to none, are "not recognised", and then nothing is asked of the engine and nothing believed.
Two pages must not be read lightly: each reading of llama.cpp's /metrics resets gauges, so /metrics comes last and only once
/props has said that this is no llama.cpp; and TensorRT-LLM's /metrics hands each statistic out once, to the first who asks,
so it is recognised by its list of models before.

| engine | recognised by | read in |
|---|---|---|
| vLLM, SGLang, llama.cpp, TensorRT-LLM, LMDeploy | `owned_by` of every model in /v1/models | 0.33, 0.5.23, b11434, main of 2026, 0.18 |
| Triton | `owned_by` (OpenAI front end), `name` in /v2 | 2.73 |
| Dynamo | `owned_by: nvidia`, which others say too, and its names in /metrics | 1.6.1 |
| llama.cpp | the Server header, /props | b11434 |
| TGI | `router` in /info | 3.3.6-dev0 |
| Ollama | the sentence at / | fb307609 |
| a fork that renamed itself | the prefix of the names in /metrics | |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import msgspec


MODELS = "/v1/models"
PROPS = "/props"
INFO = "/info"
ROOT = "/"
KSERVE = "/v2"
METRICS = "/metrics"
ORDER = (MODELS, PROPS, INFO, ROOT, KSERVE, METRICS)

OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama_cpp",
    "tensorrt_llm": "tensorrt_llm",
    "lmdeploy": "lmdeploy",
    "Triton Inference Server": "triton",
}
"""`owned_by` in /v1/models to the kind of engine that says so."""
_MAYBE_DYNAMO = "nvidia"
PREFIXES = {
    b"vllm:": "vllm",
    b"sglang:": "sglang",
    b"tgi_": "tgi",
    b"trtllm_": "tensorrt_llm",
    b"llamacpp:": "llama_cpp",
    b"lmdeploy:": "lmdeploy",
    b"nv_inference_": "triton",
    b"dynamo_frontend_": "dynamo",
}
"""What the names on a page of metrics begin with. Triton and Dynamo show the names of an engine inside them beside their own."""
_AROUND = ("dynamo", "triton")
_SAYS_NO = (404, 405, 410, 501)
"""How a server says that it has no such page. 401, 403 or 5xx say nothing about which pages there are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one question; status None: nothing did, in time."""

    status: int | None
    body: bytes = b""
    server: str = ""
    """The Server header."""

    @property
    def good(self) -> bytes:
        """The body of a 200, else nothing."""
        return self.body if self.status == 200 else b""


Answers = Mapping[str, Answer]
"""By path."""


class Model(msgspec.Struct):
    """One entry of /v1/models."""

    id: str
    owned_by: str | None = None


class Models(msgspec.Struct):
    """/v1/models."""

    data: list[Model]


class _Props(msgspec.Struct):
    build_info: str
    default_generation_settings: object = None
    role: str | None = None


class _Info(msgspec.Struct):
    router: str | None = None
    waiting_served_ratio: float | None = None


class _Kserve(msgspec.Struct):
    name: str


A = TypeVar("A")


def decoded(body: bytes, answer: type[A]) -> A | None:
    """What the engine answered; None where it is not that. It may be anything: bytes that are no text, nesting without end."""
    try:
        return msgspec.json.decode(body, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


@lru_cache(maxsize=2)
def models_in(body: bytes) -> Models | None:
    """/v1/models, read once: a long list takes a millisecond, and several questions are put to it."""
    return decoded(body, Models)


def recognised(answers: Answers) -> str | None:
    """The kind that these answers prove, or None: not (yet) recognised."""
    found = _by_models(answers) or _by_pages(answers)
    return found.pop() if len(found) == 1 else None


def next_question(answers: Answers) -> str | None:
    """The path to ask next; None when it is recognised, ambiguous, or there is nothing left to ask."""
    if MODELS not in answers:
        return MODELS
    if answers[MODELS].status is None or _by_models(answers) or _by_pages(answers):
        return None
    order = (METRICS,) if _owners(answers) == {_MAYBE_DYNAMO} else ORDER
    for path in order:
        if path in answers:
            if answers[path].status is None:
                return None  # it hangs: to ask on would be to pile up
        elif path != METRICS or _is_no_llama_cpp(answers):
            return path
    return None


def _owners(answers: Answers) -> set[str]:
    models = models_in(answers[MODELS].good) if MODELS in answers else None
    return set() if models is None else {model.owned_by for model in models.data if model.owned_by is not None}


def _by_models(answers: Answers) -> set[str]:
    """Kinds that the list of models speaks for; a list that mixes engines with strangers is a gateway's, and speaks for none."""
    owners = _owners(answers)
    kinds = {OWNERS[owner] for owner in owners if owner in OWNERS}
    if any(answer.server.lower().startswith("llama.cpp") for answer in answers.values()):
        kinds.add("llama_cpp")
    strangers = owners - OWNERS.keys()
    return kinds | {"?"} if kinds and strangers else kinds


def _by_pages(answers: Answers) -> set[str]:
    kinds: set[str] = set()
    props = decoded(answers[PROPS].good, _Props) if PROPS in answers else None
    if props is not None and (props.default_generation_settings is not None or props.role is not None):
        kinds.add("llama_cpp")
    info = decoded(answers[INFO].good, _Info) if INFO in answers else None
    if info is not None and (info.waiting_served_ratio is not None or _says(info.router, "text-generation-router")):
        kinds.add("tgi")
    if ROOT in answers and answers[ROOT].good.strip() == b"Ollama is running":
        kinds.add("ollama")
    kserve = decoded(answers[KSERVE].good, _Kserve) if KSERVE in answers else None
    if kserve is not None and kserve.name == "triton":
        kinds.add("triton")
    if METRICS in answers:
        kinds |= _by_names(answers[METRICS].good)
    return kinds


def _says(text: str | None, beginning: str) -> bool:
    return text is not None and text.startswith(beginning)


def _by_names(page: bytes) -> set[str]:
    page = b"\n" + page
    kinds = {kind for prefix, kind in PREFIXES.items() if b"\n" + prefix in page}
    outermost = next((kind for kind in _AROUND if kind in kinds), None)
    return {outermost} if outermost is not None else kinds


def _is_no_llama_cpp(answers: Answers) -> bool:
    """Proven: it has no /props, or one of its own; or every model belongs to somebody else who is known."""
    if _owners(answers) == {_MAYBE_DYNAMO}:
        return True
    props = answers.get(PROPS)
    return props is not None and (props.status in _SAYS_NO or props.status == 200)
