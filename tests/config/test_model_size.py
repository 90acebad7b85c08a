"""A model's size is read out of its name, or stated; a name without one has none."""

import pytest

from sidecar.config.model_size import ModelSize, model_size, named_billions


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 8),
        ("llama_70b", 70),
        ("llama3.1:70b-instruct-q4_K_M", 70),
        ("Qwen2.5-0.5B", 0.5),
        ("smollm-360M", 0.36),
        ("Qwen3-235B-A22B-Instruct-2507", 22),
        ("Llama-4-Scout-17B-16E", 17),
        ("gpt-oss-120b", 120),
    ],
)
def test_a_name_states_a_size_and_that_of_the_active_part_comes_first(name: str, billions: float) -> None:
    assert named_billions(name) == billions


@pytest.mark.parametrize("name", ["mixtral-8x7b", "Mixtral-8x22B", "DeepSeek-R1"])
def test_a_mixture_that_does_not_state_its_active_part_has_no_size(name: str) -> None:
    """Its product of 176 billion gave Mixtral 8x22B the time of the largest models; a token passes 39 billion."""
    assert named_billions(name) is None


@pytest.mark.parametrize("name", ["Phi-3-mini-128k", "gemma-3n-E4B", "a-bf16-8bit-awq", "v1.70b3", ""])
def test_a_name_without_a_size_has_none(name: str) -> None:
    """A number of bits, a context length or a version is no size."""
    assert named_billions(name) is None


@pytest.mark.parametrize(
    ("stated", "models", "expected"),
    [
        (13.0, ["llama-70b"], ModelSize(13.0, "engine.model_size_billions")),
        (None, ["llama-8b", "llama-70b"], ModelSize(70.0, "the name llama-70b")),
        (None, ["llama-70b", "my-adapter"], ModelSize(70.0, "the name llama-70b")),
        (None, ["llama-8b", "my-adapter"], None),
        (None, ["my-adapter"], None),
        (None, [], None),
    ],
)
def test_the_stated_size_counts_then_that_of_the_largest_name(
    stated: float | None, models: list[str], expected: ModelSize | None
) -> None:
    """Beside a name of unknown size, a small model does not count: it would tighten objectives that may be too tight then."""
    assert model_size(stated, models) == expected
