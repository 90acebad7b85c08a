"""Asks everything that the doctor judges: engine, sidecar, Prometheus, Alertmanager, and the links in pages.

It sends GET, except the queries (POST, as `sidecar diagnose`), and the one alert that `drill.py` posts if it was asked for. No answer
is an error here.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

from yarl import URL

from sidecar.commands.asking import NOT_ASKABLE, Asker, Reply, below, session
from sidecar.commands.doctor.drill import can_be_sent, send_test_page
from sidecar.commands.doctor.examination import examine
from sidecar.commands.doctor.gathered import UNKNOWN_FORM, Evidence, Read
from sidecar.commands.doctor.links import Finding
from sidecar.commands.doctor.own_side import HEALTH_PATH
from sidecar.commands.doctor.page_links import to_open
from sidecar.commands.doctor.page_routes import alertmanager_of
from sidecar.commands.doctor.scraped_targets import SCRAPE_SLACK_SECONDS, not_kept, own_targets
from sidecar.engines.kinds import kind_named
from sidecar.engines.probe.detect import next_question, recognised
from sidecar.engines.probe.replies import Answer
from sidecar.engines.probe.where import http_url, unix_path
from sidecar.metrics.catalogue import SIDECAR_BUILD_INFO, SIDECAR_TIME_SECONDS
from sidecar.metrics.vocabulary import DOCTOR_AGENT, LONGEST_SCRAPE_INTERVAL_SECONDS, WHOLE_PAGE


ANSWER_TIMEOUT_SECONDS = 10.0
"""For one question. A Prometheus that takes longer has a problem of its own, and says so on its own page."""
_SESSION = partial(session, ANSWER_TIMEOUT_SECONDS, agent=DOCTOR_AGENT)
ASK_AGAIN_SECONDS = 1.0
"""Time between two questions whether the next scrape has come."""
_OF_SIDECARS = f"and on (job, instance) {SIDECAR_BUILD_INFO.name}"
QUERIES = {
    "now": "time()",
    "sidecars": f"process_start_time_seconds {_OF_SIDECARS}",
    "falling_starts": f"resets(process_start_time_seconds[1h]) > 1 {_OF_SIDECARS}",
    "scraped_at": f"timestamp(process_start_time_seconds) {_OF_SIDECARS}",
    "ahead": f"{SIDECAR_TIME_SECONDS.name} - timestamp({SIDECAR_TIME_SECONDS.name})",
}
"""Name of a question to Prometheus to its query. A start time falls once if the clock was set back; again and again if two processes
write one series."""
PAGES_OF_PROMETHEUS = {
    "targets": "/api/v1/targets?state=active",
    "rules": "/api/v1/rules",
    "alertmanagers": "/api/v1/alertmanagers",
    "config": "/api/v1/status/config",
    "metrics": "/metrics",
}
PAGES_OF_ALERTMANAGER = {
    "status": "/api/v2/status",
    "alerts": "/api/v2/alerts",
    "silences": "/api/v2/silences",
    "metrics": "/metrics",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The addresses to ask; None: not given."""

    sidecar_url: str
    engine_url: str | None = None
    proxy_url: str | None = None
    prometheus_url: str | None = None
    alertmanager_url: str | None = None
    grafana_url: str | None = None


async def examined(sources: Sources, evidence: Evidence, test_phase: str | None) -> list[Finding]:
    """Ask all sources and judge. `test_phase`: the phase whose receivers get a TEST page; None sends nothing."""
    async with _SESSION() as open_session:
        asker = Asker(open_session)
        await gather(asker, sources, evidence)
        base = sources.alertmanager_url or alertmanager_of(evidence)
        if test_phase is not None and base is not None and can_be_sent(evidence, test_phase):
            evidence.test_page = await send_test_page(asker.ask, partial(below, base), evidence, test_phase)
        return examine(evidence)


async def gather(asker: Asker, sources: Sources, evidence: Evidence) -> Evidence:
    """The evidence, with all answers filled in."""
    named = urlsplit(sources.sidecar_url)
    evidence.sidecar_url = named._replace(netloc=named.netloc.rpartition("@")[2]).geturl()
    await asyncio.gather(
        _ask_sidecar(asker, sources, evidence),
        _ask_engine(sources, evidence),
        _ask_prometheus(asker, sources, evidence),
    )
    await _ask_alertmanager(asker, sources, evidence)
    await _ask_about_own_target(asker, sources, evidence)
    await _open_links(asker, sources, evidence)
    return evidence


async def _ask_sidecar(asker: Asker, sources: Sources, evidence: Evidence) -> None:
    base = sources.sidecar_url
    paths = {"healthy": "/-/healthy", "ready": "/-/ready", "page": WHOLE_PAGE, "diagnosis": "/diagnosis"}
    replies = await asker.ask_all({name: below(base, path) for name, path in paths.items()})
    evidence.healthy, evidence.ready = replies["healthy"], replies["ready"]
    evidence.page, evidence.diagnosis = replies["page"], replies["diagnosis"]
    if sources.proxy_url is not None:
        evidence.traffic = await asker.ask(below(sources.proxy_url, "/v1/models"))
        evidence.page_after = await asker.ask(below(base, WHOLE_PAGE))


async def _ask_engine(sources: Sources, evidence: Evidence) -> None:
    if sources.engine_url is None:
        return
    evidence.engine_where = sources.engine_url
    own = _SESSION(unix_path=unix_path(sources.engine_url) or "")
    answers: dict[str, Answer] = {}

    async def look(page: str) -> None:
        reply = await Asker(own).ask(URL(f"{http_url(sources.engine_url or '')}{page}"))
        answers[page] = Answer(reply.status, reply.body)

    async with own:
        await look(HEALTH_PATH)
        seen: dict[str, Answer] = {}
        while answers[HEALTH_PATH].status is not None and (page := next_question(seen)) is not None:
            await look(page)
            seen[page] = answers[page]
        kind = kind_named(recognised(seen) or "none")
        for page in (*kind.asks, *((kind.state.path,) if kind.state and not kind.reading_resets else ())):
            if page not in answers:
                await look(page)
    evidence.engine = answers


async def _ask_prometheus(asker: Asker, sources: Sources, evidence: Evidence) -> None:
    base = sources.prometheus_url
    if base is None:
        return
    pages_of = asker.ask_all({name: below(base, path) for name, path in PAGES_OF_PROMETHEUS.items()})
    queries = asyncio.gather(*(_query(asker, base, query) for query in QUERIES.values()))
    replies, answers = await asyncio.gather(pages_of, queries)
    evidence.prometheus = {**replies, **dict(zip(QUERIES, answers, strict=True))}


async def _ask_about_own_target(asker: Asker, sources: Sources, evidence: Evidence) -> None:
    """Ask which series of this process Prometheus keeps, once it is known which target this process is."""
    base = sources.prometheus_url
    try:
        mine = own_targets(Read(evidence))
    except UNKNOWN_FORM:
        return
    if base is None or len(mine) != 1:
        return
    of = ", ".join(f'{name}="{mine[0][name]}"' for name in ("job", "instance") if name in mine[0])
    asked = {"kept": f"group by (__name__) ({{{of}}})", "scraped": f"scrape_samples_scraped{{{of}}}"}

    async def ask() -> None:
        answers = await asyncio.gather(*(_query(asker, base, query) for query in asked.values()))
        evidence.prometheus = {**evidence.prometheus, **dict(zip(asked, answers, strict=True))}

    await ask()
    if _lacks_series(evidence):
        # Some series are on the page once their value is known: Prometheus may not have read the page since.
        evidence.next_scrape_came = await _next_scrape(asker, base, of)
        if evidence.next_scrape_came:
            await ask()


def _lacks_series(evidence: Evidence) -> bool:
    try:
        return bool(not_kept(Read(evidence)))
    except UNKNOWN_FORM:  # `scraped_targets.py` says so
        return False


async def _next_scrape(asker: Asker, base: str, of: str) -> bool:
    """Wait until Prometheus has scraped the target with these labels once more, for as long as the longest interval may take.

    Returns whether it has.
    """
    known: float | None = None
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_SCRAPE_INTERVAL_SECONDS + SCRAPE_SLACK_SECONDS):
            while True:
                at = _first(await _query(asker, base, f"timestamp(process_start_time_seconds{{{of}}})"))
                if known is not None and at is not None and at > known:
                    return True
                known = at if known is None else known
                await asyncio.sleep(ASK_AGAIN_SECONDS)
    return False


def _first(reply: Reply) -> float | None:
    """The value of the first series in an answer; None if there is none."""
    try:
        return reply.samples[0][1]
    except UNKNOWN_FORM:
        return None


async def _query(asker: Asker, base: str, query: str) -> Reply:
    return await asker.ask(below(base, "/api/v1/query"), query={"query": query})


async def _ask_alertmanager(asker: Asker, sources: Sources, evidence: Evidence) -> None:
    base = sources.alertmanager_url or alertmanager_of(evidence)
    if base is not None:
        evidence.alertmanager = await asker.ask_all(
            {name: below(base, path) for name, path in PAGES_OF_ALERTMANAGER.items()}
        )


async def _open_links(asker: Asker, sources: Sources, evidence: Evidence) -> None:
    links = to_open(evidence, sources.grafana_url)
    replies = await asyncio.gather(*(_open(asker, link) for link in links))
    # A page of a dashboard can be megabytes of scripts: the status is all that is asked.
    evidence.opened = {link: replace(reply, body=reply.body[:2000]) for link, reply in zip(links, replies, strict=True)}


async def _open(asker: Asker, link: str) -> Reply:
    try:
        url = URL(link)
    except ValueError:
        return Reply(link, failure=NOT_ASKABLE)
    return await asker.ask(url)
