"""Closed sets admit the values that were declared, and no others; the labels of every series are fixed by the first scrape with a request."""

import re

import pytest

from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import LANE, MODEL, OUTCOME, PROMPT_BUCKET
from sidecar.metrics.labels import LONGEST, ClosedSet, Constants, cleaned
from sidecar.metrics.registry import Metrics
from tests.metrics.registries import page


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\udcff", "a?"),
        ("line\nbreak\r\0", "line?break??"),
        ("\x1b[31mred", "?[31mred"),
        ("‮evil", "?evil"),  # noqa: PLE2502  the bidi mark is the point
        ("Meta/Llama-3 70B", "Meta/Llama-3 70B"),
        ("模型", "模型"),
    ],
)
def test_what_is_shown_can_be_written(hostile: str, shown: str) -> None:
    """Surrogates, controls and direction marks become `?`; a name in any script stays."""
    assert shown == cleaned(hostile)
    assert cleaned(hostile).encode()


def test_a_name_is_cut_before_it_fills_the_page() -> None:
    assert len(cleaned("m" * 100_000)) == LONGEST


def test_the_engine_may_tell_sixteen_models_and_no_more() -> None:
    """The seventeenth model is `other` for the rest of the process, whenever it is reported."""
    models = ClosedSet(MODEL)

    fresh = models.admit(f"model-{n}" for n in range(100))

    assert [f"model-{n}" for n in range(16)] == fresh
    assert models.get("model-15") == "model-15"
    assert models.get("model-16") is None
    assert models.admit(["model-16", "model-3"]) == []
    assert (*fresh, "other") == models.shown()


def test_what_is_shown_is_inside_as_well_as_what_was_told() -> None:
    models = ClosedSet(MODEL, ["bad\udcffname"])

    assert (models.get("bad\udcffname"), models.get("bad?name")) == ("bad?name", "bad?name")
    assert models.shown() == ("bad?name", "other")


def test_the_fallback_of_a_told_set_is_always_inside() -> None:
    assert ClosedSet(LANE, ["interactive"]).get("other") == "other"
    assert ClosedSet(PROMPT_BUCKET, ["0-512"]).get("unknown") == "unknown"


def test_other_is_expected_while_it_is_alone_and_once_it_was_needed_beside_known_values() -> None:
    """Before the engine tells its models, all requests are of `other`: that alone is no sign that it will be needed later."""
    models, lengths = ClosedSet(MODEL), ClosedSet(PROMPT_BUCKET, ["0-512"])
    alone = models.expected(), models.fall_back()
    models.admit(["llama"])
    told = models.expected(), models.fall_back()

    assert (alone, told) == ((("other",), "other"), (("llama",), "other"))
    assert models.expected() == ("llama", "other")
    assert lengths.expected() == ("0-512", "unknown")


def test_nothing_is_expected_of_a_set_whose_first_values_are_still_to_be_told() -> None:
    """A sidecar starts before its engine. Zeros of model `other` would stay beside those of the models that the engine tells later,
    and would be half of the page. They begin where a request needs them first, or where there is nothing to be told.
    """
    told, used, none = (ClosedSet(MODEL, pending=True) for _ in range(3))
    before = [models.expected() for models in (told, used, none)]

    told.admit(["llama"])
    used.fall_back()
    none.admit([])

    assert before == [(), (), ()]
    assert [models.expected() for models in (told, used, none)] == [("llama",), ("other",), ("other",)]
    for models in (used, none):
        models.admit(["llama"])
    # Requests that came before the list may still miss an objective: `rate()` must see their first miss.
    assert [models.expected() for models in (used, none)] == [("llama", "other"), ("llama",)]


def test_a_set_that_the_code_knows_takes_nothing_more() -> None:
    outcomes = ClosedSet(OUTCOME)

    assert outcomes.admit(["exploded"]) == []
    assert outcomes.get("exploded") is None
    assert "other" not in outcomes.shown()


@pytest.mark.parametrize(
    ("steps", "scraped"),
    [
        # Series that an earlier scrape had seen with `unknown` get the label too, because they had counted nothing.
        ("scrape fp8 request scrape", ["unknown", "fp8 0"]),
        # A request that is faster than the engine's word was not yet scraped.
        ("request fp8 scrape", ["fp8 0"]),
        ("request scrape fp8 scrape", ["unknown", "unknown 1"]),
        # An engine comes back with other weights; then it tells nothing, then it has the old ones.
        ("fp8 request scrape awq scrape nothing scrape fp8 scrape", ["fp8 0", "fp8 1", "fp8 1", "fp8 0"]),
        # The config's `H100` and the engine's `NVIDIA H100 80GB HBM3` may mean the same, so they are not compared.
        ("gpu scrape", ["unknown"]),
    ],
)
def test_the_engine_may_set_a_label_until_a_request_was_scraped_and_differs_from_it_then(
    steps: str, scraped: list[str]
) -> None:
    """The label of a series that never changes, and the mismatch gauge. The engine states the quantization; the config sets the GPU."""
    metrics = Metrics(
        lanes=["chat"], prompt_buckets=["0-512"], constants={"quantization": "unknown", "gpu_type": "H100"}
    )
    metrics.counter(c.CLIENT_CANCELS_TOTAL).child("other", "chat", "waiting")
    seen = []
    for step in steps.split():
        if step == "request":
            metrics.counter(c.REQUESTS_TOTAL).child("other", "chat", "0-512", "ok").inc()
        elif step == "scrape":
            text = page(metrics).decode()
            (label,) = re.findall('llm_client_cancels_total{quantization="(.*?)",gpu_type="H100",model=', text)
            seen.append(" ".join([label, *re.findall(r'llm_engine_label_mismatch{.*label="quantization"} (\d)', text)]))
            assert 'label="gpu_type"' not in text
        else:
            told = {"gpu": (None, "NVIDIA H100 80GB HBM3"), "nothing": (None, None)}.get(step, (step, None))
            metrics.tell_constants(dict(zip(("quantization", "gpu_type"), told, strict=True)))

    assert seen == scraped


def test_what_is_told_is_cleaned_like_every_label() -> None:
    constants = Constants({"quantization": "unknown"})
    constants.tell({"quantization": "f\np8\ud800", "colour": "red"})

    assert constants.values == {"quantization": "f?p8?"}


def test_one_version_of_the_engine_stands_at_1_and_no_other() -> None:
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
    metrics.info(c.ENGINE_INFO, "vllm", "0.32.0")
    metrics.info(c.ENGINE_INFO, "vllm", "0.33.0")
    lines = page(metrics).decode().splitlines()

    assert [line for line in lines if line.startswith("llm_engine_info{")] == [
        'llm_engine_info{engine="vllm",version="0.33.0"} 1'
    ]
