"""The rule files as `sidecar export rules` writes them without flags: composed once in a process, which takes a second."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from sidecar.export.rules.rule_files import files


@cache
def shipped_rules() -> Mapping[str, str]:
    """Path below alert_rules/ to text."""
    return MappingProxyType(files())
