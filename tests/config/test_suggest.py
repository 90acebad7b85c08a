"""The nearest allowed word is suggested, if one is near, and the mistyped word is not repeated."""

import pytest

from sidecar.config.suggest import did_you_mean


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("modles", '; did you mean "models"?'),
        ("mode", '; did you mean "models"?'),
        ("lain", '; did you mean "lane"?'),
        ("", ""),
        ("sk-CANARY", ""),
        ("models" * 100_000, ""),
    ],
    ids=["swapped", "short", "sounds alike", "empty", "a secret", "endless"],
)
def test_the_nearest_word_is_suggested(word: str, expected: str) -> None:
    """A clause to append to an error, or nothing."""
    assert did_you_mean(word, ["models", "lane", "url"]) == expected


def test_nothing_allowed_suggests_nothing() -> None:
    """Without allowed words there is no clause."""
    assert did_you_mean("models", []) == ""
