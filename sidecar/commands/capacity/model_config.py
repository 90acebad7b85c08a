"""Reads a model's config.json from a Hugging Face repository: cache layout, longest context, size of the weights.

It understands the fields of attention, of sliding windows and of MLA. A cache that it cannot count (state-space and
linear layers, compressed or shared caches) is refused by name: a wrong number of bytes is worse than none. `read` takes
a mapping; `load` opens files. Weights are computed only for plain dense models, or read from
model.safetensors.index.json beside the config.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.geometry import Layers, attention, latent


_BITS = {"bfloat16": 16, "float16": 16, "float32": 32}
_DENSE = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Model types with embeddings, attention and a gated MLP in every layer, and no other weights."""
_UNCOUNTED = {
    "layers_block_type": "state-space layers",
    "hybrid_override_pattern": "state-space layers",
    "ssm_cfg": "state-space layers",
    "mamba_d_state": "state-space layers",
    "linear_num_key_heads": "linear attention",
    "linear_attn_config": "linear attention",
    "num_kv_shared_layers": "layers that share their cache",
    "index_head_dim": "a second cache for its sparse attention's index",
    "compress_ratios": "a compressed cache",
    "cross_attention_layers": "cross attention",
}
MAX_FILE_BYTES = 64 << 20
"""64 MiB: the index of a very large model is about 10 MB."""


@dataclass(frozen=True, slots=True)
class Model:
    layers: tuple[Layers, ...]
    bits: int | None
    """Bits per number in the model's own type, which the cache uses by default; None: not stated, or unknown type."""
    longest: int | None
    """Longest context in tokens (max_position_embeddings); None: not stated."""
    query_heads: int | None
    head_dim: int | None
    weights_bytes: float | None = None
    weights_source: str = ""


def load(path: Path) -> Model:
    """Read a config.json, and the index of weights beside it if there is one. Raises ValueError, RefusedError."""
    model = read(_mapping(path))
    index = path.with_name("model.safetensors.index.json")
    if index.is_file():
        metadata = _mapping(index).get("metadata")
        total = metadata.get("total_size") if isinstance(metadata, dict) else None
        if isinstance(total, int | float) and not isinstance(total, bool) and total > 0:
            return replace(model, weights_bytes=float(total), weights_source=f"total_size in {index}")
    return model


def read(config: Mapping[str, object]) -> Model:
    """Read a parsed config. Raises ValueError if it is no model config, RefusedError if its cache is not modelled."""
    inner = config.get("text_config")
    if isinstance(inner, dict):
        config = {**{key: config[key] for key in ("torch_dtype", "dtype") if key in config}, **inner}
    for key, words in _UNCOUNTED.items():
        if config.get(key):
            raise RefusedError(f"this model has {words} ({key} in its config), whose memory is not modelled here")
    count = _whole(config, "num_hidden_layers")
    query_heads = _whole(config, "num_attention_heads")
    kv_heads = _whole(config, "num_key_value_heads", query_heads)
    bits = _BITS.get(str(config.get("torch_dtype") or config.get("dtype")))
    longest = _whole(config, "max_position_embeddings", 0) or None
    if config.get("kv_lora_rank"):
        layers = (latent(count, _whole(config, "kv_lora_rank"), _whole(config, "qk_rope_head_dim")),)
        return Model(layers, bits, longest, None, None)
    # Some configs have null where others leave the key out.
    head_dim = _whole(config, "head_dim", 0) or _whole(config, "hidden_size") // query_heads
    model = Model(_windows(config, count, kv_heads, head_dim), bits, longest, query_heads, head_dim)
    if config.get("model_type") in _DENSE and bits and not config.get("quantization_config"):
        weights = _dense_parameters(config, count, query_heads, kv_heads, head_dim) * bits / 8
        source = "computed from the config: embeddings, attention, MLP, norms"
        return replace(model, weights_bytes=weights, weights_source=source)
    return model


def _windows(config: Mapping[str, object], count: int, kv_heads: int, head_dim: int) -> tuple[Layers, ...]:
    window = _whole(config, "sliding_window", 0)
    if config.get("use_sliding_window") is False:
        window = 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        unknown = {str(kind) for kind in kinds} - {"full_attention", "sliding_attention"}
        if unknown:
            raise RefusedError(
                f"this model has layers of a kind that is not modelled here (layer_types: {', '.join(sorted(unknown))})"
            )
        sliding = kinds.count("sliding_attention")
        if len(kinds) != count or (sliding and not window):
            raise ValueError("is no config whose layers can be counted: layer_types disagrees with the rest")
    elif not window:
        sliding = 0
    elif every := _whole(config, "sliding_window_pattern", 0):
        sliding = count - count // every
    elif config.get("model_type") == "mistral":
        sliding = count
    else:
        raise RefusedError(
            "this model has a sliding window, and its config does not say which layers have it (no layer_types,"
            " no sliding_window_pattern)"
        )
    groups = (attention(count - sliding, kv_heads, head_dim), attention(sliding, kv_heads, head_dim, window))
    return tuple(group for group in groups if group.count)


def _dense_parameters(config: Mapping[str, object], count: int, query_heads: int, kv_heads: int, head_dim: int) -> int:
    """Number of parameters of a dense model. Llama-3.1-8B gives 8,030,261,248, the same as its index."""
    hidden, mlp, vocabulary = (_whole(config, key) for key in ("hidden_size", "intermediate_size", "vocab_size"))
    q, kv = query_heads * head_dim, kv_heads * head_dim
    layer = hidden * (2 * q + 2 * kv) + 3 * hidden * mlp + 2 * hidden
    if config.get("model_type") == "qwen2":
        layer += q + 2 * kv  # biases
    if config.get("model_type") == "qwen3":
        layer += 2 * head_dim  # norms of queries and keys
    embeddings = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return embeddings + count * layer + hidden


def _whole(config: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 40:
        raise ValueError(f"is no config.json of a language model: {key} is missing or no whole number")
    if not value and default is None:
        raise ValueError(f"is no config.json of a language model: {key} is 0")
    return value


def _mapping(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(f"is larger than {MAX_FILE_BYTES >> 20} MiB")
    try:
        said = json.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not JSON: {''.join(islice(str(error), 200))}") from None
    if not isinstance(said, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004  a wrong value, not a wrong call
    return said
