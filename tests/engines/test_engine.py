"""Facts known about the engine, and what follows from them."""

from collections.abc import Sequence

import pytest

from sidecar.engines.engine import Engine
from sidecar.engines.kind import UNKNOWN_KIND
from sidecar.engines.probe.replies import Identity
from sidecar.engines.usage_asking import NOT_PROVEN, SHOWS
from sidecar.timeline.belief import LEARNED_FROM


def why_not(engine: Engine, api: str = "openai_chat", *, unrecognised: bool = False) -> str | None:
    """Why the engine is not asked for usage, as `observe/request.py` asks it."""
    accepts = engine.accepts_usage(api, unrecognised=unrecognised)
    return engine.asking.why_not.get(api, engine.asking.otherwise) if accepts else NOT_PROVEN


def learn(engine: Engine, *, shows: bool, times: int = LEARNED_FROM) -> None:
    for _ in range(times):
        engine.asking.ended("openai_chat", 0.0, shows=shows)


def test_an_engine_that_has_not_said_what_it_is_is_asked_for_nothing() -> None:
    """Figures in its answers are not read as vLLM's either."""
    engine = Engine("auto")
    assert why_not(engine) is NOT_PROVEN
    assert engine.speaks is UNKNOWN_KIND

    engine.is_kind("vllm")
    assert why_not(engine) is NOT_PROVEN
    assert engine.speaks.name == "vllm"


def test_a_server_that_is_not_recognised_is_asked_only_where_the_config_allows_it() -> None:
    """And only once streams have shown that it states no usage by itself; a kind that is known to answer otherwise is not asked."""
    engine, known = Engine("auto"), Engine("llama_cpp")
    before = why_not(engine, unrecognised=True)
    for each in (engine, known):
        learn(each, shows=False)

    assert (before, why_not(engine, unrecognised=True), why_not(engine)) == (NOT_PROVEN, None, NOT_PROVEN)
    assert why_not(known, unrecognised=True) is NOT_PROVEN


def test_what_was_learned_of_an_engine_is_forgotten_with_it() -> None:
    """Another process, or another kind, may have another setting. The same kind once more is no news."""
    engine = Engine("vllm")
    learn(engine, shows=False)
    found = [why_not(engine)]
    engine.is_kind("vllm")
    found.append(why_not(engine))
    engine.began_anew()
    found.append(why_not(engine))
    learn(engine, shows=False)
    engine.is_kind("dynamo")

    assert [*found, why_not(engine)] == [None, None, NOT_PROVEN, NOT_PROVEN]


@pytest.mark.parametrize(
    ("kind", "version", "first"),
    [
        ("vllm", "0.32.1", None),
        ("vllm", "0.25.0rc1", None),
        ("vllm", "0.24.3", NOT_PROVEN),
        ("vllm", None, NOT_PROVEN),
        ("vllm", "dev", NOT_PROVEN),
        ("ollama", "0.13.0", None),
        ("dynamo", None, NOT_PROVEN),
    ],
)
def test_a_release_that_shows_forced_usage_at_once_is_asked_from_the_first_stream_on(
    kind: str, version: str | None, first: str | None
) -> None:
    """So its first streams have a split too. One whose streams state usage unasked is not asked; a new process may have another version."""
    engine = Engine("auto")
    engine.is_kind(kind)
    engine.says(Identity(version))
    found = [why_not(engine)]
    learn(engine, shows=True, times=LEARNED_FROM - 1)
    found.append(why_not(engine))
    learn(engine, shows=True, times=1)
    found.append(why_not(engine))
    engine.began_anew()
    found.append(why_not(engine))

    assert found == [first, first, SHOWS, NOT_PROVEN]


def test_the_model_label_comes_from_the_engines_list_and_never_from_a_client() -> None:
    """A model that is not served is `other`; an unstated one is the served one, if there is only one."""
    told: list[Sequence[str]] = []
    engine = Engine("auto", on_models=told.append)
    assert engine.names.of("llama") == "other"

    engine.serves(["llama"])
    assert [
        engine.names.of("llama"),
        engine.names.of("gpt-4\xff"),
        engine.names.of(None),
    ] == ["llama", "other", "llama"]
    engine.serves(["llama", "adapter"])
    assert engine.names.of(None) == "other"
    assert told == [("llama",), ("llama", "adapter")]


def test_an_engine_that_describes_itself_without_a_list_of_models_is_told_of() -> None:
    """The series of `other` wait for the engine's list (`ClosedSet.pending`): they begin when there is none to wait for. A front end
    whose list is still empty has one.
    """
    told: list[Sequence[str]] = []
    silent, empty, listed = (Engine("auto", on_models=told.append) for _ in range(3))

    silent.says(Identity("3.3.4"))
    empty.says(Identity("1.0", models=()))
    listed.says(Identity("0.11.0", models=("llama",)))

    assert told == [(), ("llama",)]


def test_where_the_config_states_the_models_its_word_stands() -> None:
    """The engine's own list changes nothing."""
    engine = Engine("vllm", ["llama"])

    engine.serves(["something-else"])

    assert engine.models == ("llama",)


def test_an_adapter_is_a_model_to_clients_and_none_of_the_engines_own() -> None:
    """Usual values hold for the models of the engine; an adapter may be loaded and dropped at any time."""
    engine = Engine("vllm")

    engine.serves(["llama", "tuned"], ["tuned"])

    assert (engine.models, engine.base_models, engine.names.of("tuned")) == (("llama", "tuned"), ("llama",), "tuned")
