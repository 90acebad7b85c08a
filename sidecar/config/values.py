"""Types of single config values (addresses, lane names, patterns, hashes), each with the words that describe it to a user.

Knows syntax only. A parser raises ValueError with the mistake, phrased to follow the key ("has no port ..."). It never repeats
the value, which may be a secret typed into the wrong place.
"""

import ipaddress
import itertools
import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from sidecar.config.section import Accepted, After, Before, Check, Description, Holds, Limits, Path
from sidecar.config.written_durations import as_seconds
from sidecar.engines.probe.where import LONGEST_PATH_BYTES, UNIX, UNIX_HOST, unix_path
from sidecar.ledger.request_labels import OTHER


class Address(NamedTuple):
    """A host (name or IP, IPv6 without brackets; empty means every interface) and a TCP port (0: any free one)."""

    host: str
    port: int


VARIABLE = re.compile(r"\$\{\w[^}]*\}|\$\(\w+\)|\$[A-Z_][A-Z0-9_]*|^\$\w+$")
"""An environment variable as shells, Kubernetes and Compose write it."""
MASK = "***"
"""Stands for a secret, in logs and on pages."""
USER_OF_URL = re.compile(r"(?<=://)[^/@]*@")
"""User and password in a URL, which no error and no page repeats."""
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?")
SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie", "set-cookie", "x-auth-token"}
)
"""Header names, in lower case, whose values authenticate a client."""
_LIKE_A_SECRET = re.compile(r"auth|cookie|credential|key|pass|secret|session|token")


def may_authenticate(header: str) -> bool:
    """Whether the values of a header are masked where a config is shown: rather one too many than a team's own `x-team-token`."""
    return header in SECRET_HEADERS or _LIKE_A_SECRET.search(header) is not None


def is_secret(path: Path, root: Accepted) -> bool:
    """Whether the value at a path, or one inside it, must not be shown. `root`: the kind of the whole file."""
    below_headers = path[path.index("headers") + 1 :][:1] if "headers" in path else ()
    kind = root.at(path)
    return (kind is not None and kind.secret) or any(may_authenticate(str(name).lower()) for name in below_headers)


def parse_address(text: str) -> Address:
    """Read `host:port`, `:port` or `[v6]:port`. Raises ValueError with the mistake."""
    host, colon, port_text = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > 65535:
        raise ValueError("has no port from 0 to 65535 after its last colon")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _is_ipv6(host):
            raise ValueError("has brackets around text that is not an IPv6 address")
    elif host and not _HOST.fullmatch(host):
        raise ValueError("has a host that is neither a name nor an IP address (write IPv6 in brackets)")
    return Address(host, int(port_text))


def parse_engine_url(text: str) -> Address:
    """Read the engine's `http://host:port`. Raises ValueError with the mistake and without the URL."""
    parts = urlsplit(text)
    if parts.scheme != "http":
        raise ValueError("does not begin with http:// (TLS to the engine is not supported: it runs in the same pod)")
    if "@" in parts.netloc:
        raise ValueError("has a user or password in it; the clients send credentials, and they pass unchanged")
    if parts.path not in ("", "/"):
        raise ValueError("has a base path, which is not supported: paths go to the engine unchanged")
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise ValueError("has a query or fragment")
    named = parts.netloc if re.search(r":[0-9]*$", parts.netloc) else f"{parts.netloc}:80"
    address = parse_address(named)
    if not address.host or not address.port:
        raise ValueError("has no host, or the port 0")
    return address


def is_http_address(text: str) -> bool:
    """Whether a text is a URL that can be asked: http or https, a host, and a port that exists if it names one."""
    try:
        parts = urlsplit(text)
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an IPv6 address, or a port that is no number up to 65535
        return False
    return named and not re.search(r"\s", text)


def _collector_url(text: str) -> None:
    """The URL of an OTLP/HTTP collector, path included."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is not an http:// or https:// URL with a host")
    if "@" in parts.netloc:
        raise ValueError("has a user or password in it, which is not supported")
    if parts.path in ("", "/"):
        raise ValueError("has no path: collectors take traces at /v1/traces")
    if parts.query or parts.fragment:
        raise ValueError("has a query or fragment")
    parse_address(parts.netloc if re.search(r":[0-9]*$", parts.netloc) else f"{parts.netloc}:0")


def parse_engine(text: str) -> Address:
    """Read the engine's `http://host:port` or `unix:/path`; a Unix socket is called `localhost`. Raises ValueError."""
    if not text.startswith(UNIX):
        return parse_engine_url(text)
    path = unix_path(text)
    if not path.startswith("/") or path.startswith("//"):
        raise ValueError("has no absolute path of one slash after unix: (unix:/run/engine.sock)")
    if not path.isprintable() or len(path.encode()) > LONGEST_PATH_BYTES:
        raise ValueError(f"has a path of more than {LONGEST_PATH_BYTES} bytes, or with characters that cannot be shown")
    return Address(UNIX_HOST, 80)


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _expanded(text: str) -> None:
    """Raise ValueError for a URL that names a variable: as a path or a host it might be taken as it stands."""
    if VARIABLE.search(text):
        raise ValueError("names an environment variable, and nothing expands it")


def _unless_empty(*checks: Callable[[str], object]) -> Check:
    """An empty text stands for none, and is not checked."""

    def check(text: str) -> None:
        for each in checks if text else ():
            each(text)

    return Check(check)


def _target(value: object) -> object:
    number = isinstance(value, int | float) and not isinstance(value, bool) and 2 <= value <= 100
    if number or (isinstance(value, str) and re.fullmatch(r"\s*[0-9]+(?:\.[0-9]+)?\s*%\s*", value)):
        raise ValueError("is a percentage, and a target is a ratio (99 % is 0.99)")
    return value


def _token_seconds(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > _SLOWEST_TOKEN_SECONDS:
        raise ValueError("is probably in milliseconds; a threshold is in seconds (50 ms is 0.05)")
    return value


def none_is_off(value: object) -> object:
    """The word `none` becomes None. An empty value is an error, because it could mean `none` or the preset's value."""
    if value is None:
        raise ValueError("is empty: write none to switch the objective off, or leave the key out to take the preset's")
    return None if value == "none" else value


def empty_is_unsaid(value: object) -> object:
    """A mapping whose keys are all commented out is null in YAML, and means an empty one."""
    return {} if value is None else value


def several(value: object) -> object:
    """A text becomes a tuple of one, a YAML list a tuple."""
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, str) else value


def rising(edges: tuple[int, ...]) -> tuple[int, ...]:
    if any(low >= high for low, high in itertools.pairwise(edges)):
        raise ValueError("does not rise from each edge to the next")
    return edges


_SLOWEST_TOKEN_SECONDS = 10

_ABSOLUTE = Holds(
    lambda text: not text or (text.startswith("/") and len(text) <= 4096 and text.isprintable()),
    "is not an absolute path",
)
PATH_TEXT = Holds(lambda text: len(text) <= 4096 and text.isprintable(), "is not a path")
_PATTERN = Holds(
    lambda text: 1 <= len(text.encode("utf-8", "replace")) <= 1024 and "*" not in text[:-1],
    "is empty, too long, or has a * before its end",
)
ListenAddress = Annotated[str, Check(parse_address), Description("an address host:port (or :port, [v6]:port)")]
GrpcAddress = Annotated[
    str,
    _unless_empty(parse_address),
    Holds(
        lambda text: not text or find_spec("grpc"),
        "needs gRPC, which is an extra: pip install 'llm-phase-sidecar[grpc]'",
    ),
    Description('an address host:port, or "" for none'),
]
CollectorUrl = Annotated[
    str,
    _unless_empty(_expanded, _collector_url),
    Description('a URL http(s)://host:port/v1/traces, or "" for none', secret=True, url=True),
]
Folder = Annotated[str, _ABSOLUTE, Description('the absolute path of a directory, or "" for none')]
FileName = Annotated[str, _ABSOLUTE, Description('the absolute path of a file, or "" for none')]
EngineKey = Annotated[
    str,
    Holds("[!-~]{0,1024}", "is not a key that a header can carry"),
    Description('at most 1024 characters from ! to ~, or "" for none', secret=True),
]
WebConfigFile = Annotated[str, PATH_TEXT, Description('the path of a file, or "" for none')]
EngineUrl = Annotated[
    str,
    Check(_expanded),
    Check(parse_engine),
    Description("a URL http://host:port without a path, or unix:/path", secret=True, url=True),
]
WorkerUrl = Annotated[
    str,
    Check(_expanded),
    Check(parse_engine_url),
    Description("a URL http://host:port without a path", secret=True, url=True),
]
LaneName = Annotated[
    str,
    Holds(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "is not a lane name"),
    Holds(OTHER.__ne__, 'is reserved: "other" is the lane for names that are not declared'),
    Description('1 to 63 of A-Z a-z 0-9 . _ - beginning with a letter or digit, not "other"'),
]
LabelValue = Annotated[
    str,
    Holds(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+/:-]{0,62}[A-Za-z0-9._+-])?", "is not a label value"),
    Description("1 to 64 of A-Z a-z 0-9 . _ + / : - and spaces inside"),
]
ModelName = Annotated[
    str,
    Holds(lambda text: text.isprintable() and 1 <= len(text) <= 256, "is not a model name"),
    Holds(OTHER.__ne__, 'is reserved: "other" is the label of models that are not listed'),
    Description('1 to 256 printable characters, not "other"'),
]
_HEADER = Holds(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", "is not a header name")  # RFC 9110 5.6.2 token
HeaderName = Annotated[str, _HEADER, After(str.lower), Description("a header name")]
HostName = Annotated[
    str,
    Holds(_HOST.pattern, "is not a host name (write it without a scheme, a port and a path)"),
    Description("a host name"),
]
OpenHeader = Annotated[
    str,
    Holds(lambda text: text.lower() not in SECRET_HEADERS, "carries secrets and is never logged"),
    _HEADER,
    After(str.lower),
    Description("a header name that carries no secret"),
]
Pattern = Annotated[str, _PATTERN, Description("text; a * at its end matches any rest")]
PathEnd = Annotated[
    str,
    Holds(
        r"(?:/[^\x00-\x20\x7f-\U0010ffff/?#]+)+",
        "is not the end of a path: segments with a slash before each, as /v1/chat/completions",
    ),
    Holds(
        lambda text: not text.endswith("/*"),
        "ends with *, and would hold for every path: its last segment must be a name",
    ),
    Description("the last segments of a path, from a slash; * is any one segment"),
]
PathPattern = Annotated[
    str,
    Holds("/[^?#]*", "does not begin with a slash, or has a query or fragment"),
    _PATTERN,
    Description("a path from its slash; a * at its end matches any rest"),
]
Sha256 = Annotated[
    str,
    Holds("[0-9a-fA-F]{64}", "is not a SHA-256"),
    After(str.lower),
    Description("the 64 hex digits of the key's SHA-256", secret=True),
]
Patterns = Annotated[tuple[Pattern, ...], Before(several), Limits(min_length=1, max_length=64)]
Paths = Annotated[tuple[PathPattern, ...], Before(several), Limits(min_length=1, max_length=64)]
Exact = Annotated[str, Limits(min_length=1, max_length=256), Description("text of 1 to 256 characters")]
ExactTexts = Annotated[tuple[Exact, ...], Before(several), Limits(min_length=1, max_length=64)]
Seconds = Annotated[float, Before(as_seconds), Limits(gt=0, le=86400)]
Tokens = Annotated[int, Limits(ge=1, le=2**31 - 1)]
Threshold = Annotated[float, Before(as_seconds), Limits(gt=0, le=3600)]
TokenThreshold = Annotated[float, Before(_token_seconds), Before(as_seconds), Limits(gt=0, le=_SLOWEST_TOKEN_SECONDS)]
Target = Annotated[float, Before(_target), Limits(ge=0.5, le=0.9999)]
Share = Annotated[float, Limits(ge=0, le=1)]
DeclaredLane = Annotated[str, Description("a declared lane")]
BucketLabel = Annotated[str, Description("a prompt bucket")]
OR_NONE = Description("none, or a mapping with keys out of: threshold_seconds, target")
Priority = Annotated[int, Limits(ge=-(2**31), le=2**31 - 1)]
