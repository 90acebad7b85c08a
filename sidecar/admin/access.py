"""The gate of the admin listener: which requests need a password or a certificate, and TLS as the web config has it now.

It reads the file again when it or a certificate changes, and keeps the old content while the new one is wrong. Probes and the
loopback paths pass without a password: a kubelet and an `exec` hook have none. Where neither a password nor TLS protects a page,
its reader has to name a host that is this process's own (`hosts.py`). It knows routes and headers. It refuses to know
what a password costs (`passwords.py`) and what the file may say (`web_config.py`).
"""

import asyncio
import base64
import binascii
import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import structlog
from aiohttp import hdrs, web

from sidecar.admin.hosts import Hosts
from sidecar.admin.passwords import BusyError, Passwords
from sidecar.admin.web_config import Loaded, RateLimit, files_named, load
from sidecar.config.file import ConfigErrors
from sidecar.metrics.catalogue import HOSTS_REFUSED_TOTAL, LOGINS_TOTAL, WEB_CONFIG_LOADS_TOTAL
from sidecar.metrics.registry import Metrics


PROBES = frozenset({"/-/healthy", "/-/ready", "/-/engine"})
"""Routes that need no password, because the kubelet sends none. They tell a state in one line."""
FROM_LOOPBACK = frozenset({"/-/reload", "/-/drain", "/v1/traces", "/v1/logs", "/v1/metrics"})
"""Routes that need no password from this host; their handlers refuse browsers, and other hosts by a rule of their own."""
FROM_ANY_HOST = PROBES | FROM_LOOPBACK | {"/metrics"}
"""Routes that answer whatever host the request names: scrapes, probes and exporters of spans name what their configs say. None of
them hands a foreign web page more than states and numbers: those from loopback refuse browsers by themselves."""
OF_THIS_POD = frozenset({ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")})
"""The addresses of a process in this pod. The rest of 127.0.0.0/8 is not among them: Istio delivers from 127.0.0.6 what came from outside."""
OF_PROXIES = ("forwarded", "x-forwarded-", "x-envoy-")
"""Beginnings of the header names that a proxy adds: what bears one comes from elsewhere (RFC 7239; Envoy's own headers)."""
FILES_LOOKED_AT_SECONDS = 5.0
"""Interval at which the files are looked at."""
BUSY_RETRY_AFTER_SECONDS = 2
HOST_HINT = "Ask by an IP address or as localhost, or add the name to web.allowed_hosts."
CHALLENGE = 'Basic realm="llm-phase-sidecar", charset="UTF-8"'

log = structlog.get_logger()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Stamp = tuple[tuple[int, int, int] | None, ...]


class Access:
    """The gate of one listener. `file`: the web config, or "" for plain HTTP without passwords; `clock`: monotonic seconds.

    `hosts`: the names of this process; `allowed_hosts`: those that the config adds at the moment (`web.allowed_hosts`). Raises
    ConfigErrors where the file is wrong.
    """

    def __init__(
        self,
        file: str,
        metrics: Metrics,
        clock: Callable[[], float],
        *,
        hosts: Hosts | None = None,
        allowed_hosts: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._file = file
        self._hosts = hosts or Hosts()
        self._allowed_hosts = allowed_hosts
        self._hosts_refused = metrics.counter(HOSTS_REFUSED_TOTAL).child()
        self._clock = clock
        self._passwords = Passwords()
        self._bucket = _Bucket(RateLimit(), clock)
        self._logins = metrics.counter(LOGINS_TOTAL)
        self._logins.begin()
        self._loads = metrics.counter(WEB_CONFIG_LOADS_TOTAL)
        self._loads.begin()
        self._loaded: Loaded | None = None
        self._paths: tuple[Path, ...] = ()
        self._stamp: _Stamp = ()
        self._changing = asyncio.Lock()
        self._refusing = asyncio.Lock()
        self.refused: str | None = None
        """The first error of the file as it is now; None if it is in force."""
        self.on_loaded: Callable[[], None] = lambda: None
        """Called after each load, good or bad."""
        if file:
            self._take(self._read())

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context for the listener's next connection, with the certificates of the moment. None: plain HTTP."""
        return None if self._loaded is None else self._loaded.context

    @property
    def users(self) -> frozenset[str]:
        """The names of the users that have a password now; none: no password is asked for."""
        return frozenset() if self._loaded is None else frozenset(self._loaded.web.basic_auth_users)

    async def reload(self) -> list[str]:
        """Read the file again; returns its errors, none when it is in force. Without a file nothing is done."""
        if not self._file:
            return []
        async with self._changing:
            try:
                loaded = await asyncio.to_thread(self._read)
                self._take(loaded)
            except ConfigErrors as errors:
                log.error("web_config_refused", errors=list(errors.lines))
                self._refuse(errors.lines[0])
                return list(errors.lines)
        log.info("web_config_loaded", tls=self.tls is not None, users=len(self.users))
        self.on_loaded()
        return []

    async def watch(self) -> None:
        """Read the file again whenever it changes, for as long as the task runs."""
        while self._file:
            await asyncio.sleep(FILES_LOOKED_AT_SECONDS)
            try:
                if await asyncio.to_thread(_stamp_of, self._paths) != self._stamp:
                    await self.reload()
            except Exception as error:  # without the watch, no renewed certificate would ever be taken
                log.exception("web_config_watch_failed")
                self._refuse(f"{self._file}: cannot be read: {type(error).__name__}")

    def _refuse(self, why: str) -> None:
        self.refused = why
        self._loads.child("refused").inc()
        self.on_loaded()

    def close(self) -> None:
        self._passwords.close()

    def _read(self) -> Loaded:
        # The stamp is taken before the files are read: one that changes in between is read once more.
        self._paths = files_named(self._file)
        self._stamp = _stamp_of(self._paths)
        return load(self._file)

    def _take(self, loaded: Loaded) -> None:
        if self._loaded is not None and (loaded.context is None) != (self.tls is None):
            text = "TLS cannot be switched on or off while the process runs; restart the sidecar"
            raise ConfigErrors([f"{self._file}: tls_server_config: {text}"])
        self._passwords.admit(loaded.web.basic_auth_users)
        if self._loaded is None or self._loaded.web.rate_limit != loaded.web.rate_limit:
            self._bucket = _Bucket(loaded.web.rate_limit, self._clock)
        self._loaded = loaded
        self.refused = None
        self._loads.child("ok").inc()

    # --- for the listener ------------------------------------------------------------------------------------------------

    async def add_headers(self, _request: web.Request, response: web.StreamResponse) -> None:
        """Set the headers of the file; a page that has one of them keeps its own."""
        if self._loaded is not None:
            for name, value in self._loaded.web.http_server_config.headers.items():
                if value:
                    response.headers.setdefault(name, value)

    async def refusal(self, request: web.Request) -> web.Response | None:
        """The answer to a request that may not pass, or None. One refusal per turn of the loop: a burst delays no stream."""
        route = _route_of(request)
        refused = None if route in FROM_ANY_HOST else self._misdirected(request)
        if refused is None and self._loaded is not None and not _is_open(route, request):
            refused = await self._judge(self._loaded, request)
        if refused is None:
            return None
        async with self._refusing:
            await asyncio.sleep(0)
        return refused

    def _misdirected(self, request: web.Request) -> web.Response | None:
        """The answer to a request under a host name that a foreign web page may have; None if it may pass.

        A request without `Host` passes (HTTP/1.0): no browser sends one. Behind a password or TLS every host passes: a browser
        keeps passwords for one host name, and compares the name with the certificate.
        """
        if self.tls is not None or self.users:
            return None
        allowed = tuple(self._allowed_hosts())
        for host in request.headers.getall(hdrs.HOST, []):
            if not self._hosts.pass_for(host, allowed):
                self._hosts_refused.inc()
                log.warning("host_refused", host=host, hint=HOST_HINT)
                return _answer(421, f"The admin side does not answer under this host name. {HOST_HINT}")
        return None

    async def _judge(self, loaded: Loaded, request: web.Request) -> web.Response | None:
        tls = loaded.web.tls_server_config
        if tls is not None and tls.client_allowed_sans and not _named(request, tls.client_allowed_sans):
            return _answer(403, "The client's certificate is none of those that may ask (client_allowed_sans).")
        if not self._bucket.take():
            return _answer(429, "Too many requests (rate_limit).", {hdrs.RETRY_AFTER: "1"})
        return await self._login(request) if loaded.web.basic_auth_users else None

    async def _login(self, request: web.Request) -> web.Response | None:
        told = _credentials(request.headers.getall(hdrs.AUTHORIZATION, []))
        if told is None:
            result = "missing"
        else:
            try:
                good = await self._passwords.right(*told, peer=request.remote or "")
            except BusyError:
                self._logins.child("busy").inc()
                return _answer(429, "Too many passwords at once.", {hdrs.RETRY_AFTER: str(BUSY_RETRY_AFTER_SECONDS)})
            result = "ok" if good else "wrong"
        self._logins.child(result).inc()
        if result == "ok":
            return None
        return _answer(401, "A user and a password are needed.", {hdrs.WWW_AUTHENTICATE: CHALLENGE})


class _Bucket:
    """A token bucket: `burst` requests at once, then one per `interval`. An interval of 0 lets all pass."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._tokens = float(limit.burst)
        self._at = clock()

    def take(self) -> bool:
        if not self._limit.interval:
            return True
        now = self._clock()
        self._tokens = min(self._limit.burst, self._tokens + (now - self._at) / self._limit.interval)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _route_of(request: web.Request) -> str:
    """The route that was found, not the path's text: both sides would have to read that alike. "": none was found."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _is_open(route: str, request: web.Request) -> bool:
    return route in PROBES or (route in FROM_LOOPBACK and is_from_this_pod(request))


def is_from_this_pod(request: web.Request) -> bool:
    """Whether a process of this pod sent the request itself. Headers can only refuse it: the peer's address has to be loopback."""
    return is_loopback(request.remote) and not any(name.lower().startswith(OF_PROXIES) for name in request.headers)


def is_loopback(remote: str | None) -> bool:
    """Whether this address of a peer is one of OF_THIS_POD, an IPv4 address in IPv6 form included."""
    try:
        address = ipaddress.ip_address((remote or "").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address) in OF_THIS_POD


def _credentials(told: list[str]) -> tuple[bytes, bytes] | None:
    """User and password of RFC 7617; None for no header, several, another scheme or nonsense."""
    scheme, _, encoded = (told[0] if len(told) == 1 else "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None


def _named(request: web.Request, allowed: Iterable[str]) -> bool:
    """Whether the client's certificate, which TLS has verified, has one of these names."""
    certificate = request.get_extra_info("peercert") or {}
    return not set(allowed).isdisjoint(value for _, value in certificate.get("subjectAltName", ()))


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={"Cache-Control": "no-store", **(headers or {})})


def _stamp_of(paths: Iterable[Path]) -> _Stamp:
    return tuple(map(_stamp, paths))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
