"""Closed sets admit the values that were declared, and no others."""

import pytest

from sidecar.metrics.catalogue import LANE, MODEL, OUTCOME, PROMPT_BUCKET
from sidecar.metrics.labels import LONGEST, ClosedSet, cleaned


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
