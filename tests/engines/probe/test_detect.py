"""Detection of the engine's kind from its answers: each engine's own, and misleading ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.schema import EngineConfig
from sidecar.config.section import keys_of
from sidecar.engines.kinds import KINDS
from sidecar.engines.llama_cpp import LlamaCpp
from sidecar.engines.probe.detect import next_question, order, recognised
from sidecar.engines.probe.replies import METRICS, MODELS_PATH, Answer
from sidecar.metrics import catalogue as c


NOT_THERE = Answer(404)
PROPS = LlamaCpp.page
ANSWERS_LAST = 7
"""Most questions in one round."""

Pages = dict[str, bytes]


def models(*owners: str | None) -> bytes:
    return json.dumps(
        {"object": "list", "data": [{"id": f"m{n}", "owned_by": who} for n, who in enumerate(owners)]}
    ).encode()


def detected(pages: Pages, *, server: str = "uvicorn", silent: str = "") -> tuple[str | None, list[str]]:
    """The kind that is found, and the questions asked."""
    answers: dict[str, Answer] = {}
    while (path := next_question(answers)) is not None:
        assert path not in answers, "asked twice"
        assert len(answers) < ANSWERS_LAST
        found = Answer(200, pages[path], server) if path in pages else Answer(404, b"", server)
        answers[path] = Answer(None) if path == silent else found
    return recognised(answers), list(answers)


PROPS_PAGE = (
    b'{"default_generation_settings":{"n_ctx":4096},"total_slots":4,"model_path":"/m.gguf","build_info":"b11434-abc"}'
)
INFO_PAGE = (
    b'{"model_id":"m","model_sha":null,"router":"text-generation-router","version":"3.3.6-dev0","sha":"db931fcf"}'
)

ENGINES: dict[str, tuple[str, Pages, int]] = {
    "vLLM 0.33": ("vllm", {MODELS_PATH: models("vllm"), METRICS: b"vllm:num_requests_running 0\n"}, 1),
    "vLLM with an adapter": ("vllm", {MODELS_PATH: models("vllm", "vllm")}, 1),
    "SGLang 0.5.23, which speaks Ollama too": ("sglang", {MODELS_PATH: models("sglang"), "/": b"Ollama is running"}, 1),
    "TensorRT-LLM": ("tensorrt_llm", {MODELS_PATH: models("tensorrt_llm"), METRICS: b"[]"}, 1),
    "LMDeploy 0.18": ("lmdeploy", {MODELS_PATH: models("lmdeploy")}, 1),
    "llama.cpp b11434": ("llama_cpp", {MODELS_PATH: models("llamacpp"), PROPS: PROPS_PAGE}, 1),
    "llama.cpp behind a new name": ("llama_cpp", {MODELS_PATH: models("me"), PROPS: PROPS_PAGE}, 2),
    "Triton's OpenAI front end": ("triton", {MODELS_PATH: models("Triton Inference Server")}, 1),
    "Triton's own API": ("triton", {"/v2": b'{"name":"triton","version":"2.73.0","extensions":["classification"]}'}, 5),
    "TGI 3.3.6": ("tgi", {MODELS_PATH: models("org/model"), "/info": INFO_PAGE}, 3),
    "TGI 2": ("tgi", {"/info": b'{"model_id":"m","waiting_served_ratio":1.2}'}, 3),
    "Dynamo 1.6.1": (
        "dynamo",
        {MODELS_PATH: models("nvidia"), METRICS: b"# x\ndynamo_frontend_requests_total 0\nvllm:x 1\n"},
        2,
    ),
    "Ollama": ("ollama", {MODELS_PATH: models("library", "hf.co"), "/": b"Ollama is running"}, 4),
    "a vLLM that was renamed": (
        "vllm",
        {MODELS_PATH: models("acme"), METRICS: b"# HELP x\nvllm:num_requests_running 0\n"},
        6,
    ),
}


@pytest.mark.parametrize(("kind", "pages", "questions"), ENGINES.values(), ids=ENGINES)
def test_each_engine_is_known_by_its_own_answers_and_few_of_them(kind: str, pages: Pages, questions: int) -> None:
    found, asked = detected(pages)

    assert (found, len(asked)) == (kind, questions)


def test_a_llama_cpp_is_known_by_its_server_header_alone() -> None:
    """An API key guards every other answer."""
    assert detected({}, server="llama.cpp") == ("llama_cpp", [MODELS_PATH])


STRANGERS: dict[str, Pages] = {
    "transformers serve": {MODELS_PATH: models("HuggingFaceTB", "Qwen")},
    "LiteLLM": {MODELS_PATH: models("openai", "openai")},
    "a gateway over a vLLM and a hosted API": {MODELS_PATH: models("vllm", "openai")},
    "a gateway over two engines": {MODELS_PATH: models("vllm", "sglang")},
    "two engines' names on one page": {MODELS_PATH: models("me"), METRICS: b"vllm:x 1\nsglang:x 1\n"},
    "NIM without Dynamo": {MODELS_PATH: models("nvidia"), METRICS: b"process_cpu_seconds_total 1\n"},
    "a name in the middle of a line": {MODELS_PATH: models("me"), METRICS: b'x{note="vllm:"} 1\n'},
    "a page that mentions Ollama": {MODELS_PATH: models("me"), "/": b"<h1>Ollama is running</h1>"},
    "another KServe": {"/v2": b'{"name":"mlserver","version":"1.6"}'},
    "embeddings": {"/info": b'{"router":"text-embeddings-router"}'},
    "nothing at all": {},
}


@pytest.mark.parametrize("pages", STRANGERS.values(), ids=STRANGERS)
def test_an_unknown_engine_or_several_at_once_are_not_recognised(pages: Pages) -> None:
    found, asked = detected(pages)

    assert found is None
    assert len(asked) <= len(order())


@pytest.mark.parametrize("props", [Answer(401), Answer(403), Answer(500), Answer(None), Answer(200, PROPS_PAGE)])
def test_no_metrics_are_read_before_it_is_proven_that_this_is_no_llama_cpp(props: Answer) -> None:
    """A scrape resets llama.cpp's gauges. A page that the sidecar may not read proves nothing."""
    answers = {path: NOT_THERE for path in order() if path != METRICS} | {
        MODELS_PATH: Answer(200, models("me")),
        PROPS: props,
    }

    assert next_question(answers) is None


def test_a_question_that_hangs_ends_the_round() -> None:
    found, asked = detected({MODELS_PATH: models("me"), "/info": INFO_PAGE}, silent=PROPS)

    assert (found, asked) == (None, [MODELS_PATH, PROPS])


HOSTILE = [
    b"",
    b"null",
    b"[" * 500_000,
    b'{"data":' * 60_000,
    b'{"data":[{"id":1}]}',
    b'{"data":[{"id":"m","owned_by":["vllm"]}]}',
    b'{"data":{"id":"m","owned_by":"vllm"}}',
    b"\xff\xfe\x00",
    b'{"data":[{"id":"\xff","owned_by":"vllm"}]}',
    b'{"name":{"triton":1},"build_info":7,"router":[]}',
    b'{"build_info":"b1"}',
    b"9" * 500_000,
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_an_answer_that_is_nonsense_on_every_path_proves_nothing(body: bytes) -> None:
    assert detected(dict.fromkeys(order(), body))[0] is None


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["vllm", "triton", "b1"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["data", "id", "owned_by", "name", "router", "build_info"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(order()), JSON.map(lambda value: json.dumps(value).encode())))
def test_whatever_is_answered_the_questions_end(pages: Pages) -> None:
    found, asked = detected(pages)

    assert found is None or found in {"vllm", "triton"}
    assert len(asked) <= len(order())


def test_config_page_and_detection_know_the_same_kinds() -> None:
    """The kinds are listed in three places, which must agree."""
    named = set(keys_of(EngineConfig)["kind"].words) - {"auto", "none"}

    assert named == {kind for kind, _, _ in ENGINES.values()} == set(c.ENGINE_INFO.labels[0].values) == set(KINDS)
