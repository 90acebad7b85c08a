"""YAML of this project and of other programs, read and written in C where PyYAML was built with it: ten times as fast, and safe as `yaml.safe_load`.

What people write is not read here: a config's errors need places, and its scalars are YAML 1.2's (`sidecar/config/yaml.py`).
"""

from typing import TYPE_CHECKING, Any

import yaml


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

if TYPE_CHECKING:
    QuickDumper = yaml.SafeDumper
else:
    QuickDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    """To inherit from, for `yaml.dump`. For what this project exports it writes the very text of PyYAML's own, which tests hold."""


def read_yaml(text: str | bytes) -> Any:
    """The value of one YAML document. Raises yaml.YAMLError if it is none."""
    return yaml.load(text, _LOADER)  # noqa: S506  safe, in C where there is one
