"""The quickstart's own lines beside a real vLLM, Prometheus and Alertmanager, from `pip install` of a built wheel to a page.

Rules and routes are the shipped ones with their own durations: nothing here runs faster than in production. The true phase is
written down before anything runs: all slots of the engine are taken by long answers, so that others wait for one.
"""

import asyncio
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.demo.load import Load
from sidecar.commands.simulator.workload import Shape, Workload
from tests.real.clients import ask_again_and_again
from tests.real.environment import Environment, Say
from tests.real.server import SLOTS, running_vllm, warm_up
from tests.support.background import background
from tests.support.doc_blocks import CHECKOUT, stories
from tests.support.doc_stories import story_told
from tests.support.grafana import has_dashboard
from tests.support.prometheus import Prometheus, explained
from tests.support.sink import Sink, listening_sink


QUICKSTART = CHECKOUT / "docs/quickstart.md"
TO_THE_TEST_PAGE_SECONDS = 300.0
"""The five minutes of the quickstart's title: from the first typed line to the last, which sends the page marked TEST."""
TO_A_PAGE_SECONDS = 600.0
ORDINARY = Workload((Shape(1.0, 20, 16, lane="default"),))
"""Short requests before and during the fault: few enough for a slow machine with two cores, which also runs all that is typed."""
ORDINARY_PER_SECOND = 1.0
USUAL_IS_KNOWN = 'count(llm_evidence_ratio{cause="load"}) >= 1'


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The wheel of this checkout as `pip wheel` makes it, in pure Python: `make test-wheel` has the compiled one."""
    command = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", f"--wheel-dir={tmp_path}", str(CHECKOUT)]
    subprocess.run(command, check=True, timeout=300)
    (built,) = tmp_path.glob("*.whl")
    return built


@pytest.fixture
def pager() -> Iterator[Sink]:
    with listening_sink() as sink:
        yield sink


async def once_it_listens(load: Load) -> None:
    """The clients come to the sidecar's port as soon as something listens there."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", 8900)
        except OSError:
            await asyncio.sleep(0.5)
            continue
        writer.close()
        break
    await load.run()


def real_page(sink: Sink) -> dict[str, Any]:
    """The first firing page that is not the doctor's own; {} if none came in time."""
    deadline = time.monotonic() + TO_A_PAGE_SECONDS
    while time.monotonic() < deadline:
        for told in sink.at("/pager"):
            for alert in told.body.get("alerts", ()):
                labels = alert["labels"]
                if alert["status"] == "firing" and labels["severity"] == "page" and "TEST" not in told.text:
                    return dict(alert)
        time.sleep(0.2)
    return {}


def test_nine_typed_lines_lead_from_pip_install_to_a_page_that_names_the_queue(
    vllm_built: Environment, wheel: Path, pager: Sink, say: Say, tmp_path: Path
) -> None:
    (story,) = stories(QUICKSTART)
    with (
        running_vllm(vllm_built, tmp_path, say, port=8000) as engine,
        background() as thread,
    ):
        warm_up(engine)
        sidecar = "http://127.0.0.1:8900"
        began = time.monotonic()
        with (
            thread.going_on(once_it_listens(Load(sidecar, engine.model, ORDINARY_PER_SECOND, workload=ORDINARY))),
            story_told(
                story,
                tmp_path / "typed",
                running=["an engine"],
                variables={"WHEEL": str(wheel), "PAGER": f"{pager.url}/pager"},
            ),
        ):
            typed = time.monotonic() - began
            say(f"the lines are typed after {typed:.0f} s")
            tested = [told for told in pager.at("/pager") if "TEST" in told.text]
            prometheus = Prometheus("http://127.0.0.1:9090")
            with explained(prometheus, pager):
                assert prometheus.wait_for(USUAL_IS_KNOWN, patience_seconds=TO_A_PAGE_SECONDS)
                say(f"the usual is known after {time.monotonic() - began:.0f} s")
                with thread.going_on(
                    ask_again_and_again(sidecar, engine.model, 3 * SLOTS, "jobs", repeats=1, max_tokens=1_500)
                ):
                    page = real_page(pager)
                took = time.monotonic() - began
                say(f"the page came after {took:.0f} s: {page.get('annotations', {}).get('summary')}")

                assert page, "no page came"
                with urllib.request.urlopen(page["annotations"]["runbook_url"], timeout=10) as answer:
                    runbook = answer.read().decode()
                dashboard = has_dashboard(page["annotations"]["dashboard_url"])

    assert tested, "the page marked TEST did not come"
    assert (page["labels"]["phase"], dashboard) == ("queue", True)
    assert "Filled in: " in runbook
    assert [said for said in ("Not known here", "The link is about pod") if said in runbook] == []
    assert typed < TO_THE_TEST_PAGE_SECONDS
    assert took < TO_A_PAGE_SECONDS
