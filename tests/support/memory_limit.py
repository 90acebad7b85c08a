"""A sidecar process under a memory limit: in a control group of its own where one can be made, else watched.

Says which. In a control group the kernel kills what exceeds the limit. Where none can be made, the process is told the
limit in place of the kernel, and its resident memory is sampled every 10 ms.
"""

import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import free_port


SAMPLE_SECONDS = 0.01
_VERSION_2 = Path("/sys/fs/cgroup")
_VERSION_1 = Path("/sys/fs/cgroup/memory")
_TOLD = """
import sys
from sidecar.budgets import machine
machine.memory_bytes = lambda: {limit}
from sidecar.cli import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass
class Limited:
    """A running sidecar whose memory is limited."""

    port: int
    web_port: int
    pid: int
    process: subprocess.Popen[bytes]
    how: str
    """How the limit is enforced, in words."""
    peak_bytes: int = 0
    """The most resident memory that was sampled since `forget_peak`."""
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def resident_bytes(self) -> int:
        """Resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def forget_peak(self) -> None:
        self.peak_bytes = 0

    def page(self, path: str, *, patience_seconds: float = 10.0) -> str:
        """A page of the admin listener. Raises OSError."""
        url = f"http://127.0.0.1:{self.web_port}{path}"
        with urllib.request.urlopen(url, timeout=patience_seconds) as answer:
            text: str = answer.read().decode()
            return text

    def budgets(self, name: str = "limit") -> dict[str, int]:
        """`llm_sidecar_budget_NAME` by budget."""
        found = {}
        for line in self.page("/metrics").splitlines():
            if line.startswith(f"llm_sidecar_budget_{name}{{"):
                found[line.split('budget="')[1].split('"')[0]] = int(float(line.rsplit(" ", 1)[1]))
        return found

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            with suppress(OSError, IndexError):
                self.peak_bytes = max(self.peak_bytes, self.resident_bytes())


@contextmanager
def limited_sidecar(engine_url: str, folder: Path, limit_bytes: int, *flags: str) -> Iterator[Limited]:
    """A ready sidecar that may have `limit_bytes` of memory; SIGKILL at the end of the block."""
    port, web_port = free_port(), free_port()
    group, name = group_of(limit_bytes)
    told = ["-m", "sidecar"] if group is not None else ["-c", _TOLD.format(limit=limit_bytes)]
    command = [
        *(sys.executable, *told, "serve", f"--engine.url={engine_url}", "--log.format=json", "--log.level=warning"),
        *(f"--proxy.listen-address=127.0.0.1:{port}", f"--web.listen-address=127.0.0.1:{web_port}", *flags),
    ]
    if group is not None:
        command = entering(group, *command)
    with (folder / "limited.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
    limited = Limited(port, web_port, process.pid, process, name)
    sampler = threading.Thread(target=limited._sample, daemon=True)
    try:
        _wait(limited)
        sampler.start()
        yield limited
    finally:
        limited._over.set()
        process.kill()
        process.wait(timeout=10)
        if sampler.is_alive():
            sampler.join(timeout=10)
        if group is not None:
            remove(group)


def _wait(limited: Limited) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(OSError):
            limited.page("/-/ready", patience_seconds=1.0)
            return
        with suppress(subprocess.TimeoutExpired):
            limited.process.wait(timeout=0.05)
        if not limited.alive or time.monotonic() > deadline:
            raise RuntimeError("the sidecar did not become ready")


def group_of(limit_bytes: int) -> tuple[Path | None, str]:
    """A new control group with this limit, and its kind in words."""
    for root, file, name in (
        (_VERSION_2, "memory.max", "control group, version 2"),
        (_VERSION_1, "memory.limit_in_bytes", "control group, version 1"),
    ):
        group = root / f"sidecar_test_{os.getpid()}_{time.monotonic_ns()}"
        with suppress(OSError):
            group.mkdir()
            try:
                if (group / file).exists():
                    (group / file).write_text(str(limit_bytes))
                    if subprocess.run(entering(group, "true"), check=False).returncode == 0:
                        return group, name
            except OSError:
                pass
            remove(group)
    return None, f"resident memory sampled every {SAMPLE_SECONDS * 1000:.0f} ms"


def entering(group: Path, *command: str) -> list[str]:
    """The command, in this group; it fails where no process may enter."""
    return ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]


def remove(group: Path) -> None:
    for _ in range(100):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)
