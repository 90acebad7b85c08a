"""A config is right, or all of its errors are said at once, each with its place; nothing half-right is ever used."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.file import ConfigErrors, load
from sidecar.config.schema import Config, EngineConfig
from sidecar.config.yaml import read


BROKEN = sorted((Path(__file__).parent / "broken").glob("*.yml"))
URL = "http://127.0.0.1:8000"


def series(lanes: int, prompt_buckets: int, models: int, split: bool) -> int:
    return lanes * prompt_buckets * models * (120 if split else 60)


def errors_of(text: str, tmp_path: Path, **flags: str) -> list[str]:
    file = tmp_path / "c.yml"
    file.write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        load(str(file), flags, {}, series_typical=series)
    return [line.removeprefix(f"{file}:") for line in caught.value.lines]


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_a_broken_config_says_all_that_is_wrong(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broken config prints exactly the errors that stand beside it, with line, column, key and what is allowed."""
    monkeypatch.chdir(file.parent)
    with pytest.raises(ConfigErrors) as caught:
        load(file.name, series_typical=series)

    expected = file.with_suffix(".txt").read_text().splitlines()
    assert expected == list(caught.value.lines)
    assert all(line.startswith(f"{file.name}:") for line in expected)
    assert "CANARY" not in str(caught.value)


def test_there_are_twenty_kinds_of_broken() -> None:
    """The issue asks for twenty kinds."""
    assert len(BROKEN) >= 20


def test_a_flag_alone_is_a_config() -> None:
    """The engine's URL is all that must be said."""
    assert load(None, {"engine.url": URL}, {}, series_typical=series) == Config(engine=EngineConfig(url=URL))


def test_flags_outrank_the_file_and_the_file_the_environment(tmp_path: Path) -> None:
    """A flag replaces what the file says; the environment only fills labels that nobody set."""
    file = tmp_path / "c.yml"
    file.write_text(f"engine: {{url: {URL}}}\nlabels: {{gpu_type: H100}}\nlog:\n")
    environment = {"SIDECAR_GPU_TYPE": "A100", "SIDECAR_QUANTIZATION": "fp8"}
    config = load(str(file), {"engine.url": "http://b:1", "log.level": "debug"}, environment, series_typical=series)

    assert config.engine.url == "http://b:1"
    assert config.log.level == "debug"
    assert config.labels.gpu_type == "H100"
    assert config.labels.quantization == "fp8"


def test_what_a_flag_or_variable_says_is_judged_at_its_own_place() -> None:
    """An error names the flag or the variable that it came from."""
    with pytest.raises(ConfigErrors) as caught:
        load(None, {"log.level": "loud"}, {"SIDECAR_GPU_TYPE": "a\nb"}, series_typical=series)

    assert [line.split(": ")[:2] for line in caught.value.lines] == [
        ["$SIDECAR_GPU_TYPE", "labels.gpu_type"],
        ["--engine.url", "engine.url"],
        ["--log.level", "log.level"],
    ]


def test_one_error_never_hides_another(tmp_path: Path) -> None:
    """Contradictions are found among what is right in itself, while something else is wrong."""
    text = f"""\
engine: {{url: {URL}, knd: vllm}}
shutdown: {{lame_duck_seconds: 30}}
lanes:
  rules:
    - {{lane: a b, api_keys: [nobody]}}
    - {{lane: c}}
    - {{lane: d}}
"""
    assert [line.split(": ")[1] for line in errors_of(text, tmp_path)] == [
        "engine.knd",
        "shutdown.lame_duck_seconds",
        "lanes.rules[0].lane",
        "lanes.rules[0].api_keys[0]",
        "lanes.rules[2]",
    ]


def test_words_that_yaml_once_took_for_something_else_are_text() -> None:
    """`off`, `no`, 12:30 and 0777 are what they look like: YAML 1.2, so `via: off` needs no quotes."""
    document = read(b"a: off\nb: no\nc: 12:30\nd: 0777\ne: 2024-01-01\nf: 1_000\ng: ~\nh: 1e3\ni: true\nj: -2.5")

    assert document.tree == {
        "a": "off",
        "b": "no",
        "c": "12:30",
        "d": 777,
        "e": "2024-01-01",
        "f": "1_000",
        "g": None,
        "h": 1000.0,
        "i": True,
        "j": -2.5,
    }


def test_a_billion_laughs_are_an_error(tmp_path: Path) -> None:
    """Aliases of aliases are cut off, not unfolded."""
    laughs = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    assert [line for line in errors_of("\n".join(laughs), tmp_path) if "too large" in line] != []


def test_a_tower_of_brackets_is_an_error(tmp_path: Path) -> None:
    """Ten thousand open brackets end in an error with a place, not in a RecursionError."""
    assert len(errors_of("engine: " + "[" * 10_000, tmp_path)) >= 1


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The message says which file and why."""
    missing = str(tmp_path / "missing.yml")
    with pytest.raises(ConfigErrors) as caught:
        load(missing, {"engine.url": URL}, series_typical=series)

    assert caught.value.lines == (f"{missing}: cannot be read: No such file or directory",)


@given(st.one_of(st.binary(max_size=200), st.text("{}[]:,-&*!|> \n\"'#?ab1.~").map(str.encode)))
def test_no_bytes_raise_anything(text: bytes) -> None:
    """Whatever a file holds, reading it ends in a tree or in complaints."""
    document = read(text)

    assert isinstance(document.tree, dict)
    assert all(complaint.place >= (1, 1) for complaint in document.complaints)
