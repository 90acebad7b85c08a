"""Answers of an engine to the sidecar's questions are read, and what is not of the expected shape says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.probe.replies import Answer, Models, body_at, info_labels, models_in, text_at, text_in


PAGE = b"""# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="fp8",note="a \\"quoted\\" } word"} 1.0
vllm:num_requests_running{model_name="vllm:cache_config_info{x=\\"1\\"}"} 2.0
"""


def test_the_labels_of_an_info_are_read_with_their_escapes() -> None:
    """A label value may hold quotes and braces, and another series may carry the info's name inside a value."""
    assert info_labels(PAGE, b"vllm:cache_config_info") == {
        "block_size": "16",
        "cache_dtype": "fp8",
        "note": 'a \\"quoted\\" } word',
    }


@pytest.mark.parametrize(("again", "labels"), [("fp8", {"kind": "fp8"}), ("awq", {})])
def test_an_info_that_stands_twice_counts_only_if_both_agree(again: str, labels: dict[str, str]) -> None:
    """Two ranks of one engine say the same; two that differ say nothing about the engine."""
    page = f'info{{kind="fp8"}} 1\ninfo{{kind="{again}"}} 1\n'.encode()

    assert info_labels(page, b"info") == labels


def test_only_the_body_of_a_200_is_an_answer() -> None:
    answers = {"/version": Answer(200, b'{"version": "0.33.0"}'), "/v1/models": Answer(404, b'{"version": "1"}')}

    assert [text_at(answers, path, "version") for path in ("/version", "/v1/models", "/metrics")] == [
        "0.33.0",
        None,
        None,
    ]
    assert body_at(answers, "/v1/models") == b""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a": {"b": "word"}}', "word"),
        (b'{"a": {"b": 7}}', None),
        (b'{"a": ["b"]}', None),
        (b'{"a": null}', None),
        (b"[1]", None),
    ],
)
def test_a_text_is_found_under_its_keys_or_not_at_all(body: bytes, found: str | None) -> None:
    assert text_in(body, "a", "b") == found


@given(st.binary(max_size=200) | st.just(b"[" * 100_000))
def test_nothing_that_an_engine_answers_raises(body: bytes) -> None:
    """An answer may be no text, or nested without end."""
    assert isinstance(text_in(body, "a"), str | None)
    assert isinstance(models_in(body), Models | None)
    assert info_labels(body, b"x") == {} or b"x{" in body
