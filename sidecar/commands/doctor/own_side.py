"""Judges the pod: the config, the engine, the sidecar, its traffic port, clients that bypass it, files and budgets.

Pure: reads the sidecar's own pages and the engine's answers. It refuses to know Prometheus.
"""

from dataclasses import replace
from urllib.parse import urlsplit

from sidecar.budgets.budgets import MORE_FILES, Kind, limits_of
from sidecar.commands.doctor.gathered import Read
from sidecar.commands.doctor.links import Chain, Finding, Link, broken, not_asked, ok, unknown
from sidecar.config.schema import ProxyConfig
from sidecar.engines.kind import EngineKind
from sidecar.engines.kinds import KINDS, kind_named
from sidecar.engines.probe.advice import ENOUGH
from sidecar.engines.probe.detect import order, recognised
from sidecar.engines.probe.identity import identity_of
from sidecar.engines.probe.probe import REFUSALS
from sidecar.engines.probe.replies import MODELS_PATH, Answers, body_at
from sidecar.engines.usage_asking import STOPS
from sidecar.ledger.request_labels import OTHER
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import SLO_THRESHOLD_SECONDS
from sidecar.metrics.declaration import Counter
from sidecar.metrics.vocabulary import UNCOUNTED_KINDS, UNREAD_SIGNALS
from sidecar.observe.span_requests import left_out, unable
from sidecar.timeline.apis import API_NAMES
from sidecar.timeline.proof import Proof


LEAST_SEEN = 0.9
"""Share of the engine's requests that pass the sidecar, below which LLMSidecarBypassed fires too."""
NEARLY_FULL = 0.9
"""Share of a budget in use above which the next burst finds no room."""
_NO_LIMIT = 1 << 50
HEALTH_PATH = "/health"
ATTACH_LABEL = 'llm-phase-sidecar/attach: "true"'
"""Chooses the workloads that `sidecar inject` attaches."""
_LABELLED = f"in Kubernetes a workload needs the label {ATTACH_LABEL}, and `sidecar inject` writes the rest"
_ALONGSIDE = (Kind.HELD_BYTES, Kind.FILES, Kind.CONNECTIONS, Kind.REQUESTS)
"""The budgets whose end turns clients away. The others make room by themselves (docs/budgets.md)."""


def config(read: Read, _chain: Chain) -> Finding:
    checked = read.evidence.config
    if checked is not None and checked.errors:
        count = len(checked.errors)
        return broken(
            Link.CONFIG,
            f"{count} error{'s' if count > 1 else ''}: {'; '.join(checked.errors)}",
            f"correct {checked.file}; `sidecar check` prints the errors one by one",
        )
    page = read.evidence.page
    if page is not None and page.good and read.page.value(c.CONFIG_LAST_RELOAD_SUCCESSFUL.name) == 0:
        return broken(
            Link.CONFIG,
            "the last reload was refused, so that the config before it is in force",
            "correct the file that the status page and the log name, and POST /-/reload",
        )
    if checked is not None:
        silent = [note for note in checked.notes if note.event == "lanes_without_objectives"]
        if silent:
            return broken(Link.CONFIG, f"lanes without objectives: {', '.join(silent[0].names)}", silent[0].hint)
        return ok(Link.CONFIG, f"{checked.file} has no errors, and each lane has objectives or says that it has none")
    said = "the file was not read: --config.file is not given"
    if page is not None and page.good:
        lanes = {labels["lane"] for labels, _ in read.page.of(c.PHASE_ATTRIBUTION_TOTAL.name)}
        aimed = {labels["lane"] for labels, _ in read.page.of(SLO_THRESHOLD_SECONDS.name)}
        none = sorted(lanes - aimed - {OTHER})
        said += f"; lanes that never page, which may be meant: {', '.join(none)}" if none else ""
    return unknown(Link.CONFIG, said, "give --config.file (and --web.config.file, if there is one)")


# --- the engine ----------------------------------------------------------------------------------------------------------


def engine(read: Read, _chain: Chain) -> Finding:
    evidence = read.evidence
    # An address that only the config names is meant for the pod, and need not lead anywhere from here.
    named = "engine.url" in evidence.explicit or evidence.page is None or not evidence.page.good
    status = None if evidence.engine is None else evidence.engine[HEALTH_PATH].status
    if evidence.engine is not None and named:
        if status is None:
            return broken(
                Link.ENGINE,
                f"{evidence.engine_where} does not answer",
                "start the engine, or correct --engine.url: its own port, on which no sidecar listens",
            )
        if status >= 500:
            return broken(
                Link.ENGINE,
                f"{evidence.engine_where}{HEALTH_PATH} answers {status}",
                "read the engine's log; while it loads its model, wait",
            )
    if evidence.page is not None and evidence.page.good:
        up = read.page.value(c.ENGINE_UP.name)
        if up == 0:
            here = " (it answers the doctor)" if status is not None else ""
            return broken(
                Link.ENGINE,
                f"the sidecar cannot use the engine{here}: {c.ENGINE_UP.name} is 0",
                "compare engine.url in the sidecar's config with the engine's port, and read the engine's log",
            )
        if up is None and (status is None or status >= 500):
            return unknown(Link.ENGINE, "the sidecar has not asked it yet", "wait 5 s, or give --engine.url")
        if up == 1:
            return ok(Link.ENGINE, f"the sidecar's health checks pass: {_named(read)}")
    if evidence.engine is None:
        return not_asked(Link.ENGINE, "--engine.url")
    refused = evidence.engine[MODELS_PATH].status if MODELS_PATH in evidence.engine else None
    lists = f", and refuses to list its models to one without a key ({refused})" if refused in REFUSALS else ""
    return ok(Link.ENGINE, f"{evidence.engine_where} answers: {_title(*_kind(evidence.engine))}{lists}")


def reports(read: Read, chain: Chain) -> Finding:
    found = _reports(read, chain)
    if _needs_page(read, chain, Link.REPORTS) is not None:
        return found
    sent = [
        f"{number:.0f} with {signal}"
        for signal in UNREAD_SIGNALS
        if (number := _count(read, c.OTLP_DROPPED_TOTAL, reason=signal))
    ]
    if sent:
        unread = f"its exporter also sends requests that are not read: {', '.join(sent)} since the start"
        do = "to send spans only, set OTEL_EXPORTER_OTLP_TRACES_ENDPOINT in place of OTEL_EXPORTER_OTLP_ENDPOINT"
        found = replace(found, said=f"{found.said}; {unread}", do=f"{found.do}; {do}" if found.do else do)
    for reason, why in STOPS.items():
        if read.page.value(c.USAGE_STOPPED.name, reason=reason):
            found = replace(found, said=f"{found.said}; it is not asked for usage: {why}")
    return found


def _reports(read: Read, chain: Chain) -> Finding:
    if waits := chain.waits(Link.REPORTS, Link.ENGINE):
        return waits
    evidence = read.evidence
    if evidence.engine is not None:
        kind, version = _kind(evidence.engine)
        mute = _mute(kind, evidence.engine)
        if mute:
            return broken(Link.REPORTS, mute, kind.page_advice)
        advice = kind.advice_for(version)
    page, diagnosis = evidence.page, evidence.diagnosis
    if page is None or not page.good or diagnosis is None or not diagnosis.good:
        if evidence.engine is None:
            return not_asked(Link.REPORTS, "--engine.url")
        return unknown(
            Link.REPORTS,
            "which times an engine reports shows only in answers that pass a sidecar",
            f"attach the sidecar and send {ENOUGH} requests. {_sentence(advice)}" if advice else "attach the sidecar",
        )
    told = read.page.value(c.PHASE_ATTRIBUTION_TOTAL.name) or 0
    diagnoses = diagnosis.json["diagnoses"]
    hints = list(dict.fromkeys(hint for one in diagnoses for hint in one["hints"]))
    if hints:
        return broken(Link.REPORTS, f"{_named(read)} could tell more", "; ".join(hints))
    engine_told = sum(
        value for labels, value in read.page.of(c.PHASE_ATTRIBUTION_TOTAL.name) if labels["source"] == "engine"
    )
    if told < ENOUGH or not diagnoses:
        advice = "" if engine_told else _kind_of_page(read)[0].advice_for(_kind_of_page(read)[1])
        return unknown(
            Link.REPORTS,
            f"too few requests passed lately to tell how the engine reports ({told:.0f} since the start)",
            f"send {ENOUGH} requests within five minutes" + (f". {_sentence(advice)}" if advice else ""),
        )
    share = f"{engine_told / told:.0%}"
    came = f"{share} of {told:.0f} answers came with the engine's own times"
    if share == "0%":
        return unknown(Link.REPORTS, came, "docs/engines.md says what this engine can tell")
    return ok(Link.REPORTS, came)


def _kind(answers: Answers) -> tuple[EngineKind, str | None]:
    kind = kind_named(recognised({page: answers[page] for page in order() if page in answers}) or "none")
    return kind, identity_of(kind, answers).version


def _kind_of_page(read: Read) -> tuple[EngineKind, str | None]:
    for labels, _ in read.page.of(c.ENGINE_INFO.name):
        if labels["engine"] in KINDS:
            return kind_named(labels["engine"]), labels["version"]
    return kind_named("none"), None


def _named(read: Read) -> str:
    return _title(*_kind_of_page(read))


def _title(kind: EngineKind, version: str | None) -> str:
    return f"{kind.title} {version or ''}".strip() if kind.name != "none" else "an engine of a kind that is not known"


def _mute(kind: EngineKind, answers: Answers) -> str:
    """The state that the engine does not show though it could, in words; empty if all is there or it cannot be known."""
    if kind.state is None or kind.state.path not in answers or not kind.page_advice:
        return ""
    path = kind.state.path
    if answers[path].status != 200:
        return f"{kind.title} answers its page of metrics with {answers[path].status}"
    names = (kind.state.waiting, kind.state.running)
    if any(name is not None and name.name.encode() in body_at(answers, path) for name in names):
        return ""
    return f"{kind.title} does not show its queue on its page of metrics"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" if text and text[0] != "-" else text


# --- the sidecar ---------------------------------------------------------------------------------------------------------


def sidecar(read: Read, _chain: Chain) -> Finding:
    evidence = read.evidence
    page, healthy = evidence.page, evidence.healthy
    assert page is not None
    assert healthy is not None
    if page.status is None and "sidecar.url" not in evidence.explicit and evidence.engine is not None:
        return unknown(
            Link.SIDECAR,
            f"{page.told} (before attaching, that is as it should be)",
            f"start the sidecar ({_LABELLED}), or give --sidecar.url",
        )
    if page.status is None:
        return broken(
            Link.SIDECAR,
            page.told,
            f"start the sidecar ({_LABELLED}), or correct --sidecar.url: its admin side, port 9901",
        )
    if not page.good:
        return broken(Link.SIDECAR, page.told, "correct --sidecar.url; docs/access.md says who may ask")
    builds = read.page.of(c.SIDECAR_BUILD_INFO.name)
    if not builds:
        return broken(
            Link.SIDECAR,
            f"{page.where} is no sidecar's page: it has no {c.SIDECAR_BUILD_INFO.name}",
            "correct --sidecar.url: the sidecar's admin side, by default port 9901, and not the engine's port",
        )
    if not healthy.good:
        return broken(Link.SIDECAR, f"it is not healthy: {_words(healthy.body)}", "read its log; restart it")
    return ok(Link.SIDECAR, f"version {builds[0][0]['version']} answers, and is healthy")


def _words(body: bytes) -> str:
    return body[:300].decode("utf-8", "replace").strip()


def _needs_page(read: Read, chain: Chain, link: Link) -> Finding | None:
    """The finding for a link that is read from the sidecar's page, if there is no page."""
    if waits := chain.waits(link, Link.SIDECAR):
        return waits
    if read.evidence.page is None or not read.evidence.page.good:
        return unknown(link, "no sidecar answers yet", "start the sidecar, or give --sidecar.url")
    return None


def ready(read: Read, chain: Chain) -> Finding:
    if missing := _needs_page(read, chain, Link.READY) or chain.waits(Link.READY, Link.ENGINE):
        return missing
    reply = read.evidence.ready
    assert reply is not None
    said = _words(reply.body)
    return (
        ok(Link.READY, said) if reply.good else broken(Link.READY, said, "do what the reason says; see docs/attach.md")
    )


def traffic(read: Read, chain: Chain) -> Finding:
    if missing := _needs_page(read, chain, Link.TRAFFIC):
        return missing
    if _by_spans(read):
        return ok(
            Link.TRAFFIC, "no port is open for traffic (--no-proxy): requests are counted from the engine's spans"
        )
    reply = read.evidence.traffic
    if reply is None:
        return not_asked(Link.TRAFFIC, "--proxy.url")
    if reply.status is None and "proxy.url" not in read.evidence.explicit:
        return unknown(Link.TRAFFIC, reply.told, "give --proxy.url, the address that clients use")
    if reply.status is None:
        return broken(
            Link.TRAFFIC, reply.told, "compare proxy.listen_address in the config with the port of the Service"
        )
    passed = [page.value(c.PASSTHROUGH_REQUESTS_TOTAL.name) or 0 for page in (read.page, read.page_after)]
    if passed[1] <= passed[0]:
        return broken(
            Link.TRAFFIC,
            f"{reply.where} answers {reply.status}, and this sidecar did not see the request: something else listens there",
            f"send clients to the sidecar's traffic port, and not to the engine's; {urlsplit(reply.where).netloc} is another process",
        )
    return ok(Link.TRAFFIC, f"{urlsplit(reply.where).netloc} answers, and this sidecar saw the request")


def clients(read: Read, chain: Chain) -> Finding:
    if missing := _needs_page(read, chain, Link.CLIENTS):
        return missing
    if _by_spans(read):
        return _spans_for_clients(read)
    seen = read.page.value(c.ENGINE_TRAFFIC_SEEN_RATIO.name)
    if seen is None:
        return unknown(
            Link.CLIENTS,
            "the engine has not counted enough requests in the last ten minutes, or its page of metrics is not read",
            "send 100 requests within ten minutes; see the link engine-reports",
        )
    if seen < LEAST_SEEN:
        return broken(
            Link.CLIENTS,
            f"only {seen:.0%} of the requests that the engine served passed the sidecar",
            f"let the Service's targetPort be the sidecar's port ({_LABELLED}), and close the engine's (--host 127.0.0.1)",
        )
    return ok(Link.CLIENTS, f"{seen:.0%} of the engine's requests passed the sidecar")


def _by_spans(read: Read) -> bool:
    """Whether no traffic passes this sidecar."""
    return read.page.value(c.WITHOUT_PROXY.name) == 1


def _spans_for_clients(read: Read) -> Finding:
    """As `clients`, of a sidecar that no client's request passes."""
    requests, incomplete = (
        _count(read, c.PHASE_ATTRIBUTION_TOTAL),
        _count(read, c.DROPPED_TOTAL, reason="span_incomplete"),
    )
    why = "".join(f" {each}" for each in unable(_kind_of_page(read)[0]))
    if not requests:
        return _no_request_in_spans(read, why)
    short = f"; {incomplete:.0f} spans stated no whole request" if incomplete else ""
    return ok(Link.CLIENTS, f"{requests:.0f} requests were counted from spans{short}. {left_out(None)}{why}")


def _no_request_in_spans(read: Read, why: str) -> Finding:
    """`why`: what stands against it whatever the flags are; else ""."""
    came = sum(_count(read, c.SPANS_TOTAL, result=result) for result in ("taken", "unknown"))
    said = f"{came:.0f} spans came, and none states a whole request" if came else "no span of a request has come"
    if came and why:
        return broken(
            Link.CLIENTS, f"{said}.{why}", "docs/no_proxy.md says which engines it works with, and by which flags"
        )
    return broken(
        Link.CLIENTS,
        said,
        "start the engine with the flags of docs/no_proxy.md, so that it sends its spans to /v1/traces of this sidecar's admin side",
    )


def counted(read: Read, chain: Chain) -> Finding:
    if missing := _needs_page(read, chain, Link.COUNTED):
        return missing
    if _by_spans(read):
        return ok(Link.COUNTED, "one request for each span that states one; several choices of an answer are several")
    uncounted = {
        kind: number for kind in UNCOUNTED_KINDS if (number := _count(read, c.UNCOUNTED_INFERENCE_TOTAL, kind=kind))
    }
    if uncounted:
        found = ", ".join(f"{number:.0f} {kind}" for kind, number in uncounted.items())
        return broken(
            Link.COUNTED,
            f"requests that look like inference passed uncounted: {found}",
            "read their paths in the sidecar's log (inference_not_counted), and add those of event streams to engine.paths.add; websockets and"
            " media cannot be split: engine.paths.exclude leaves them out",
        )
    unproved = [
        f"{number:.0f} of {api}"
        for api in API_NAMES
        if (number := _count(read, c.ANSWER_PROOFS_TOTAL, api=api, proof=Proof.UNPROVED))
    ]
    if unproved:
        return ok(
            Link.COUNTED,
            f"all of it; answers without a finish reason and an end mark count as ok, unproved: {', '.join(unproved)}",
        )
    return ok(Link.COUNTED, "all of it")


def _count(read: Read, counter: Counter, **labels: str) -> float:
    return read.page.value(counter.name, **labels) or 0.0


def limits(read: Read, chain: Chain) -> Finding:
    if missing := _needs_page(read, chain, Link.LIMITS):
        return missing
    page = read.page
    files, requests = page.value("process_max_fds"), page.value(c.BUDGET_LIMIT.name, budget=Kind.REQUESTS.label)
    if files is None or requests is None:
        return unknown(Link.LIMITS, "the sidecar's page states no limits", "ask a sidecar of this version")
    # The number of requests that the files alone would allow: where they are the narrowest limit, they bind.
    by_files = limits_of(_NO_LIMIT, int(files), ProxyConfig())[Kind.REQUESTS]
    if by_files < ProxyConfig().max_in_flight and by_files <= requests:
        return broken(
            Link.LIMITS,
            f"{files:.0f} open files allow {requests:.0f} requests at once, fewer than proxy.max_in_flight",
            f"{MORE_FILES}; see docs/budgets.md",
        )
    full = [
        f"{kind.label} {used:.0f} of {limit:.0f}"
        for kind in _ALONGSIDE
        if (limit := page.value(c.BUDGET_LIMIT.name, budget=kind.label))
        and (used := page.value(c.BUDGET_USED.name, budget=kind.label)) is not None
        and used >= NEARLY_FULL * limit
    ]
    if full:
        return broken(
            Link.LIMITS,
            f"nearly full: {', '.join(full)}",
            "give the pod more memory, or add replicas; see docs/budgets.md",
        )
    turned_away = page.value(c.BUDGET_EXCEEDED_TOTAL.name) or 0
    since = f"; {turned_away:.0f} found no room since the start" if turned_away else ""
    return ok(Link.LIMITS, f"{files:.0f} open files and {requests:.0f} requests at once{since}")
