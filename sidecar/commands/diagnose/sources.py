"""Sources that `sidecar diagnose` asks over the network: another sidecar's `/diagnosis`, or a Prometheus that scrapes a fleet.

Other modules read the answers. Every failure becomes one sentence that names the address (`asking.py`).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from yarl import URL

from sidecar.commands.asking import Asker, session, shown_url
from sidecar.diagnosis import engine_series, facts, promql
from sidecar.diagnosis.document import DOCUMENT_VERSION, document
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import EngineDown, Measured
from sidecar.diagnosis.promql import Fleet, Ranges, Samples
from sidecar.diagnosis.tree import contained
from sidecar.metrics.histogram_forms import classic_only


QUERY_TIMEOUT_SECONDS = 20.0
Asked = TypeVar("Asked")
_NOT_UNDERSTOOD = (400, 422)


class AskingError(Exception):
    """The source that was asked and what went wrong, in one sentence."""


class RefusedError(AskingError):
    """The source does not understand the question."""


async def one_sidecar(url: str) -> dict[str, Any]:
    """The diagnosis document of another sidecar. Raises AskingError."""
    asked = URL(url).with_path("/diagnosis")
    async with _asker() as asker:
        answer = await _get(asker, asked, {})
    if not isinstance(answer, dict) or answer.get("schema_version") != DOCUMENT_VERSION or "diagnoses" not in answer:
        raise AskingError(f"{shown_url(asked)} answers with another schema: are both sidecars of one version?")
    return answer


async def one_baseline(url: str) -> Any:
    """The usual values of another sidecar, as it answers (`pod/usual/baseline.py`). Raises AskingError."""
    async with _asker() as asker:
        return await _get(asker, URL(url).with_path("/baseline.json"), {})


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
    engines: list[Diagnosis] = []
    async with _asker() as asker:
        prometheus = _Prometheus(asker, base.with_path(f"{base.path.rstrip('/')}/api/v1/query"))
        found: list[Diagnosis] = []
        down: list[EngineDown] = []
        sidecars = await prometheus.ask(promql.fleets(asked))
        known = bool(sidecars)
        for of in promql.fleets_of(sidecars, asked):
            queries = promql.engine_up(of), promql.engines_coming_up(of), promql.engine_stalled(of)
            up, coming_up, stalled = [await prometheus.ask(query) for query in queries]
            down += promql.engines_down(up, coming_up, of, stalled)
            lanes = await _lanes(prometheus, of, window_seconds)
            known = known or bool(lanes)
            found += [
                contained(one)
                for one in lanes
                if (model is None or one.model == model) and (lane is None or one.lane == lane)
            ]
        if not (known or down):
            if lane is not None:
                raise AskingError(
                    f"{shown_url(base)} has no series of a sidecar, and engines know no lanes: ask without --lane"
                )
            engines = await _engines(prometheus, asked, model, window_seconds, partial(_past, asker, url))
    return document(found or engines, down)


async def _engines(
    prometheus: "_Prometheus",
    asked: Fleet,
    model: str | None,
    window_seconds: float,
    past: Callable[[float, Mapping[str, str]], Awaitable[Mapping[str, Ranges]]],
) -> list[Diagnosis]:
    """The diagnoses by the engines' own series, where no sidecar's are: each says what only a sidecar could tell. `past`: asks queries slice by
    slice, each of so many seconds. Raises AskingError where no engine has a series either.
    """
    found: list[Diagnosis] = []
    known = False
    for kind, names in engine_series.kinds():
        answers = await prometheus.ask_all(engine_series.queries(names, asked, model, window_seconds))
        known = known or engine_series.has_series(answers)
        if not engine_series.has_engines(answers):
            continue
        seconds = engine_series.slice_seconds(answers, window_seconds)
        before = await past(seconds, engine_series.past_queries(names, asked, model, seconds))
        for told in engine_series.measured(kind, answers, model, window_seconds, before):
            one = contained(told)
            own = replace(one.measured, source="engine")
            found.append(replace(one, measured=own, evidence=(engine_series.WITHOUT_SIDECAR, *one.evidence)))
    if not known:
        named = {"--namespace": asked.namespace, "--job": asked.job, "--model": model}
        of = ", ".join(f"{flag}={value}" for flag, value in named.items() if value is not None)
        raise AskingError(
            f"{prometheus.shown} has no series of a sidecar (llm_requests_received_total) and none of an engine"
            f" ({', '.join(engine_series.first_tokens())})"
            + (f" with {of}" if of else "")
            + ": is it the one that scrapes them?"
        )
    return found


async def _past(asker: Asker, url: str, seconds: float, queries: Mapping[str, str]) -> dict[str, Ranges]:
    """The answers to these queries at the end of each slice until now."""
    now = time.time()  # noqa: TID251  Prometheus keeps wall-clock time
    of = Stretch(now - engine_series.past_seconds(seconds) + seconds, now, seconds)
    return await _over_time(asker, url, queries, of)


class Stretch(NamedTuple):
    """Instants of a range query: the first and the last in unix time, and how far they are apart."""

    first: float
    last: float
    step_seconds: float


async def over_time(url: str, queries: Mapping[Asked, str], of: Stretch) -> dict[Asked, promql.Ranges]:
    """The answers to range queries of a Prometheus. Raises AskingError."""
    async with _asker() as asker:
        return await _over_time(asker, url, queries, of)


async def _over_time(asker: Asker, url: str, queries: Mapping[Asked, str], of: Stretch) -> dict[Asked, promql.Ranges]:
    base = URL(url)
    asked = base.with_path(f"{base.path.rstrip('/')}/api/v1/query_range")
    stretch = {"start": f"{of.first:.3f}", "end": f"{of.last:.3f}", "step": f"{of.step_seconds:g}"}

    async def one(query: str) -> promql.Ranges:
        answer = await _answer(asker, asked, query, stretch)
        try:
            return promql.ranges(answer)
        except (LookupError, TypeError, ValueError) as error:
            raise AskingError(f"{shown_url(base)} does not answer as a Prometheus does") from error

    answers = await asyncio.gather(*(one(query) for query in queries.values()))
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
    def __init__(self, asker: Asker, url: URL) -> None:
        self._asker = asker
        self._url = url
        self.shown = shown_url(url)

    async def ask(self, query: str) -> Samples:
        answer = await _answer(self._asker, self._url, query, {})
        try:
            return promql.samples(answer)
        except (LookupError, TypeError, ValueError) as error:
            raise AskingError(f"{shown_url(self._url)} does not answer as a Prometheus does") from error

    async def ask_all(self, queries: Mapping[Any, str]) -> dict[Any, Samples]:
        answers = await asyncio.gather(*map(self.ask, queries.values()))
        return dict(zip(queries, answers, strict=True))


@asynccontextmanager
async def _asker() -> AsyncIterator[Asker]:
    async with session(QUERY_TIMEOUT_SECONDS) as opened:
        yield Asker(opened)


async def _answer(asker: Asker, url: URL, query: str, more: Mapping[str, str]) -> Any:
    """The answer to a query; where a server refuses the functions of native histograms, to the query without them."""
    try:
        return await _get(asker, url, {"query": query, **more})
    except RefusedError:
        if (classic := classic_only(query)) == query:
            raise
        return await _get(asker, url, {"query": classic, **more})


async def _get(asker: Asker, url: URL, query: Mapping[str, str]) -> Any:
    reply = await asker.ask(url, query=query)
    if not reply.good:
        raise RefusedError(reply.told) if reply.status in _NOT_UNDERSTOOD else AskingError(reply.told)
    try:
        return reply.json
    except ValueError as error:
        raise AskingError(f"{reply.where} answers with something that is no JSON") from error
