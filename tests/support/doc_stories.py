"""Runs the commands of a page as they stand there, in a folder of their own.

The shell is `bash -euo pipefail`, so that each line has to succeed. A port that is taken ends the story with an error.
`doc_neighbours.py` knows the programs that a reader has running already.
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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.doc_blocks import CHECKOUT, Block, blocks_of
from tests.support.doc_neighbours import Program, neighbours, said_at_the_top


PATIENCE_SECONDS = 300.0
"""The longest time of one block."""
_STOP_SECONDS = 40.0
"""Longer than the sidecar's own drain."""


class StoryError(AssertionError):
    """A block failed; the message has its place, its output and what was expected."""


def run_story(story: Sequence[Block], folder: Path) -> list[int]:
    """Run the blocks in order in `folder`; returns the exit code of each (0 for a server that answered). Raises StoryError."""
    with story_told(story, folder) as codes:
        return codes


@contextmanager
def story_told(
    story: Sequence[Block], folder: Path, *, running: Collection[str] = (), variables: Mapping[str, str] | None = None
) -> Iterator[list[int]]:
    """As `run_story`; what the blocks have started goes on for the length of the `with` block.

    `running`: neighbours that the caller has started, by the words of their marks. `variables`: those of the quickstart with
    other values.
    """
    folder.mkdir(exist_ok=True)
    with ExitStack() as ends:
        home = _prepared(story, folder, ends, running, variables or {})
        yield [_run(block, home, ends) for block in story]


@dataclass(frozen=True, slots=True)
class _Home:
    """The folder in which the commands run, and their environment."""

    folder: Path
    environment: Mapping[str, str]


def _prepared(
    story: Sequence[Block], folder: Path, ends: ExitStack, running: Collection[str], variables: Mapping[str, str]
) -> _Home:
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
        environment |= {**ends.enter_context(said_at_the_top(folder)), **variables}
        if "WHEEL" not in variables:
            _copy_of_the_checkout(Path(environment["WHEEL"]))
    beside = {word.removeprefix("beside ") for word in asked if word.startswith("beside ")}
    for what in sorted(beside.difference(running)):
        for program in neighbours(what, folder):
            ends.enter_context(_running(program, _Home(folder, own)))
    return _Home(where, {**environment, "PATH": f"{binaries}:{environment['PATH']}"})


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
        server = _running(Program(command, url, place=block.place), home)
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
def _running(program: Program, home: _Home) -> Iterator[None]:
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
    """End the whole session, and wait for it: a shell passes no signal on to what it has started."""
    for kind, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, 10.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        deadline = time.monotonic() + seconds
        while (alive := process.poll() is None or _is_alive(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not alive:
            return


def _is_alive(session: int) -> bool:
    """Whether a process of this session runs. One that has ended and that init has not read does not count."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                return True
    return False
