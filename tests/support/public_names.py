"""Every name that users build on: metrics, labels, config keys, flags, endpoints, log fields, closed sets' values, alerts, series, receivers.

Read from the code itself, one line a name. `python -m tests.support.public_names` prints them; tests/public_names.txt
holds what commit b839b8d printed, with the alerts, recorded series and receivers of 0.2.0, and tests/test_public_names.py requires each of its lines.
"""

import ast
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

from sidecar.cli import main
from sidecar.config.schema import Config
from sidecar.config.section import Accepted, Section, keys_of
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics.catalogue import CATALOGUE


PACKAGE = Path(__file__).parents[2] / "sidecar"
RULES = Path(__file__).parents[2] / "alert_rules"
COMMANDS = (
    *("serve", "check", "demo", "diagnose", "capacity", "baseline", "compare", "doctor", "export"),
    *("inject", "uninject", "bypass", "verify"),
)
LEVELS = ("debug", "info", "warning", "error")
ROUTES = ("add_get", "add_post", "add_route", "get", "post")


def public_names() -> list[str]:
    """All of them, sorted."""
    return sorted({*_metrics(), *_config_keys(Config, ""), *_flags(), *_endpoints(), *_logged(), *_alerting()})


def _metrics() -> Iterator[str]:
    for metric in CATALOGUE:
        yield f"metric {metric.name} {metric.kind} {','.join(label.name for label in metric.labels)}"
        yield from (f"bucket {metric.name} {edge:g}" for edge in metric.buckets)
        for label in metric.labels:
            yield from (f"value {metric.name} {label.name}={value}" for value in label.values)


def _config_keys(section: type[Section], before: str) -> Iterator[str]:
    for name, accepted in keys_of(section).items():
        yield f"config {before}{name}"
        for part in _parts(accepted):
            if part.section is not None:
                yield from _config_keys(part.section, f"{before}{name}.")
            yield from (f"config {before}{name}={word}" for word in part.words)


def _parts(accepted: Accepted) -> Iterator[Accepted]:
    yield accepted
    for part in accepted.parts:
        yield from _parts(part)


def _flags() -> Iterator[str]:
    for command in COMMANDS:
        printed = io.StringIO()
        with redirect_stdout(printed):
            main([command, "--help"])
        yield from (
            f"flag {command} {name}"
            for name in re.findall(r"^ +(?:-\w, )?(--[\w.-]+)", printed.getvalue(), re.MULTILINE)
        )


def _endpoints() -> Iterator[str]:
    for call in _calls("admin"):
        if isinstance(call.func, ast.Attribute) and call.func.attr in ROUTES:
            yield from (f"endpoint {path}" for path in map(_text, call.args) if path is not None and path[:1] == "/")


def _logged() -> Iterator[str]:
    """Events with their fields, and the keys of the request line."""
    for call in _calls(""):
        event = _text(call.args[0]) if call.args else None
        if _writes_a_line(call.func) and event and re.fullmatch(r"[a-z_]+", event):
            yield f"log {event}"
            yield from (f"log {event} {keyword.arg}" for keyword in call.keywords if keyword.arg is not None)
    lines = [path for path in PACKAGE.rglob("*.py") if path.name in ("request_line.py", "log_request.py")]
    assert len(lines) == 1, "the request line is written in one file"
    yield from (f"log request {name}" for name in RequestLabels._fields)
    for node in ast.walk(ast.parse(lines[0].read_text())):
        word = _text(node)
        if word is not None and re.fullmatch(r"[a-z_0-9]+", word):
            yield f"log request {word}"


def _alerting() -> Iterator[str]:
    """Alerts and recorded series of the shipped rules, and receivers of the shipped routes."""
    for path in sorted(RULES.glob("llm-*.yml")):
        rules = re.findall(r"^ *- (alert|record): (\S+)$", path.read_text(), re.MULTILINE)
        yield from (f"{'series' if kind == 'record' else kind} {name}" for kind, name in rules)
    receivers = (RULES / "alertmanager.yml").read_text().partition("\nreceivers:")[2]
    yield from (f"receiver {name}" for name in re.findall(r"^  - name: (\S+)$", receivers, re.MULTILINE))


def _writes_a_line(function: ast.expr) -> bool:
    """`log.info` and the other levels, or a local `write` that is one of them."""
    if isinstance(function, ast.Attribute):
        return function.attr in LEVELS
    return isinstance(function, ast.Name) and function.id == "write"


def _calls(room: str) -> Iterator[ast.Call]:
    for path in sorted((PACKAGE / room).rglob("*.py")):
        yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


if __name__ == "__main__":
    print("\n".join(public_names()))  # noqa: T201  a command prints
