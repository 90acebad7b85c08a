"""Runs the commands of a page as they stand there, in a folder of their own.

The shell is `bash -euo pipefail`, so that each line has to succeed. Knows which programs a reader is said to have running
already, at their usual ports; a port that is taken ends the story with the program's own error.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sidecar.demo.servers import INSTALL, programs
from tests.support.doc_blocks import CHECKOUT, Block, blocks_of
from tests.support.sink import listening_sink
from tests.support.tools import missing


PATIENCE_SECONDS = 300.0
"""The longest time of one block. The longest is `pip install .`, which compiles."""
_STOP_SECONDS = 40.0
"""Longer than the sidecar's own drain."""
_DEMO = ("sidecar", "demo", "--plain", "--engine-port=8000")
_ADMIN = "http://127.0.0.1:9901"
_DIAGNOSED = r'"time_to_first_token": \{[^}]*"samples": ([2-9]\d|\d{3})'
"""The diagnosis gives no verdict on fewer first tokens."""
PROMETHEUS = """\
global:
  scrape_interval:     15s
  evaluation_interval: 15s
alerting:
  alertmanagers:
  - static_configs:
    - targets: ['localhost:9093']
rule_files:
scrape_configs:
  - job_name: 'prometheus'
    static_configs:
      - targets: ['localhost:9090']
"""
"""As Debian's package has it, without the comments and the node exporter."""
ALERTMANAGER = "route: {receiver: default}\nreceivers: [{name: default}]\n"
_SAID_AT_THE_TOP = {"PROMETHEUS": "{folder}", "ALERTMANAGER": "{folder}/alertmanager.yml", "WHEEL": "{folder}/checkout"}
"""The variables that docs/quickstart.md asks its reader to export, but `PAGER`."""


class StoryError(AssertionError):
    """A block failed; the message has its place, its output and what was expected."""


def run_story(story: Sequence[Block], folder: Path) -> list[int]:
    """Run the blocks in order in `folder`; returns the exit code of each (0 for a server that answered). Raises StoryError."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as ends:
        home = _prepared(story, folder, ends)
        return [_run(block, home, ends) for block in story]


@dataclass(frozen=True, slots=True)
class _Home:
    """The folder in which the commands run, and their environment."""

    folder: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Program:
    """A program that goes on, an address, and a pattern in what it answers there with 200 once it is ready."""

    command: Sequence[str | Path]
    url: str
    text: str = ""
    place: str = ""


def _prepared(story: Sequence[Block], folder: Path, ends: ExitStack) -> _Home:
    asked = {f"{word} {rest}" for block in story for word, rests in block.clauses.items() for rest in rests}
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME", "CI")}
    where = folder / "here"
    binaries = Path(sys.executable).parent
    if "in a copy of the checkout" in asked:
        _copy_of_the_checkout(where)
        environment.pop("PYTHONPATH", None)
    else:
        where.mkdir()
        environment["PYTHONPATH"] = str(CHECKOUT)
    own = {**environment, "PATH": f"{binaries}:{environment['PATH']}", "PYTHONPATH": str(CHECKOUT)}
    if "in a new environment" in asked:
        subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
        binaries = folder / "environment" / "bin"
        environment.pop("PYTHONPATH", None)
    for block in story:
        for name in block.clauses.get("with", ()):
            (where / name).write_text(
                next(b.text for b in blocks_of(block.page) if b.said == name and b.kind == "file")
            )
    if "beside Prometheus and Alertmanager" in asked:
        environment |= {name: value.format(folder=folder) for name, value in _SAID_AT_THE_TOP.items()}
        environment |= {"PAGER": ends.enter_context(listening_sink()).url, "SIDECAR_BUILD": "pure"}
        _copy_of_the_checkout(folder / "checkout")
    for beside in sorted(word for word in asked if word.startswith("beside ")):
        for program in _beside(beside.removeprefix("beside "), folder):
            ends.enter_context(_running(program, _Home(folder, own)))
    return _Home(where, {**environment, "PATH": f"{binaries}:{environment['PATH']}"})


def _beside(what: str, folder: Path) -> Iterator[_Program]:
    """The programs that a reader has running."""
    if what == "an engine":
        yield _Program((*_DEMO, "--port=0", "--admin-port=0"), "http://127.0.0.1:8000/v1/models")
    elif what == "a demo":
        yield _Program(_DEMO, f"{_ADMIN}/diagnosis?lane=interactive", _DIAGNOSED)
    elif what == "a sidecar":
        yield _Program(("sidecar", "serve", "--engine.url=http://127.0.0.1:8000"), f"{_ADMIN}/-/healthy")
    else:
        (folder / "prometheus.yml").write_text(PROMETHEUS)
        (folder / "alertmanager.yml").write_text(ALERTMANAGER)
        found = programs()
        if found is None:
            missing(f"Prometheus and Alertmanager are not installed (Debian: {INSTALL})")
        own = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        address = "127.0.0.1:9090"
        flags = [*own, f"--web.listen-address={address}", "--web.enable-lifecycle"]
        yield _Program((found.prometheus, *flags), f"http://{address}/-/ready")
        own = [f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'alertmanager'}"]
        address = "127.0.0.1:9093"
        flags = [*own, f"--web.listen-address={address}", "--cluster.listen-address="]
        yield _Program((found.alertmanager, *flags), f"http://{address}/-/ready")


def _copy_of_the_checkout(where: Path) -> None:
    """A clone with the files as they are here, without what git ignores but pip's cache."""
    subprocess.run(["git", "clone", "--quiet", CHECKOUT, where], check=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (CHECKOUT / name).is_file():
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, where / name)
        else:
            (where / name).unlink(missing_ok=True)
    (CHECKOUT / ".cache/pip").mkdir(parents=True, exist_ok=True)
    (where / ".cache").mkdir(exist_ok=True)
    (where / ".cache/pip").symlink_to(CHECKOUT / ".cache/pip")


def _run(block: Block, home: _Home, ends: ExitStack) -> int:
    command = ["bash", "-euo", "pipefail", "-c", block.text]
    if url := block.first("until"):
        server = _running(_Program(command, url, place=block.place), home)
        if block.first("then"):
            with server:
                return 0
        ends.enter_context(server)
        return 0
    typed = "".join(f"{word}\n" for word in block.clauses.get("typing", ()))
    process = subprocess.Popen(
        command,
        cwd=home.folder,
        env=home.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # without a terminal: a question is answered from standard input
    )
    ends.callback(_end, process)  # with what it has left in the background
    said, _ = process.communicate(typed.encode(), PATIENCE_SECONDS)
    if str(process.returncode) not in (block.first("exit") or "0").split(" or "):
        text = said.decode(errors="replace")[-8000:]
        raise StoryError(f"{block.place}: exit code {process.returncode}\n{text}")
    return process.returncode


@contextmanager
def _running(program: _Program, home: _Home) -> Iterator[None]:
    """The program and all that it starts, from when it answers to the end of the `with` block."""
    url, told = program.url, program.place or shlex.join(map(str, program.command))
    with (home.folder / f"log-{time.monotonic_ns()}").open("w+b") as log:
        if _answers(url, ""):
            raise StoryError(f"{told}: another program answers at {url} already")
        process = subprocess.Popen(
            program.command,
            cwd=home.folder,
            env=home.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            if not _becomes_ready(url, program.text, process):
                log.seek(0)
                said = log.read().decode(errors="replace")[-4000:]
                raise StoryError(f"{told}: {url} did not answer 200; exit code {process.poll()}\n{said}")
            yield
        finally:
            _end(process)


def _becomes_ready(url: str, text: str, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if _answers(url, text):
            return True
        time.sleep(0.1)
    return False


def _answers(url: str, text: str) -> bool:
    """Whether `url` answers 200 with the pattern `text` in its body."""
    with suppress(urllib.error.URLError, ConnectionError, TimeoutError), urllib.request.urlopen(url, timeout=5) as page:
        return re.search(text.encode(), page.read()) is not None
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole session: a shell passes no signal on to what it has started."""
    for kind, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, 10.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
            return
