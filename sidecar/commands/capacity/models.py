"""Well-known models by name: the fields of their config.json that capacity depends on, read by `model_config.py`.

Each row is copied from the config.json of the repository on huggingface.co that it names. For other models, pass the
config.json as `--model.config`. Values that no config states (parameters of a mixture of experts) name their source.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    repository: str
    config: Mapping[str, object]
    weights_bytes: float | None = None
    """Set only if the size cannot be computed from the config."""
    active_weights_bytes: float | None = None
    """For a mixture of experts: bytes of weights that one token reads."""
    weights_source: str = ""


def _dense(  # noqa: PLR0917  a row of a table
    layers: int, hidden: int, heads: int, kv_heads: int, mlp: int, vocabulary: int, **more: object
) -> dict[str, object]:
    return {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": mlp,
        "vocab_size": vocabulary,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        **more,
    }


def _gpt_oss(layers: int) -> dict[str, object]:
    return {
        "model_type": "gpt_oss",
        "num_hidden_layers": layers,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    }


KNOWN_MODELS = {
    "llama-3.1-8b": Known("meta-llama/Llama-3.1-8B", _dense(32, 4096, 32, 8, 14336, 128256)),
    "llama-3.2-3b": Known(
        "meta-llama/Llama-3.2-3B", _dense(28, 3072, 24, 8, 8192, 128256, head_dim=128, tie_word_embeddings=True)
    ),
    "llama-3.3-70b": Known("meta-llama/Llama-3.3-70B-Instruct", _dense(80, 8192, 64, 8, 28672, 128256)),
    "llama-2-13b": Known(
        "meta-llama/Llama-2-13b-hf", _dense(40, 5120, 40, 40, 13824, 32000, max_position_embeddings=4096)
    ),
    "mistral-7b": Known(
        "mistralai/Mistral-7B-Instruct-v0.3",
        _dense(32, 4096, 32, 8, 14336, 32768, model_type="mistral", max_position_embeddings=32768, sliding_window=None),
    ),
    "qwen2.5-7b": Known(
        "Qwen/Qwen2.5-7B-Instruct",
        _dense(28, 3584, 28, 4, 18944, 152064, model_type="qwen2", max_position_embeddings=32768),
    ),
    "qwen2.5-72b": Known(
        "Qwen/Qwen2.5-72B-Instruct",
        _dense(80, 8192, 64, 8, 29568, 152064, model_type="qwen2", max_position_embeddings=32768),
    ),
    "deepseek-v3": Known(
        "deepseek-ai/DeepSeek-V3",
        {
            "model_type": "deepseek_v3",
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "max_position_embeddings": 163840,
            "torch_dtype": "bfloat16",
        },
        weights_bytes=671e9,
        active_weights_bytes=36.6e9,
        weights_source="README_WEIGHTS.md of that repository: 671B parameters, 36.6B active, taken as 8 bit each",
    ),
    # Their weights have mixed precision (experts in MXFP4, the rest in 16 bit), so the caller has to state their size.
    "gpt-oss-20b": Known("openai/gpt-oss-20b", _gpt_oss(24)),
    "gpt-oss-120b": Known("openai/gpt-oss-120b", _gpt_oss(36)),
    "gemma-3-27b": Known(
        "google/gemma-3-27b-it, text_config",
        {
            "model_type": "gemma3_text",
            "num_hidden_layers": 62,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "head_dim": 128,
            "sliding_window": 1024,
            "sliding_window_pattern": 6,
            "max_position_embeddings": 131072,
            "torch_dtype": "bfloat16",
        },
    ),
}
