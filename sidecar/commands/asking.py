"""How a command asks a server over HTTP: one session, limits on time, bytes and questions at once, and each failure in plain words.

A question never raises for what a server does. It gives a `Reply`, which holds what came or why nothing did, and names the address
without credentials. Each command decides what a reply means to it: `diagnose` stops at the first that is not good, and
the doctor judges them all.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import aiohttp
from yarl import URL

from sidecar.diagnosis.promql import Samples, samples


AT_ONCE = 8
"""Questions to one server at a time: a Prometheus serves 20 queries by default, and dashboards need some of them."""
LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes of an answer above which it is refused."""
PULSE_SECONDS = 0.002
"""Short beside the time between two tokens."""
HOW_TO_LOG_IN = "asks for a user and a password: write them into the address, https://USER:PASSWORD@HOST:PORT"
NOT_ASKABLE = "is no address that can be asked"
_FAILS = (TimeoutError, aiohttp.ClientError, ValueError, OSError)
"""Exceptions of a question that failed; `Asker` has the words for each."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one question. `where`: the address, without credentials."""

    where: str
    status: int | None = None
    """None: no answer came."""
    body: bytes = b""
    failure: str = ""
    """The words that follow the address if there is no answer, or none that this user may have."""
    date: str = ""
    """The Date header."""
    at: float = 0.0
    """Unix time of this machine in the middle between question and answer, in seconds."""
    server: str = ""
    """The Server header."""

    @property
    def good(self) -> bool:
        return self.status == HTTPStatus.OK

    @property
    def told(self) -> str:
        """The outcome in words, for a reply that is not good."""
        if self.status is None or self.failure:
            return f"{self.where} {self.failure}"
        words = self.body[:200].decode("utf-8", "replace").strip().replace("\n", " ")
        return f"{self.where} answers {self.status}{f': {words}' if words else ''}"

    @property
    def json(self) -> Any:
        """Raises ValueError for a body that is no JSON."""
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        """`data` of an answer of Prometheus' API."""
        answer = self.json
        if answer["status"] != "success":
            raise ValueError(answer)
        return answer["data"]

    @property
    def samples(self) -> Samples:
        """The instant vector in an answer of Prometheus' API."""
        return samples(self.json)

    @property
    def skew_seconds(self) -> float | None:
        """Seconds by which the server's clock is ahead of this machine's, to within a second; None if it states no time."""
        try:
            return parsedate_to_datetime(self.date).timestamp() + 0.5 - self.at
        except ValueError:
            return None


@dataclass(slots=True)
class Connecting:
    """When a request had its connection, by `clock`."""

    clock: Callable[[], float]
    ready_at: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One POST and its answer as it came. Instants in seconds of the monotonic clock."""

    where: str
    """The address, without credentials."""
    sent_at: float
    """The connection was there: the request was written."""
    ended_at: float
    """The answer was whole, or failed."""
    status: int | None = None
    """None: no answer came."""
    headers_at: float | None = None
    fields: tuple[tuple[str, str], ...] = ()
    """Header fields of the answer, names in lower case."""
    pieces: tuple[tuple[float, bytes], ...] = ()
    """The body, each read with its instant."""
    failure: str = ""
    """The words that follow the address if the answer is not whole."""
    late_seconds: float = 0.0
    """The longest time by which a timer of this process was late meanwhile: so late may a read have been noted."""

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    def field(self, name: str) -> str:
        """The values of this field, joined as RFC 9110 5.3 allows; "" if there is none."""
        return ", ".join(value for given, value in self.fields if given == name)


def below(base: str, path: str) -> URL:
    """The path below a base address, which may have a path of its own. Raises ValueError for what is no address."""
    path, _, query = path.partition("?")
    url = URL(base)
    return url.with_path(f"{url.path.rstrip('/')}{path}").with_query(query or None)


def session(timeout_seconds: float, *, agent: str = "", unix_path: str = "") -> aiohttp.ClientSession:
    """A session whose questions take at most so long. `unix_path`: the socket that all of them go to."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        headers={"User-Agent": agent} if agent else None,
        connector=aiohttp.UnixConnector(unix_path) if unix_path else None,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[_connections()],
    )


def _connections() -> aiohttp.TraceConfig:
    """Writes the instant of a request's connection into its `Connecting`, where it has one."""

    async def is_ready(_session: aiohttp.ClientSession, trace: Any, _params: object) -> None:
        if isinstance(found := trace.trace_request_ctx, Connecting):
            found.ready_at = found.clock()

    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(is_ready)
    config.on_connection_reuseconn.append(is_ready)
    return config


class Asker:
    """Asks over one session, at most AT_ONCE questions at a time."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._places = asyncio.Semaphore(AT_ONCE)

    async def ask(
        self,
        url: URL,
        *,
        query: Mapping[str, str] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """GET, or POST with a form (`query`) or with JSON. Never raises for what a server does."""
        sent: dict[str, Any] = {"data": query} if query else {"json": json} if json is not None else {}
        if headers is not None:
            sent["headers"] = headers
        where, began_at = shown_url(url), _now()
        try:
            async with (
                self._places,
                self._session.request("GET" if sent.keys() <= {"headers"} else "POST", url, **sent) as answer,
            ):
                body = bytearray()
                async for piece in answer.content.iter_any():
                    body += piece
                    if len(body) > LARGEST_ANSWER:
                        return Reply(where, failure=f"answers with more than {LARGEST_ANSWER >> 20} MiB")
                login = answer.status == HTTPStatus.UNAUTHORIZED
                return Reply(
                    where,
                    answer.status,
                    bytes(body),
                    ("refuses this user and password" if url.user else HOW_TO_LOG_IN) if login else "",
                    answer.headers.get("Date", ""),
                    (began_at + _now()) / 2,
                    answer.headers.get("Server", ""),
                )
        except _FAILS as error:
            return Reply(where, failure=self._why(error))

    async def timed(
        self, url: URL, body: bytes, headers: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> Exchange:
        """POST this body, and note when each piece of the answer came. Redirects are answers. Never raises for what a server does."""
        where, began_at, connecting = shown_url(url), clock(), Connecting(clock)
        status, headers_at, failure = None, None, ""
        fields: tuple[tuple[str, str], ...] = ()
        pieces: list[tuple[float, bytes]] = []
        size, late = 0, [0.0]
        pulse = asyncio.create_task(_pulse(clock, late))
        try:
            async with (
                self._places,
                self._session.post(
                    url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=connecting
                ) as answer,
            ):
                status, headers_at = answer.status, clock()
                fields = tuple((name.lower(), value) for name, value in answer.headers.items())
                async for piece in answer.content.iter_any():
                    pieces.append((clock(), piece))
                    size += len(piece)
                    if size > LARGEST_ANSWER:
                        failure = f"answers with more than {LARGEST_ANSWER >> 20} MiB"
                        break
        except _FAILS as error:
            failure = self._why(error)
        finally:
            pulse.cancel()
        return Exchange(
            where,
            began_at if connecting.ready_at is None else connecting.ready_at,
            clock(),
            status,
            headers_at,
            fields,
            tuple(pieces),
            failure,
            late[0],
        )

    def _why(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"did not answer within {self._session.timeout.total:.0f} s"
        return failure_of(error) if isinstance(error, aiohttp.ClientError) else NOT_ASKABLE

    async def ask_all(self, urls: Mapping[str, URL]) -> dict[str, Reply]:
        replies = await asyncio.gather(*map(self.ask, urls.values()))
        return dict(zip(urls, replies, strict=True))


async def _pulse(clock: Callable[[], float], late: list[float]) -> None:
    """Keep in `late` the longest time by which this loop woke too late. Cancel to stop."""
    while True:
        due_at = clock() + PULSE_SECONDS
        await asyncio.sleep(PULSE_SECONDS)
        late[0] = max(late[0], clock() - due_at)


def failure_of(error: aiohttp.ClientError) -> str:
    """The failure in plain words, with the thing to check; without the library's own words."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "cannot be asked: no address is known for that host name; is it spelled right?"
    if isinstance(error, aiohttp.ClientSSLError):
        return "cannot be asked: TLS failed; does it speak https, with a certificate that this machine trusts?"
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ConnectionRefusedError):
            return "cannot be asked: nothing listens there; does it run, and is the port right?"
        return f"cannot be asked: {error.strerror or 'there is no way there'}; are host and port right?"
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError):
        return "closed the connection before its answer was whole; is the port right, and did it restart?"
    return "does not answer as an HTTP server does; is the port right?"


def shown_url(url: URL) -> str:
    return str(url.with_user(None).with_query(None))


def _now() -> float:
    return time.time()  # noqa: TID251  compared with the clocks of other machines, by their Date headers
