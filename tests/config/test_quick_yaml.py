"""YAML is read alike in C and in Python, and no text makes an object of Python's."""

from pathlib import Path

import pytest
import yaml

from sidecar.config.quick_yaml import read_yaml


ALERT_RULES = Path(__file__).parents[2] / "alert_rules"


@pytest.mark.parametrize("name", ["alertmanager.yml", "llm-recording.yml"])
def test_what_is_read_in_c_is_what_python_reads(name: str) -> None:
    """Aliases, blocks and merged keys included."""
    text = (ALERT_RULES / name).read_text()

    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["!!python/object/apply:os.getcwd []", "a: [", "a: b: c"])
def test_what_is_unsafe_or_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)
