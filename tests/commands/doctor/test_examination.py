"""One answer of a sound chain is changed, and the doctor names that link, and no other. Unknown is never ok."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from sidecar.commands.asking import Reply
from sidecar.commands.doctor.examination import JUDGES, examine
from sidecar.commands.doctor.expected_rules import PAGES_GROUP, expected
from sidecar.commands.doctor.gathered import ConfigCheck, Evidence, seconds
from sidecar.commands.doctor.links import Link, State
from sidecar.commands.doctor.own_side import ATTACH_LABEL, LEAST_SEEN
from sidecar.commands.export.expression_names import metrics_in, undeclared
from sidecar.config.notes import Note
from sidecar.engines.probe.replies import Answer
from sidecar.engines.usage_asking import STOPS
from tests.commands.doctor.one_change import (
    NO_ANSWER,
    alertmanager,
    drilled,
    every_rule,
    on_page,
    opened,
    prometheus,
    routed,
    said,
    states,
    target,
    with_config,
)
from tests.commands.doctor.sound_evidence import (
    COUNTED,
    STARTED,
    TARGET,
    api,
    groups,
    sound,
    told,
    vector,
)


def test_a_sound_chain_has_every_link_ok() -> None:
    assert states(sound()) == {State.OK: [link.label for link in Link], State.BROKEN: [], State.UNKNOWN: []}


def test_logs_that_an_exporter_sends_here_are_told_in_one_line() -> None:
    """They harm nothing, so the link stays ok: the line says what is dropped, and how spans are sent alone."""
    evidence = sound()
    on_page("llm_engine_up 1", 'llm_engine_up 1\nllm_sidecar_otlp_dropped_total{reason="logs"} 190')(evidence)

    assert states(evidence)[State.OK] == [link.label for link in Link]
    assert said(evidence, Link.REPORTS).endswith(
        "; its exporter also sends requests that are not read: 190 with logs since the start"
        " -> to send spans only, set OTEL_EXPORTER_OTLP_TRACES_ENDPOINT in place of OTEL_EXPORTER_OTLP_ENDPOINT"
    )


def test_the_watchdog_of_another_package_is_no_second_copy_of_ours() -> None:
    """kube-prometheus-stack brings an alert of this name, with a runbook on the internet. It does not stand in for ours either."""
    theirs = {
        "name": "Watchdog",
        "type": "alerting",
        "query": "vector(1)",
        "labels": {"severity": "none"},
        "annotations": {"runbook_url": "https://runbooks.prometheus-operator.dev/runbooks/general/watchdog"},
        "health": "ok",
        "state": "firing",
        "alerts": [],
        "lastEvaluation": "2026-09-21T14:13:18Z",
    }
    general = {"name": "general.rules", "interval": 30, "evaluationTime": 0.01, "rules": [theirs]}
    both, alone = sound(), sound()
    prometheus("rules", api({"groups": [general, *groups()]}))(both)
    ours = [{**group, "rules": [one for one in group["rules"] if one["name"] != "Watchdog"]} for group in groups()]
    prometheus("rules", api({"groups": [general, *ours]}))(alone)

    assert states(both)[State.OK] == [link.label for link in Link]
    assert (states(alone)[State.BROKEN], "Watchdog" in said(alone, Link.RULES)) == (["rules"], True)


def test_a_cluster_is_told_where_a_target_has_one_and_asked_of_none() -> None:
    one_of_many, alone = sound(), sound()
    in_a_cluster(one_of_many)

    assert states(one_of_many)[State.OK] == [link.label for link in Link]
    assert "cluster=eu" in said(one_of_many, Link.LABELS)
    assert "cluster" not in said(alone, Link.LABELS)


def test_each_link_has_a_judge() -> None:
    assert tuple(JUDGES) == tuple(Link)


def mute_engine(evidence: Evidence) -> None:
    models = b'{"data": [{"id": "llama", "owned_by": "vllm"}]}'
    evidence.engine = {"/health": Answer(200), "/v1/models": Answer(200, models), "/metrics": Answer(404)}


def hints(evidence: Evidence) -> None:
    evidence.diagnosis = told(json.dumps({"diagnoses": [{"hints": ["set --enable-per-request-metrics"]}]}))


def ahead(evidence: Evidence) -> None:
    assert evidence.healthy is not None
    evidence.healthy = replace(evidence.healthy, date="Mon, 21 Sep 2026 14:15:20 GMT")


def without_sidecar(evidence: Evidence) -> None:
    evidence.page = evidence.healthy = evidence.ready = NO_ANSWER


def past_the_sidecar(evidence: Evidence) -> None:
    evidence.page_after = evidence.page


def locked(evidence: Evidence) -> None:
    evidence.page = Reply("http://x/metrics", 401, failure="asks for a user and a password")


LEAN = 'python_version="3.11",profile="lean"'


def lean_beside_dashboards(evidence: Evidence) -> None:
    """As `gathering.py` finds the panels in Grafana's answer."""
    on_page('python_version="3.11"', LEAN)(evidence)
    evidence.idle_panels = {"http://grafana/api/dashboards/uid/llm-stream": ["Stream p95 by lane", "KV transfer"]}


def lean_beside_rules(evidence: Evidence) -> None:
    """One of llm-dashboards.yml, and one of the team's own."""
    on_page('python_version="3.11"', LEAN)(evidence)
    own = {**groups()[0]["rules"][0], "name": "OurSlowTokens", "query": "llm_time_to_first_token_seconds_bucket > 0"}
    group = {"name": "ours", "interval": 15, "evaluationTime": 0.01, "rules": [own]}
    prometheus("rules", api({"groups": [*groups(), group]}))(evidence)


def test_a_lean_pod_is_no_fault_where_nothing_wants_more() -> None:
    """And a full pod has all that a dashboard may want."""
    lean, full = sound(), sound()
    on_page('python_version="3.11"', LEAN)(lean)
    lean_beside_dashboards(full)
    on_page('python_version="3.11"', 'python_version="3.11",profile="full"')(full)

    assert [states(one)[State.BROKEN] for one in (lean, full)] == [[], []]


def in_a_cluster(evidence: Evidence) -> None:
    prometheus("sidecars", vector(({**TARGET, "cluster": "eu"}, STARTED)))(evidence)


def in_a_cluster_with_older_rules(evidence: Evidence) -> None:
    """Those of 0.1.0 group by no cluster."""
    in_a_cluster(evidence)
    older = json.loads(json.dumps(groups()).replace("cluster, ", ""))
    prometheus("rules", api({"groups": older}))(evidence)


def down(error: str, **labels: str) -> Callable[[Evidence], None]:
    """The one target is not scraped, at another address than the one that was asked."""
    where = labels.pop("at", "10.0.0.7:9901")
    one = {"labels": {**TARGET, **labels}, "health": "down", "lastError": error, "scrapeUrl": f"http://{where}/metrics"}

    def change(evidence: Evidence) -> None:
        evidence.sidecar_url = "http://127.0.0.1:19901"  # a port-forward
        prometheus("sidecars", vector())(evidence)
        prometheus("targets", api({"activeTargets": [one]}))(evidence)

    return change


REFUSED_BY, TIMED_OUT = "dial tcp 10.0.0.7:9901: connect: connection refused", "context deadline exceeded"
PROXY = {"container": "istio-proxy", "at": "10.0.0.7:15090"}
BREAKS: dict[str, tuple[Callable[[Evidence], None], Link, str]] = {
    "config error": (with_config(ConfigCheck("a.yml", ("a.yml:1: wrong",))), Link.CONFIG, "a.yml:1: wrong"),
    "silent lane": (
        with_config(ConfigCheck("a.yml", notes=(Note("lanes_without_objectives", "lanes", ("gold",), "set them"),))),
        Link.CONFIG,
        "gold -> set them",
    ),
    "reload refused": (on_page("reload_successful 1", "reload_successful 0"), Link.CONFIG, "POST /-/reload"),
    "engine down": (on_page("llm_engine_up 1", "llm_engine_up 0"), Link.ENGINE, "llm_engine_up is 0"),
    "engine without its page": (mute_engine, Link.REPORTS, "--disable-log-stats"),
    "engine without its flag": (hints, Link.REPORTS, "--enable-per-request-metrics"),
    "sidecar gone": (without_sidecar, Link.SIDECAR, "nothing listens there"),
    "nothing attached": (without_sidecar, Link.SIDECAR, f"needs the label {ATTACH_LABEL}"),
    "half attached": (on_page("seen_ratio 1", "seen_ratio 0"), Link.CLIENTS, f"needs the label {ATTACH_LABEL}"),
    "sidecar locked": (locked, Link.SIDECAR, "docs/access.md"),
    "another server": (on_page("llm_sidecar_build_info", "node_build_info"), Link.SIDECAR, "no sidecar's page"),
    "not ready": (lambda e: setattr(e, "ready", Reply("", 503, b"shutting down (lame_duck)")), Link.READY, "lame_duck"),
    "traffic past it": (past_the_sidecar, Link.TRAFFIC, "another process"),
    "bypassed": (on_page("seen_ratio 1", "seen_ratio 0.5"), Link.CLIENTS, "50%"),
    "uncounted": (
        on_page("llm_engine_up 1", 'llm_engine_up 1\nllm_uncounted_inference_total{kind="event_stream"} 3'),
        Link.COUNTED,
        "3 event_stream -> read their paths in the sidecar's log (inference_not_counted)",
    ),
    "few files": (on_page("max_fds 65536", "max_fds 1024"), Link.LIMITS, "LimitNOFILE"),
    "full": (on_page('used{budget="requests"} 3', 'used{budget="requests"} 1020'), Link.LIMITS, "nearly full"),
    "prometheus gone": (prometheus("now", NO_ANSWER), Link.PROMETHEUS, "--prometheus.url"),
    "other process": (prometheus("sidecars", vector((TARGET, STARTED - 99))), Link.SCRAPE, "not this one"),
    "never scraped": (prometheus("sidecars", vector()), Link.SCRAPE, "no target of Prometheus is a sidecar"),
    "target refused": (
        down(REFUSED_BY),
        Link.SCRAPE,
        "connection refused -> nothing listens there: see whether the pod runs",
    ),
    "target cut off": (down(TIMED_OUT, container="sidecar", at="10.0.0.7:9902"), Link.SCRAPE, "-> a NetworkPolicy"),
    "target elsewhere": (
        down("server returned HTTP status 404 Not Found", endpoint="admin", at="b:80"),
        Link.SCRAPE,
        "-> let metrics_path",
    ),
    **{
        f"target: {error}": (down(f'Get "http://limit-refused:9901/metrics": {error}'), Link.SCRAPE, f"-> {do}")
        for error, do in {
            "dial tcp: lookup llama-0: no such host": "the name has no address",
            "dial tcp 10.0.0.7:9901: connect: network is unreachable": "a NetworkPolicy",
            "EOF": "something between them ends the connection",
            "read tcp 10.0.0.1:5->10.0.0.7:9901: read: connection reset by peer": "something between them",
            "server returned HTTP status 503 Service Unavailable": "too much asks it at once",
            'malformed HTTP response "\\x15\\x03"': "let scheme and tls_config",
            "body size limit exceeded": "raise sample_limit, body_size_limit",
            'expected a valid start token, got "<"': "let metrics_path",
            'received unsupported Content-Type "text/html"': "let metrics_path",
            "server returned HTTP status 403 Forbidden": "give Prometheus the user",
            "server returned HTTP status 421 Misdirected Request": "add the host",
        }.items()
    },
    "target of a proxy": (down(REFUSED_BY, **PROXY), Link.SCRAPE, "no target of Prometheus is a sidecar, out of 1"),
    "twice": (
        prometheus("sidecars", vector((TARGET, STARTED), ({**TARGET, "job": "b"}, STARTED))),
        Link.SCRAPE,
        "scraped 2 times",
    ),
    "too seldom": (target(scrapeInterval="1m30s"), Link.SCRAPE, "every 1m30s"),
    "near sample_limit": (prometheus("scraped", vector((TARGET, 9000.0))), Link.SCRAPE, "sample_limit 10000"),
    "series dropped": (prometheus("kept", vector()), Link.SCRAPE, "metric_relabel_configs"),
    "rule missing": (prometheus("rules", api({"groups": groups()[1:]})), Link.RULES, "instance:llm_slo_misses:sum"),
    "no rules": (prometheus("rules", api({"groups": []})), Link.RULES, "none of the"),
    "rules of another version": (every_rule(query="llm_gone_total"), Link.RULES, "llm_gone_total"),
    "no pod": (
        prometheus("sidecars", vector(({**TARGET, "pod": ""}, STARTED))),
        Link.LABELS,
        "no label pod",
    ),
    "rules that merge clusters": (in_a_cluster_with_older_rules, Link.LABELS, "cluster=eu"),
    "rule fails": (every_rule(health="err", lastError="many-to-many"), Link.EVALUATION, "many-to-many"),
    "overdue": (every_rule(lastEvaluation="2026-09-21T14:00:00Z"), Link.EVALUATION, "a minute or more"),
    "silent watchdog": (every_rule(state="inactive"), Link.WATCHDOG, "vector(1)"),
    "alertmanager gone": (alertmanager("status", NO_ANSWER), Link.ALERTMANAGER, "--alertmanager.url"),
    "no alertmanager known": (prometheus("alertmanagers", api({"activeAlertmanagers": []})), Link.SENT, "knows no"),
    "alerts elsewhere": (alertmanager("alerts", told("[]")), Link.SENT, "does not have it"),
    "receivers send nothing": (routed(receivers=[{"name": "queue-page"}]), Link.ROUTES, "queue-page"),
    "no templates": (routed(templates=[]), Link.TEMPLATES, "llm.tmpl"),
    "template missing": (lambda e: setattr(e, "template_texts", ("",)), Link.TEMPLATES, "llm.headline"),
    "refused": (
        alertmanager(
            "metrics", told(COUNTED + 'alertmanager_notification_requests_failed_total{integration="slack"} 3\n')
        ),
        Link.DELIVERY,
        "slack failed: 3",
    ),
    "test page late": (drilled(COUNTED), Link.DELIVERY, "not sent by pagerduty, slack, webhook within 20 s"),
    "test page failed": (
        drilled(COUNTED + 'alertmanager_notifications_failed_total{integration="slack"} 1\n'),
        Link.DELIVERY,
        "failed by slack",
    ),
    "dead runbook": (opened("runbooks/LLMQueueBurn", NO_ANSWER), Link.RUNBOOKS, "1 of 31"),
    "lean beside dashboards": (lean_beside_dashboards, Link.DASHBOARDS, "2 panels of 1 dashboards"),
    "lean beside rules": (lean_beside_rules, Link.RULES, "1 rules read what it leaves out: OurSlowTokens"),
    "dead dashboards": (opened("grafana", NO_ANSWER), Link.DASHBOARDS, "--grafana-base"),
    "unknown dashboard": (opened("uid/llm-fleet", Reply("", 404)), Link.DASHBOARDS, "llm-fleet"),
    "clock": (ahead, Link.CLOCK, "differ by 120 s"),
    "clock of one pod": (
        prometheus("ahead", vector((TARGET, 0.02), ({**TARGET, "pod": "llama-7"}, -3600.0))),
        Link.CLOCK,
        "the clock of llama-7 is 3600 s behind Prometheus' -> set the clock of its node",
    ),
    "clocks of pods": (
        prometheus("ahead", vector((TARGET, 7.0), ({**TARGET, "pod": "llama-7"}, 90.0))),
        Link.CLOCK,
        "the clock of llama-7 is 90 s ahead of Prometheus', and those of 1 others are off",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_link_is_named_alone_with_what_to_do(name: str) -> None:
    change, link, words = BREAKS[name]
    evidence = sound()
    change(evidence)

    assert states(evidence)[State.BROKEN] == [link.label]
    assert words in said(evidence, link)


def test_the_links_behind_a_broken_one_are_unknown_and_say_so() -> None:
    evidence = sound()
    without_sidecar(evidence)
    found = {one.link: [cause.label for cause in one.follows] for one in examine(evidence) if one.follows}

    assert found == {
        link: ["sidecar"]
        for link in (Link.READY, Link.TRAFFIC, Link.CLIENTS, Link.COUNTED, Link.LIMITS, Link.SCRAPE, Link.LABELS)
    } | {Link.LABELS: ["sidecar"]}


@pytest.mark.parametrize("reason", STOPS)
def test_an_engine_that_is_no_longer_asked_for_usage_is_named(reason: str) -> None:
    """As long as it is not: its split may come another way, so that nothing is broken by that alone."""
    found = []
    for value in (1, 0):
        evidence = sound()
        on_page("llm_engine_up 1", f'llm_engine_up 1\nllm_sidecar_usage_stopped{{reason="{reason}"}} {value}')(evidence)
        found.append((STOPS[reason] in said(evidence, Link.REPORTS), states(evidence)[State.BROKEN]))

    assert found == [(True, []), (False, [])]


def test_answers_that_prove_no_end_are_named_and_no_fault() -> None:
    """An engine that sends no finish reason is never paged for it, and a reader of its numbers is told."""
    evidence = sound()
    proofs = 'llm_answer_proofs_total{api="openai_chat",proof="unproved"} 7\nllm_answer_proofs_total{api="ollama",proof="marked"} 9'
    on_page("llm_engine_up 1", f"llm_engine_up 1\n{proofs}")(evidence)
    (found,) = [one for one in examine(evidence) if one.link is Link.COUNTED]

    assert (found.state, found.said.endswith("unproved: 7 of openai_chat")) == (State.OK, True)


# --- one spelling --------------------------------------------------------------------------------------------------------


def test_the_shipped_rules_are_read_as_they_are() -> None:
    """The group of pages exists, each metric that a rule reads is declared, and the bypass has the alert's threshold."""
    rules = [rule for group in groups() for rule in group["rules"]]
    (bypassed,) = [rule["query"] for rule in rules if rule["name"] == "LLMSidecarBypassed"]

    assert sum(expected().counts.values()) == len(rules)
    assert PAGES_GROUP in {group["name"] for group in groups()}
    assert undeclared({name for rule in rules for name in metrics_in(rule["query"])}) == []
    assert bypassed.endswith(f"< {LEAST_SEEN}")


@pytest.mark.parametrize(("text", "value"), [("15s", 15.0), ("1m30s", 90.0), ("500ms", 0.5), ("0s", 0.0)])
def test_a_duration_is_read_in_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


def test_without_a_proxy_traffic_is_no_fault_and_what_spans_leave_out_is_said() -> None:
    """No client can send to a port that is not open. A doctor finds whether requests come as spans, and says that only those that ended
    well do.
    """
    by_spans = sound()
    on_page("llm_engine_traffic_seen_ratio 1\n", "llm_sidecar_without_proxy 1\n")(by_spans)
    by_spans.traffic = NO_ANSWER
    mute = sound()
    assert by_spans.page is not None
    mute.page = told("\n".join(line for line in by_spans.page.body.decode().splitlines() if "attribution" not in line))

    assert states(by_spans)[State.OK] == [link.label for link in Link]
    assert said(by_spans, Link.TRAFFIC).startswith("no port is open for traffic (--no-proxy)")
    assert "So objectives hold on what succeeded." in said(by_spans, Link.CLIENTS)
    assert said(mute, Link.CLIENTS).startswith(
        "no span of a request has come -> start the engine with the flags of docs/no_proxy.md"
    )


def of_an_engine(kind: str, *lines: str) -> Evidence:
    """A sidecar without traffic, with an engine of this kind ("" if it is not recognised), and these lines on its page."""
    evidence = sound()
    assert evidence.page is not None
    info = f'llm_engine_info{{engine="{kind}",version="1"}} 1'
    kept = [
        line
        for line in evidence.page.body.decode().splitlines()
        if not line.startswith(("llm_engine_info", "llm_phase_attribution", "llm_sidecar_spans", "llm_engine_traffic"))
    ]
    evidence.page = told("\n".join((*kept, *([info] if kind else []), "llm_sidecar_without_proxy 1", *lines, "")))
    return evidence


CAME = ('llm_sidecar_spans_total{result="taken"} 6', 'llm_sidecar_spans_total{result="unknown"} 2')
COUNTED_ONE = 'llm_phase_attribution_total{lane="chat",source="engine",reason="span_alone"} 7'


def test_spans_that_count_nothing_are_told_with_their_reason_and_not_with_flags_that_are_set() -> None:
    """The flags are right where spans come: then the kind is not known, or is none whose spans state requests."""
    found = {
        (kind, lines): said(of_an_engine(kind, *lines), Link.CLIENTS)
        for kind in ("", "ollama", "vllm")
        for lines in (CAME, (), (COUNTED_ONE,))
    }
    none = "8 spans came, and none states a whole request"
    unknown, unable = "The engine's kind is not known: ", "The spans of Ollama do not state requests"

    assert found["", CAME].startswith(f"{none}. {unknown}")
    assert "set engine.kind. -> docs/no_proxy.md says" in found["", CAME]
    assert found["ollama", CAME].startswith(f"{none}. {unable}")
    assert found["vllm", CAME].startswith(f"{none} -> start the engine with the flags")
    assert {found[kind, ()].partition(" -> ")[0] for kind in ("", "ollama", "vllm")} == {
        "no span of a request has come"
    }
    assert [unknown in found[kind, (COUNTED_ONE,)] for kind in ("", "vllm")] == [True, False]


@pytest.mark.parametrize("more", [(), ('llm_sidecar_otlp_dropped_total{reason="logs"} 190',), CAME, (COUNTED_ONE,)])
@pytest.mark.parametrize("kind", ["", "vllm", "ollama", "llama_cpp"])
def test_what_to_do_is_whole_sentences_of_any_engine(kind: str, more: tuple[str, ...]) -> None:
    """With advice and without, with a second thing to do and without: no end of a sentence stands before nothing."""
    findings = examine(of_an_engine(kind, *more))
    texts = [text for one in findings for text in (one.said, one.do) if text]

    assert [text for text in texts if re.search(r"[.;,:] *[.;,:]|[ ;,:]$|^[ .;,:]|  ", text)] == []
    reports = next(one.do for one in findings if one.link is Link.REPORTS)
    assert "send 20 requests within five minutes" in reports
    assert more != (COUNTED_ONE,) or "--" not in reports, "what the engine told shows that the flag is set"
