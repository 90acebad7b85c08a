"""A baseline holds for one engine, and anything else is refused in words."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sidecar.pod.backlog import Backlog
from sidecar.pod.usual.baseline import MOST_BYTES, Key, RefusedError, checked, head
from sidecar.pod.usual.comparison import Comparison


KEY = Key("vllm", "0.9.1", ("llama",), "fp8", "H100")
LEARNERS = {"backlog": Backlog(), "load": Comparison()}


def document(**changed: Any) -> dict[str, Any]:
    told = head(KEY, 1.8e9, burning=False, provisional=False)
    return {**told, "learners": {name: each.state() for name, each in LEARNERS.items()}, **changed}


def refusal(told: object, key: Key = KEY) -> str:
    text = told if isinstance(told, bytes) else json.dumps(told).encode()
    with pytest.raises(RefusedError) as refused:
        checked(text, key, LEARNERS)
    return str(refused.value)


def test_a_document_comes_back_as_it_was_written() -> None:
    found = checked(json.dumps(document(burning=True)).encode(), KEY, LEARNERS)

    assert (found.saved_at_unix, found.burning, found.provisional) == (1.8e9, True, False)
    assert found.learned == {"backlog": {"_usual": 0.0, "_count": 0.0}, "load": dict.fromkeys(Comparison.KEPT, 0.0)}


@pytest.mark.parametrize(
    ("key", "part"),
    [
        (replace(KEY, version="0.9.2"), "version 0.9.1, and here it is 0.9.2"),
        (replace(KEY, engine="sglang"), "engine vllm, and here it is sglang"),
        (replace(KEY, models=("llama", "lora")), "models llama, and here it is llama, lora"),
        (replace(KEY, quantization=None), "quantization fp8, and here it is unknown"),
        (replace(KEY, gpu_type="L40S"), "gpu_type H100, and here it is L40S"),
    ],
)
def test_another_engine_is_refused_with_the_part_that_differs(key: Key, part: str) -> None:
    assert refusal(document(), key) == f"it was saved for another engine: {part}"
    assert key.digest != KEY.digest


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (b"", "it is no JSON: was it cut short?"),
        (b"[" * 100_000, "it is no JSON: was it cut short?"),
        (b"\xff\xfe", "it is no JSON: was it cut short?"),
        (b" " * (MOST_BYTES + 1), f"it is longer than {MOST_BYTES} bytes"),
        ([], "it is no baseline of version 1"),
        (document(version=2), "it is no baseline of version 1"),
        (document(saved_at_unix="now"), "saved_at_unix is no Unix time"),
        (document(saved_at_unix=float("nan")), "saved_at_unix is no Unix time"),
        (document(burning=1), "burning or provisional is neither true nor false"),
        (document(key=None), "its key is not one of this version"),
        (document(key=KEY.as_json() | {"models": "llama"}), "its models are no list of names"),
        (document(key=KEY.as_json() | {"version": 9}), "its key holds what is no text"),
        (document(learners={}), "its learners are not those of this version"),
        (document(learners={"backlog": {"usual": 1.0}, "load": {}}), "backlog.count: missing"),
    ],
)
def test_what_is_no_baseline_is_refused_in_words(told: object, why: str) -> None:
    assert refusal(told) == why


def test_every_truncation_is_refused() -> None:
    text = json.dumps(document()).encode()

    for length in range(len(text)):
        assert refusal(text[:length]) == "it is no JSON: was it cut short?"


@pytest.mark.parametrize(
    ("other", "replaces"),
    [
        (replace(KEY, version="0.9.2"), True),
        (replace(KEY, models=("qwen",)), True),
        (replace(KEY, models=("llama", "lora")), False),
        (replace(KEY, version=None, gpu_type=None), False),
        (replace(KEY, models=()), False),
        (KEY, False),
    ],
)
def test_an_engine_that_says_more_or_less_is_the_same_one(other: Key, replaces: bool) -> None:
    """Adapters come and go, and a page of an engine may be late: what was learned stays."""
    assert (other.replaces(KEY), KEY.replaces(other)) == (replaces, replaces)
