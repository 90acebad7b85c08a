"""Each link of a real chain is broken in turn, and the doctor names it, and nothing that is not broken.

Real are the sidecar, Prometheus and Alertmanager with the shipped rules and routes; the engine is simulated, and receivers and
Grafana are doubles. One link is not broken here: `clock`, because all parts run by the clock of one machine. `test_examination.py`
breaks it on doubles.
"""

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sidecar.commands.doctor.drill import TEST_JOB
from sidecar.commands.doctor.links import Link
from sidecar.commands.inject.attaching import Settings, attach_all
from sidecar.commands.inject.manifest_text import read, written
from tests.commands.doctor.stack import Chain, Change, Examined, Plan, Surroundings, active_tests, attached, doctor
from tests.support.background import background
from tests.support.grafana import grafana
from tests.support.ports import free_port
from tests.support.sidecar_process import SidecarProcess, running_sidecar
from tests.support.sink import listening_sink


pytestmark = [pytest.mark.live, pytest.mark.timed, pytest.mark.timeout(240)]

MANIFEST = Path(__file__).parents[1] / "inject" / "manifests" / "two-services.yaml"
ENOUGH = 130
"""Requests: the share of traffic that is seen is known from 100 on."""
CONFIG = """\
engine: {{url: "http://127.0.0.1:1"}}
lanes: {{default: {lane}}}
objectives: {{chat: {{preset: interactive}}}}
"""


@dataclass(frozen=True, slots=True)
class Ward:
    """One sound sidecar with traffic, and the surroundings."""

    around: Surroundings
    sidecar: SidecarProcess
    config: Path


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    folder = tmp_path_factory.mktemp("doctor")
    config = folder / "sidecar.yml"
    config.write_text(CONFIG.format(lane="chat"))
    with background() as thread, listening_sink() as sink, grafana() as grafana_url:
        around = Surroundings(thread, sink, grafana_url, folder)
        with attached(thread, folder, through=ENOUGH) as sidecar:
            yield Ward(around, sidecar, config)


@pytest.fixture(scope="module")
def sound(ward: Ward) -> Iterator[Chain]:
    with ward.around.chain(ward.sidecar) as chain:
        yield chain


def test_on_a_sound_chain_every_link_is_ok(ward: Ward, sound: Chain, tmp_path: Path) -> None:
    """With every flag nothing is unknown either, and the TEST page arrives and is resolved, long before it would end by itself."""
    documents, manifests = read(MANIFEST.read_text(), MANIFEST.name), tmp_path / "attached.yaml"
    attach_all(documents, Settings(every=True))
    manifests.write_text(written(documents))
    flags = (f"--config.file={ward.config}", f"--manifests={manifests}", "--strict")
    before = sound.examine(*flags, but=["delivery"])
    found = doctor(*sound.flags, *flags, "--send-test-page=queue")
    told = ward.around.sink.wait_for("/queue/page", about="TEST")
    left = active_tests(sound)

    assert (before.broken, before.unknown) == ([], ["delivery"]), json.dumps(before.document, indent=1)
    assert (found.broken, found.unknown, found.exit_code) == ([], [], 0), json.dumps(found.document, indent=1)
    assert "the clocks of 1 pods fit Prometheus'" in found.said("clock")
    jobs = [one["labels"]["job"] for message in told for one in message.body["alerts"]]
    assert ([re.sub(r"-\d+$", "", job) for job in jobs], left) == ([TEST_JOB], [])


# --- links that flags alone break ------------------------------------------------------------------------------------------


def test_a_sidecar_that_is_not_there(sound: Chain) -> None:
    found = sound.examine(f"--sidecar.url=http://127.0.0.1:{free_port()}", until=["sidecar"])

    assert (found.broken, found.exit_code) == (["sidecar"], 1)
    assert "nothing listens there" in found.said("sidecar")


def test_a_traffic_port_of_another_process(ward: Ward, sound: Chain) -> None:
    found = sound.examine(f"--proxy.url={ward.around.grafana_url}", until=["traffic"])

    assert found.broken == ["traffic"]
    assert "this sidecar did not see the request" in found.said("traffic")


def test_a_prometheus_that_is_not_there(sound: Chain) -> None:
    found = sound.examine(f"--prometheus.url=http://127.0.0.1:{free_port()}", until=["prometheus"])

    assert found.broken == ["prometheus"]


def test_a_config_with_an_error_and_a_lane_that_never_pages(sound: Chain, tmp_path: Path) -> None:
    wrong, silent = tmp_path / "wrong.yml", tmp_path / "silent.yml"
    wrong.write_text("engine: {uri: nowhere}\n")
    silent.write_text(CONFIG.format(lane="gold"))
    found = [sound.examine(f"--config.file={file}", until=["config"]) for file in (wrong, silent)]

    assert [one.broken for one in found] == [["config"], ["config"]]
    assert ["engine.uri" in found[0].said("config"), "gold" in found[1].said("config")] == [True, True]


def test_templates_that_no_file_defines(sound: Chain, tmp_path: Path) -> None:
    (tmp_path / "llm.tmpl").write_text('{{ define "llm.title" }}x{{ end }}')
    found = sound.examine(f"--alertmanager.templates={tmp_path}", until=["templates"])

    assert found.broken == ["templates"]
    assert "llm.headline" in found.said("templates")


def test_a_silence_that_holds_pages_back(sound: Chain) -> None:
    now = datetime.now(UTC)  # noqa: TID251  an instant for Alertmanager
    silence = {
        "matchers": [{"name": "phase", "value": "decode", "isRegex": False, "isEqual": True}],
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "createdBy": "test",
        "comment": "for the night",
    }
    url = f"{sound.servers.alertmanager_url}/api/v2/silences"
    request = urllib.request.Request(url, json.dumps(silence).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        name = json.load(answer)["silenceID"]
    found = sound.examine(until=["routes"])
    urllib.request.urlopen(
        urllib.request.Request(f"{url.removesuffix('s')}/{name}", method="DELETE"), timeout=10
    ).close()

    assert found.broken == ["routes"]
    assert "for the night" in found.said("routes")


# --- links that the servers' files break -----------------------------------------------------------------------------------


def without_pod(plan: Plan) -> None:
    del plan.target["labels"]["pod"]


def with_a_label_of_the_page(plan: Plan) -> None:
    plan.target["labels"]["model"] = "llama"


def at_no_port(plan: Plan) -> None:
    plan.target["targets"] = [f"127.0.0.1:{free_port()}"]


def twice(plan: Plan) -> None:
    (one,) = plan.prometheus["scrape_configs"]
    plan.prometheus["scrape_configs"].append(one | {"job_name": "again"})


def with_few_samples(plan: Plan) -> None:
    plan.prometheus["scrape_configs"][0]["sample_limit"] = 50


def with_a_dropped_series(plan: Plan) -> None:
    drop = {"source_labels": ["__name__"], "regex": "llm_slo_misses_total", "action": "drop"}
    plan.prometheus["scrape_configs"][0]["metric_relabel_configs"] = [drop]


def without_alerts(plan: Plan) -> None:
    del plan.rules["llm-alerts.yml"]


def with_a_second_copy(plan: Plan) -> None:
    plan.rules["copy.yml"] = plan.rules["llm-alerts.yml"].replace("name: llm-phase", "name: copy-of-llm-phase")


def with_a_failing_rule(plan: Plan) -> None:
    wrong = "llm_engine_up * on (pod) llm_slo_target_ratio"
    right = r"max by \(cluster, namespace, job, pod\) \(max_over_time\(llm_sidecar_config_last_reload_successful\[\w+\]\)\) == 0"
    plan.rules["llm-alerts.yml"] = re.sub(right, wrong, plan.rules["llm-alerts.yml"])


def with_a_silent_watchdog(plan: Plan) -> None:
    plan.rules["llm-alerts.yml"] = plan.rules["llm-alerts.yml"].replace("vector(1)", "vector(1) > 2")


def without_an_alertmanager(plan: Plan) -> None:
    plan.alertmanager = None


def that_sends_to_none(plan: Plan) -> None:
    del plan.prometheus["alerting"]


def that_sends_elsewhere(plan: Plan) -> None:
    plan.prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{free_port()}"]


def with_an_empty_receiver(plan: Plan) -> None:
    name = plan.receiver("queue-page")["name"]
    plan.receiver("queue-page").clear()
    next(one for one in plan.alertmanager["receivers"] if not one)["name"] = name  # type: ignore[index]


def with_the_routes_of_another_team(plan: Plan) -> None:
    """As the operator's AlertmanagerConfig of another namespace: the root takes all pages, and sends nothing."""
    assert plan.alertmanager is not None
    plan.alertmanager["receivers"].append({"name": "null"})
    inner = plan.alertmanager["route"]
    dog = inner["routes"].pop(0)
    plan.alertmanager["route"] = {
        "receiver": "null",
        "routes": [dog, inner | {"matchers": ['namespace="another"']}],
    }


def with_a_wide_inhibition(plan: Plan) -> None:
    assert plan.alertmanager is not None
    plan.alertmanager["inhibit_rules"].append(
        {"source_matchers": ['severity="none"'], "target_matchers": ['severity="page"'], "equal": ["cluster"]}
    )


def with_an_inhibition_across_lanes(plan: Plan) -> None:
    assert plan.alertmanager is not None
    sides = {
        f"{side}_matchers": [f'phase="{phase}"', 'severity="page"']
        for side, phase in (("source", "prefill"), ("target", "decode"))
    }
    plan.alertmanager["inhibit_rules"].append({**sides, "equal": ["cluster", "namespace", "job"]})


def with_pages_that_wait(plan: Plan) -> None:
    assert plan.alertmanager is not None
    for route in plan.alertmanager["route"]["routes"]:
        for page in route.get("routes", ()):
            page["group_wait"] = "1h"


def with_a_label_lost_on_the_way(plan: Plan) -> None:
    plan.prometheus["alerting"]["alert_relabel_configs"] = [{"regex": "phase", "action": "labeldrop"}]


def without_template_files(plan: Plan) -> None:
    assert plan.alertmanager is not None
    plan.alertmanager["templates"] = []


def with_a_dead_pager(plan: Plan) -> None:
    for receiver in plan.alertmanager["receivers"] if plan.alertmanager else ():
        for webhook in receiver.get("webhook_configs", ()):
            webhook["url"] = f"http://127.0.0.1:{free_port()}/"


def with_dead_runbooks(plan: Plan) -> None:
    text = plan.rules["llm-alerts.yml"]
    plan.rules["llm-alerts.yml"] = text.replace("/runbooks/LLMQueueBurn", "/runbook/LLMQueueBurn")


def with_an_unknown_dashboard(plan: Plan) -> None:
    plan.rules["llm-alerts.yml"] = plan.rules["llm-alerts.yml"].replace("/d/llm-fleet", "/d/llm-lost")


BREAKS: dict[str, tuple[Change, Link, str]] = {
    "no target": (at_no_port, Link.SCRAPE, "connection refused"),
    "two targets": (twice, Link.SCRAPE, "scraped 2 times"),
    "sample limit": (with_few_samples, Link.SCRAPE, "sample_limit"),
    "dropped series": (with_a_dropped_series, Link.SCRAPE, "llm_slo_misses_total"),
    "missing label": (without_pod, Link.LABELS, "has no label pod"),
    "label of the page": (with_a_label_of_the_page, Link.LABELS, "exported_model"),
    "missing rules": (without_alerts, Link.RULES, "LLMQueueBurn"),
    "rules twice": (with_a_second_copy, Link.RULES, "more than once"),
    "failing rule": (with_a_failing_rule, Link.EVALUATION, "LLMConfigReloadFailed"),
    "silent watchdog": (with_a_silent_watchdog, Link.WATCHDOG, "inactive"),
    "no alertmanager": (without_an_alertmanager, Link.ALERTMANAGER, "nothing listens there"),
    "no alerting": (that_sends_to_none, Link.SENT, "knows no Alertmanager"),
    "another alertmanager": (that_sends_elsewhere, Link.SENT, "does not have it"),
    "empty receiver": (with_an_empty_receiver, Link.ROUTES, "queue to 'queue-page'"),
    "routes of another namespace": (with_the_routes_of_another_team, Link.ROUTES, "of namespace another alone"),
    "wide inhibition": (with_a_wide_inhibition, Link.ROUTES, "Watchdog fires, and inhibits"),
    "inhibition across lanes": (
        with_an_inhibition_across_lanes,
        Link.ROUTES,
        "a page of prefill of one lane mutes the page of decode",
    ),
    "pages that wait": (with_pages_that_wait, Link.ROUTES, "wait 3600 s"),
    "label lost on the way": (with_a_label_lost_on_the_way, Link.SENT, "take the label phase off"),
    "no template files": (without_template_files, Link.TEMPLATES, "no template file is configured"),
    "dead pager": (with_a_dead_pager, Link.DELIVERY, "webhook"),
    "dead runbook": (with_dead_runbooks, Link.RUNBOOKS, "1 of"),
    "unknown dashboard": (with_an_unknown_dashboard, Link.DASHBOARDS, "llm-lost"),
}


@pytest.fixture(scope="module")
def examined(ward: Ward) -> dict[str, Examined]:
    """Every break, five chains at a time: most of it is waiting for Prometheus to find Alertmanager."""

    def play(name: str) -> Examined:
        change, link, _ = BREAKS[name]
        with ward.around.chain(ward.sidecar, change) as chain:
            return chain.examine(until=[link.label])

    with ThreadPoolExecutor(5) as pool:
        return dict(zip(BREAKS, pool.map(play, BREAKS), strict=True))


@pytest.mark.parametrize("name", BREAKS)
def test_the_doctor_names_the_broken_link_and_no_other(examined: dict[str, Examined], name: str) -> None:
    _, link, words = BREAKS[name]
    found = examined[name]

    assert (found.broken, found.exit_code) == ([link.label], 1), json.dumps(found.document, indent=1)
    assert words in found.said(link.label)


def test_a_template_that_fails_is_found_by_the_test_page_alone(ward: Ward, tmp_path: Path) -> None:
    """Alertmanager loaded another file than the one that the doctor was shown: only rendering tells."""
    (tmp_path / "other.tmpl").write_text('{{ define "llm.other" }}x{{ end }}')

    def with_another_template(plan: Plan) -> None:
        assert plan.alertmanager is not None
        plan.alertmanager["templates"] = [str(tmp_path / "*.tmpl")]

    with ward.around.chain(ward.sidecar, with_another_template) as chain:
        before = chain.examine(but=["config", "delivery"])
        found = doctor(*chain.flags, "--send-test-page=queue")

    assert (before.broken, found.broken) == ([], ["delivery"]), json.dumps(found.document, indent=1)
    assert "the TEST page failed by" in found.said("delivery")


# --- links that the pod breaks ---------------------------------------------------------------------------------------------


def test_an_engine_that_is_down(ward: Ward, tmp_path: Path) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with running_sidecar(dead, tmp_path, until="/-/healthy") as sidecar, ward.around.chain(sidecar) as chain:
        found = chain.examine(until=["engine"])

    assert found.broken == ["engine"], json.dumps(found.document, indent=1)


def test_an_engine_without_its_flag(ward: Ward, tmp_path: Path) -> None:
    with (
        attached(ward.around.thread, tmp_path, through=ENOUGH, mute=True) as sidecar,
        ward.around.chain(sidecar) as chain,
    ):
        found = chain.examine(until=["engine-reports"])

    assert found.broken == ["engine-reports"], json.dumps(found.document, indent=1)
    assert "--enable-per-request-metrics" in found.said("engine-reports")


def test_clients_that_bypass_and_a_scrape_of_another_process(ward: Ward, tmp_path: Path) -> None:
    """The same second sidecar shows both: half of its engine's requests bypass it, and Prometheus scrapes it in place of ours."""
    with attached(ward.around.thread, tmp_path, through=ENOUGH, past=ENOUGH) as other:
        with ward.around.chain(other) as chain:
            bypassed = chain.examine(until=["clients"])

        def another(plan: Plan) -> None:
            plan.target["targets"] = [f"127.0.0.1:{other.web_port}"]

        with ward.around.chain(ward.sidecar, another) as chain:
            astray = chain.examine(until=["scrape"])

    assert (bypassed.broken, astray.broken) == (["clients"], ["scrape"]), json.dumps(bypassed.document, indent=1)
    share = re.match(r"only (\d+)% ", bypassed.said("clients"))
    assert share is not None
    assert int(share[1]) == pytest.approx(50, abs=5)  # requests that run at a scrape are in one of the two counts alone
    assert "other sidecar process" in astray.said("scrape")


def test_a_sidecar_that_drains(ward: Ward, tmp_path: Path) -> None:
    """It is told to stop, and serves on as a lame duck: it is scraped and measures, but no new traffic should come."""
    long = ("env", "SIDECAR__SHUTDOWN__LAME_DUCK_SECONDS=600", "SIDECAR__SHUTDOWN__GRACE_SECONDS=900")
    with (
        attached(ward.around.thread, tmp_path, through=ENOUGH, wrap=long) as sidecar,
        ward.around.chain(sidecar) as chain,
    ):
        before = chain.examine()
        sidecar.process.send_signal(signal.SIGTERM)
        found = chain.examine(until=["ready"])

    assert (before.broken, found.broken, found.exit_code) == ([], ["ready"], 1), json.dumps(found.document, indent=1)
    assert "shutting down (lame_duck)" in found.said("ready")


def test_few_open_files(ward: Ward, tmp_path: Path) -> None:
    few = ("prlimit", "--nofile=512:512")
    with (
        attached(ward.around.thread, tmp_path, through=ENOUGH, wrap=few) as sidecar,
        ward.around.chain(sidecar) as chain,
    ):
        found = chain.examine(until=["limits"])

    assert found.broken == ["limits"], json.dumps(found.document, indent=1)
    assert "512 open files" in found.said("limits")
