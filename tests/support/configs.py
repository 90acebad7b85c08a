"""Configs as texts, for tests of their values, and the errors of wrong ones."""

from pathlib import Path
from typing import TypeVar

import pytest

from sidecar.config.file import ConfigErrors, load
from sidecar.config.schema import Config
from sidecar.config.section import Accepted, Mistake, Section


AnySection = TypeVar("AnySection", bound=Section)
URL = "http://127.0.0.1:8000"
LANES = ["interactive", "batch", "code", "docs"]


def section_of(kind: type[AnySection], tree: object) -> AnySection:
    """A section with the values of a tree, as a file of YAML has them, all of which are right."""
    mistakes: list[Mistake] = []
    section: AnySection = Accepted(kind).read(tree, (), mistakes)
    assert mistakes == []
    return section


def few(_config: Config) -> int:
    """A small number of series, for tests that are not about it."""
    return 1


def config_with(folder: Path, objectives: str = "", edges: str = "") -> Config:
    """A valid config, apart from these objectives at the end of its file."""
    return _read(
        folder,
        f'engine: {{url: "{URL}"}}\nlanes: {{header: x-lane, names: [{", ".join(LANES)}]}}\n'
        f"{edges}\nobjectives:\n{objectives}",
    )


def errors_with(folder: Path, objectives: str, edges: str = "") -> list[str]:
    """The errors of a config file that ends with these objectives, without file and line."""
    with pytest.raises(ConfigErrors) as caught:
        config_with(folder, objectives, edges)
    return _without_places(caught.value)


def errors_of(folder: Path, text: str) -> list[str]:
    """The errors of a config, without file and line."""
    with pytest.raises(ConfigErrors) as caught:
        _read(folder, text)
    return _without_places(caught.value)


def _read(folder: Path, text: str) -> Config:
    file = folder / "sidecar.yml"
    file.write_text(text)
    return load(str(file), environment={}, series_in_use=few)


def _without_places(errors: ConfigErrors) -> list[str]:
    return [line.split(": ", 1)[1] for line in errors.lines]
