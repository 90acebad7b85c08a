"""The cache geometry is read from a config.json; caches that are not modelled and invalid values are refused by
name."""

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.geometry import attention, latent
from sidecar.commands.capacity.model_config import load, read
from sidecar.commands.capacity.models import KNOWN_MODELS


LLAMA = dict(KNOWN_MODELS["llama-3.1-8b"].config)


def test_heads_default_to_query_heads_and_their_size_to_an_equal_share() -> None:
    """Llama 2 7B's first config had no num_key_value_heads: every query head has its own KV head."""
    config = {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096}

    assert read(config).layers == (attention(32, 32, 128),)


def test_a_head_size_that_is_stated_outranks_the_share() -> None:
    """Qwen3-0.6B: 16 heads of 128 with a hidden size of 1,024."""
    config = {"num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "hidden_size": 1024}

    assert read({**config, "head_dim": 128}).layers == (attention(28, 8, 128),)
    assert read({**config, "head_dim": None}).layers == (attention(28, 8, 64),)


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({"sliding_window": 4096, "use_sliding_window": False}, (attention(32, 8, 128),)),
        ({"sliding_window": 4096, "model_type": "mistral"}, (attention(32, 8, 128, 4096),)),
        ({"sliding_window": 512, "sliding_window_pattern": 6}, (attention(5, 8, 128), attention(27, 8, 128, 512))),
        (
            {"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 16},
            (attention(16, 8, 128), attention(16, 8, 128, 128)),
        ),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, (latent(32, 512, 64),)),
    ],
    ids=["window switched off", "window everywhere", "every sixth layer full", "layer by layer", "latent"],
)
def test_windows_and_latents_are_found_where_configs_state_them(more: dict[str, Any], layers: tuple[Any, ...]) -> None:
    assert read({**LLAMA, **more}).layers == layers


def test_a_model_that_also_sees_is_read_by_its_text_half() -> None:
    config = {"torch_dtype": "bfloat16", "text_config": LLAMA, "vision_config": {"num_hidden_layers": 27}}

    assert read(config) == read(LLAMA)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"layers_block_type": ["mamba", "attention"]}, "state-space layers"),
        ({"linear_num_key_heads": 16}, "linear attention"),
        ({"num_kv_shared_layers": 15}, "share their cache"),
        ({"index_head_dim": 128}, "sparse attention"),
        ({"sliding_window": 4096}, "does not say which layers"),
        ({"layer_types": ["linear_attention"] * 32}, "linear_attention"),
    ],
)
def test_a_cache_that_is_not_modelled_is_refused_by_name(more: dict[str, Any], words: str) -> None:
    """A refusal, because a wrong number of bytes is worse than none."""
    with pytest.raises(RefusedError, match=words):
        read({**LLAMA, **more})


@pytest.mark.parametrize(
    "config",
    [
        {},
        {**LLAMA, "num_hidden_layers": "32"},
        {**LLAMA, "num_hidden_layers": 0},
        {**LLAMA, "num_attention_heads": True},
        {**LLAMA, "num_key_value_heads": -8},
        {**LLAMA, "layer_types": ["full_attention"]},
    ],
)
def test_a_config_that_cannot_be_one_is_called_so(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^is no config"):
        read(config)


def test_quantised_weights_are_not_computed_from_the_type_of_the_rest() -> None:
    assert read({**LLAMA, "quantization_config": {"quant_method": "awq"}}).weights_bytes is None


def test_an_index_beside_the_config_says_what_the_weights_are(tmp_path: Path) -> None:
    """The size of the files counts, for weights of any precision."""
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": {"quant_method": "awq"}}))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 5_730_000_000}}))

    model = load(tmp_path / "config.json")

    assert model.weights_bytes == 5.73e9
    assert "total_size" in model.weights_source


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is not JSON"), ("[]", "is not a JSON object"), (None, "cannot be read: No such file")]
)
def test_a_file_that_is_none_is_said_to_be(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)

    with pytest.raises(ValueError, match=words):
        load(path)
