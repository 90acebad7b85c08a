"""The same rules on VictoriaMetrics: Debian's vmalert takes the files, evaluates them, fills in the words and pages through
a real Alertmanager with the shipped routes.

Durations are a fifteenth of the shipped ones, so that a page takes seconds. Series are pushed, as a scrape a second would bring them.
"""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sidecar.commands.demo.shipped import FASTEST, find
from sidecar.commands.export.rules.rule import scaled
from sidecar.commands.export.shipped_files import DASHBOARD_RULES
from tests.alert_rules.syntax import FILES, FOLDER
from tests.grafana.boards import UIDS, targets, with_durations
from tests.support.alertmanager import running_alertmanager
from tests.support.ports import free_port
from tests.support.sink import Sink, listening_sink
from tests.support.tools import need_tool


pytestmark = [pytest.mark.live, pytest.mark.timed]

LANE = 'namespace="vm",job="llm",model="small",lane="chat",objective="ttft"'
ROOT = 'namespace="vm",job="llm",pod="a",phase="prefill",cause="prefill_cost"'
HEALTHY_SECONDS, BROKEN_SECONDS, PATIENCE_SECONDS = 15, 30, 60
"""Together below the time limit of a test: what never comes fails by itself, and not as a machine that was busy."""
PAGER = "/prefill/page"
TAKEN = (*FILES, DASHBOARD_RULES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rule files as the command writes them for vmalert, with shorter durations."""
    made = tmp_path_factory.mktemp("vmalert")
    command = [sys.executable, "-m", "sidecar", "export", "rules", "--no-keep-firing", "--classic-histograms"]
    subprocess.run([*command, f"--out={made}"], check=True, capture_output=True, timeout=60, cwd=FOLDER.parent)
    for name in TAKEN:
        (made / name).write_text(scaled((made / name).read_text(), FASTEST.factor))
    return made


class Servers(NamedTuple):
    """VictoriaMetrics, the vmalert that reads and writes it, and what the Alertmanager behind it has sent."""

    store_url: str
    alert_url: str
    sink: Sink


@pytest.fixture(scope="module")
def servers(folder: Path) -> Iterator[Servers]:
    store, alert = (f"127.0.0.1:{free_port()}" for _ in range(2))
    kept = [f"-storageDataPath={folder / 'data'}", "-search.latencyOffset=0s", "-memory.allowedBytes=256MB"]
    asked = [f"-rule={folder / name}" for name in TAKEN]
    asked += [f"-{use}.url=http://{store}" for use in ("datasource", "remoteRead", "remoteWrite")]
    asked += ["-remoteWrite.flushInterval=200ms", "-datasource.queryStep=1s"]
    shipped = find(FASTEST)
    assert shipped is not None
    with ExitStack() as stack, (folder / "log").open("wb") as log:
        sink = stack.enter_context(listening_sink())
        told = stack.enter_context(running_alertmanager(shipped.routes(sink.url, folder), folder))
        asked.append(f"-notifier.url={told.url}")
        for program, address, flags in (("victoria-metrics", store, kept), ("vmalert", alert, asked)):
            command = [str(need_tool(program)), f"-httpListenAddr={address}", *flags]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait, 10)
            stack.callback(process.kill)
            _wait_until_up(f"http://{address}/health")
        yield Servers(f"http://{store}", f"http://{alert}", sink)


def _wait_until_up(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _push(store: str, second: int, misses: float) -> None:
    values = {
        f'llm_slo_requests_total{{{LANE},pod="a",prompt_bucket="0-512"}}': 30 * second,
        f'llm_slo_allowed_misses_total{{{LANE},pod="a",prompt_bucket="0-512"}}': 1.5 * second,
        f'llm_slo_misses_total{{{LANE},pod="a",prompt_bucket="0-512"}}': misses,
        f'llm_slo_root_misses_total{{{LANE},pod="a",phase="prefill"}}': misses,
        f'llm_slo_root_misses_total{{{LANE},pod="a",phase="queue"}}': 0,
        'llm_slo_root_cause_misses_total{namespace="vm",job="llm",model="small",pod="a",phase="prefill",cause="prefill_cost"}': misses,
        f'llm_incident_size_ratio{{{ROOT},per="token"}}': 2.2,
        f"llm_incident_confidence_ratio{{{ROOT}}}": 0.9,
        'llm_sidecar_build_info{namespace="vm",job="llm",pod="a",instance="a:9901",version="1"}': 1,
    }
    body = "\n".join(f"{series} {value}" for series, value in values.items())
    urllib.request.urlopen(f"{store}/api/v1/import/prometheus", data=body.encode(), timeout=5).close()


def _firing(alert: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{alert}/api/v1/alerts", timeout=5) as answer:
        told: list[dict[str, Any]] = json.load(answer)["data"]["alerts"] or []
    return [one for one in told if one["state"] == "firing" and one["labels"].get("severity") == "page"]


def _plays(servers: Servers) -> Iterator[float]:
    """A lane that is well, then misses nearly all for half a minute, and is well again: a second at each step. Yields the
    seconds since it broke.
    """
    misses, second = 0.0, 0
    began = time.monotonic()
    while second < HEALTHY_SECONDS + BROKEN_SECONDS + PATIENCE_SECONDS:
        second += 1
        misses += 28 if HEALTHY_SECONDS < second <= HEALTHY_SECONDS + BROKEN_SECONDS else 0
        _push(servers.store_url, second, misses)
        time.sleep(max(0.0, began + second - time.monotonic()))
        yield second - HEALTHY_SECONDS


def test_vmalert_pages_the_root_in_words_once_and_tells_its_end(servers: Servers) -> None:
    """Nothing while all is well; then one page at the pager of the root, and that it is over."""
    pages: dict[str, dict[str, Any]] = {}
    for broken_seconds in _plays(servers):
        found = _firing(servers.alert_url)
        assert broken_seconds > 0 or not found
        pages |= {one["labels"]["alertname"]: one for one in found}
        if any(told.body["status"] == "resolved" for told in servers.sink.at(PAGER)):
            break

    (page,) = pages.values()
    assert page["labels"]["alertname"] == "LLMPrefillBurn"
    assert page["annotations"]["summary"].startswith("prefill (prefill_cost 2.2x): lane chat of small")
    assert (page["annotations"]["cause"], page["annotations"]["confidence"]) == ("prefill_cost", "0.90")
    assert [told.body["status"] for told in servers.sink.at(PAGER)] == ["firing", "resolved"]
    others = {told.path for told in servers.sink.notifications if told.path.endswith("/page")} - {PAGER}
    assert others == set()


def test_every_query_of_the_dashboards_is_understood(servers: Servers, folder: Path) -> None:
    """Written without native histograms, whose functions it does not have."""
    command = [
        sys.executable,
        "-m",
        "sidecar",
        "export",
        "dashboards",
        "--classic-histograms",
        f"--out={folder / 'boards'}",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=FOLDER.parent)
    refused = []
    for uid in UIDS:
        for panel, target in targets(json.loads((folder / "boards" / "dashboards" / f"{uid}.json").read_text())):
            query = re.sub(r"\$\w+", ".+", with_durations(target["expr"]))
            asked = urllib.parse.urlencode({"query": query})
            try:
                urllib.request.urlopen(f"{servers.store_url}/api/v1/query?{asked}", timeout=10).close()
            except urllib.error.HTTPError as error:
                refused.append(f"{panel['title']}: {error.read().decode()}")

    assert refused == []
