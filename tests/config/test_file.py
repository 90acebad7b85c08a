"""A config is valid, or all of its errors are reported at once, with places; no half-valid config is used."""

import re
from pathlib import Path

import pytest

from sidecar.config.file import ConfigErrors, load
from sidecar.config.schema import Config, EngineConfig


BROKEN = dict(
    re.findall(
        r"^== (\S+)\n(.*?^-- says\n.*?)\n*(?=^== |\Z)",
        (Path(__file__).parent / "broken.txt").read_text(),
        re.DOTALL | re.MULTILINE,
    )
)
"""Name to the file and the errors that it has, with a line `-- says` between them."""
URL = "http://127.0.0.1:8000"


def series(config: Config) -> int:
    """A number that grows with what multiplies in the catalogue."""
    combinations = len(config.lanes.declared) * len(config.prompt_buckets.edges) * len(config.engine.models)
    return combinations * (1000 if config.metrics.inter_token_by_prompt_bucket else 100)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_config_says_all_that_is_wrong(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each broken config gives exactly the errors that stand behind it, with line, column, key and what is allowed."""
    text, _, expected = BROKEN[name].partition("-- says\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.yml").write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        load(f"{name}.yml", series_in_use=series)

    assert expected.splitlines() == list(caught.value.lines)
    assert expected.startswith(f"{name}.yml:")
    assert "CANARY" not in str(caught.value)


def test_a_file_that_is_no_text_is_broken_at_its_byte(tmp_path: Path) -> None:
    """The first byte that is no UTF-8 is named with its line and column."""
    file = tmp_path / "c.yml"
    file.write_bytes(f"engine:\n  url: {URL}\nlabels:\n  gpu_type: H".encode() + b"\xff100\n")
    with pytest.raises(ConfigErrors) as caught:
        load(str(file), series_in_use=series)

    assert caught.value.lines == (f"{file}:4:14: is not YAML: invalid start byte",)


def test_there_are_twenty_kinds_of_broken() -> None:
    """There are twenty kinds of broken config, as the issue asks."""
    assert len(BROKEN) >= 20


def test_a_flag_alone_is_a_config() -> None:
    """The engine's URL is the only value that must be given."""
    assert load(None, {"engine.url": URL}, {}, series_in_use=series) == Config(engine=EngineConfig(url=URL))


def test_flags_outrank_the_file_and_the_file_the_environment(tmp_path: Path) -> None:
    """A flag replaces the file's value; the environment only fills labels that neither flag nor file sets."""
    file = tmp_path / "c.yml"
    file.write_text(f"engine: {{url: {URL}}}\nlabels: {{gpu_type: H100}}\nlog:\n")
    environment = {"SIDECAR_GPU_TYPE": "A100", "SIDECAR_QUANTIZATION": "fp8"}
    config = load(str(file), {"engine.url": "http://b:1", "log.level": "debug"}, environment, series_in_use=series)

    assert config.engine.url == "http://b:1"
    assert config.log.level == "debug"
    assert config.labels.gpu_type == "H100"
    assert config.labels.quantization == "fp8"


def test_what_a_flag_or_variable_says_is_judged_at_its_own_place() -> None:
    """An error names the flag or the variable that its value came from."""
    with pytest.raises(ConfigErrors) as caught:
        load(None, {"log.level": "loud"}, {"SIDECAR_GPU_TYPE": "a\nb"}, series_in_use=series)

    assert [line.split(": ")[:2] for line in caught.value.lines] == [
        ["$SIDECAR_GPU_TYPE", "labels.gpu_type"],
        ["--engine.url", "engine.url"],
        ["--log.level", "log.level"],
    ]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The message says which file and why."""
    missing = str(tmp_path / "missing.yml")
    with pytest.raises(ConfigErrors) as caught:
        load(missing, {"engine.url": URL}, series_in_use=series)

    assert caught.value.lines == (f"{missing}: cannot be read: No such file or directory",)
