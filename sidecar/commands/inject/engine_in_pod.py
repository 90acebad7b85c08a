"""The engine in a pod: which container it is, on which port it listens, and how it is told to listen on another.

A port is read from what starts the engine, and only then from the container's `ports`, which Kubernetes takes for information. What
cannot be told is said, and never guessed: the first container and port 8000 are wrong in every second manifest that people have.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.workload_kinds import Path, containers_in
from sidecar.config.schema import WebConfig
from sidecar.engines.kind import Start
from sidecar.engines.kinds import KINDS


_DRAIN = f"http://127.0.0.1:{WebConfig().address.port}/-/drain"
CURL = ("curl", "--noproxy", "*", "-sS", "-m", "65", "-X", "POST", _DRAIN)
"""It waits until the sidecar has drained: not ready at once, and no request in flight any more, or the deadline. The engine serves
meanwhile; its SIGTERM comes after this. Kubernetes runs it also when a probe has failed and only this container is restarted: 60 s after
the drain began the sidecar ends, and a new one serves the new engine. 65 s are the deadline of deploy/base/sidecar.yml and 5 s more.
"""
_ASKS = (
    "import urllib.request as u;"
    f'u.build_opener(u.ProxyHandler({{}})).open(u.Request("{_DRAIN}", method="POST"), timeout=65)'
)
PYTHON = ("python3", "-c", _ASKS)
HOOKS: dict[str, tuple[str, ...]] = {"curl": CURL, "python3": PYTHON, "none": ()}
"""The command that an engine's container runs before it is stopped, by the tool that its image needs."""


KSERVE = Start(known_by="huggingface", port=8080, flags=("--http_port",), drains_with="curl")
"""KServe's own server, whose answers are those of the engine inside it (python/huggingfaceserver and the stage prod of
python/huggingface_server.Dockerfile, which installs curl, at aaac4e29 of August 2026).
"""
STARTS = (*(kind.started for kind in KINDS.values() if kind.started is not None), KSERVE)
"""The first one that fits counts: an image of Dynamo carries the name of the engine inside it."""
_NO_ENGINE = re.compile(
    r"router|gateway|dcgm-exporter|envoy|istio|redis|lmcache|benchmark|guidellm|routing-sidecar|epp\b"
)
"""Images that stand beside an engine and carry its name: vllm-router, production-stack's router, llm-d's routing sidecar."""
_PORTS_OF_AN_API = ("http", "api", "http1", "serving", "openai", "server", "rest")
"""Names of a port that say: here is the API."""
_HOST_FLAG = re.compile(r"(?<!\S)(?:--host|--hostname|--server-name|--http-address)[= ][\"']?([^\s\"']+)")
_LOOPBACK_HOST = re.compile(r"127(?:\.\d+){3}|localhost|\[?::1\]?")


_ADDRESS = re.compile(r"\S+://\S+|(?<!\S)[\w.-]+:\d{2,5}(?!\S)")
_SHELL_VARIABLE = re.compile(r"\$[({]?(\w+)(?::?-(\w+))?[)}]?")
"""$(PORT) of Kubernetes; $PORT, ${PORT} and ${PORT:-8000} of a shell."""
_SHELLS = ("sh", "bash", "ash", "dash", "zsh")
_COMMANDS_OF_A_SHELL = re.compile(r"&&|\|\||[;&|]|(?<!\\)\n")
"""The end of a command in a shell's text. A line that ends in a backslash goes on."""


class UnclearError(ValueError):
    """Something that the manifest does not say; the message says how to say it."""


@dataclass(slots=True)
class Found:
    """The engine of a pod."""

    container: Object
    path: Path
    """Below the pod's spec."""
    engine: Start | None
    port: int
    host_is_loopback: bool
    metrics_port: int | None
    """The port of its own metrics; None if it is that of its API."""
    is_certain: bool = True
    """The port is what starts the engine says, or the user. Else it is the engine's usual one, or one of the container's `ports`."""

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container.get("name") or self.container.get("image") or self.path[0])


def words_of(container: Object) -> list[str]:
    """Command and arguments."""
    return [str(word) for key in ("command", "args") for word in container.get(key) or ()]


def engine_of(container: Object) -> Start | None:
    """The engine that this container runs, as far as its image and its words tell."""
    image = str(container.get("image", ""))
    # An address names the server that a client asks, and not what runs here.
    words = _ADDRESS.sub("", " ".join(words_of(container)))
    # The runtime of a KServe model is what its container runs, whatever the format of the model.
    text = f"{image} {words} {container.get('runtime', '')} {(container.get('modelFormat') or {}).get('name', '')}"
    if _NO_ENGINE.search(image.rsplit("/", 1)[-1]) or _NO_ENGINE.search(str(container.get("name", ""))):
        return None
    return next((each for each in STARTS if re.search(each.known_by, text, re.IGNORECASE)), None)


def find(spec: Object, wanted: str, port: int | None) -> Found:
    """The engine among the containers of a pod's spec. `wanted`, `port`: what the user says of it. Raises UnclearError."""
    there = containers_in(spec)
    path, container = there[_which([each for _, each in there], wanted)]
    engine = engine_of(container)
    _refuse_not_plain(container, engine)
    stated = _confirmed(container, engine, port) if port else _stated(container, engine)
    listens = stated or _by_name(container, engine)
    metrics_port = _metrics_port(container, engine)
    return Found(container, path, engine, listens, listens_on_loopback(container), metrics_port, bool(stated))


def _confirmed(container: Object, engine: Start | None, port: int) -> int:
    """The port that the user says. Raises UnclearError where the manifest states another one; what it leaves unclear, the user may say."""
    try:
        stated = _stated(container, engine)
    except UnclearError:
        return port
    if stated not in (None, port):
        raise UnclearError(
            f"its port is stated as {stated} in the manifest, and as {port} by {ENGINE_PORT}: let both say the same"
        )
    return port


def _refuse_not_plain(container: Object, engine: Start | None) -> None:
    """The sidecar asks the engine by HTTP without TLS, on a port of 127.0.0.1."""
    probes = [container.get(probe) or {} for probe in ("startupProbe", "readinessProbe", "livenessProbe")]
    tls = next((flag for flag in (engine.tls_flags if engine else ()) if _has_flag(container, flag)), "")
    if not tls and any((probe.get("httpGet") or {}).get("scheme") == "HTTPS" for probe in probes):
        tls = "a probe with the scheme HTTPS"
    if tls:
        raise UnclearError(
            f"its engine speaks TLS ({tls}), and the sidecar asks it without: let what stands before the pod end TLS, such as a gateway"
        )
    socket = next((flag for flag in (engine.socket_flags if engine else ()) if _has_flag(container, flag)), "")
    if socket:
        raise UnclearError(
            f"its engine listens on a Unix socket ({socket}), and the sidecar asks at a port: let the engine listen on one"
        )


def _has_flag(container: Object, flag: str) -> bool:
    return bool(re.search(rf"(?<!\S){re.escape(flag)}(?![\w-])", " ".join(words_of(container))))


def _metrics_port(container: Object, engine: Start | None) -> int | None:
    if engine is None or engine.metrics_port is None:
        return None
    stated = [int(value) for value in _values(container, engine, engine.metrics_flag) if value.isdecimal()]
    return stated[0] if stated else engine.metrics_port


def listens_on_loopback(container: Object) -> bool:
    """Whether what starts it says so, or it does unless it is told a host: then only its own pod reaches it."""
    engine, told = engine_of(container), _HOST_FLAG.findall(" ".join(words_of(container)))
    if engine and engine.variable_has_host:
        address = _variables(container).get(engine.variable)
        told += [_host_and_port(address, engine)[0]] if address is not None else []
    if not told:
        return engine is not None and engine.on_loopback and _is_started_here(container)
    return bool(_LOOPBACK_HOST.fullmatch(told[-1]))


def _is_started_here(container: Object) -> bool:
    """Whether its words are in the manifest: an image's own are not seen, and may name a host."""
    return bool(words_of(container))


def _variables(container: Object) -> dict[str, str]:
    there = (each for each in container.get("env") or () if isinstance(each, dict))
    return {str(each.get("name")): str(each["value"]) for each in there if each.get("value") is not None}


_ADDRESS_PARTS = re.compile(
    r"(?P<scheme>(?:(?P<web>https?)|\w+)://)?(?P<host>\[[^]\s]*\]|[^:/\[\]\s]*|[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:]*)(?::(?P<port>\d+))?/*"
)
"""A host, in brackets if a port follows an IPv6 address."""


def _host_and_port(address: str, engine: Start) -> tuple[str, int]:
    """As getOllamaHost reads it: a scheme has a port of its own, and a number alone is a host."""
    found = _ADDRESS_PARTS.fullmatch(address.strip().strip("\"'"))
    if found is None:
        raise UnclearError(
            f"its variable {engine.variable} is {address!r}, which is no address: say the port by {ENGINE_PORT}"
        )
    usual = {"http": 80, "https": 443}.get(found["web"] or "", engine.port)
    return found["host"], int(found["port"] or usual)


def _which(containers: Sequence[Object], wanted: str) -> int:
    names = [str(each.get("name", "")) for each in containers]
    listed = ", ".join(names)
    if wanted:
        if wanted in names:
            return names.index(wanted)
        raise UnclearError(f"it has no container {wanted}; its containers are {listed}")
    engines = [at for at, each in enumerate(containers) if engine_of(each)]
    if len(engines) == 1:
        return engines[0]
    if len(engines) > 1:
        two = ", ".join(names[at] for at in engines)
        raise UnclearError(
            f"it has several engines ({two}), and one sidecar stands before one of them: say which by {ENGINE_CONTAINER}"
        )
    if len(containers) == 1:
        return 0
    if not containers:
        raise UnclearError("it has no container")
    raise UnclearError(f"which of its containers is the engine cannot be told ({listed}): say it by {ENGINE_CONTAINER}")


ENGINE_CONTAINER = "the annotation llm-phase-sidecar/engine-container, or --engine-container"
ENGINE_PORT = "the annotation llm-phase-sidecar/engine-port, or --engine-port"


def _stated(container: Object, engine: Start | None) -> int | None:
    """The port in what starts the engine. Raises UnclearError where it is not a number, or is stated in two ways."""
    there = [each for each in container.get("env") or () if isinstance(each, dict)]
    variables = _variables(container)
    elsewhere = {str(each.get("name")) for each in there}
    for flag in engine.flags if engine else ("--port",):
        found = {
            _SHELL_VARIABLE.sub(
                lambda match: variables.get(match[1], match[0] if match[1] in elsewhere else match[2] or match[0]),
                value,
            )
            for value in _values(container, engine, flag)
        }
        if len(found) > 1:
            raise UnclearError(f"its port is stated as {' and as '.join(sorted(found))}: say it by {ENGINE_PORT}")
        for value in found:
            if not value.isdecimal():
                raise UnclearError(
                    f"its port is {flag} {value}, which the manifest does not resolve: say it by {ENGINE_PORT}"
                )
            return int(value)
    if engine is None or not engine.variable or engine.variable not in elsewhere:
        return None
    if engine.variable not in variables:
        raise UnclearError(
            f"its port is in the variable {engine.variable}, which comes from elsewhere: say it by {ENGINE_PORT}"
        )
    value = variables[engine.variable]
    if engine.variable_has_host:
        return _host_and_port(value, engine)[1]
    if not value.isdecimal():
        raise UnclearError(f"its variable {engine.variable} is {value!r}, which is no port: say it by {ENGINE_PORT}")
    return int(value)


def _values(container: Object, engine: Start | None, flag: str) -> Iterator[str]:
    """The values of a flag: `--port 8000` as two words, `--port=8000`, and either in the engine's own command of a shell's text."""
    words = words_of(container)
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word == flag:
            yield following
        else:
            for start, end in _own_commands(word, engine):
                for found in _flag_in_text(flag).finditer(word, start, end):
                    yield found[2]


def _flag_in_text(flag: str) -> re.Pattern[str]:
    return re.compile(rf"((?:^|\s){re.escape(flag)}(?:=|(?:\s|\\\n)+)[\"']?)([^\s\"';&|\\]+)")


def _own_commands(text: str, engine: Start | None) -> list[tuple[int, int]]:
    """The commands of a shell's text that start the engine, as spans of it; all of it where none of several can be told."""
    ends = [found.span() for found in _COMMANDS_OF_A_SHELL.finditer(text)]
    spans = list(zip([0, *(end for _, end in ends)], [*(start for start, _ in ends), len(text)], strict=True))
    own = [
        span
        for span in spans
        if engine and re.search(engine.known_by, _ADDRESS.sub("", text[span[0] : span[1]]), re.IGNORECASE)
    ]
    return own or [(0, len(text))]


def _by_name(container: Object, engine: Start | None) -> int:
    """The port among the container's, or the engine's default. Raises UnclearError."""
    ports = [each for each in container.get("ports") or () if isinstance(each, dict)]
    numbers = [int(each.get("containerPort", 0)) for each in ports]
    if engine and (not numbers or engine.port in numbers):
        return engine.port
    if len(numbers) == 1:
        return numbers[0]
    named = [
        int(each.get("containerPort", 0)) for each in ports if str(each.get("name", "")).lower() in _PORTS_OF_AN_API
    ]
    if len(named) == 1:
        return named[0]
    listed = ", ".join(str(number) for number in numbers) or "none"
    raise UnclearError(
        f"on which port container {container.get('name')} serves cannot be told (its ports: {listed}): say it by {ENGINE_PORT}"
    )


def moved(found: Found, port: int) -> list[tuple[Path, Any]]:
    """The changes to the container that let the engine listen on another port: paths below the container, with their new values.

    Raises UnclearError where the manifest shows no way to tell it.
    """
    container, engine, was = found.container, found.engine, str(found.port)
    if engine is None:
        raise UnclearError(
            "the sidecar must take the engine's port, and how this engine is told to listen on another is not known:"
            " give the pods a Service of their own in these manifests, or say --no-service"
        )
    if place := _flag_moved(container, engine, was, port):
        return [place]
    for at, each in enumerate(container.get("env") or ()):
        if engine.variable and each.get("name") == engine.variable and each.get("value") is not None:
            return [(("env", at, "value"), _with_port(str(each["value"]), engine, port))]
    if engine.variable:  # words in place of those that the image, or an operator, would take would be all that it gets
        value = f"0.0.0.0:{port}" if engine.variable_has_host else str(port)
        return [(("env", len(container.get("env") or ())), {"name": engine.variable, "value": value})]
    if engine.flags and not _is_shell(container):
        key = "args" if container.get("args") is not None or container.get("command") is None else "command"
        return [((key, len(container.get(key) or ())), f"{engine.flags[0]}={port}")]
    raise UnclearError(
        f"the sidecar must take the engine's port, and a shell starts the engine without {engine.flags[0]}: state it there, then this command moves it"
    )


def _with_port(stated: str, engine: Start, port: int) -> str:
    if not engine.variable_has_host:
        return str(port)
    found = _ADDRESS_PARTS.fullmatch(stated.strip().strip("\"'"))
    if found is None:  # it was refused when the port was read
        raise UnclearError(f"its variable {engine.variable} is {stated!r}, which is no address")
    host = found["host"]
    return f"{found['scheme'] or ''}{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


def _flag_moved(container: Object, engine: Start, was: str, port: int) -> tuple[Path, Any] | None:
    """The word that states the port, and what it becomes; None if no word does."""
    for key in ("command", "args"):
        for at, word in enumerate(container.get(key) or ()):
            for flag in engine.flags:
                if word == flag:
                    return _next_word(container, key, at), str(port)
                for start, end in _own_commands(str(word), engine):
                    for found in _flag_in_text(flag).finditer(str(word), start, end):
                        if found[2] == was:
                            return (key, at), f"{str(word)[: found.start(2)]}{port}{str(word)[found.end(2) :]}"
    return None


def _next_word(container: Object, key: str, at: int) -> Path:
    if at + 1 < len(container[key]):
        return (key, at + 1)
    return ("args", 0)


def _is_shell(container: Object) -> bool:
    """Whether a shell or a script stands between the words and the engine: a flag behind them would not reach it."""
    words = words_of(container)
    return any(word.rsplit("/", 1)[-1] in _SHELLS or word.endswith(".sh") or re.search(r"\s", word) for word in words)
