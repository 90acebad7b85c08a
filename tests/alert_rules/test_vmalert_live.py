"""The same rules on VictoriaMetrics: Debian's vmalert takes the files, evaluates them, fills in the words and pages.

Durations are a fifteenth of the shipped ones, so that a page takes seconds. Series are pushed, as a scrape a second would bring them.
"""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from alert_rules.rule import scaled
from sidecar.demo.shipped import FASTEST
from tests.alert_rules.syntax import FILES, FOLDER
from tests.support.ports import free_port
from tests.support.tools import need_tool


pytestmark = pytest.mark.live

LANE = 'namespace="vm",job="llm",model="small",lane="chat",objective="ttft"'
HEALTHY_SECONDS, PATIENCE_SECONDS = 15, 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rule files as the command writes them for vmalert, with shorter durations."""
    made = tmp_path_factory.mktemp("vmalert")
    command = [sys.executable, "-m", "alert_rules", "--no-keep-firing", f"--out={made}"]
    subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=FOLDER.parent)
    for name in FILES:
        (made / name).write_text(scaled((made / name).read_text(), FASTEST.factor))
    return made


@pytest.fixture(scope="module")
def servers(folder: Path) -> Iterator[tuple[str, str]]:
    """Addresses of a VictoriaMetrics and of the vmalert that reads and writes it."""
    store, alert = (f"127.0.0.1:{free_port()}" for _ in range(2))
    kept = [f"-storageDataPath={folder / 'data'}", "-search.latencyOffset=0s", "-memory.allowedBytes=256MB"]
    asked = [f"-rule={folder / name}" for name in FILES]
    asked += [f"-{use}.url=http://{store}" for use in ("datasource", "remoteRead", "remoteWrite")]
    asked += ["-notifier.url=http://127.0.0.1:9", "-remoteWrite.flushInterval=200ms", "-datasource.queryStep=1s"]
    with ExitStack() as stack, (folder / "log").open("wb") as log:
        for program, address, flags in (("victoria-metrics", store, kept), ("vmalert", alert, asked)):
            command = [str(need_tool(program)), f"-httpListenAddr={address}", *flags]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait, 10)
            stack.callback(process.kill)
            _wait_until_up(f"http://{address}/health")
        yield f"http://{store}", f"http://{alert}"


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
        'llm_evidence_ratio{namespace="vm",job="llm",pod="a",cause="prefill_cost"}': 2.2,
        'llm_sidecar_build_info{namespace="vm",job="llm",pod="a",instance="a:9901",version="1"}': 1,
    }
    body = "\n".join(f"{series} {value}" for series, value in values.items())
    urllib.request.urlopen(f"{store}/api/v1/import/prometheus", data=body.encode(), timeout=5).close()


def _firing(alert: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{alert}/api/v1/alerts", timeout=5) as answer:
        told: list[dict[str, Any]] = json.load(answer)["data"]["alerts"] or []
    return [one for one in told if one["state"] == "firing" and one["labels"].get("severity") == "page"]


def test_vmalert_pages_the_root_in_words(servers: tuple[str, str]) -> None:
    """Nothing while all is well, and then one page."""
    store, alert = servers
    pages: list[Any] = []
    misses, second = 0.0, 0
    deadline = time.monotonic() + HEALTHY_SECONDS + PATIENCE_SECONDS
    while not pages and time.monotonic() < deadline:
        second += 1
        misses += 28 if second > HEALTHY_SECONDS else 0
        _push(store, second, misses)
        time.sleep(1)
        pages = _firing(alert)

    assert second > HEALTHY_SECONDS
    assert [one["labels"]["alertname"] for one in pages] == ["LLMPrefillBurn"]
    (page,) = pages
    assert page["annotations"]["summary"].startswith("prefill costs 2.2x, confidence ")
    assert (page["annotations"]["cause"], page["annotations"]["confidence"]) == ("prefill_cost", "1.00")
