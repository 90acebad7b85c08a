"""The proxies that are compared: how each is started, on a core of its own, with the settings that relay a stream at once.

Each is a context manager that gives a running proxy which answers through to the engine, or raises MissingError if it is not
installed here, or BrokenError if it does not start. Knows nothing of loads and of what is measured.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.checkout import REPOSITORY
from bench.nginx_beside import NGINX_CONFIG
from bench.peers.build import MissingError, environment, wheel
from tests.support.ports import free_port


PROXY_CORE, LOAD_CORE = 0, 1
PATIENCE_SECONDS = 60.0
LANES_KEY = "nightly-jobs-key"
SIDECAR_CONFIG = f"""\
lanes:
  default: interactive
  header: x-lane
  names: [chat, agents]
  api_keys: {{nightly: {hashlib.sha256(LANES_KEY.encode()).hexdigest()}}}
  rules:
    - {{lane: batch, api_keys: nightly}}
    - {{lane: code, headers: {{user-agent: ["continue/*", "cursor/*"]}}}}
    - {{lane: search, models: "meta-llama/Llama-3.1-8B*"}}
objectives:
  agents: {{preset: interactive}}
  search: {{preset: interactive}}
"""
"""The six lanes of the load (LANE_HEADERS in load.cpp), each with objectives; all else as shipped."""
MISSED_CONFIG = (
    SIDECAR_CONFIG.partition("objectives:")[0]
    + "objectives:\n"
    + "".join(
        f"  {lane}: {{ttft: {{threshold_seconds: 0.000001, target: 0.9}}, tpot: {{threshold_seconds: 0.000001, target: 0.9}}}}\n"
        for lane in ("interactive", "chat", "agents", "batch", "code", "search")
    )
)


class BrokenError(RuntimeError):
    """A proxy that is installed and does not start, or answers wrongly."""


@dataclass(frozen=True, slots=True)
class Running:
    """A proxy that answers: its port, the first process of its tree, and its version. `pid` None: there is no proxy."""

    port: int
    pid: int | None = None
    version: str = ""
    web_port: int | None = None
    start_seconds: float = 0.0
    """From the start of the process to its first 200 through the proxy."""


Start = Callable[[int, Path], AbstractContextManager[Running]]
"""Starts a proxy in front of the engine on a port of 127.0.0.1, with a folder for its files."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """One row of the table, before it is started."""

    key: str
    title: str
    start: Start


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Every process that is started within runs on this core (of those that this process may use), with all its threads."""
    before = os.sched_getaffinity(0)
    cores = sorted(ALL_CORES)
    os.sched_setaffinity(0, {cores[core % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


ALL_CORES = frozenset(os.sched_getaffinity(0))


def answers(port: int, path: str = "/v1/models") -> bool:
    """Whether this path answers 200."""
    with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5).close()
        return True
    return False


@dataclass(frozen=True, slots=True)
class Started:
    """The first process of a proxy, and the seconds from its start to its first 200 through the proxy."""

    pid: int
    seconds: float


@contextmanager
def started(
    command: Sequence[str], port: int, log: Path, *, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[Started]:
    """A process on the proxies' core that answers through to the engine; killed with its whole group. Raises BrokenError."""
    began = time.monotonic()
    with log.open("wb") as output, on_core(PROXY_CORE):
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(environ or {}),
            cwd=cwd,
            start_new_session=True,
        )
    try:
        while not answers(port):
            if process.poll() is not None:
                raise BrokenError(f"{command[0]} exited with {process.returncode}: {log.read_text()[-600:]}")
            if time.monotonic() > began + PATIENCE_SECONDS:
                raise BrokenError(f"{command[0]} does not answer: {log.read_text()[-600:]}")
            time.sleep(0.002)
        yield Started(process.pid, time.monotonic() - began)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait(timeout=10)


@contextmanager
def direct(engine_port: int, folder: Path) -> Iterator[Running]:
    """No proxy at all: what engine and load do by themselves."""
    del folder
    yield Running(engine_port)


@contextmanager
def nginx(engine_port: int, folder: Path) -> Iterator[Running]:
    """One worker, buffering off."""
    program = installed("nginx", "nginx-light")
    port = free_port()
    config = folder / "nginx.conf"
    roomy = NGINX_CONFIG.replace("worker_connections 4096", "worker_connections 16384")  # two for each of 5,000 streams
    config.write_text(roomy.format(folder=folder, engine=engine_port, port=port))
    version = stated_version([program, "-v"])
    with started([program, "-c", str(config), "-p", str(folder)], port, folder / "nginx.log") as own:
        yield Running(port, own.pid, version, start_seconds=own.seconds)


@contextmanager
def vllm_router(engine_port: int, folder: Path) -> Iterator[Running]:
    with router(environment("requirements.txt", "venv"), ("vllm-router",), engine_port, folder) as running:
        yield running


@contextmanager
def router(bin_folder: Path, program: Sequence[str], engine_port: int, folder: Path) -> Iterator[Running]:
    """One worker URL, round robin: the policy that looks at nothing. Its log states errors only."""
    port, metrics_port = free_port(), free_port()
    command = [str(bin_folder / program[0]), *program[1:], "--worker-urls", f"http://127.0.0.1:{engine_port}"]
    command += ["--policy", "round_robin", "--host", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    command += ["--prometheus-port", str(metrics_port), "--worker-startup-check-interval", "1"]
    with started(command, port, folder / f"{program[0]}.log") as own:
        yield Running(port, own.pid, distribution_version(bin_folder, program[0]), start_seconds=own.seconds)


@contextmanager
def sidecar(
    engine_port: int,
    folder: Path,
    *,
    usage: bool,
    tree: Path | None = None,
    pure: bool = False,
    config: str = SIDECAR_CONFIG,
    further: str = "",
) -> Iterator[Running]:
    """The sidecar with the load's six lanes, objectives on each, a log line a request; usage asked for and cut out again, or not.

    `tree`: the checkout whose wheel runs, compiled; None: this one's sources, as they lie here. `pure`: the wheel runs in pure Python.
    `config`: in YAML, all but the section `proxy`. `further`: keys of `proxy`, in YAML.
    """
    file = folder / "sidecar.yml"
    usage_key = f"include_usage: {'auto' if usage else 'never'}"
    file.write_text(f"{config}proxy: {{{usage_key}{further and ', ' + further}}}\n")
    port, web_port = free_port(), free_port()
    here = [sys.executable, "-m", "sidecar"]
    program = here if tree is None else [str(wheel(tree, "sidecar" if tree == REPOSITORY else "beside") / "sidecar")]
    command = [*program, "serve", f"--engine.url=http://127.0.0.1:{engine_port}"]
    command += [f"--proxy.listen-address=127.0.0.1:{port}", f"--web.listen-address=127.0.0.1:{web_port}"]
    command += ["--log.format=json", f"--config.file={file}"]
    environ = {"SIDECAR_PURE": "1"} if pure else {}
    with started(command, port, folder / "sidecar.log", cwd=REPOSITORY, environ=environ) as own:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not answers(web_port, "/-/ready"):
            if time.monotonic() > deadline:
                raise BrokenError("the sidecar is not ready")
            time.sleep(0.05)
        yield Running(port, own.pid, tree_of(tree or REPOSITORY), web_port, own.seconds)


def tree_of(checkout: Path) -> str:
    """The commit of a checkout."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def installed(name: str, package: str) -> str:
    """The path of a program. Raises MissingError."""
    program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise MissingError(f"{name} is not installed (Debian: apt-get install {package})")
    return program


def stated_version(command: list[str]) -> str:
    """The first number with a dot that a program states about itself."""
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.[\d.]+\d", said.stdout + said.stderr)
    return found[0] if found else ""


def distribution_version(bin_folder: Path, name: str) -> str:
    """The version of a Python distribution in an environment of the peers."""
    code = f"import importlib.metadata as m; print(m.version({name!r}))"
    return subprocess.run(
        [str(bin_folder / "python"), "-c", code], capture_output=True, text=True, check=False
    ).stdout.strip()
