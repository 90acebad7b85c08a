"""`--web.config.file`: TLS, passwords and headers of the admin listener, in the format of Prometheus' exporter-toolkit.

Source: https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md, as of July 2026. It knows which of
the format's keys this process can honour. It refuses the others with the reason, because a key that is ignored is a lock that
does not lock. It holds no connection: `access.py` uses what this module reads.
"""

import platform
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sidecar.config.file import ConfigErrors, Draft, text_of
from sidecar.config.section import (
    NO_KEYS,
    Accepted,
    Before,
    Check,
    Description,
    Holds,
    Limits,
    Section,
)
from sidecar.config.section import Path as Keys
from sidecar.config.values import PATH_TEXT, empty_is_unsaid, several
from sidecar.config.yaml import read


CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Go's names of the suites of TLS 1.2 with forward secrecy and authenticated encryption, and OpenSSL's. TLS 1.3 has its own."""
CURVES = {"X25519": "X25519", "CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1"}
"""Go's names of curves, and OpenSSL's."""
HEADERS: dict[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-Content-Type-Options": ("nosniff",),
    "X-XSS-Protection": (),
    "Strict-Transport-Security": (),
}
"""Headers that the format can set, each with its values; none: any."""
VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
DEAREST_HASH = 14
"""The highest cost of a hash: one check takes a second of a core there, and twice as long for each more."""
NOT_SUPPORTED = {
    "tls_server_config.cert": "is not supported: write it to a file and name that in cert_file",
    "tls_server_config.key": "is not supported: write it to a file and name that in key_file",
    "tls_server_config.client_ca": "is not supported: write it to a file and name that in client_ca_file",
}
"""Keys of the format that this process cannot honour, each with the way out."""
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_GO_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?)(ns|us|µs|ms|s|m|h)")


def _hash(text: str) -> str:
    if re.fullmatch(r"\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}", text) is None:
        raise ValueError("is no bcrypt hash")
    if not 4 <= int(text[4:6]) <= DEAREST_HASH:
        raise ValueError(f"has a cost outside 4 to {DEAREST_HASH}, the figure between its second and third $")
    return text


def _go_duration(value: object) -> object:
    """Seconds of a Go duration such as 1s or 1m30s. A number without a unit is nanoseconds in Go, and only 0 is meant."""
    if isinstance(value, str) and re.fullmatch(f"(?:{_GO_DURATION.pattern})+", value):
        return sum(float(number) * _UNITS[unit] for number, unit in _GO_DURATION.findall(value))
    return 0.0 if value in (0, "0") and value is not False else str(value)


def _listed(names: Mapping[str, object]) -> Description:
    return Description("one of: " + ", ".join(names))


_File = Annotated[
    str,
    PATH_TEXT,
    Limits(min_length=1),
    # A key that is pasted in the place of its file's name must not be shown.
    Description("the path of a file, as seen from the directory of this one", secret=True),
]
_Version = Annotated[
    str, Holds(VERSIONS.__contains__, "is not supported (TLS 1.0 and 1.1 are broken)"), _listed(VERSIONS)
]
_ClientAuth = Annotated[
    str,
    Holds(CLIENTS.__contains__, "is not supported (a certificate that is not verified proves nothing)"),
    _listed(CLIENTS),
]
_Cipher = Annotated[
    str, Holds(CIPHERS.__contains__, "is not supported (no forward secrecy, or unknown)"), _listed(CIPHERS)
]
_Curve = Annotated[str, Holds(CURVES.__contains__, "is not supported (unknown to Python's ssl)"), _listed(CURVES)]
_San = Annotated[str, Limits(min_length=1), Description("a DNS name, IP address, e-mail address or URI")]
_HeaderName = Annotated[str, Holds(HEADERS.__contains__, "cannot be set"), _listed(HEADERS)]
_HeaderValue = Annotated[
    str,
    Holds(lambda text: text.isprintable() and text.isascii() and len(text) <= 4096, "is no header value"),
    Description("printable text"),
]
_User = Annotated[
    str,
    Holds(lambda text: ":" not in text and text.isprintable() and 1 <= len(text) <= 256, "is no user name"),
    Description("a user name: 1 to 256 printable characters without a colon"),
]
_Hash = Annotated[
    str,
    Check(_hash),
    Description("a bcrypt hash, as `htpasswd -nBC 10 NAME` prints behind the colon", secret=True),
]
_Users = Annotated[Mapping[_User, _Hash], Before(empty_is_unsaid), Limits(max_length=100)]


class TlsServer(Section):
    """`tls_server_config`."""

    cert_file: _File
    key_file: _File
    client_auth_type: _ClientAuth = "NoClientCert"
    client_ca_file: _File | None = None
    client_allowed_sans: Annotated[tuple[_San, ...], Before(several), Limits(max_length=100)] = ()
    min_version: _Version = "TLS12"
    max_version: _Version = "TLS13"
    cipher_suites: Annotated[tuple[_Cipher, ...], Before(several), Limits(max_length=len(CIPHERS))] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: Annotated[tuple[_Curve, ...], Before(several), Limits(max_length=1)] = ()
    """One at most: Python 3.11's ssl takes no list."""


class HttpServer(Section):
    """`http_server_config`. A page that sets one of the headers itself keeps its own."""

    http2: Annotated[
        bool,
        Holds(lambda http2: not http2, "is not supported (this listener speaks HTTP/1.1)"),
        Description("false, or left out"),
    ] = False
    headers: Annotated[Mapping[_HeaderName, _HeaderValue], Before(empty_is_unsaid)] = NO_KEYS


class RateLimit(Section):
    """`rate_limit`: a token bucket for requests that need to prove who sends them."""

    interval: Annotated[
        float,
        Before(_go_duration),
        Limits(ge=0, le=3600),
        Description("a duration such as 100ms or 1m30s, at most 1h; 0 for no limit"),
    ] = 0.0
    burst: Annotated[int, Limits(ge=0, le=1_000_000)] = 0


class WebFile(Section):
    """A whole file."""

    tls_server_config: TlsServer | None = None
    http_server_config: Annotated[HttpServer, Before(empty_is_unsaid)] = HttpServer()
    basic_auth_users: _Users = NO_KEYS
    rate_limit: Annotated[RateLimit, Before(empty_is_unsaid)] = RateLimit()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file that is right, with the certificates that it names."""

    web: WebFile
    context: ssl.SSLContext | None
    """None: plain HTTP."""


def load(file: str) -> Loaded:
    """Read the file and the certificates that it names. Raises ConfigErrors with all errors at once."""
    draft = Draft(file, read(text_of(file)), Accepted(WebFile))
    web: WebFile = draft.read(NOT_SUPPORTED)
    for path, text in _contradictions(web):
        draft.add(path, text)
    draft.refuse()
    if web.tls_server_config is None:
        return Loaded(web, None)
    context, unusable = _context(web.tls_server_config, Path(file).parent)
    for path, text in unusable:
        draft.add(path, text)
    draft.refuse()
    return Loaded(web, context)


def files_named(file: str) -> tuple[Path, ...]:
    """The file itself and the files that it names, right or wrong: those whose change is a reason to read again."""
    try:
        tls = read(text_of(file)).tree.get("tls_server_config")
    except ConfigErrors:
        tls = None
    named = [tls.get(key) for key in ("cert_file", "key_file", "client_ca_file")] if isinstance(tls, dict) else []
    return (Path(file), *(Path(file).parent / name for name in named if isinstance(name, str)))


def _contradictions(web: WebFile) -> Iterator[tuple[Keys, str]]:
    """Mistakes that no single value shows; a value that is wrong in itself is in none."""
    here, tls, limit = "tls_server_config", web.tls_server_config, web.rate_limit
    if tls is not None:
        auth = tls.client_auth_type
        if tls.client_ca_file is not None and auth == "NoClientCert":
            yield (here, "client_ca_file"), "has no use while client_auth_type is NoClientCert"
        if tls.client_ca_file is None and auth != "NoClientCert":
            yield (here, "client_auth_type"), f"{auth} needs client_ca_file"
        if tls.client_allowed_sans and auth != "RequireAndVerifyClientCert":
            text = "needs client_auth_type: RequireAndVerifyClientCert, or a client without a certificate passes"
            yield (here, "client_allowed_sans"), text
        if (tls.min_version, tls.max_version) == ("TLS13", "TLS12"):
            yield (here, "max_version"), "must be at least min_version (TLS13)"
        if tls.cipher_suites and tls.min_version == "TLS13":
            yield (here, "cipher_suites"), "has no use while min_version is TLS13, which has suites of its own"
    for name, value in web.http_server_config.headers.items():
        if value and HEADERS[name] and value not in HEADERS[name]:
            yield ("http_server_config", "headers", name), f"must be one of: {', '.join(HEADERS[name])}"
    if limit.interval > 0 and limit.burst == 0:
        yield ("rate_limit", "burst"), "must be at least 1 where an interval is set, or every request is refused"


def _bare_context(tls: TlsServer) -> ssl.SSLContext:
    """The TLS side of a server, without certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = VERSIONS[tls.min_version], VERSIONS[tls.max_version]
    context.verify_mode = CLIENTS[tls.client_auth_type]
    context.set_ciphers(":".join(CIPHERS[name] for name in tls.cipher_suites or CIPHERS))
    context.set_alpn_protocols(["http/1.1"])
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    return context


def _unknown_curves(context: ssl.SSLContext, tls: TlsServer) -> Iterator[tuple[Keys, str]]:
    """Set the curves. The `ssl` of some Pythons lacks one: of CPython 3.11.2 with OpenSSL 3.0, as Debian 12 has it, X25519."""
    for curve in tls.curve_preferences:
        try:
            context.set_ecdh_curve(CURVES[curve])
        except (ssl.SSLError, ValueError):
            others = ", ".join(name for name in CURVES if name != curve)
            version = f"CPython {platform.python_version()} with {ssl.OPENSSL_VERSION}"
            yield (
                ("tls_server_config", "curve_preferences"),
                f"{version} does not know {curve}: leave it out, or one of: {others}",
            )


def _unreadable(tls: TlsServer, folder: Path) -> list[tuple[Keys, str]]:
    wrong: list[tuple[Keys, str]] = []
    for key in ("cert_file", "key_file", "client_ca_file"):
        name = getattr(tls, key)
        try:
            if name is not None:
                (folder / name).read_bytes()
        except OSError as error:
            wrong.append((("tls_server_config", key), f"cannot be read: {error.strerror}"))
    return wrong


def _context(tls: TlsServer, folder: Path) -> tuple[ssl.SSLContext | None, list[tuple[Keys, str]]]:
    """The TLS side of a server, or what is wrong with the files."""
    context, wrong = _bare_context(tls), _unreadable(tls, folder)
    wrong += _unknown_curves(context, tls)
    if wrong:
        return None, wrong
    try:
        context.load_cert_chain(folder / tls.cert_file, folder / tls.key_file, password=_no_password)
    except _EncryptedError:
        wrong.append((("tls_server_config", "key_file"), "is encrypted, which is not supported: store it in the clear"))
    except ssl.SSLError as error:
        text = f"is not PEM, or the key is not that of the certificate ({_reason(error)})"
        wrong.append((("tls_server_config", "cert_file"), text))
    except OSError as error:
        # A renewal may take a file away after it was looked at.
        wrong.append((("tls_server_config", "cert_file"), f"or key_file cannot be read: {error.strerror}"))
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(folder / tls.client_ca_file)
        except ssl.SSLError as error:
            wrong.append((("tls_server_config", "client_ca_file"), f"is no PEM of certificates ({_reason(error)})"))
        except OSError as error:
            wrong.append((("tls_server_config", "client_ca_file"), f"cannot be read: {error.strerror}"))
    return (None if wrong else context), wrong


class _EncryptedError(Exception):
    pass


def _no_password() -> str:
    # Otherwise OpenSSL asks the terminal, and the process hangs.
    raise _EncryptedError


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "unknown").lower().replace("_", " ")
