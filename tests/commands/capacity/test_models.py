"""The table of models has the values of the models' repositories."""

import pytest

from sidecar.commands.capacity.geometry import Geometry
from sidecar.commands.capacity.model_config import read
from sidecar.commands.capacity.models import KNOWN_MODELS


@pytest.mark.parametrize(
    ("name", "total_size"),
    [
        ("llama-3.1-8b", 16_060_522_496),
        ("llama-3.3-70b", 141_107_412_992),
        ("mistral-7b", 14_496_047_104),
        ("qwen2.5-7b", 15_231_233_024),
    ],
)
def test_weights_of_dense_models_are_those_of_their_own_index(name: str, total_size: int) -> None:
    """metadata.total_size of model.safetensors.index.json in the repository, to the byte."""
    assert read(KNOWN_MODELS[name].config).weights_bytes == total_size


def test_every_row_is_read_and_keeps_something() -> None:
    kept = {name: Geometry(read(known.config).layers).token_bytes() for name, known in KNOWN_MODELS.items()}

    assert kept == {
        "llama-3.1-8b": 131_072,
        "llama-3.2-3b": 114_688,
        "llama-3.3-70b": 327_680,
        "llama-2-13b": 819_200,
        "mistral-7b": 131_072,
        "qwen2.5-7b": 57_344,
        "qwen2.5-72b": 327_680,
        "deepseek-v3": 70_272,
        "gpt-oss-20b": 49_152,
        "gpt-oss-120b": 73_728,
        "gemma-3-27b": 507_904,
    }


def test_weights_that_a_config_cannot_tell_are_unknown_rather_than_guessed() -> None:
    """Mixtures of experts and mixed precision: the sidecar has no formula for them, so there is no number."""
    unknown = {name for name, known in KNOWN_MODELS.items() if read(known.config).weights_bytes is None}

    assert unknown == {"deepseek-v3", "gpt-oss-20b", "gpt-oss-120b", "gemma-3-27b"}
