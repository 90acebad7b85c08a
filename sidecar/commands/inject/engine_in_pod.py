"""The engine in a pod: which container it is, on which port it listens, and how it is told to listen on another.

A port is read from what starts the engine, and only then from the container's `ports`, which Kubernetes takes for information. What
cannot be told is said, and never guessed: the first container and port 8000 are wrong in every second manifest that people have.
"""

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from sidecar.commands.inject.manifest_text import Object
from sidecar.commands.inject.workload_kinds import Path, containers_in
from sidecar.config.schema import ProxyConfig, WebConfig
from sidecar.engines.kind import Start
from sidecar.engines.kinds import KINDS


_DRAIN = f"http://127.0.0.1:{WebConfig().address.port}/-/drain"


def _curl(seconds: int) -> list[str]:
    return ["curl", "--noproxy", "*", "-sS", "-m", str(seconds), "-X", "POST", _DRAIN]


def _python(seconds: int) -> list[str]:
    asks = (
        "import urllib.request as u;"
        f'u.build_opener(u.ProxyHandler({{}})).open(u.Request("{_DRAIN}", method="POST"), timeout={seconds})'
    )
    return ["python3", "-c", asks]


HOOKS: dict[str, Callable[[int], list[str]]] = {"curl": _curl, "python3": _python, "none": lambda _: []}
"""The command that an engine's container runs before it is stopped, by the tool that its image needs. It waits so many seconds at most.

It waits until the sidecar has drained: not ready at once, and no request in flight any more, or the deadline. The engine serves
meanwhile; its SIGTERM comes after this. Kubernetes runs it also when a probe has failed and only this container is restarted: when the
deadline has passed the sidecar ends, and a new one serves the new engine.
"""


KSERVE = Start(known_by="huggingface", port=8080, flags=("--http_port",), drains_with="curl")
"""KServe's own server, whose answers are those of the engine inside it (python/huggingfaceserver and the stage prod of
python/huggingface_server.Dockerfile, which installs curl, at aaac4e29 of August 2026).
"""
STARTS = (*(kind.started for kind in KINDS.values() if kind.started is not None), KSERVE)
"""The first one that fits counts: an image of Dynamo carries the name of the engine inside it."""
_SIDECARS = ProxyConfig().address.port
_NO_ENGINE = re.compile(
    r"router|gateway|dcgm-exporter|envoy|istio|redis|lmcache|benchmark|guidellm|routing-sidecar|epp\b"
)
"""Images that stand beside an engine and carry its name: vllm-router, production-stack's router, llm-d's routing sidecar."""
_NO_SERVER = re.compile(
    r"(?<!\S)(?:\S*/)?vllm\s+(?:bench|chat|complete|run-batch|collect-env)\b"
    r"|\b(?:bench_serving|bench_one_batch|benchmark_\w+|run_batch)\b"
)
"""Words that start another program of an engine: one that asks a server, or reads its requests from a file."""
_SERVES = re.compile(r"vllm\s+serve\b|_server\b")
"""Words that start a server beside it."""
_PORTS_OF_AN_API = ("http", "api", "http1", "serving", "openai", "server", "rest")
"""Names of a port that say: here is the API."""
_HOST_FLAG = re.compile(r"(?<!\S)(?:--host|--hostname|--server-name|--http-address)[= ][\"']?([^\s\"']+)")
_LOOPBACK_HOST = re.compile(r"127(?:\.\d+){3}|localhost|\[?::1\]?")


_ADDRESS = re.compile(r"\S+://\S+|(?<!\S)[\w.-]+:\d{2,5}(?!\S)")
_SHELL_VARIABLE = re.compile(r"\$[({]?(\w+)(?::?-(\w+))?[)}]?")
"""$(PORT) of Kubernetes; $PORT, ${PORT} and ${PORT:-8000} of a shell."""
SHELLS = ("sh", "bash", "ash", "dash", "zsh")
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
    names = (image.rsplit("/", 1)[-1], str(container.get("name", "")))
    if any(map(_NO_ENGINE.search, names)) or (_NO_SERVER.search(words) and not _SERVES.search(words)):
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


def out_of_sight(found: Found) -> str:
    """The file, or the variables from elsewhere, that may state its port and are not in these manifests; "" if nothing may."""
    if found.container.get("ports"):
        return ""
    of_variables = found.engine and found.engine.variable and found.container.get("envFrom")
    return "envFrom" if of_variables else "--config" if _has_flag(found.container, "--config") else ""


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


def _flags(engine: Start | None) -> tuple[str, ...]:
    """An engine that is not known may have a port among its words all the same."""
    return engine.flags if engine else ("--port",)


def _names_of_variables(container: Object) -> set[str]:
    return {str(each.get("name")) for each in container.get("env") or () if isinstance(each, dict)}


def _resolved(container: Object, value: str) -> str:
    """The value of a flag with the variables in it; one that comes from elsewhere stays."""
    variables, elsewhere = _variables(container), _names_of_variables(container)
    return _SHELL_VARIABLE.sub(
        lambda match: variables.get(match[1], match[0] if match[1] in elsewhere else match[2] or match[0]), value
    )


def _stated(container: Object, engine: Start | None) -> int | None:
    """The port in what starts the engine. Raises UnclearError where it is not a number, or is stated in two ways."""
    variables, elsewhere = _variables(container), _names_of_variables(container)
    for flag in _flags(engine):
        found = {_resolved(container, value) for value in _values(container, engine, flag)}
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
    # A name that leads to the sidecar took the place of the engine's own number.
    if engine and (not numbers or engine.port in numbers or _SIDECARS in numbers):
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
    container, engine = found.container, found.engine
    if places := list(_flags_moved(container, engine, found.port, port)):
        return places
    if engine is None:
        raise UnclearError("how this engine is told to listen on another is not known")
    env = container.get("env") or ()
    # The last one of two with one name counts.
    at = next((at for at, each in [*enumerate(env)][::-1] if each.get("name") == engine.variable), len(env))
    if at < len(env) and env[at].get("value") is not None:
        return [(("env", at, "value"), _with_port(str(env[at]["value"]), engine, port))]
    # Words in place of those that the image, or an operator, would take would be all that it gets.
    if engine.variable and at == len(env) and (container.get("command") is None or _starts(container, engine)):
        value = f"0.0.0.0:{port}" if engine.variable_has_host else str(port)
        return [(("env", at), {"name": engine.variable, "value": value})]
    if engine.flags and _takes_words(container, engine) and (place := _flag_added(container, engine, port)):
        return [place]
    flag = engine.flags[0] if engine.flags else engine.variable
    raise UnclearError(
        f"a shell, a script or the image starts the engine without {flag}: state it there, then this command moves it"
    )


def _starts(container: Object, engine: Start) -> bool:
    """Whether its words themselves start the engine: a script that they start may pass none of them on."""
    words = " ".join(words_of(container)).split()
    values = {at + 1 for at, word in enumerate(words) if re.match("--.", word)}
    programs = [word.rsplit("/", 1)[-1] for at, word in enumerate(words) if at not in values]
    return any(_is_program(each, engine) for each in programs)


def _is_program(name: str, engine: Start) -> bool:
    """Whether it is a program or a module of the engine's own: one that only has the engine in its name may pass on no word."""
    return bool(re.match(rf"(?!.*\.(?:py|sh)$)(?:{engine.known_by})(?:server)?(?:\.|$)", name, re.IGNORECASE))


def _takes_words(container: Object, engine: Start) -> bool:
    """Whether a word more reaches the engine, and takes the place of none that the image has."""
    if container.get("command") is not None:
        return _starts(container, engine)
    image = str(container.get("image", ""))
    return bool(container.get("args") or "modelFormat" in container or (engine.image and engine.image in image))


def _with_port(stated: str, engine: Start, port: int) -> str:
    if not engine.variable_has_host:
        return str(port)
    found = _ADDRESS_PARTS.fullmatch(stated.strip().strip("\"'"))
    if found is None:  # it was refused when the port was read
        raise UnclearError(f"its variable {engine.variable} is {stated!r}, which is no address")
    host = found["host"]
    return f"{found['scheme'] or ''}{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{port}"


def _flags_moved(container: Object, engine: Start | None, was: int, port: int) -> Iterator[tuple[Path, Any]]:
    """The words that state the port, and what they become."""
    for key in ("command", "args"):
        for at, word in enumerate(container.get(key) or ()):
            text, moved_to = str(word), str(port)
            if text in _flags(engine):
                yield _next_word(container, key, at), moved_to
                continue
            spots = [
                found.span(2)
                for flag in _flags(engine)
                for start, end in _own_commands(text, engine)
                for found in _flag_in_text(flag).finditer(text, start, end)
                if _resolved(container, found[2]) == str(was)
            ]
            if spots:
                for start, end in sorted(spots, reverse=True):
                    text = f"{text[:start]}{moved_to}{text[end:]}"
                yield (key, at), text


def _next_word(container: Object, key: str, at: int) -> Path:
    if at + 1 < len(container[key]):
        return (key, at + 1)
    return ("args", 0)


_BEFORE_THE_PROGRAM = re.compile(r"\s*(?:(?:exec|nohup|\w+=[^\s\"'$`]*)\s+)*")
_PROGRAM = re.compile(r"(?:\S*/)?python[\d.]*\s+(?:-u\s+)?(?:-m\s+)?(\S+)|(?:\S*/)?([^\s/]+)")
_END_OF_WORDS = re.compile(r"\s\d*[<>]|\s#|[\s\\]*$")


def _flag_added(container: Object, engine: Start, port: int) -> tuple[Path, Any] | None:
    """The flag behind the words that start the engine, in a shell's text too; None where they cannot be told."""
    flag, starts = f"{engine.flags[0]}={port}", []
    for key in ("command", "args"):
        for at, word in enumerate(container.get(key) or ()):
            starts += [(key, at, str(word), end) for end in _ends_of_starts(str(word), engine)]
    if len(starts) == 1:
        key, at, text, end = starts[0]
        return (key, at), f"{text[:end]} {flag}{text[end:]}"
    words = words_of(container)
    if starts or any(word.rsplit("/", 1)[-1] in SHELLS or word.endswith(".sh") for word in words):
        return None
    key = "args" if container.get("args") is not None or container.get("command") is None else "command"
    return (key, len(container.get(key) or ())), flag


def _ends_of_starts(text: str, engine: Start) -> Iterator[int]:
    """The ends of the commands in a shell's text that start the engine: before a redirection, a comment or a line's end."""
    for start, stop in _own_commands(text, engine) if re.search(r"\s", text) else ():
        program = _PROGRAM.match(text, _BEFORE_THE_PROGRAM.match(text, start, stop).end(), stop)  # type: ignore[union-attr]
        if program and _is_program((program[1] or program[2]).rsplit("/", 1)[-1], engine):
            end = _END_OF_WORDS.search(text, program.end(), stop)
            words = text[start : end.start() if end else stop]
            if _is_whole(words):
                yield start + len(words)


def _is_whole(words: str) -> bool:
    """Whether no quote and no bracket was cut at the end of a command."""
    try:
        shlex.split(words)
    except ValueError:
        return False
    return words.count("(") == words.count(")") and words.count("`") % 2 == 0


_ASKS_ITSELF = re.compile(
    rf"((?<![\w.])(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])):(\d+|{_SHELL_VARIABLE.pattern})"
)
"""An address of the pod itself, by a number or by a variable."""


def asking_beside(spec: Object, found: Found) -> Iterator[str]:
    """The names of the pod's other containers that ask the pod itself at the engine's port, as their words or variables say."""
    others = [each for path, each in containers_in(spec) if path != found.path] + [*(spec.get("initContainers") or ())]
    for each in others:
        asked = _ASKS_ITSELF.finditer(json.dumps(each, default=str))
        if any(_resolved(each, asks[2]) == str(found.port) for asks in asked):
            yield str(each.get("name"))


def asks_led(found: Found, names: Collection[str] | None, port: int) -> tuple[list[tuple[Path, Any]], list[str]]:
    """Let the probes and hooks of the engine's container ask the engine itself, at its port. `names`: those that are the sidecar's now; None: its number.

    Returns the changes, as paths below the container, and what stays and has to be told: a command that names the number in another way.
    """
    container, was = found.container, found.port
    if names is None:
        there = container.get("ports") or ()
        names = {str(was), *(each["name"] for each in there if each.get("containerPort") == was and each.get("name"))}
    changes: list[tuple[Path, Any]] = []
    told: list[str] = []
    lifecycle = container.get("lifecycle") or {}
    probes = ("startupProbe", "readinessProbe", "livenessProbe")
    asking: dict[Path, Any] = {(each,): container.get(each) or {} for each in probes}
    asking |= {("lifecycle", each): lifecycle.get(each) or {} for each in ("postStart", "preStop")}
    for place, handler in asking.items():
        ways = (way for way in ("httpGet", "tcpSocket", "grpc") if str((handler.get(way) or {}).get("port")) in names)
        changes += [((*place, way, "port"), port) for way in ways]
        words = (handler.get("exec") or {}).get("command") or ()
        for at, word in enumerate(words if port != was else ()):
            text = _ASKS_ITSELF.sub(
                lambda asks: f"{asks[1]}:{port if _resolved(container, asks[2]) == str(was) else asks[2]}", str(word)
            )
            changes += [((*place, "exec", "command", at), text)] if text != str(word) else []
            if re.search(rf"(?<!\d){was}(?!\d)", _resolved(container, text)):
                told.append(f"its {place[-1]} runs a command that names {was}, and stays: the engine is on {port} now")
    return changes, told
