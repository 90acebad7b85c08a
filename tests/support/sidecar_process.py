"""The sidecar as users run it: `python -m sidecar serve` in its own process, judged by its sockets and its log.

Knows the command line (design section 9) and that there is a canonical log line; imports nothing of the sidecar.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port


class SidecarStartError(RuntimeError):
    """The sidecar exited or never became ready; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class SidecarProcess:
    """A sidecar that is ready: traffic on `port`, everything else on `web_port`, both of 127.0.0.1."""

    port: int
    web_port: int
    log: Path
    process: subprocess.Popen[bytes]

    def page(self, path: str) -> str:
        """The text of a page of the admin listener. Raises urllib.error.HTTPError for a 4xx or 5xx."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}{path}", timeout=10) as page:
            text: str = page.read().decode()
            return text

    def status(self, path: str) -> int:
        """The status of a page of the admin listener."""
        try:
            self.page(path)
        except urllib.error.HTTPError as refusal:
            return refusal.code
        return 200

    def log_lines(self, event: str) -> list[dict[str, object]]:
        """The log's JSON lines of one event, oldest first."""
        lines = []
        for line in self.log.read_text().splitlines():
            if line.startswith("{"):
                entry: dict[str, object] = json.loads(line)
                if entry.get("event") == event:
                    lines.append(entry)
        return lines

    def wait_for_log_lines(self, event: str, count: int, *, patience_seconds: float = 10.0) -> list[dict[str, object]]:
        """As `log_lines`, once there are `count`: the canonical line is written after the client has its last byte."""
        deadline = time.monotonic() + patience_seconds
        while len(lines := self.log_lines(event)) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        return lines


@contextmanager
def running_sidecar(
    engine_url: str,
    folder: Path,
    *,
    flags: Sequence[str] = (),
    patience_seconds: float = 30.0,
    checkout: Path | None = None,
    until: str = "/-/ready",
    ports: tuple[int, int] | None = None,
    wrap: Sequence[str] = (),
) -> Iterator[SidecarProcess]:
    """A ready sidecar for the length of a `with` block; SIGKILL at its end. Raises SidecarStartError.

    `until`: the path that has to answer 200 first. `ports`: for traffic and for all else, instead of any free ones.
    `checkout`: folder of another tree of the product, if it is not the tested one. `wrap`: a program that starts it, such as prlimit.
    """
    port, web_port = ports or (free_port(), free_port())
    log = folder / f"sidecar-{port}.log"
    command = [
        *wrap,
        *(sys.executable, "-m", "sidecar", "serve", f"--engine.url={engine_url}"),
        *([] if "--no-proxy" in flags else [f"--proxy.listen-address=127.0.0.1:{port}"]),
        f"--web.listen-address=127.0.0.1:{web_port}",
        "--log.format=json",
        *flags,
    ]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, cwd=checkout)
    sidecar = SidecarProcess(port, web_port, log, process)
    try:
        _wait_for(sidecar, until, patience_seconds)
        yield sidecar
    finally:
        process.kill()
        process.wait(timeout=10)


def stop(sidecar: SidecarProcess, *, patience_seconds: float = 30.0) -> int:
    """Stop it with SIGTERM; returns the exit status. Raises subprocess.TimeoutExpired."""
    sidecar.process.send_signal(signal.SIGTERM)
    return sidecar.process.wait(timeout=patience_seconds)


def _wait_for(sidecar: SidecarProcess, path: str, patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    while True:
        if sidecar.process.poll() is not None:
            status = sidecar.process.returncode
            raise SidecarStartError(f"the sidecar exited with {status}\n{sidecar.log.read_text()[-4000:]}")
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            sidecar.page(path)
            return
        if time.monotonic() > deadline:
            raise SidecarStartError(f"not ready within {patience_seconds:.0f} s\n{sidecar.log.read_text()[-4000:]}")
        time.sleep(0.05)
