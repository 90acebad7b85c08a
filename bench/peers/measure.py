"""The generator (engine and load), and one window of its load on one proxy: what it cost the proxy, by the kernel's own accounting, and what the client saw.

CPU is the kernel's clock of each process in the proxy's tree, which counts all its threads, those that have ended too, in
nanoseconds. It is read at the two instants that the load announces. Knows no proxy by name.
"""

import json
import os
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.peers.proxies import LOAD_CORE, Running, on_core


class FailedError(RuntimeError):
    """A window that has no figures: an answer was cut, wrong or missing. The message says what the load saw first."""


def tree(pid: int) -> list[int]:
    """A process and all its descendants that live now."""
    found = [pid]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def cpu_seconds(pid: int | None) -> float:
    """CPU that the kernel has charged so far to a tree of processes; 0 for no process."""
    if pid is None:
        return 0.0
    return sum(time.clock_gettime_ns((~each << 3) | 2) for each in tree(pid)) / 1e9  # CPUCLOCK_SCHED of a process


def system_seconds(pid: int | None) -> float:
    """The part of it in the kernel: the 15th field of /proc/PID/stat (proc_pid_stat(5)), in steps of a tick, mostly 10 ms."""
    trees = tree(pid) if pid is not None else []
    stated = (Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in trees)
    return sum(int(fields[12]) for fields in stated) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int | None) -> float:
    """Resident memory of a tree of processes, in MB of 1,000,000 bytes; pages that several share count for each."""
    total = 0
    for each in tree(pid) if pid is not None else []:
        lines = Path(f"/proc/{each}/status").read_text().splitlines()
        total += next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
    return total * 1024 / 1e6


@dataclass(frozen=True, slots=True)
class Window:
    """The result of one window. `said`: the load's own JSON."""

    said: dict[str, object]
    proxy_cpu_seconds: float
    resident_mb: float
    others_share: float = 0.0
    """CPU of all other processes of this machine, as a ratio of one core."""
    proxy_system_seconds: float = 0.0

    def number(self, name: str) -> float:
        value = self.said[name]
        assert isinstance(value, int | float)
        return float(value)

    def quantile_us(self, name: str, which: str) -> float:
        """Microseconds of one quantile (`p50`, `p99`, `max`). Raises FailedError if nothing was measured."""
        values = self.said[name]
        assert isinstance(values, dict)
        if not values["count"]:
            raise FailedError("no token came within the window")
        return float(values[which]) / 1e3

    def cpu_us(self, per: str) -> float:
        """The proxy's CPU, in microseconds, for each of these in the window (`tokens`, `requests`). Raises FailedError."""
        count = self.number(per)
        if not count:
            raise FailedError(f"no {per} within the window")
        return self.proxy_cpu_seconds / count * 1e6

    @property
    def busy_share(self) -> float:
        """The ratio of the window in which engine and load had something to do; at 1 they are what is measured."""
        return self.number("busy_ns") / self.number("window_ns")


def others_cpu_seconds(known: Collection[int]) -> dict[int, float]:
    """CPU of each process that this one can see, the known ones left out."""
    found = {}
    for each in (int(name.name) for name in Path("/proc").iterdir() if name.name.isdecimal()):
        if each not in known:
            with suppress(OSError):  # it has ended
                found[each] = time.clock_gettime_ns((~each << 3) | 2) / 1e9
    return found


class Generator:
    """The program that is engine and load at once, running on a core of its own."""

    def __init__(self, program: Path) -> None:
        with on_core(LOAD_CORE):
            self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid, self.port = self._process.pid, int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise FailedError(f"engine and load ended with {self._process.wait()}")
        return line.strip()

    def play(self, mode: str, proxy: Running, options: Mapping[str, int], *, whole: bool = True) -> Window:
        """One window; with `whole` any error of the load fails it. Raises FailedError."""
        assert self._process.stdin is not None
        pairs = [f"port={proxy.port}", *(f"{name}={value}" for name, value in options.items())]
        self._process.stdin.write(f"{mode} {' '.join(pairs)}\n")
        self._process.stdin.flush()
        begin = end = resident = began = others = system = 0.0
        before: dict[int, float] = {}
        known = {os.getpid(), self.pid, *(tree(proxy.pid) if proxy.pid is not None else ())}
        while not (line := self._line()).startswith("{"):
            if line == "begin":
                begin, system, began = cpu_seconds(proxy.pid), system_seconds(proxy.pid), time.monotonic()
                before = others_cpu_seconds(known)
            else:
                end, seconds = cpu_seconds(proxy.pid), time.monotonic() - began
                system = system_seconds(proxy.pid) - system
                resident = resident_mb(proxy.pid)
                after = others_cpu_seconds(known)
                others = sum(cpu - before.get(pid, 0.0) for pid, cpu in after.items()) / seconds
        said: dict[str, object] = json.loads(line)
        if said["errors"] and whole:
            raise FailedError(f"{said['errors']} errors, the first: {said['error']}")
        return Window(said, end - begin, resident, others, system)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
