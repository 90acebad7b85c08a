"""Prefill cost as a function of the prompt length: learned by medians, rising, and refused where it would be a guess."""

import pytest

from sidecar.slo.prefill_cost import Length, length_of


@pytest.mark.parametrize(
    ("prompt", "cached", "text", "length"),
    [
        (1_000, 600, 5_000, Length(400, "tokens")),
        (1_000, None, None, Length(1_000, "tokens")),
        (1_000, 1_000, None, Length(1, "tokens")),
        (1_000, 5_000, None, Length(1, "tokens")),
        (None, 600, 5_000, Length(5_000, "bytes")),
        (0, None, None, None),
        (None, None, 0, None),
        (None, None, None, None),
    ],
)
def test_what_had_to_be_computed(
    prompt: int | None, cached: int | None, text: int | None, length: Length | None
) -> None:
    """Tokens of the usage less the cached ones, else bytes of the text, else nothing."""
    assert length_of(prompt, cached, text) == length
