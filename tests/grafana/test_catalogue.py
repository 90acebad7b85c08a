"""The committed files are what the code writes, and every metric of the catalogue is on a dashboard or in a rule."""

import re

from grafana.__main__ import files
from sidecar.config.quick_yaml import read_yaml
from sidecar.metrics.catalogue import (
    CATALOGUE,
    EXPORTED_SPANS_IN_FLIGHT,
    INCIDENT_SHOWN_AGE_SECONDS,
    INCIDENT_SIZE_RATIO_HIGH,
    INCIDENT_SIZE_RATIO_LOW,
    OTLP_DROPPED_TOTAL,
    STREAM_EVENTS_PER_READ,
    USAGE_STOPPED,
    WITHOUT_PROXY,
)
from tests.grafana.boards import GRAFANA, UIDS, board, targets


def _used() -> set[str]:
    text = " ".join(target["expr"] for uid in UIDS for _, target in targets(board(uid)))
    rules = " ".join(
        (GRAFANA.parent / "alert_rules" / name).read_text() for name in ("llm-recording.yml", "llm-alerts.yml")
    )
    return set(re.findall(r"(?<![\w:])llm_\w+", text + rules))


def test_writing_them_again_changes_nothing() -> None:
    """`python -m grafana`: byte for byte, and no file that the code no longer writes."""
    made = files()

    committed = [*(GRAFANA / "dashboards").glob("*.json"), *(GRAFANA / "canary").iterdir()]
    assert set(made) == {str(path.relative_to(GRAFANA)) for path in committed}
    assert [name for name, text in made.items() if (GRAFANA / name).read_text() != text] == []


READ_INSIDE = {
    STREAM_EVENTS_PER_READ.name: "the signs of a pod (`observe/`)",
    INCIDENT_SHOWN_AGE_SECONDS.name: "the diagnosis, which tells when misses last showed a root",
    INCIDENT_SIZE_RATIO_LOW.name: "the diagnosis, which tells the interval of a size",
    INCIDENT_SIZE_RATIO_HIGH.name: "as above",
    OTLP_DROPPED_TOTAL.name: "the doctor, which tells how spans are sent alone",
    USAGE_STOPPED.name: "the doctor and the status page, which tell why the engine is not asked for usage",
    WITHOUT_PROXY.name: "the doctor, which then asks for spans and not for traffic",
    EXPORTED_SPANS_IN_FLIGHT.name: "a person who compares made with acknowledged and dropped: the rest is here",
}
"""Metrics that no dashboard and no rule reads, with their reader."""


def test_every_metric_is_looked_at() -> None:
    """A metric that nothing reads costs all and is never seen."""
    used = _used()
    unseen = {
        metric.name
        for metric in CATALOGUE
        if not {metric.name, *(f"{metric.name}_{suffix}" for suffix in ("bucket", "sum", "count"))} & used
    }

    assert unseen == {*READ_INSIDE}


def test_nothing_is_used_that_the_catalogue_does_not_have() -> None:
    """Dashboards and rules alike."""
    exposed = {metric.name for metric in CATALOGUE} | {
        f"{metric.name}_{suffix}" for metric in CATALOGUE for suffix in ("bucket", "sum", "count")
    }
    recorded = {name.partition(":")[2].split(":")[0] for name in _recorded()}

    assert _used() - exposed - recorded == set()


def _recorded() -> list[str]:
    rules = read_yaml((GRAFANA.parent / "alert_rules" / "llm-recording.yml").read_text())
    return [rule["record"] for group in rules["groups"] for rule in group["rules"]]


def test_the_provisioned_data_source_leads_from_an_exemplar_to_its_trace() -> None:
    """By the label that the exposition writes."""
    sources = read_yaml((GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text())["datasources"]
    leads = sources[0]["jsonData"]["exemplarTraceIdDestinations"]

    assert leads == [{"name": "trace_id", "datasourceUid": "tempo"}]
    assert "tempo" in {source["uid"] for source in sources}
