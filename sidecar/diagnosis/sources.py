"""Sources that `sidecar diagnose` asks over the network: another sidecar's `/diagnosis`, or a Prometheus that scrapes a fleet.

The only module of this folder that opens sockets; other modules read the answers. Every query has a time limit, and every
failure becomes one sentence that names the address. Credentials in a URL are used and never repeated.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from sidecar.diagnosis import engine_evidence as evidence
from sidecar.diagnosis import facts, promql
from sidecar.diagnosis.document import DOCUMENT_VERSION, document
from sidecar.diagnosis.facts import Comparison
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import EngineDown, Measured
from sidecar.diagnosis.promql import Fleet, Samples
from sidecar.diagnosis.tree import contained
from sidecar.diagnosis.verdict import LaneObjective, Verdict, decide
from sidecar.history.growth import Windows
from sidecar.slo.causes import Cause


QUERY_TIMEOUT_SECONDS = 20.0
AT_ONCE = 8
"""Queries to one Prometheus at a time: it serves 20 by default, and dashboards need some of them."""
LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes of an answer above which it is refused."""
BEFORE_SECONDS = 3600.0
"""Age of the numbers that are used as baseline if no baseline is recorded."""


class AskingError(Exception):
    """The source that was asked and what went wrong, in one sentence."""


async def one_sidecar(url: str) -> dict[str, Any]:
    """The diagnosis document of another sidecar. Raises AskingError."""
    asked = URL(url).with_path("/diagnosis")
    async with _session() as session:
        answer = await _get(session, asked, {})
    if not isinstance(answer, dict) or answer.get("schema_version") != DOCUMENT_VERSION or "diagnoses" not in answer:
        raise AskingError(f"{_shown(asked)} answers with another schema: are both sidecars of one version?")
    return answer


async def fleet(
    url: str, *, namespace: str | None, model: str | None, lane: str | None, window_seconds: float
) -> dict[str, Any]:
    """The diagnosis document of a fleet, namespace by namespace. Raises AskingError."""
    base = URL(url)
    async with _session() as session:
        prometheus = _Prometheus(session, base.with_path(f"{base.path.rstrip('/')}/api/v1/query"))
        namespaces: list[str | None] = [namespace]
        if namespace is None:
            told = await prometheus.ask(promql.NAMESPACES)
            namespaces = sorted({labels.get("namespace") for labels, _ in told}, key=lambda name: name or "")
        found: list[Diagnosis] = []
        down: list[EngineDown] = []
        for name in namespaces:
            of = Fleet(name)
            up, coming_up = promql.engine_up(of), promql.engines_coming_up(of)
            down += promql.engines_down(await prometheus.ask(up), await prometheus.ask(coming_up), of)
            lanes = await _namespace(prometheus, of, window_seconds)
            found += [
                contained(one)
                for one in lanes
                if (model is None or one.model == model) and (lane is None or one.lane == lane)
            ]
    return document(found, down)


async def _namespace(prometheus: "_Prometheus", of: Fleet, window_seconds: float) -> list[Measured]:
    grown = await prometheus.ask_all(promql.growth(of, window_seconds))
    windows = promql.windows_of(grown, await prometheus.ask_all(promql.gauges(of)), window_seconds)
    known = await prometheus.ask_all(promql.recorded(of))
    kinds = {labels.get("engine") for labels, _ in await prometheus.ask(f"llm_engine_info{{{of.of()}}}")}
    engine = kinds.pop() if len(kinds) == 1 else None
    loaded = bool(known["loaded"])
    votes_seconds = promql.recorded_votes_seconds(known) if loaded else None
    ratios: dict[str, Mapping[Cause, float]]
    if loaded:
        try:
            verdicts = promql.recorded_verdicts(known)
            ratios = {model: promql.recorded_ratios(known, model) for model, _ in facts.lanes(windows)}
        except ValueError as error:
            raise AskingError(
                f"{prometheus.shown} has recording rules of another version: load those of this one"
            ) from error
    else:
        compared = await _compared(prometheus, of, windows, window_seconds)
        verdicts = await _verdicts(prometheus, of, windows, compared, window_seconds)
        ratios = {model: one.ratios for model, one in compared.items()}
    return [
        facts.measured(
            windows,
            who,
            verdicts,
            Measured(
                source="prometheus",
                ratios=ratios.get(who.model, {}),
                baseline=bool(ratios.get(who.model)),
                namespace=of.namespace,
                engine=engine,
            ),
            votes_seconds=votes_seconds,
        )
        for who in facts.lanes(windows)
    ]


async def _compared(
    prometheus: "_Prometheus", of: Fleet, windows: Windows, window_seconds: float
) -> dict[str, Comparison]:
    """Without recording rules: the numbers of now over those of an hour ago, which may have been as bad."""
    questions = promql.growth(of, window_seconds)
    before = promql.windows_of(await prometheus.ask_all(questions, ago_seconds=BEFORE_SECONDS), {}, window_seconds)
    return {
        model: evidence.compared(windows, model, evidence.now(windows, model), evidence.now(before, model))
        for model, _ in facts.lanes(windows)
    }


async def _verdicts(
    prometheus: "_Prometheus", of: Fleet, windows: Windows, compared: Mapping[str, Comparison], window_seconds: float
) -> dict[LaneObjective, Verdict]:
    """Without recording rules: the same rule, applied to the raw votes."""
    pods = await prometheus.ask_all(promql.faults(of, window_seconds))
    found = {}
    for who in facts.missed(windows):
        faulty, full = promql.faulty(pods, who)
        full_pods = promql.kv_full_pods(pods, who.model)
        verdict = decide(facts.case(windows, who, compared[who.model], faulty, kv_full=full, kv_full_pods=full_pods))
        if verdict is not None:
            found[who] = verdict
    return found


class _Prometheus:
    def __init__(self, session: aiohttp.ClientSession, url: URL) -> None:
        self._session = session
        self._url = url
        self._places = asyncio.Semaphore(AT_ONCE)
        self.shown = _shown(url)

    async def ask(self, query: str, ago_seconds: float = 0.0) -> Samples:
        if ago_seconds:
            # Clocks differ between machines: Prometheus subtracts from its own time.
            query = f"last_over_time(({query})[1s:1s] offset {ago_seconds:.0f}s)"
        async with self._places:
            answer = await _get(self._session, self._url, {"query": query})
        try:
            return promql.samples(answer)
        except (KeyError, TypeError, ValueError) as error:
            raise AskingError(f"{_shown(self._url)} does not answer as a Prometheus does") from error

    async def ask_all(self, queries: Mapping[Any, str], ago_seconds: float = 0.0) -> dict[Any, Samples]:
        answers = await asyncio.gather(*(self.ask(query, ago_seconds) for query in queries.values()))
        return dict(zip(queries, answers, strict=True))


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=QUERY_TIMEOUT_SECONDS))


async def _get(session: aiohttp.ClientSession, url: URL, query: Mapping[str, str]) -> Any:
    try:
        async with session.post(url, data=query) if query else session.get(url) as answer:
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    raise AskingError(f"{_shown(url)} answers with more than {LARGEST_ANSWER >> 20} MiB")
            if answer.status != 200:
                said = body[:200].decode("utf-8", "replace").strip()
                raise AskingError(f"{_shown(url)} answers {answer.status}: {said}")
            return json.loads(body)
    except TimeoutError as error:
        raise AskingError(f"{_shown(url)} did not answer within {QUERY_TIMEOUT_SECONDS:.0f} s") from error
    except aiohttp.ClientError as error:
        raise AskingError(f"{_shown(url)} {_failure(error)}") from error
    except ValueError as error:
        raise AskingError(f"{_shown(url)} answers with something that is no JSON") from error


def _failure(error: aiohttp.ClientError) -> str:
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


def _shown(url: URL) -> str:
    return str(url.with_user(None).with_query(None))
