"""What a recognised engine says about itself: its version, its models, how its weights are quantised, on which GPU. Pure.

It knows which further pages to ask for and where the words stand in them. It refuses to derive: the KV cache's format is
not the weights', an unquantised flag is not a format (a checkpoint may bring its own), and where models of several formats
are served there is no one word. What may become a label is short and plain; anything else is not said.
"""

import re
from dataclasses import dataclass

import msgspec

from sidecar.engines.probe.detect import INFO, KSERVE, METRICS, MODELS, PROPS, Answers, decoded, models_in


VERSION = "/version"
VLLM_INFO = "/server_info?config_format=json"
"""There only in vLLM's development mode (`VLLM_SERVER_DEV_MODE=1`)."""
SERVER_INFO = "/server_info"
OLLAMA_VERSION = "/api/version"
OLLAMA_TAGS = "/api/tags"
TENSORRT_LLM_METRICS = "/prometheus/metrics"

QUESTIONS: dict[str, tuple[str, ...]] = {
    "vllm": (VERSION, VLLM_INFO),
    "sglang": (SERVER_INFO,),
    "tensorrt_llm": (VERSION, TENSORRT_LLM_METRICS),
    "llama_cpp": (PROPS,),
    "ollama": (OLLAMA_VERSION, OLLAMA_TAGS),
    "tgi": (INFO,),
    "triton": (KSERVE,),
    "lmdeploy": (METRICS,),
    "dynamo": (),
}
"""By kind: what is asked beside /v1/models."""

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+/: -]{0,62}[A-Za-z0-9._+])?")
"""As `labels.quantization` in the config; Ollama's and llama.cpp's words (`Q4_K_M`, `Q4_K - Medium`) fit too."""
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_NOTHING = ("none", "null", "unknown", "auto", "other")
_LABELS = re.compile(rb'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\.)*+)"')
_LMDEPLOY_WEIGHTS = ("awq", "gptq", "fp8", "mxfp4")
"""Values of LMDeploy's `model_format` that name a quantisation; `hf` is a file format."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What it says; None, or no models, where it does not."""

    version: str | None = None
    models: tuple[str, ...] | None = None
    quantization: str | None = None
    gpu_type: str | None = None


class _Version(msgspec.Struct):
    version: str


class _Build(msgspec.Struct):
    build_info: str | None = None
    model_ftype: str | None = None


class _ServerArgs(msgspec.Struct):
    version: str | None = None
    quantization: str | None = None


class _ModelConfig(msgspec.Struct):
    quantization: str | None = None


class _VllmConfig(msgspec.Struct):
    model_config: _ModelConfig


class _VllmInfo(msgspec.Struct):
    vllm_config: _VllmConfig


class _Details(msgspec.Struct):
    quantization_level: str | None = None


class _Tag(msgspec.Struct):
    details: _Details | None = None


class _Tags(msgspec.Struct):
    models: list[_Tag]


def identity_of(kind: str, answers: Answers) -> Identity:
    """What the answers of an engine of this kind say. Never raises, whatever they are."""
    listed = models_in(_good(answers, MODELS))
    version, quantization, gpu_type = _words(kind, answers)
    return Identity(
        version=version if version is not None and _VERSION.fullmatch(version) else None,
        models=None if listed is None else tuple(model.id for model in listed.data),
        quantization=_label(quantization),
        gpu_type=_label(gpu_type),
    )


def _words(kind: str, answers: Answers) -> tuple[str | None, str | None, str | None]:
    """Version, quantisation and GPU, as the engine writes them."""
    match kind:
        case "vllm":
            info = decoded(_good(answers, VLLM_INFO), _VllmInfo)
            return (
                _version(answers, VERSION),
                None if info is None else info.vllm_config.model_config.quantization,
                None,
            )
        case "sglang":
            args = decoded(_good(answers, SERVER_INFO), _ServerArgs) or _ServerArgs()
            return args.version, args.quantization, None
        case "tensorrt_llm":
            labels = _info_labels(_good(answers, TENSORRT_LLM_METRICS), b"trtllm_model_config_info")
            return _version(answers, VERSION), labels.get("quantization"), labels.get("gpu_type")
        case "llama_cpp":
            build = decoded(_good(answers, PROPS), _Build) or _Build()
            return build.build_info, build.model_ftype, None
        case "ollama":
            tags = decoded(_good(answers, OLLAMA_TAGS), _Tags)
            levels = {
                tag.details.quantization_level for tag in (tags.models if tags else ()) if tag.details is not None
            }
            return _version(answers, OLLAMA_VERSION), levels.pop() if len(levels) == 1 else None, None
        case "lmdeploy":
            weights = _info_labels(_good(answers, METRICS), b"lmdeploy:backend_config_info").get("model_format")
            return None, weights if weights in _LMDEPLOY_WEIGHTS else None, None
        case "tgi" | "triton":
            return _version(answers, INFO if kind == "tgi" else KSERVE), None, None
    return None, None, None


def _good(answers: Answers, path: str) -> bytes:
    return answers[path].good if path in answers else b""


def _version(answers: Answers, path: str) -> str | None:
    found = decoded(_good(answers, path), _Version)
    return None if found is None else found.version


def _label(text: str | None) -> str | None:
    return text if text is not None and _LABEL.fullmatch(text) and text.lower() not in _NOTHING else None


def _info_labels(page: bytes, name: bytes) -> dict[str, str]:
    """The labels of an info on a page of metrics; none where it stands twice and the two differ."""
    found: list[dict[str, str]] = []
    at = page.find(name + b"{")
    while at >= 0 and len(found) < 2:
        if at == 0 or page[at - 1 : at] == b"\n":
            line = page[at : page.find(b"\n", at)]
            found.append({key.decode(): value.decode(errors="replace") for key, value in _LABELS.findall(line)})
        at = page.find(name + b"{", at + 1)
    return found[0] if found and all(labels == found[0] for labels in found) else {}
