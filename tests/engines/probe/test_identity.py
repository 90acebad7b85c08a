"""An engine's identity as its own pages state it, and the texts that are not accepted as such."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.identity import identity_of
from sidecar.engines.probe.replies import MODELS_PATH, Answer, Identity


LISTED = b'{"object":"list","data":[{"id":"m"}]}'
TRTLLM = (
    b'# TYPE trtllm_model_config_info gauge\ntrtllm_model_config_info{engine_type="undefined",model="/models/m",model_name="m",'
    b'served_model_name="m",dtype="bfloat16",quantization="FP8",max_model_len="4096",gpu_type="NVIDIA H100 80GB HBM3"} 1.0\n'
)

ENGINES = [
    ("vllm", {"/version": b'{"version":"0.33.0"}'}, Identity("0.33.0", ("m",))),
    (
        "vllm",
        {"/version": b'{"version":"0.33.0","rust_frontend_version":"0.1.0"}'},
        Identity("0.33.0+rust", ("m",)),
    ),
    (
        "vllm",
        {
            "/version": b'{"version":"0.33.0"}',
            "/server_info?config_format=json": b'{"vllm_config":{"model_config":{"quantization":"fp8","dtype":"torch.bfloat16"}}}',
        },
        Identity("0.33.0", ("m",), "fp8"),
    ),
    (
        "sglang",
        {"/server_info": b'{"version":"0.5.23","quantization":"awq","dtype":"auto","internal_states":[{}]}'},
        Identity("0.5.23", ("m",), "awq"),
    ),
    ("sglang", {"/server_info": b'{"version":"0.5.23","quantization":null}'}, Identity("0.5.23", ("m",))),
    (
        "tensorrt_llm",
        {"/version": b'{"version":"1.4.0rc1"}', "/prometheus/metrics": TRTLLM},
        Identity("1.4.0rc1", ("m",), "FP8", "NVIDIA H100 80GB HBM3"),
    ),
    (
        "llama_cpp",
        {"/props": b'{"build_info":"b11434-0fa1d9d","model_ftype":"Q4_K - Medium","total_slots":4}'},
        Identity("b11434-0fa1d9d", ("m",), "Q4_K - Medium"),
    ),
    (
        "ollama",
        {
            "/api/version": b'{"version":"0.13.5"}',
            "/api/tags": b'{"models":[{"name":"a","details":{"quantization_level":"Q4_K_M"}},{"name":"b","details":{"quantization_level":"Q4_K_M"}}]}',
        },
        Identity("0.13.5", ("m",), "Q4_K_M"),
    ),
    ("tgi", {"/info": b'{"model_id":"m","version":"3.3.6-dev0"}'}, Identity("3.3.6-dev0", ("m",))),
    ("triton", {"/v2": b'{"name":"triton","version":"2.73.0"}'}, Identity("2.73.0", ("m",))),
    (
        "lmdeploy",
        {"/metrics": b'lmdeploy:backend_config_info{model_format="awq",tp="1"} 1.0\n'},
        Identity(None, ("m",), "awq"),
    ),
    ("lmdeploy", {"/metrics": b'lmdeploy:backend_config_info{model_format="hf",tp="1"} 1.0\n'}, Identity(None, ("m",))),
    ("dynamo", {}, Identity(None, ("m",))),
]


@pytest.mark.parametrize(
    ("kind", "pages", "identity"), ENGINES, ids=[f"{kind}-{n}" for n, (kind, _, _) in enumerate(ENGINES)]
)
def test_each_engine_says_what_it_says_and_no_more(kind: str, pages: dict[str, bytes], identity: Identity) -> None:
    """Only pages that it is asked for are used."""
    answers = {path: Answer(200, pages[path]) if path in pages else Answer(404) for path in KINDS[kind].asks}

    assert set(pages) <= set(KINDS[kind].asks)
    assert identity_of(KINDS[kind], {MODELS_PATH: Answer(200, LISTED), **answers}) == identity


def test_an_adapter_is_told_by_its_parent() -> None:
    """As vLLM 0.32 lists a model and a LoRA on it."""
    listed = b'{"data":[{"id":"m","root":"m","parent":null},{"id":"tuned","root":"/lora","parent":"m"}]}'

    told = identity_of(KINDS["vllm"], {MODELS_PATH: Answer(200, listed)})

    assert (told.models, told.adapters) == (("m", "tuned"), ("tuned",))


def test_of_models_in_several_formats_no_one_word_is_true() -> None:
    tags = b'{"models":[{"details":{"quantization_level":"Q4_K_M"}},{"details":{"quantization_level":"F16"}}]}'

    assert identity_of(KINDS["ollama"], {"/api/tags": Answer(200, tags)}).quantization is None


def test_two_infos_that_contradict_each_other_say_nothing() -> None:
    answers = {"/prometheus/metrics": Answer(200, TRTLLM + TRTLLM.replace(b'"FP8"', b'"NVFP4"'))}

    assert identity_of(KINDS["tensorrt_llm"], answers) == Identity()


@pytest.mark.parametrize(
    "word", ["", "none", "None", "auto", "unknown", "a" * 65, 'x"y', "x\ny", "\ud800", "é", " fp8", "<b>"]
)
def test_a_word_that_could_be_no_label_is_not_said(word: str) -> None:
    page = json.dumps({"version": word + "\n", "quantization": word}).encode()

    assert identity_of(KINDS["sglang"], {"/server_info": Answer(200, page)}) == Identity()


@pytest.mark.parametrize("kind", KINDS)
@given(
    body=st.one_of(
        st.binary(max_size=50), st.sampled_from([b"[" * 90_000, b'{"models":[{"details":7}]}', b'{"version":1}'])
    )
)
def test_nonsense_on_every_path_says_nothing(kind: str, body: bytes) -> None:
    answers = {path: Answer(200, body) for path in (MODELS_PATH, *KINDS[kind].asks)}

    assert identity_of(KINDS[kind], answers) == Identity()


def test_every_engine_but_one_has_pages_of_its_own_to_be_asked_for() -> None:
    """Dynamo has no page that describes it."""
    assert [name for name, kind in KINDS.items() if not kind.asks] == ["dynamo"]
