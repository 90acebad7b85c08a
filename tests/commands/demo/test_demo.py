"""The demo as a newcomer runs it: one command in a process of its own, judged by its output and its exit."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.commands.demo.demo import CONFIG, main
from sidecar.commands.demo.demo_flags import parser
from sidecar.commands.demo.load import LANE_HEADER, MIXED
from sidecar.commands.demo.servers import programs
from sidecar.config.file import load
from sidecar.config.folding import WIDTH
from tests.support.tools import need_tool


pytestmark = pytest.mark.timed

COMMAND = [sys.executable, "-m", "sidecar", "demo", "--port=0", "--admin-port=0", "--plain"]


def start(*flags: str, path: str | None = None, rate: float | None = 8) -> subprocess.Popen[str]:
    """Start the demo. `path`: PATH of its environment; None: this machine's own. `rate`: requests a second; None: the demo's own."""
    return subprocess.Popen(
        [*COMMAND, *([] if rate is None else [f"--rate={rate}"]), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ if path is None else {**os.environ, "PATH": path},
    )


def until_it_runs(demo: subprocess.Popen[str]) -> list[str]:
    """The lines that the demo prints until its load begins."""
    assert demo.stdout is not None
    lines: list[str] = []
    while not (lines and lines[-1].startswith("load ")):
        lines.append(demo.stdout.readline())
        assert lines[-1], "it ended before it began"
    return lines


def children_of(pid: int) -> list[int]:
    """Processes that this one started, as Linux lists them in /proc."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in tasks.read_text().split()]
    return found


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_demos_config_is_one_that_the_sidecar_takes_and_knows_every_lane_of_the_load() -> None:
    config = load(str(CONFIG), {"engine.url": "http://127.0.0.1:1"}, {})

    assert {shape.lane for shape in MIXED.shapes} <= set(config.lanes.declared)
    assert (config.lanes.header or "").lower() == LANE_HEADER.lower()


@pytest.mark.long
def test_it_shows_every_lane_with_its_phases_and_ends_by_itself() -> None:
    demo = start("--duration=11")

    out, err = demo.communicate(timeout=100)

    assert (demo.returncode, err) == (0, "")
    assert "status page  http://127.0.0.1:" in out
    rows = [line for line in out.splitlines() if line.startswith(("interactive", "batch", "rag"))]
    assert any(line.startswith("interactive") for line in rows)
    for phase in ("queue", "prefill", "first_token", "decode", "stream"):
        assert f"  {phase} " in out, phase
    assert [line for line in out.splitlines() if len(line) > WIDTH] == []
    assert re.search(r"[1-9]\d* answered, 0 failed", out)


@pytest.mark.long
def test_ctrl_c_ends_it_cleanly_and_leaves_no_process() -> None:
    demo = start()
    until_it_runs(demo)
    children = children_of(demo.pid)
    time.sleep(0.5)

    demo.send_signal(signal.SIGINT)
    out, err = demo.communicate(timeout=60)

    assert (demo.returncode, err) == (0, "")
    assert "requests sent" in out
    assert len(children) == (1 if programs() is None else 3)
    assert not any(alive(child) for child in children)


@pytest.mark.long
@pytest.mark.parametrize(("flags", "source"), [([], "file"), (["--learn"], "none")])
def test_its_sidecar_takes_the_shipped_usual_values_unless_it_is_to_learn(flags: list[str], source: str) -> None:
    demo = start(*flags, path="")
    (metrics,) = (line.split()[1] for line in until_it_runs(demo) if line.startswith("metrics "))
    pattern, found, tries = re.compile(r'^llm_baseline_info\{.*source="(\w+)".*\} 1', re.MULTILINE), set[str](), 0
    while source not in found and tries < 100:
        found, tries = set(pattern.findall(urllib.request.urlopen(metrics).read().decode())), tries + 1
        time.sleep(0.1)

    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=60)

    assert (found, demo.returncode, err) == ({source}, 0, "")


@pytest.mark.long
def test_it_says_how_to_get_the_servers_that_would_page_and_goes_on_without() -> None:
    demo = start("--duration=6", path="")

    out, err = demo.communicate(timeout=100)

    assert (demo.returncode, err) == (0, "")
    assert "apt-get install prometheus prometheus-alertmanager" in out
    assert re.search(r"^sent [1-9]\d*, answered \d+, failed 0$", out, re.MULTILINE)


@pytest.mark.live
def test_with_the_servers_it_says_where_they_are_and_what_is_paged() -> None:
    """With the servers installed, the demo prints their addresses, and on a healthy day "no alert fires"."""
    for name in ("prometheus", "prometheus-alertmanager"):
        need_tool(name)
    demo = start("--duration=26", "--incident=queue", "--learn")

    out, err = demo.communicate(timeout=100)

    assert (demo.returncode, err) == (0, "")
    assert re.search(r"^Prometheus   http://127\.0\.0\.1:\d+/alerts$", out, re.MULTILINE)
    assert "7.5 times as fast: 5 minutes take 40s" in out
    # A line of more than 80 columns goes on in the next one.
    assert re.findall(r"; healthy; incident queue in \d+ s; no alert (\w+)", " ".join(out.split()))[-1] == "fires"


@pytest.mark.timeout(280)
@pytest.mark.live
def test_a_newcomer_comes_from_the_readme_to_a_resolved_page_without_a_guess() -> None:
    """With what the README and the demo print, and no flag beside: nothing pages before the fault; the page has its phase and a link to the
    demo's own sidecar, where its runbook has a step; the command that was printed diagnoses the phase and prints steps; and the page is
    resolved after the heal, whenever that is: 80 to 100 seconds later.
    """
    for name in ("prometheus", "prometheus-alertmanager"):
        need_tool(name)
    demo = start("--incident=queue", "--fast", rate=None)
    assert demo.stdout
    said = [*until_it_runs(demo)]
    (command,) = (line.split()[1:] for line in said if line.startswith("diagnosis "))
    (status_page,) = (line.split()[-1] for line in said if line.startswith("status page "))
    before = list[str]()
    for page in demo.stdout:
        if page.startswith("FIRING page"):
            break
        before.append(page)
    link = next(line for line in demo.stdout if line.strip().startswith("http") and "/runbooks/" in line).strip()

    runbook = urllib.request.urlopen(link).read().decode()
    diagnosis = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    resolved = next((line for line in demo.stdout if line.startswith("resolved")), None)
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=60)

    assert (demo.returncode, err) == (0, "")
    assert any("INCIDENT queue" in line for line in before)
    assert page.split() == ["FIRING", "page", "phase", "queue", "LLMQueueBurn"]
    assert link.startswith(f"{status_page}runbooks/LLMQueueBurn?")
    assert "Do first:" in runbook
    assert diagnosis.stdout.startswith("QUEUE ")
    assert re.search(r"^ +1\. ", diagnosis.stdout, re.MULTILINE)
    assert resolved
    assert resolved.split() == ["resolved", "phase", "queue", "LLMQueueBurn"]


@pytest.mark.parametrize("flag", ["--port", "--admin-port", "--engine-port"])
def test_a_taken_port_is_named_with_what_to_do_before_anything_is_started(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    free = [f"{other}=0" for other in ("--port", "--admin-port", "--engine-port") if other != flag]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        code = main([f"{flag}={port}", *free])

    said = capsys.readouterr()
    assert (code, said.out) == (1, "")
    assert f"port {port} is not available" in said.err
    assert f"{flag}=0 takes any free one" in said.err


def test_all_conflicts_of_ports_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Two ports that are taken, and nothing is printed of a start; one port for two listeners is a conflict too."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [one.getsockname()[1], other.getsockname()[1]]
        taken = main([f"--port={ports[0]}", f"--admin-port={ports[1]}", f"--engine-port={ports[0]}"])
    said = capsys.readouterr()

    assert (taken, said.out, [str(port) in said.err for port in ports]) == (1, "", [True, True])
    assert f"port {ports[0]} is given to --port and to --engine-port" in said.err


@pytest.mark.parametrize(("text", "seconds"), [("75s", 75.0), ("75", 75.0), ("1m15s", 75.0)])
def test_a_duration_may_have_a_unit(text: str, seconds: float) -> None:
    assert parser().parse_args([f"--duration={text}"]).duration == seconds


@pytest.mark.parametrize(
    "flags",
    [
        ["--rate=0"],
        ["--port=70000"],
        ["--engine-port=-1"],
        ["--duration=-1"],
        ["--duration=soon"],
        ["--preset=405b"],
        ["--incident=rain"],
        ["--nonsense"],
    ],
)
def test_wrong_usage_is_2(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags) == 2
    assert capsys.readouterr().err


def test_the_live_screen_draws_what_the_plain_one_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The live screen shows what the plain one does; without a terminal, rich prints the last table at the end."""
    pytest.importorskip("rich")
    from sidecar.commands.demo.pager import Notification  # noqa: PLC0415
    from sidecar.commands.demo.table import LiveScreen  # noqa: PLC0415
    from sidecar.commands.demo.view import Row  # noqa: PLC0415

    with LiveScreen() as screen:
        told = Notification("queue-page", "LLMQueueBurn", "queue", "page", "rag burns", "", "slots")
        screen.show([Row("rag", 7, 1, 0.2, 0.4, 0.01, 0.02, {"queue": 0.1, "decode": 0.3})], "sent 8", [told])

    drawn = capsys.readouterr().out
    assert "FIRING page   phase queue        LLMQueueBurn\n  -> queue-page, cause slots: rag burns" in drawn
    assert "sent 8" in drawn
    assert drawn.count("rag") == 3
    assert "200/400" in drawn


def test_a_page_that_the_table_reads_is_one_that_the_reference_parser_reads() -> None:
    """The demo's fast filter keeps whole lines, so that it reads the same value as the reference parser."""
    from sidecar.commands.demo.view import read_page  # noqa: PLC0415

    line = 'llm_requests_total{model="a",lane="b\\"c",prompt_bucket="0-512",outcome="ok"} 3\n'
    families = list(text_string_to_metric_families(line))

    assert read_page("# HELP llm_requests_total x\n" + line) == {
        ("llm_requests_total", families[0].samples[0].labels["lane"], "ok"): 3.0
    }
