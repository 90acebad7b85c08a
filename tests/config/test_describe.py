"""The values that a key accepts are described from its type, and a secret is known by its type too."""

import pytest

from sidecar.config.describe import dotted, expected, is_secret, model_at
from sidecar.config.schema import EngineConfig, LaneRule
from sidecar.config.section import KEY_MARK, Path


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("lanes", "rules", 0, "lane"), "lanes.rules[0].lane"),
        (("lanes", "rules", 2, "headers", "X-Team", KEY_MARK), "lanes.rules[2].headers.X-Team"),
        ((), ""),
    ],
)
def test_a_path_is_written_as_a_reader_of_the_file_would(path: Path, text: str) -> None:
    """The mark of a mistake in a mapping's key is left out."""
    assert dotted(path) == text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            ("engine", "connect_timeout_seconds"),
            "a number above 0 and at most 86400, or with a unit: 500ms, 2s, 5m, 1h or 1m30s",
        ),
        (("proxy", "max_in_flight"), "a whole number at least 1 and at most 100000"),
        (("engine", "estimate"), "one of: auto, never"),
        (("engine", "scrape_llama_cpp"), "true or false"),
        (("engine", "metrics_port"), "a whole number at least 1 and at most 65535"),
        (("engine", "no_such_key"), "text"),
    ],
)
def test_a_key_says_what_it_accepts(path: Path, said: str) -> None:
    """Bounds and words are those of the schema, also behind `| None`."""
    assert expected(path) == said


def test_a_section_names_its_keys_and_a_list_its_items() -> None:
    rules = expected(("lanes", "rules"))

    assert expected(("engine",)).startswith("a mapping with keys out of: url, kind, models")
    assert rules.startswith("a list of 0 to ")
    assert ", each a mapping with keys out of: " in rules
    assert expected(("lanes", "rules", 0)).startswith("a mapping with keys out of: ")


def test_sections_are_found_by_their_path() -> None:
    """A value, and a path that leads nowhere, are no sections."""
    paths: list[Path] = [
        ("engine",),
        ("lanes", "rules", 3),
        ("engine", "url"),
        ("engine", "url", "deeper"),
        ("nowhere",),
    ]

    assert [model_at(path) for path in paths] == [EngineConfig, LaneRule, None, None, None]


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (("lanes", "api_keys", "nightly"), True),
        (("lanes", "api_keys"), True),
        (("lanes",), True),
        (("engine", "url"), True),
        (("engine", "kind"), False),
        (("shutdown",), False),
        (("lanes", "rules", 0, "headers", "authorization"), True),
        (("lanes", "rules", 0, "headers", "x-tenant"), False),
    ],
)
def test_a_section_is_as_secret_as_its_most_secret_value(path: Path, secret: bool) -> None:
    """A wrong type may be the secret itself (`api_keys: sk-...`), so a message must not show it there either. A URL may hold a password."""
    assert is_secret(path) is secret
