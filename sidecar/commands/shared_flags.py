"""The flags that several commands take, each spelled once, and the spellings of earlier releases.

Knows names, shapes, and help texts. A command may say more exactly what it asks there, and no command spells such a flag itself.
"""

import argparse
from collections.abc import Mapping
from typing import NamedTuple

from sidecar.config.suggest import did_you_mean


class SharedFlag(NamedTuple):
    """A flag as help shows it; its values are kept under `name`."""

    name: str
    shape: str
    words: str


SIDECAR_URL = "http://127.0.0.1:9901"
"""The admin side of the sidecar on this host."""
OUTPUTS = ("text", "json")
_SHARED_FLAGS = {
    flag.name: flag
    for flag in (
        SharedFlag("output", "FORMAT", "text or json (default text)"),
        SharedFlag("sidecar.url", "URL", f"a sidecar's admin side (default {SIDECAR_URL})"),
        SharedFlag("prometheus.url", "URL", "a Prometheus that scrapes sidecars"),
        SharedFlag("engine.url", "URL", "the engine's own port, or unix:/path"),
    )
}
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "baseline": {"--url": "--sidecar.url"},
    "drain": {"--url": "--sidecar.url"},
    "doctor": {"--format": "--output"},
}
"""Command to the flags that had another name, and that name."""
_MEASURED = "give what a load test says: --rate, --service and --prefill"
_GONE: Mapping[str, Mapping[str, str]] = {
    "capacity": {
        "--sidecar.url": _MEASURED,
        "--window": _MEASURED,
        "--replicas.now": "--rate is of all replicas together",
        "--router": "the answer is for a random router, and one that joins the shortest queue needs no more replicas",
        "--service.variation": "the wait for a slot is an upper estimate",
    },
    "compare": {
        "--lever": "--expect names what is to move, and each step of `sidecar diagnose` says what it is expected to do"
    },
    "export": {
        "--profile": "the dashboards are for lean pods too, whose empty panels say `or profile lean`",
        "--folder": "the title stands in a line of dashboards/kustomization.yaml and of provisioning/dashboards/llm.yml, and of the"
        " chart's dashboards.annotations",
    },
    "verify": {"--spans.listen": "`sidecar doctor` says which spans a running sidecar receives"},
}
"""Command to the flags that it had, and what is used instead."""


def shared(name: str, words: str | None = None) -> SharedFlag:
    """The flag of this name. `words`: what this command asks there, in place of the usual text."""
    flag = _SHARED_FLAGS[name]
    return flag if words is None else flag._replace(words=words)


def renamed(command: str) -> Mapping[str, str]:
    """Old spellings of a command's flags to those of now, as `Parser` takes them."""
    return _RENAMED.get(command, {})


def gone(command: str) -> Mapping[str, str]:
    """Flags that a command had to what replaces them, as `Parser` takes them."""
    return _GONE.get(command, {})


def add_flag(group: argparse._ActionsContainer, flag: tuple[str, str, str], default: str | None = None) -> None:
    """Take this flag: `--name=SHAPE`, kept under its name."""
    name, shape, words = flag
    group.add_argument(f"--{name}", dest=name, metavar=shape, default=default, help=words)


def wrong_output(told: Mapping[str, str]) -> list[str]:
    """The error in `--output`, if there is one."""
    given = told.get("output", OUTPUTS[0])
    if given in OUTPUTS:
        return []
    return [f"--output: {given[:80]!r} is neither {' nor '.join(OUTPUTS)}{did_you_mean(given, OUTPUTS)}"]
