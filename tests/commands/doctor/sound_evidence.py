"""The evidence of a sound chain, as the servers of one would answer; a scenario changes one answer."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.commands.asking import Reply
from sidecar.commands.doctor import expected_rules
from sidecar.commands.doctor.gathered import ConfigCheck, Evidence
from sidecar.commands.doctor.page_links import api_link
from sidecar.commands.export.shipped_files import ALERT_RULES, DASHBOARD_RULES, NothingShippedError, shipped
from sidecar.commands.inject.audit import Audit
from sidecar.config.quick_yaml import QuickDumper, read_yaml
from tests.support.shipped_rules import shipped_rules


NOW = 1_790_000_000.0
STARTED = NOW - 3600.0
TARGET = {"namespace": "llm", "job": "llama", "pod": "llama-0", "instance": "10.0.0.7:9901"}
PAGE = f"""\
process_start_time_seconds {STARTED}
process_max_fds 65536
llm_sidecar_build_info{{version="0.2.0",python_version="3.11"}} 1
llm_sidecar_config_last_reload_successful 1
llm_sidecar_last_scrape_age_seconds 12
llm_sidecar_budget_limit{{budget="requests"}} 1024
llm_sidecar_budget_used{{budget="requests"}} 3
llm_engine_up 1
llm_engine_info{{engine="vllm",version="0.33.0"}} 1
llm_engine_traffic_seen_ratio 1
llm_phase_attribution_total{{lane="chat",source="engine",reason="in_band"}} 100
llm_requests_received_total{{model="llama",lane="chat"}} 100
llm_slo_threshold_seconds{{lane="chat",prompt_bucket="0-512",objective="ttft",phase="",le="",tier=""}} 1
llm_passthrough_requests_total{{outcome="ok"}} 4
"""
COUNTED = """\
alertmanager_notifications_total{integration="pagerduty"} 3
alertmanager_notifications_total{integration="slack"} 3
alertmanager_notifications_total{integration="webhook"} 3
alertmanager_notification_requests_total{integration="pagerduty"} 3
alertmanager_notification_requests_total{integration="slack"} 3
alertmanager_notification_requests_total{integration="webhook"} 3
"""


def told(body: str | bytes, where: str = "http://server") -> Reply:
    """A good answer now."""
    text = body if isinstance(body, bytes) else body.encode()
    return Reply(where, 200, text, date="Mon, 21 Sep 2026 14:13:20 GMT", at=NOW + 0.5)


def api(data: Any) -> Reply:
    """A good answer of Prometheus' API."""
    return told(json.dumps({"status": "success", "data": data}))


def vector(*samples: tuple[Mapping[str, str], float]) -> Reply:
    return api({"resultType": "vector", "result": [{"metric": m, "value": [NOW, str(v)]} for m, v in samples]})


@cache
def _groups() -> str:
    """The shipped rules that must be loaded, in the form of `/api/v1/rules`, evaluated two seconds ago."""
    groups = []
    texts = {
        name: text for name, text in shipped_rules().items() if name.startswith("llm-") and name != DASHBOARD_RULES
    }
    for group in [group for text in texts.values() for group in read_yaml(text)["groups"]]:
        rules = [
            {
                "name": rule.get("alert") or rule["record"],
                "type": "alerting" if "alert" in rule else "recording",
                "query": rule["expr"],
                "labels": rule.get("labels", {}),
                "annotations": rule.get("annotations", {}),
                "health": "ok",
                "state": "firing" if rule.get("alert") == "Watchdog" else "inactive",
                "alerts": [],
                "lastEvaluation": "2026-09-21T14:13:18.123456789Z",
            }
            for rule in group["rules"]
        ]
        groups.append({"name": group["name"], "interval": 15, "evaluationTime": 0.01, "rules": rules})
    return json.dumps(groups)


def groups() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_groups())
    return found


@cache
def _routes() -> str:
    return json.dumps(read_yaml((shipped(ALERT_RULES) / "alertmanager.yml").read_text()))


def routes() -> dict[str, Any]:
    """The shipped routes, aliases resolved."""
    found: dict[str, Any] = json.loads(_routes())
    return found


def status(config: Mapping[str, Any]) -> Reply:
    return told(json.dumps({"config": {"original": yaml.dump(dict(config), Dumper=QuickDumper)}}))


_sound_status = cache(lambda: status(routes()))


def without_shipped_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor's package was built without its rules."""

    def missing(_folder: str) -> Path:
        raise NothingShippedError("no folder")

    expected_rules.expected.cache_clear()
    monkeypatch.setattr(expected_rules, "shipped", missing)


def sound() -> Evidence:
    """Every source was asked, and every link is ok."""
    page = told(PAGE, "http://10.0.0.7:9901/metrics")
    after = replace(page, body=PAGE.replace('outcome="ok"} 4', 'outcome="ok"} 5').encode())
    links = {
        link
        for group in groups()
        for rule in group["rules"]
        for key in ("runbook_url", "dashboard_url")
        if (link := rule["annotations"].get(key, "").partition("?")[0])
    }
    return Evidence(
        explicit=frozenset({"sidecar.url", "proxy.url", "prometheus.url", "alertmanager.url"}),
        sidecar_url="http://10.0.0.7:9901",
        attached=Audit(["Deployment llama"], pods_attached=1, pods=1),
        config=ConfigCheck("sidecar.yml"),
        healthy=told("healthy\n"),
        ready=told("ready\n"),
        page=page,
        page_after=after,
        diagnosis=told(json.dumps({"diagnoses": [{"hints": []}]})),
        traffic=told("{}", "http://10.0.0.7:8900/v1/models"),
        prometheus={
            "now": api({"resultType": "scalar", "result": [NOW, str(NOW + 0.5)]}),
            "sidecars": vector((TARGET, STARTED)),
            "falling_starts": vector(),
            "scraped_at": vector((TARGET, NOW - 3.0)),
            "ahead": vector((TARGET, 0.02)),
            "kept": vector(
                *(({"__name__": line.partition("{")[0].partition(" ")[0]}, 1.0) for line in PAGE.splitlines())
            ),
            "scraped": vector((TARGET, 3000.0)),
            "targets": api(
                {
                    "activeTargets": [
                        {
                            "labels": TARGET,
                            "health": "up",
                            "lastError": "",
                            "scrapeUrl": "http://10.0.0.7:9901/metrics",
                            "scrapePool": "llama",
                            "scrapeInterval": "15s",
                        }
                    ]
                }
            ),
            "rules": api({"groups": groups()}),
            "alertmanagers": api({"activeAlertmanagers": [{"url": "http://alertmanager:9093/api/v2/alerts"}]}),
            "config": api({"yaml": "scrape_configs: [{job_name: llama, sample_limit: 10000}]"}),
            "metrics": told("prometheus_notifications_sent_total 5\n"),
        },
        alertmanager={
            "status": _sound_status(),
            "alerts": told(json.dumps([{"labels": {"alertname": "Watchdog"}, "status": {"state": "active"}}])),
            "silences": told("[]"),
            "metrics": told(COUNTED),
        },
        template_texts=((shipped(ALERT_RULES) / "templates" / "llm.tmpl").read_text(),),
        opened={link: told("") for one in links for link in (one, api_link(one, None))},
    )
