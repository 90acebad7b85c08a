"""A request is inference by the last segments of its path, whatever stands before them."""

import pytest

from sidecar.engines.kind import UNKNOWN_KIND
from sidecar.engines.kinds import KINDS
from sidecar.timeline.apis import SERVED, Api, Apis, Purpose, cancelled_by, told_by_body


APIS = Apis()
MOUNTS = (
    "",
    "/openai",
    "/v3",
    "/engines",
    "/engines/llama.cpp",
    "/api/v1",
    "/gateway/team-a/v1",
    "/openai/deployments/gpt",
)
PATHS = [(path.replace("*", "m"), api) for path, api in SERVED]


def name_at(target: str) -> str | None:
    api = APIS.at(target.encode())
    return None if api is None else api.dialect.name


@pytest.mark.parametrize(("path", "api"), PATHS, ids=[path for path, _ in PATHS])
def test_each_path_is_known_wherever_it_is_mounted(path: str, api: Api) -> None:
    """A prefix, a trailing slash, doubled slashes, a query and the absolute form change nothing.

    Only a prefix whose own end makes a longer entry tells another API, as `/v1` before `completions` does.
    """
    longer = {
        f"{mount}/{path}"
        for mount in MOUNTS
        if any(f"{mount}/{path}".endswith(f"/{other}") for other, _ in PATHS if len(other) > len(path))
    }
    for target in (f"{mount}/{path}" for mount in MOUNTS):
        if target not in longer:
            forms = (
                target,
                f"{target}/",
                target.replace("/", "//"),
                f"{target}?api-version=1",
                f"http://engine:8000{target}",
            )
            assert {name_at(form) for form in forms} == {api.dialect.name}


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/openai/v1/chat/completions", "openai_chat"),
        ("/chat/completions", "openai_chat"),
        ("/v1/completions?x=/v1/messages", "openai_completions"),
        ("/engines/v1/completions", "openai_completions"),
        ("/v3/completions", "openai_completions_or_llama_completion"),
        ("/v1/messages?beta=true", "anthropic_messages"),
        ("/anthropic/v1/messages", "anthropic_messages"),
        ("HTTPS://engine/v1/messages?a", "anthropic_messages"),
        ("/inference/v1/generate", "vllm_generate"),
        ("/api/generate?x", "ollama"),
        ("/ollama/api/generate", "ollama"),
        ("/v2/models/ensemble/generate", "triton_generate"),
        ("http://pod/v2/models/a.b/versions/1/generate_stream?x", "triton_generate"),
        ("/triton/v2/models/m/generate", "triton_generate"),
        ("/generate", "sglang_generate_or_tgi_generate"),
        ("/v2/rerank", "encode"),
        ("/api/embed", "encode"),
        ("/v1/audio/translations", "transcription"),
    ],
)
def test_the_longest_entry_comes_first(target: str, name: str) -> None:
    assert name_at(target) == name


@pytest.mark.parametrize(
    "target",
    [
        *("", "*", "/", "//", "/health", "/v1/models", "/V1/messages", "/v3/messages", "/messages", "/chat", "/api"),
        *("/v1/messages/count_tokens", "/v1/batches", "/v1/messages/batches", "/v1/responses/resp_1/cancel"),
        *("/v1/chat/completions/render", "/v1/completions/render", "/tokenize", "/v2/models/m/infer", "/v1/audio/speech"),
        *("engine:443", "ftp://engine/v1/messages", "/v1/chat/completions%2F", "/v1/responses/resp_1/input_items", "\xff"),
    ],
)  # fmt: skip
def test_other_paths_are_no_inference(target: str) -> None:
    assert name_at(target) is None


def test_the_root_generates_on_tgi_alone() -> None:
    """On any other engine, or before the engine is known, a POST there is no inference request."""
    kinds = [UNKNOWN_KIND, *KINDS.values()]

    assert [kind.name for kind in kinds if APIS.at(b"/", kind.paths) is not None] == ["tgi"]
    assert APIS.at(b"//", KINDS["tgi"].paths) is not None


def test_say_whether_an_answer_is_a_stream_where_the_request_does_not() -> None:
    """Ollama streams unless told not to; two paths always stream."""
    streaming = {path for path, api in PATHS if api.dialect.streams_unsaid}

    assert streaming == {
        *("api/chat", "api/generate", "generate_stream"),
        *("v2/models/m/generate_stream", "v2/models/m/versions/m/generate_stream"),
    }


def test_a_get_that_streams_a_response_delivers_it() -> None:
    """OpenAI's background mode: the answer was ordered by an earlier request."""
    target = b"/openai/v1/responses/resp_1?stream=true&starting_after=3"
    api = APIS.of(b"GET", target)

    assert api is not None
    assert (api.dialect.name, api.purpose) == ("openai_responses", Purpose.DELIVERS)
    assert APIS.of(b"GET", b"/v1/responses/resp_1") is None
    assert APIS.of(b"GET", b"/v1/responses/resp_1?stream=false") is None
    assert APIS.of(b"GET", b"/v1/chat/completions?stream=true") is None
    assert APIS.of(b"DELETE", target) is None
    assert APIS.of(b"GET", b"*?stream=true") is None


def test_a_post_that_cancels_a_response_names_it() -> None:
    assert cancelled_by(b"POST", b"/v1/responses/resp_1/cancel") == b"resp_1"
    assert cancelled_by(b"POST", b"/openai/v1/responses/resp_1/cancel/?x") == b"resp_1"
    assert cancelled_by(b"GET", b"/v1/responses/resp_1/cancel") is None
    assert cancelled_by(b"POST", b"/v1/batches/b_1/cancel") is None
    assert cancelled_by(b"POST", b"/cancel") is None
    assert cancelled_by(b"POST", b"ftp:/cancel") is None


@pytest.mark.parametrize(
    ("body", "name", "purpose"),
    [
        (b'{"messages": [{"content": "\\"prompt\\":"}]}', "openai_chat", Purpose.GENERATES),
        (b'{"model":"m","prompt":"a"}', "openai_completions", Purpose.GENERATES),
        (b'{"inputs":"a","parameters":{}}', "tgi_generate", Purpose.GENERATES),
        (b'{"input": ["a", "b"]}', "encode", Purpose.ENCODES),
        (b"", "invocations", Purpose.TOLD_BY_BODY),
    ],
)
def test_invocations_are_told_by_their_body(body: bytes, name: str, purpose: Purpose) -> None:
    """SageMaker's one path for all APIs."""
    api = APIS.at(b"/invocations")
    assert api is not None

    told = told_by_body(body, api)

    assert (told.dialect.name, told.purpose) == (name, purpose)


def test_a_config_adds_and_excludes_paths() -> None:
    """The longest entry decides here too, and an exclusion stands before a known path of the same length."""
    apis = Apis(
        {"/my/llm": "openai_chat", "/llm/*/stream": "anthropic_messages"}, ["/v1/embeddings", "/v1/chat/completions"]
    )

    def named(target: bytes) -> str | None:
        api = apis.at(target)
        return None if api is None else api.dialect.name

    assert named(b"/x/my/llm/") == "openai_chat"
    assert named(b"/llm/a/stream") == "anthropic_messages"
    assert named(b"/llm/stream") is None
    assert named(b"/openai/v1/embeddings") is None
    assert named(b"/embeddings") == "encode"
    assert named(b"/v1/chat/completions") is None
    assert named(b"/v3/chat/completions") == "openai_chat"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/v1/chat/completions", "/v1/models"),
        ("/openai/v1/chat/completions?x", "/openai/v1/models"),
        ("/openai/v1/completions", "/openai/v1/models"),
        ("/v3/chat/completions/", "/v3/models"),
        ("/chat/completions", "/models"),
        ("/health", None),
        ("/a%0d%0ab/chat/completions", None),
        ("/" + "a" * 200 + "/chat/completions", None),
        ("*", None),
    ],
)
def test_the_list_of_models_stands_beside_the_path_that_is_served(target: str, path: str | None) -> None:
    """Clients choose paths: what is no plain one is not asked for."""
    assert APIS.models_beside(target.encode()) == path
