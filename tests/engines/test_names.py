"""Which label value a requested name has: by the config, by the engine's list, and by what its answers prove."""

from collections.abc import Sequence

import pytest

from sidecar.engines.engine import Engine
from sidecar.engines.names import MOST_ALIASES, MOST_ANSWERED, ModelNames


LLAMA = "meta-llama/Llama-3.1-8B"


def test_an_echo_is_never_a_name() -> None:
    """A server that answers each name with the same name would make a label of all that clients invent."""
    names = ModelNames()

    for number in range(1000):
        assert names.answered_with(f"model-{number}", f"model-{number}") is None

    assert (names.all, names.of("model-7")) == ((), "other")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("openai/evil", "evil"),
        ("openai/evil", "openai-evil"),
        ("gpt-4", "gpt-4-0613"),
        (" EVIL ", "evil"),
        ("evil", "provider:evil"),
        ("evil", "--"),
    ],
)
def test_a_name_that_may_be_made_from_the_requested_one_is_an_echo(asked: str, said: str) -> None:
    """Gateways drop prefixes, trim, and add dates, in front of an engine that takes any name."""
    names = ModelNames()

    assert names.answered_with(asked, said) is None
    assert names.all == ()


def test_a_name_that_differs_is_the_engines_own() -> None:
    """The first answer proves it: requests after it have its label, under the name that was asked for as well."""
    names = ModelNames()

    assert names.answered_with("gpt-4", LLAMA) == LLAMA
    assert names.answered_with("gpt-3", LLAMA) is None  # it is no new one
    assert [names.of(asked) for asked in ("gpt-4", "gpt-3", LLAMA, "gpt-5", None)] == [*[LLAMA] * 3, "other", "other"]


def test_an_echo_of_an_engine_that_refuses_unknown_names_is_a_name() -> None:
    """It was seen to refuse one that it does not have: so it has those that it serves."""
    names = ModelNames()
    names.refuses_unknown = True

    assert names.answered_with("llama", "llama") == "llama"
    assert names.of("llama") == "llama"


def test_an_engine_that_makes_a_name_for_each_answer_fills_no_label() -> None:
    """The first few are taken in the life of the process, whatever kinds follow; the label has room for a list that comes later."""
    engine = Engine("auto")
    ever: set[str] = set()

    for kind in ("vllm", "auto", "llama_cpp"):
        engine.is_kind(kind)
        for number in range(100):
            engine.answered("gpt-4", f"{kind}-{number}")
        ever |= set(engine.models)

    assert len(ever) == MOST_ANSWERED


def test_the_requested_names_that_are_remembered_are_bounded() -> None:
    """The one that was answered longest ago is forgotten, and counts as `other` until it is seen again."""
    names = ModelNames()
    names.list_is(["llama"])

    for number in range(MOST_ALIASES + 1):
        names.answered_with(f"model-{number}", "llama")
        names.answered_with("busy", "llama")

    assert [names.of(name) for name in ("model-0", "model-9", "busy")] == ["other", "llama", "llama"]


def test_the_last_answer_says_what_a_requested_name_stands_for() -> None:
    """A gateway may send it to another model today, and to none that is known tomorrow."""
    names = ModelNames()
    names.list_is(["llama", "qwen"])
    found = []

    for said in ("llama", "qwen", "gpt-4"):
        names.answered_with("gpt-4", said)
        found.append(names.of("gpt-4"))

    assert found == ["llama", "qwen", "other"]


def test_a_list_that_comes_later_holds_and_drops_nothing_that_was_answered() -> None:
    """An engine behind a gateway may answer with names that its list does not have."""
    names = ModelNames()
    names.answered_with("gpt-4", "llama")
    names.answered_with("gpt-3", "tiger")

    assert names.list_is(["llama", "tuned"], ["tuned"])
    assert not names.list_is(["llama", "tuned"], ["tuned"])

    assert (*names.listed, *names.answered, *names.adapters) == ("llama", "tuned", "tiger", "tuned")
    assert (names.of("gpt-4"), names.of("gpt-3"), names.of(None)) == ("llama", "tiger", "other")


def test_an_adapter_that_was_dropped_takes_its_other_names_with_it() -> None:
    """The list is the engine's word about what it has now."""
    names = ModelNames()
    names.list_is(["llama", "tuned"])
    names.answered_with("t", "tuned")

    names.list_is(["llama"])

    assert (names.of("t"), names.of("tuned")) == ("other", "other")


def test_where_the_config_states_the_names_no_other_becomes_one() -> None:
    """An answer may show which of them a requested name stands for."""
    names = ModelNames(["llama"])

    assert not names.list_is(["another"])
    assert names.answered_with("gpt-4", "another") is None
    assert names.answered_with("gpt-4", "llama") is None

    assert (names.all, names.of("gpt-4")) == (("llama",), "llama")


@pytest.mark.parametrize("said", ["", "other", "x" * 257])
def test_no_label_value_is_made_of_what_is_none(said: str) -> None:
    """`other` stands for all names that are not known."""
    names = ModelNames()

    assert names.answered_with("gpt-4", said) is None
    assert (names.all, names.of("gpt-4")) == ((), "other")


SPELLINGS = ("llama3.2", "Llama3.2:latest", "library/llama3.2", "registry.ollama.ai/library/LLAMA3.2")


def test_ollama_takes_many_spellings_for_one_model() -> None:
    """Its list has tags and its clients leave them out; its answers repeat the name as it came."""
    engine = Engine("ollama")
    engine.serves(["llama3.2:latest", "qwen3:8b"])

    for spelling in SPELLINGS:
        engine.answered(spelling, spelling)

    assert engine.models == ("llama3.2:latest", "qwen3:8b")
    assert {engine.names.of(spelling) for spelling in SPELLINGS} == {"llama3.2:latest"}
    assert [engine.names.of(name) for name in ("qwen3:8b", "qwen3", "someone/llama3.2")] == [
        "qwen3:8b",
        "other",
        "other",
    ]


def test_a_list_joins_what_was_answered_before_it() -> None:
    """The spelling of the list is the label from then on."""
    engine = Engine("ollama")
    engine.refused_model()
    engine.answered("llama3.2", "llama3.2")

    engine.serves(["llama3.2:latest"])

    assert (engine.models, engine.names.of("llama3.2")) == (("llama3.2:latest",), "llama3.2:latest")


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        pytest.param("vllm", ["ensemble"], id="refuses unknown names"),
        pytest.param("triton", ["ensemble"], id="has them in its paths"),
        pytest.param("sglang", [], id="takes any name"),
        pytest.param("tgi", [], id="answers with another's"),
        pytest.param("auto", [], id="not known"),
    ],
)
def test_what_a_kind_does_with_names_is_known_once_it_is_recognised(kind: str, found: Sequence[str]) -> None:
    """Proofs about another kind before it are forgotten."""
    engine = Engine("llama_cpp")
    engine.answered("x", "before")

    engine.is_kind(kind)
    engine.answered("ensemble", "ensemble")

    assert list(engine.models) == found


def test_a_new_process_has_to_prove_its_names_again() -> None:
    """It may take any name, where the one before refused them. A name that comes back takes no more room."""
    engine = Engine("auto")
    engine.refused_model()
    engine.answered("llama", "llama")
    engine.began_anew()
    after = engine.models
    engine.answered("evil", "evil")
    engine.answered("gpt-4", "llama")

    assert (after, list(engine.models)) == ((), ["llama"])


def test_an_adapter_of_sglang_is_asked_for_behind_its_base() -> None:
    engine = Engine("sglang")
    engine.serves(["base", "tuned"], ["tuned"])

    assert [engine.names.of(name) for name in ("base", "base:tuned", "tuned", "base:other")] == [
        "base",
        "tuned",
        "tuned",
        "other",
    ]


def test_no_refusal_is_seen_of_a_kind_that_takes_any_name() -> None:
    """An answer that looks like one was made by a client."""
    engine = Engine("sglang")

    engine.refused_model()

    assert not engine.names.refuses_unknown
