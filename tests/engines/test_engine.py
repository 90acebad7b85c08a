"""Facts known about the engine, and what follows from them."""

from collections.abc import Sequence

import pytest

from sidecar.engines.engine import Engine
from sidecar.engines.kind import UNKNOWN_KIND
from sidecar.engines.probe.replies import Identity


def test_an_engine_that_has_not_said_what_it_is_is_asked_for_nothing() -> None:
    """Figures in its answers are not read as vLLM's either."""
    engine = Engine("auto")
    assert not engine.takes_include_usage("openai_chat")
    assert engine.speaks is UNKNOWN_KIND

    engine.is_kind("vllm")
    assert not engine.takes_include_usage("openai_chat")
    assert engine.speaks.name == "vllm"


def test_a_server_that_is_not_recognised_is_asked_only_where_the_config_allows_it() -> None:
    """And only once a stream has shown that it states no usage by itself; a kind that is known to answer otherwise is not asked."""
    engine = Engine("auto")
    assert not engine.takes_include_usage("openai_chat", unrecognised=True)
    engine.ended_unasked("openai_chat", usage=False)

    assert engine.takes_include_usage("openai_chat", unrecognised=True)
    assert not engine.takes_include_usage("openai_chat")
    engine.null_usage = True
    assert not engine.takes_include_usage("openai_chat", unrecognised=True)

    known = Engine("llama_cpp")
    known.ended_unasked("openai_chat", usage=False)
    assert not known.takes_include_usage("openai_chat", unrecognised=True)


def test_an_engine_is_asked_for_usage_once_a_stream_has_shown_that_it_states_none_by_itself() -> None:
    """Else the chunk that is cut out is one that the client would have had: vLLM has a flag for that. A new process may have other flags."""
    engine = Engine("vllm")
    assert not engine.takes_include_usage("openai_chat")
    engine.ended_unasked("openai_chat", usage=False)
    assert engine.takes_include_usage("openai_chat")
    assert not engine.takes_include_usage("openai_completions")

    engine.ended_unasked("openai_chat", usage=True)
    engine.ended_unasked("openai_chat", usage=False)
    assert not engine.takes_include_usage("openai_chat")

    engine.is_kind("vllm")
    assert not engine.takes_include_usage("openai_chat")
    engine.began_anew()
    engine.ended_unasked("openai_chat", usage=False)
    engine.is_kind("vllm")
    assert engine.takes_include_usage("openai_chat")


@pytest.mark.parametrize(
    ("kind", "version", "asked"),
    [
        ("vllm", "0.32.1", True),
        ("vllm", "0.25.0rc1", True),
        ("vllm", "0.24.3", False),
        ("vllm", None, False),
        ("vllm", "dev", False),
        ("ollama", "0.13.0", True),
        ("dynamo", None, False),
    ],
)
def test_a_release_that_shows_forced_usage_at_once_is_asked_from_the_first_stream_on(
    kind: str, version: str | None, *, asked: bool
) -> None:
    """So its first streams have a split too. One that stated usage unasked is not asked again; a new process may have another version."""
    engine = Engine("auto")
    engine.is_kind(kind)
    engine.says(Identity(version))
    found = [engine.takes_include_usage("openai_chat")]
    engine.ended_unasked("openai_chat", usage=True)
    found.append(engine.takes_include_usage("openai_chat"))
    engine.began_anew()
    found.append(engine.takes_include_usage("openai_chat"))

    assert found == [asked, False, False]


def test_a_server_that_answers_include_usage_in_every_chunk_is_not_asked_again() -> None:
    """Its reports are still read where a client itself asked for them."""
    engine = Engine("vllm")

    engine.null_usage = True

    assert not engine.takes_include_usage("openai_chat")
    assert engine.speaks.name == "vllm"


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
