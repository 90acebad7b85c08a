"""Sources that `sidecar diagnose` asks over the network: another sidecar's `/diagnosis`, or a Prometheus that scrapes a fleet.

The only module of this folder that opens sockets; other modules read the answers. Every query has a time limit, and every
failure becomes one sentence that names the address. Credentials in a URL are used and never repeated.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

import aiohttp
from yarl import URL

from sidecar.diagnosis import facts, promql
from sidecar.diagnosis.document import DOCUMENT_VERSION, document
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import EngineDown, Measured
from sidecar.diagnosis.promql import Fleet, Samples
from sidecar.diagnosis.tree import contained
from sidecar.metrics.histogram_forms import classic_only


QUERY_TIMEOUT_SECONDS = 20.0
AT_ONCE = 8
"""Queries to one Prometheus at a time: it serves 20 by default, and dashboards need some of them."""
HOW_TO_LOG_IN = "asks for a user and a password: write them into the address, https://USER:PASSWORD@HOST:PORT"
Asked = TypeVar("Asked")
Read = TypeVar("Read")
_NOT_UNDERSTOOD = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes of an answer above which it is refused."""


class AskingError(Exception):
    """The source that was asked and what went wrong, in one sentence."""


class RefusedError(AskingError):
    """The source does not understand the question."""


async def one_sidecar(url: str) -> dict[str, Any]:
    """The diagnosis document of another sidecar. Raises AskingError."""
    asked = URL(url).with_path("/diagnosis")
    async with _session() as session:
        answer = await _get(session, asked, {})
    if not isinstance(answer, dict) or answer.get("schema_version") != DOCUMENT_VERSION or "diagnoses" not in answer:
        raise AskingError(f"{shown_url(asked)} answers with another schema: are both sidecars of one version?")
    return answer


async def one_baseline(url: str) -> Any:
    """The usual values of another sidecar, as it answers (`slo/baseline.py`). Raises AskingError."""
    async with _session() as session:
        return await _get(session, URL(url).with_path("/baseline.json"), {})


async def fleet(
    url: str,
    *,
    namespace: str | None,
    model: str | None,
    lane: str | None,
    window_seconds: float,
    job: str | None = None,
) -> dict[str, Any]:
    """The diagnosis document of all fleets, job by job. Raises AskingError."""
    base, asked = URL(url), Fleet(namespace, job)
    async with _session() as session:
        prometheus = _Prometheus(session, base.with_path(f"{base.path.rstrip('/')}/api/v1/query"))
        found: list[Diagnosis] = []
        down: list[EngineDown] = []
        for of in promql.fleets_of(await prometheus.ask(promql.fleets(asked)), asked):
            queries = promql.engine_up(of), promql.engines_coming_up(of), promql.engine_stalled(of)
            up, coming_up, stalled = [await prometheus.ask(query) for query in queries]
            down += promql.engines_down(up, coming_up, of, stalled)
            lanes = await _lanes(prometheus, of, window_seconds)
            found += [
                contained(one)
                for one in lanes
                if (model is None or one.model == model) and (lane is None or one.lane == lane)
            ]
    return document(found, down)


class Stretch(NamedTuple):
    """Instants of a range query: the first and the last in unix time, and how far they are apart."""

    first: float
    last: float
    step_seconds: float


async def over_time(
    url: str, queries: Mapping[Asked, str], of: Stretch, read: Callable[[Mapping[str, Any]], Read]
) -> dict[Asked, Read]:
    """The answers to range queries of a Prometheus, as `read` reads them. Raises AskingError."""
    base = URL(url)
    asked = base.with_path(f"{base.path.rstrip('/')}/api/v1/query_range")
    stretch = {"start": f"{of.first:.3f}", "end": f"{of.last:.3f}", "step": f"{of.step_seconds:g}"}
    places = asyncio.Semaphore(AT_ONCE)

    async def one(session: aiohttp.ClientSession, query: str) -> Read:
        async with places:
            answer = await _answer(session, asked, query, stretch)
        try:
            return read(answer)
        except (LookupError, TypeError, ValueError) as error:
            raise AskingError(f"{shown_url(base)} does not answer as a Prometheus does") from error

    async with _session() as session:
        answers = await asyncio.gather(*(one(session, query) for query in queries.values()))
    return dict(zip(queries, answers, strict=True))


async def _lanes(prometheus: "_Prometheus", of: Fleet, window_seconds: float) -> list[Measured]:
    """The record of every lane of one fleet that had traffic or missed."""
    grown = await prometheus.ask_all(promql.growth(of, window_seconds))
    gauges = await prometheus.ask_all(promql.gauges(of))
    peaks = await prometheus.ask_all(promql.peaks(of, window_seconds))
    windows = promql.windows_of(grown, gauges, peaks, window_seconds)
    pods = await prometheus.ask_all(promql.pods(of, window_seconds))
    kinds = {labels.get("engine") for labels, _ in await prometheus.ask(f"llm_engine_info{{{of.of()}}}")}
    engine = kinds.pop() if len(kinds) == 1 else None
    if not promql.known_roots(windows):
        raise AskingError(f"{prometheus.shown} has sidecars of another version: use the command of theirs")
    return [
        facts.measured(
            windows,
            who,
            Measured(
                source="prometheus",
                namespace=of.namespace,
                job=of.job,
                engine=engine,
                pods=promql.pod_shares(pods, *who),
            ),
        )
        for who in facts.lanes(windows)
    ]


class _Prometheus:
    def __init__(self, session: aiohttp.ClientSession, url: URL) -> None:
        self._session = session
        self._url = url
        self._places = asyncio.Semaphore(AT_ONCE)
        self.shown = shown_url(url)

    async def ask(self, query: str) -> Samples:
        async with self._places:
            answer = await _answer(self._session, self._url, query, {})
        try:
            return promql.samples(answer)
        except (LookupError, TypeError, ValueError) as error:
            raise AskingError(f"{shown_url(self._url)} does not answer as a Prometheus does") from error

    async def ask_all(self, queries: Mapping[Any, str]) -> dict[Any, Samples]:
        answers = await asyncio.gather(*map(self.ask, queries.values()))
        return dict(zip(queries, answers, strict=True))


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=QUERY_TIMEOUT_SECONDS))


async def _answer(session: aiohttp.ClientSession, url: URL, query: str, more: Mapping[str, str]) -> Any:
    """The answer to a query; where a server refuses the functions of native histograms, to the query without them."""
    try:
        return await _get(session, url, {"query": query, **more})
    except RefusedError:
        if (classic := classic_only(query)) == query:
            raise
        return await _get(session, url, {"query": classic, **more})


async def _get(session: aiohttp.ClientSession, url: URL, query: Mapping[str, str]) -> Any:
    try:
        async with session.post(url, data=query) if query else session.get(url) as answer:
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    raise AskingError(f"{shown_url(url)} answers with more than {LARGEST_ANSWER >> 20} MiB")
            if answer.status == HTTPStatus.UNAUTHORIZED:
                raise AskingError(f"{shown_url(url)} {'refuses this user and password' if url.user else HOW_TO_LOG_IN}")
            if answer.status != 200:
                said = body[:200].decode("utf-8", "replace").strip()
                failed = RefusedError if answer.status in _NOT_UNDERSTOOD else AskingError
                raise failed(f"{shown_url(url)} answers {answer.status}: {said}")
            return json.loads(body)
    except TimeoutError as error:
        raise AskingError(f"{shown_url(url)} did not answer within {QUERY_TIMEOUT_SECONDS:.0f} s") from error
    except aiohttp.ClientError as error:
        raise AskingError(f"{shown_url(url)} {failure_of(error)}") from error
    except ValueError as error:
        raise AskingError(f"{shown_url(url)} answers with something that is no JSON") from error


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
