"""Changes that break one link of a sound chain, or leave it unknown; `tests/goldens` has what the doctor then says."""

import json
from collections.abc import Callable
from dataclasses import replace

from sidecar.commands.asking import Reply
from sidecar.commands.doctor.gathered import ConfigCheck, Evidence
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
    target,
    with_config,
)
from tests.commands.doctor.sound_evidence import COUNTED, STARTED, TARGET, api, groups, told, vector


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


def lean_beside_rules(evidence: Evidence) -> None:
    """One of llm-dashboards.yml, and one of the team's own."""
    on_page('python_version="3.11"', LEAN)(evidence)
    own = {**groups()[0]["rules"][0], "name": "OurSlowTokens", "query": "llm_time_to_first_token_seconds_bucket > 0"}
    group = {"name": "ours", "interval": 15, "evaluationTime": 0.01, "rules": [own]}
    prometheus("rules", api({"groups": [*groups(), group]}))(evidence)


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


def line(text: str) -> Callable[[Evidence], None]:
    """The sidecar's page has this line more."""
    return on_page("llm_engine_up 1", f"llm_engine_up 1\n{text}")


def engine_of_the_config(up: str, status: int | None) -> Callable[[Evidence], None]:
    """The engine answers so at the address of the config, which is meant for the pod; the sidecar says `up` of it."""

    def change(evidence: Evidence) -> None:
        on_page("llm_engine_up 1\n", up)(evidence)
        evidence.engine, evidence.engine_where = {"/health": Answer(status)}, "http://e"

    return change


def scraped(age: str) -> Callable[[Evidence], None]:
    """The sidecar's page says this of its last scrape, and no Prometheus is asked."""

    def change(evidence: Evidence) -> None:
        on_page("llm_sidecar_last_scrape_age_seconds 12\n", age)(evidence)
        evidence.prometheus = {}

    return change


LOCKED = Reply("http://am/metrics", 401, failure="asks for a user and a password")
ACCEPTED = COUNTED.replace("} 3", "} 4")
BREAKS: dict[str, Callable[[Evidence], None]] = {
    "config error": with_config(ConfigCheck("a.yml", ("a.yml:1: wrong",))),
    "silent lane": with_config(
        ConfigCheck("a.yml", notes=(Note("lanes_without_objectives", "lanes", ("gold",), "set them"),))
    ),
    "reload refused": on_page("reload_successful 1", "reload_successful 0"),
    "engine down": on_page("llm_engine_up 1", "llm_engine_up 0"),
    "engine without its page": mute_engine,
    "engine without its flag": hints,
    "sidecar gone": without_sidecar,
    "nothing attached": without_sidecar,
    "half attached": on_page("seen_ratio 1", "seen_ratio 0"),
    "sidecar locked": locked,
    "another server": on_page("llm_sidecar_build_info", "node_build_info"),
    "not ready": lambda e: setattr(e, "ready", Reply("", 503, b"shutting down (lame_duck)")),
    "traffic past it": past_the_sidecar,
    "bypassed": on_page("seen_ratio 1", "seen_ratio 0.5"),
    "uncounted": on_page("llm_engine_up 1", 'llm_engine_up 1\nllm_uncounted_inference_total{kind="event_stream"} 3'),
    "few files": on_page("max_fds 65536", "max_fds 1024"),
    "full": on_page('used{budget="requests"} 3', 'used{budget="requests"} 1020'),
    "prometheus gone": prometheus("now", NO_ANSWER),
    "other process": prometheus("sidecars", vector((TARGET, STARTED - 99))),
    "never scraped": prometheus("sidecars", vector()),
    "target refused": down(REFUSED_BY),
    "target cut off": down(TIMED_OUT, container="sidecar", at="10.0.0.7:9902"),
    "target elsewhere": down("server returned HTTP status 404 Not Found", endpoint="admin", at="b:80"),
    **{
        f"target: {error}": down(f'Get "http://limit-refused:9901/metrics": {error}')
        for error in (
            "dial tcp: lookup llama-0: no such host",
            "dial tcp 10.0.0.7:9901: connect: network is unreachable",
            "EOF",
            "read tcp 10.0.0.1:5->10.0.0.7:9901: read: connection reset by peer",
            "server returned HTTP status 503 Service Unavailable",
            'malformed HTTP response "\\x15\\x03"',
            "body size limit exceeded",
            'expected a valid start token, got "<"',
            'received unsupported Content-Type "text/html"',
            "server returned HTTP status 403 Forbidden",
            "server returned HTTP status 421 Misdirected Request",
        )
    },
    "target of a proxy": down(REFUSED_BY, **PROXY),
    "twice": prometheus("sidecars", vector((TARGET, STARTED), ({**TARGET, "job": "b"}, STARTED))),
    "too seldom": target(scrapeInterval="1m30s"),
    "near sample_limit": prometheus("scraped", vector((TARGET, 9000.0))),
    "series dropped": prometheus("kept", vector()),
    "rule missing": prometheus("rules", api({"groups": groups()[1:]})),
    "no rules": prometheus("rules", api({"groups": []})),
    "rules of another version": every_rule(query="llm_gone_total"),
    "no pod": prometheus("sidecars", vector(({**TARGET, "pod": ""}, STARTED))),
    "rules that merge clusters": in_a_cluster_with_older_rules,
    "rule fails": every_rule(health="err", lastError="many-to-many"),
    "overdue": every_rule(lastEvaluation="2026-09-21T14:00:00Z"),
    "silent watchdog": every_rule(state="inactive"),
    "alertmanager gone": alertmanager("status", NO_ANSWER),
    "no alertmanager known": prometheus("alertmanagers", api({"activeAlertmanagers": []})),
    "alerts elsewhere": alertmanager("alerts", told("[]")),
    "receivers send nothing": routed(receivers=[{"name": "queue-page"}]),
    "no templates": routed(templates=[]),
    "template missing": lambda e: setattr(e, "template_texts", ("",)),
    "refused": alertmanager(
        "metrics", told(COUNTED + 'alertmanager_notification_requests_failed_total{integration="slack"} 3\n')
    ),
    "test page late": drilled(COUNTED),
    "test page failed": drilled(COUNTED + 'alertmanager_notifications_failed_total{integration="slack"} 1\n'),
    "dead runbook": opened("runbooks/LLMQueueBurn", NO_ANSWER),
    "lean beside rules": lean_beside_rules,
    "dead dashboards": opened("grafana", NO_ANSWER),
    "unknown dashboard": opened("uid/llm-fleet", Reply("", 404)),
    "clock": ahead,
    "clock of one pod": prometheus("ahead", vector((TARGET, 0.02), ({**TARGET, "pod": "llama-7"}, -3600.0))),
    "clocks of pods": prometheus("ahead", vector((TARGET, 7.0), ({**TARGET, "pod": "llama-7"}, 90.0))),
}
SHOWS_NOTHING: dict[str, Callable[[Evidence], None]] = {
    "no template's text": lambda e: setattr(e, "template_texts", None),
    "dashboards locked": opened("/api/dashboards", Reply("", 401)),
    "no counter of Alertmanager": alertmanager("metrics", told("")),
    "no share of the traffic": on_page("llm_engine_traffic_seen_ratio 1\n", ""),
    "no engine's times": on_page(
        'lane="chat",source="engine",reason="in_band"', 'lane="chat",source="estimate",reason="x"'
    ),
    "rules not evaluated yet": every_rule(health="unknown"),
    "Alertmanagers in HTML": prometheus("alertmanagers", told("<html>")),
    "Prometheus' config cut off": prometheus("config", api({"yaml": "{"})),
    "Alertmanager's config cut off": alertmanager("status", told(json.dumps({"config": {"original": "{"}}))),
    "Alertmanager's config too deep": alertmanager("status", told(json.dumps({"config": {"original": "[" * 2_000}}))),
    "a matcher that cannot be read": routed(route={"receiver": "queue-page", "routes": [{"matchers": [r'a=~"\pL+"']}]}),
    "the page cut off": on_page("llm_engine_up 1", "llm_engine_up {"),
}
"""An answer of which nothing can be told: its link is neither ok nor broken."""
TOLD: dict[str, Callable[[Evidence], None]] = {
    "logs come from an exporter": line('llm_sidecar_otlp_dropped_total{reason="logs"} 190'),
    "in a cluster": in_a_cluster,
    **{f"usage is not asked for: {why}": line(f'llm_sidecar_usage_stopped{{reason="{why}"}} 1') for why in STOPS},
    "usage is asked for again": line(f'llm_sidecar_usage_stopped{{reason="{min(STOPS)}"}} 0'),
    "answers that prove no end": line('llm_answer_proofs_total{api="openai_chat",proof="unproved"} 7'),
    "engine not asked yet, and silent": engine_of_the_config("", None),
    "engine not asked yet, and loading": engine_of_the_config("", 503),
    "engine not asked yet, and well": engine_of_the_config("", 200),
    "engine down, and silent": engine_of_the_config("llm_engine_up 0\n", None),
    "engine down for the sidecar alone": engine_of_the_config("llm_engine_up 0\n", 200),
    "something scrapes": scraped("llm_sidecar_last_scrape_age_seconds 12\n"),
    "something scraped": scraped("llm_sidecar_last_scrape_age_seconds 75\n"),
    "nothing ever scraped": scraped(""),
    "test page refused": drilled(COUNTED, posted=Reply("http://am", 400, b"bad")),
    "test page not known to be taken": drilled(COUNTED, posted=NO_ANSWER),
    "test page lost with its end": drilled(COUNTED, posted=NO_ANSWER, resolved=NO_ANSWER),
    "test page not counted": drilled(COUNTED, before=LOCKED, after=LOCKED),
    "test page not counted any more": drilled(ACCEPTED, after=NO_ANSWER),
    "test page sent": drilled(ACCEPTED),
    "test page late and not ended": drilled(COUNTED, resolved=NO_ANSWER),
    "test page sent and not ended": drilled(ACCEPTED, resolved=NO_ANSWER),
    "test page and its end refused": drilled(COUNTED, posted=Reply("", 400), resolved=Reply("", 400)),
}
"""Answers of which the doctor says more than that a link is broken or not."""
