"""Every key can be given as a variable of the environment; a variable of this program that names no key is an error."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from sidecar.config.environment import PREFIX, names
from sidecar.config.file import ConfigErrors, load
from sidecar.config.schema import WHOLE_CONFIG, AimConfig, Config
from sidecar.config.yaml import read_value
from tests.support.configs import URL, few


FILE = f"""\
engine: {{url: "{URL}"}}
lanes: {{header: x-lane, names: [chat, my-lane]}}
objectives:
  chat:
    ttft: {{threshold_seconds: 2, target: 0.9}}
log:
  level: debug
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "c.yml"
    path.write_text(FILE)
    return str(path)


def read(file: str | None, /, flags: Mapping[str, str] = MappingProxyType({}), **variables: str) -> Config:
    environment = {PREFIX + name: value for name, value in variables.items()}
    return load(file, flags, environment, series_in_use=few)


def refused(file: str | None, **variables: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        read(file, {}, **variables)
    return list(caught.value.lines)


def test_a_variable_outranks_the_file_and_a_flag_the_variable(file: str) -> None:
    """Each kind of value is written as it would be in the file; text needs no quotes, whatever it looks like."""
    config = read(
        file,
        {"log.level": "error"},
        LOG__LEVEL="info",
        LOG__FORMAT="json",
        ENGINE__URL="http://b:1",
        ENGINE__MODELS="[llama, qwen]",
        PROXY__MAX_IN_FLIGHT="7",
        SPANS__RECEIVE="false",
        LABELS__GPU_TYPE="100",
        LANES__RULES="[{lane: batch, streaming: false}, {lane: code, paths: /v1/completions}]",
    )

    assert (config.engine.url, config.engine.models, config.log.level, config.log.format) == (
        "http://b:1",
        ("llama", "qwen"),
        "error",
        "json",
    )
    assert (config.proxy.max_in_flight, config.spans.receive, config.labels.gpu_type) == (7, False, "100")
    assert [rule.lane for rule in config.lanes.rules] == ["batch", "code"]
    assert config.sources["log", "level"].over == ("$SIDECAR__LOG__LEVEL", f"{file}:7")


def test_the_environment_alone_is_a_config() -> None:
    assert read(None, ENGINE__URL=URL).engine.url == URL


def test_a_lane_is_named_in_capitals_and_a_part_leaves_the_rest(file: str) -> None:
    """Lanes may be declared by another variable, in any order."""
    config = read(
        file,
        LANES__NAMES="[chat, my-lane, night.jobs]",
        OBJECTIVES__CHAT__TTFT__THRESHOLD_SECONDS="1.5",
        OBJECTIVES__MY_LANE="{preset: code}",
        OBJECTIVES__NIGHT_JOBS__PRESET="batch",
        OBJECTIVES__CHAT__E2E="none",
    )
    chat = config.objectives["chat"]

    assert isinstance(chat.ttft, AimConfig)
    assert (chat.ttft.threshold_seconds, chat.ttft.target, chat.e2e) == (1.5, 0.9, None)
    assert (config.objectives["my-lane"].preset, config.objectives["night.jobs"].preset) == ("code", "batch")
    assert config.sources["objectives", "chat", "ttft", "threshold_seconds"].over == (f"{file}:5",)


def test_all_objectives_in_one_variable_replace_those_of_the_file(file: str) -> None:
    assert set(read(file, OBJECTIVES="{my-lane: {preset: code}}").objectives) == {"my-lane"}


def test_every_error_is_told_at_once_and_its_place_is_the_variable() -> None:
    """A wrong value of a secret is not repeated, and one mistake makes one error."""
    assert refused(
        None,
        ENGINE__URL="${ENGINE_URL}",
        LOG__LEVEL="loud",
        ENGINE__MODELS="a, b",
        PROXY__MAX_HEADERS="",
        PROXY__MAX_IN_FLIGHT="many",
        LANES__RULES="[{lane: x}",
        LANES__API_KEYS="{a: CANARY}",
        LABELS__GPU_TYPE="\udc80",
        OBJECTIVES__CHAT__TTFT="none",
        LANES__NAMES="[gold]",
    ) == [
        '$SIDECAR__ENGINE__MODELS: engine.models: is one text with a comma: write a list as YAML, ["one", "two"]',
        (
            "$SIDECAR__ENGINE__URL: engine.url: names an environment variable, and nothing expands it: must be a URL"
            " http://host:port without a path, or unix:/path; write the value itself, or pass --engine.url="
            '"$NAME" in a shell, --engine.url=$(NAME) in a pod\'s args, or set the variable SIDECAR__ENGINE__URL instead,'
            " or fill the file in before the start (envsubst)"
        ),
        "$SIDECAR__LABELS__GPU_TYPE: labels.gpu_type: is not UTF-8",
        "$SIDECAR__LANES__API_KEYS: lanes.api_keys.a[0]: is not a SHA-256: must be the 64 hex digits of the key's SHA-256",
        "$SIDECAR__LANES__NAMES: lanes.names: has no use without lanes.header: no request could reach these lanes",
        (
            "$SIDECAR__LANES__RULES: lanes.rules: is not YAML: while parsing a flow sequence, expected ',' or ']',"
            " but got '<stream end>' (line 1, column 11 of the value)"
        ),
        '$SIDECAR__LOG__LEVEL: log.level: must be one of: debug, info, warning, error; it is "loud"',
        "$SIDECAR__OBJECTIVES__CHAT__TTFT: names no declared lane; declared: gold, default",
        "$SIDECAR__PROXY__MAX_HEADERS: proxy.max_headers: is empty: write a value, or unset the variable",
        '$SIDECAR__PROXY__MAX_IN_FLIGHT: proxy.max_in_flight: must be a whole number at least 1 and at most 100000; it is "many"',
    ]


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("ENGINE__URI", 'names no key of the config; did you mean "SIDECAR__ENGINE__URL"?'),
        ("ENGINE_URL", 'names no key of the config; did you mean "SIDECAR__ENGINE__URL"?'),
        ("engine__url", 'names no key of the config; did you mean "SIDECAR__ENGINE__URL"?'),
        ("XYZ", "names no key of the config; variables are named SIDECAR__SECTION__KEY"),
        ("CONFIG__FILE", "names no key of the config: pass --config.file"),
        ("LABELS", "names a section: set its keys, SIDECAR__LABELS__KEY with KEY out of: QUANTIZATION, GPU_TYPE"),
        ("OBJECTIVES__CHAD__TTFT", 'names no declared lane; did you mean "CHAT"?; declared: chat, my-lane, default'),
        (
            "OBJECTIVES__CHAT__TPOT__TARGETS",
            'names no key of the config; did you mean "SIDECAR__OBJECTIVES__CHAT__TPOT__TARGET"?',
        ),
        ("OBJECTIVES__CHAT__PROMPT_BUCKETS__4K", "names no key of the config; "),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(file: str, variable: str, said: str) -> None:
    (error,) = refused(file, **{variable: "1"})

    assert error.startswith(f"$SIDECAR__{variable}: {said}")


@pytest.mark.parametrize("variable", ["sidecar__engine__url", "Sidecar__Engine__Url"])
def test_a_variable_in_small_letters_is_refused_and_not_ignored(variable: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(None, {"engine.url": "http://127.0.0.1:8000"}, {variable: "http://127.0.0.1:8001"})

    assert caught.value.lines == (f'${variable}: names no key of the config; did you mean "SIDECAR__ENGINE__URL"?',)


def test_two_lanes_of_one_spelling_are_set_by_the_whole_mapping(file: str) -> None:
    (error,) = refused(file, LANES__NAMES="[a-b, a.b, chat]", OBJECTIVES__A_B__PRESET="code")

    assert error == "$SIDECAR__OBJECTIVES__A_B__PRESET: may mean a-b or a.b: set SIDECAR__OBJECTIVES, as YAML"


def test_an_error_of_a_whole_that_a_variable_completes_is_at_the_variable(file: str) -> None:
    (error,) = refused(file, OBJECTIVES__MY_LANE__TTFT__THRESHOLD_SECONDS="1")

    assert error == (
        "$SIDECAR__OBJECTIVES__MY_LANE__TTFT__THRESHOLD_SECONDS: objectives.my-lane.ttft:"
        " has no target, and the lane's preset (none) sets none"
    )


def test_every_key_has_a_variable_and_every_variable_a_key() -> None:
    """`LANE` stands for a lane's name."""

    def keys() -> Iterator[str]:
        for section, of in WHOLE_CONFIG.keys.items():
            yield from [f"{section}__{key}".upper() for key in of.keys] or [section.upper()]

    assert set(keys()) <= set(names())
    assert {"OBJECTIVES__LANE__TPOT__THRESHOLD_SECONDS", "OBJECTIVES__LANE__PRESET"} <= set(names())


NEARLY = {
    "SIDECAR_ENGINE_URL": "SIDECAR__ENGINE__URL",
    "SIDECAR_PROXY__LISTEN_ADDRESS": "SIDECAR__PROXY__LISTEN_ADDRESS",
    "SIDECAR_CONFIG_FILE": "--config.file",
    "SIDECARS__LOG__LEVEL": "SIDECAR__LOG__LEVEL",
    "SIDE_CAR__LOG__LEVEL": "SIDECAR__LOG__LEVEL",
    "sidecar_log_level": "SIDECAR__LOG__LEVEL",
    "LLM_SIDECAR_ENGINE_URL": "SIDECAR__ENGINE__URL",
    "LLM_PHASE_SIDECAR__OBJECTIVES__CHAT__PRESET": "SIDECAR__OBJECTIVES__CHAT__PRESET",
}


def test_a_key_behind_almost_the_prefix_is_refused_with_its_right_spelling() -> None:
    """All of them at once, each with its place. It was not read: the sidecar ran with another value than the one that was set."""
    with pytest.raises(ConfigErrors) as caught:
        load(None, {"engine.url": URL}, dict.fromkeys(NEARLY, "CANARY"), series_in_use=few)

    said = {f'${name}: is not read; did you mean "{right}"?' for name, right in NEARLY.items()}
    assert {*caught.value.lines} == said


@pytest.mark.parametrize(
    "name", ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_9901_TCP", "PORT_9901_TCP_ADDR"]
)
def test_what_kubernetes_sets_for_a_service_and_what_others_read_is_no_mistake(name: str) -> None:
    """In every pod of a namespace with a Service `sidecar`, or `sidecar-engine-metrics`."""
    environment = {
        f"SIDECAR_{name}": "tcp://10.0.0.1:9901",
        f"SIDECAR_CHAT_{name}": "1",
        "SIDECAR_ENGINE_METRICS_PORT": "tcp://10.0.0.1:8000",
        "LLM_SIDECAR_ENGINE_METRICS_PORT": "tcp://10.0.0.1:8000",
        **dict.fromkeys(("SIDECAR_GPU_TYPE", "SIDECAR_QUANTIZATION"), "x"),
        **dict.fromkeys(("SIDECAR_PURE", "SIDECAR_BUILD", "SIDECAR_COLOUR"), "1"),
        **dict.fromkeys(("ISTIO_SIDECAR_LOG_LEVEL", "LOG_LEVEL", "ENGINE__URL", "VLLM_LOG_LEVEL", "PATH", "_"), "1"),
    }

    assert load(None, {"engine.url": URL}, environment, series_in_use=few).engine.url == URL


def test_the_example_of_the_documentation_is_good() -> None:
    """The first block of docs/configuration.md that lists variables of a pod."""
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    block = page.partition("```yml\nenv:\n")[2].partition("```")[0]
    listed, complaints = read_value(block.encode())
    assert isinstance(listed, list)
    config = load(None, {}, {each["name"]: each["value"] for each in listed}, series_in_use=few)
    chat = config.objectives["chat"]

    assert (complaints, config.lanes.declared) == ([], ("batch", "chat", "default", "other"))
    assert isinstance(chat.ttft, AimConfig)
    assert (chat.preset, chat.ttft.threshold_seconds) == ("voice", 0.4)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LANES__API_KEYS", "*CANARY"),
        ("LANES__API_KEYS", "!CANARY!x"),
        ("LANES__RULES", '[{lane: batch, headers: {Authorization: "Bearer CAN*ARY CANARY"}}]'),
    ],
)
def test_an_error_repeats_nothing_of_a_value_that_may_be_a_secret(variable: str, value: str, file: str) -> None:
    """YAML's own words name an alias and a tag, and a refused pattern was shown: in a pod they would stand in its log."""
    (error,) = refused(file, **{variable: value})

    assert variable in error
    assert "CANARY" not in error
