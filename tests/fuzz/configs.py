"""The readers of an operator's config: the YAML text, its values, and the whole file with flags.

Every JSON text is YAML: where Python's json reads an object, both must find the same values. A config is taken, or refused
with lines that name a place and hold no character that would move a terminal's cursor.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sidecar.admin import web_config
from sidecar.config.environment import PREFIX
from sidecar.config.explain import explained
from sidecar.config.file import ConfigErrors, load
from sidecar.config.in_force import as_yaml
from sidecar.config.schema import Config
from sidecar.config.yaml import read
from tests.fuzz.target import Target


_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-yaml-")
_FLAGS = ("engine.url", "proxy.listen_address", "web.listen_address", "log.level", "log.format")


def check_yaml(data: bytes) -> None:
    document = read(data)
    lines = data.count(b"\n") + data.count(b"\r") + data.count(b"\x85") + data.count(b"\xa8") + data.count(b"\xa9") + 2
    for complaint in document.complaints:
        assert complaint.text
        assert 1 <= complaint.place.line <= lines
        assert complaint.place.column >= 1
    assert document.keys.keys() <= document.values.keys() | {complaint.path for complaint in document.complaints}
    if document.complaints or b"\\" in data or b"\x7f" in data:
        return  # escapes beyond the basic plane differ
    try:
        said = json.loads(data.decode("ascii"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return
    if isinstance(said, dict) and not any(isinstance(value, float) or abs(value) >= 10**40 for value in _numbers(said)):
        assert document.tree == said, "json reads another value"


def _numbers(value: object) -> Iterator[int | float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)
    elif isinstance(value, int | float):
        yield value


def check_web_config(data: bytes) -> None:
    """The file of the admin listener's passwords; the certificates that it names do not exist."""
    path = Path(_FOLDER.name, "web.yml")
    path.write_bytes(data)
    try:
        web_config.load(str(path))
    except ConfigErrors as errors:
        assert errors.lines
        assert all(line.isprintable() for line in errors.lines)


def check_config(data: bytes) -> None:
    """The bytes before the first zero byte are the file; each further part is the value of a flag."""
    text, *values = data.split(b"\0")
    path = Path(_FOLDER.name, "sidecar.yml")
    path.write_bytes(text)
    flags = dict(zip(_FLAGS, (value.decode("utf-8", "surrogateescape") for value in values), strict=False))
    try:
        config = load(str(path), flags)
    except ConfigErrors as errors:
        assert errors.lines
        assert all(line.isprintable() and line.startswith((str(path), "--", "$")) for line in errors.lines)
        return
    assert isinstance(config, Config)


def check_environment(data: bytes) -> None:
    """Each part between zero bytes is a variable, `NAME=VALUE`, whose name begins with `SIDECAR__`. No value moves a cursor."""
    parts = (part.decode("utf-8", "surrogateescape").partition("=") for part in data.split(b"\0"))
    environment = {PREFIX + name: value for name, _, value in parts}
    try:
        config = load(None, {"engine.url": "http://a"}, environment)
    except ConfigErrors as errors:
        assert errors.lines
        assert all(line.isprintable() and line.startswith(("--", "$", '"$')) for line in errors.lines)
        return
    shown = explained(config) + as_yaml(config)
    assert all(line.isprintable() for line in shown.splitlines())


_MINIMAL = b"engine: {url: http://127.0.0.1:8000}\n"
_FULL = (
    _MINIMAL
    + b"lanes:\n  default: interactive\n  rules:\n    - {lane: batch, headers: {x-lane: batch}}\n"
    + b"objectives:\n  default:\n    ttft: {threshold_seconds: 0.5, target: 0.99}\nlabels: {gpu_type: H100}\n"
)
_WEB = (
    b"tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n  min_version: TLS12\n  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n"
    b"http_server_config:\n  http2: false\n  headers: {X-Frame-Options: deny}\nrate_limit: {burst: 1, interval: 1s}\n"
    b"basic_auth_users:\n  a: $2y$10$abcdefghijklmnopqrstuuQ1234567890123456789012345678901\n"
)
_WORDS = (
    *(
        b"engine: ",
        b"lanes:\n",
        b"rules:\n",
        b"  - lane: ",
        b"objectives:\n",
        b"  default:\n",
        b"ttft: {",
        b"threshold_seconds: ",
    ),
    *(
        b"target: ",
        b"headers: {",
        b"path: ",
        b"&a ",
        b"*a",
        b"<<: ",
        b"!!str ",
        b"!!set ",
        b"? ",
        b"|\n",
        b">-\n",
        b"%YAML 1.1\n",
    ),
    *(
        b"---\n",
        b"...\n",
        b"null",
        b"~",
        b".inf",
        b"1_000",
        b"12:30",
        b'"\\x1b[0m"',
        b"\xe2\x80\xa8",
        b"\xc2\x85",
        b"\t",
        b"$(X)",
    ),
    *(
        b"buckets:\n",
        b"api_keys: {",
        b"proxy: {",
        b"max_in_flight: ",
        b"shutdown: ",
        b"http://[::1]:80",
        b"\0",
        b"models: [",
    ),
)

CONFIGS = (
    Target(
        "yaml",
        check_yaml,
        (_FULL, b'{"a": {"b": [1, "x", null, true]}}', b"a: &x [1]\nb: *x\n"),
        _WORDS,
        512,
        calls_a_byte=6000,
    ),
    Target(
        "web_config",
        check_web_config,
        (_WEB, b"basic_auth_users: {}\n"),
        (
            *(
                b"tls_server_config:\n",
                b"basic_auth_users:\n",
                b"  client_auth_type: ",
                b"RequireAndVerifyClientCert",
                b"$2y$99$",
            ),
            *(
                b"  curve_preferences: [",
                b"http_server_config: {",
                b"headers: {",
                b"rate_limit: {interval: ",
                b"1h1ns",
                b"&a",
                b"*a",
            ),
        ),
        768,
        calls_a_byte=20_000,
    ),
    Target(
        "environment",
        check_environment,
        (
            b"LOG__LEVEL=debug\0ENGINE__MODELS=[a, b]\0PROXY__MAX_HEADERS=9",
            b"LANES__RULES=[{lane: b, paths: /v1}]\0OBJECTIVES__B__TTFT={threshold_seconds: 1, target: 0.9}",
            b"OBJECTIVES={default: {preset: code}}\0OBJECTIVES__DEFAULT__TPOT__TARGET=0.9\0LABELS__GPU_TYPE=H100",
        ),
        (
            *_WORDS,
            b"\0OBJECTIVES__DEFAULT__",
            b"\0ENGINE__MODEL_SIZE_BILLIONS=",
            b"\0LANES__HEADER=x",
            b"__",
            b"LANES__",
        ),
        512,
        calls_a_byte=20_000,
    ),
    Target(
        "config",
        check_config,
        (_FULL, _MINIMAL + b"\0http://a:1\0:80\0[::1]:9\0debug\0json"),
        _WORDS,
        512,
        calls_a_byte=20_000,
    ),
)
