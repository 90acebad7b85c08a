"""The memory and the files that this process may have, as the kernel states them.

Reads the memory limit of the process's control group (version 2 or 1) and raises the soft limit of open files to the
hard one. It refuses to know what the limits are used for: `budgets.py` derives every limit of the sidecar from them.
"""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


_MOST_FILES = 1 << 20
"""The kernel's own default for the most files of a process (fs.nr_open), where the hard limit states none."""
_NO_FILES = (errno.EMFILE, errno.ENFILE)


class Machine(NamedTuple):
    """The share of a machine that one process has."""

    memory_bytes: int
    files: int
    """Files that it may have open at once."""


def this_machine() -> Machine:
    """The share of this process. Raises the soft limit of open files to the hard one."""
    return Machine(memory_bytes(), raise_files())


def memory_bytes(root: Path = Path("/")) -> int:
    """Bytes of memory that this process may have: the lowest limit of its control groups, at most the machine's."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min((machine, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    """The memory limits of the process's control group and of all groups above it.

    `/proc/self/cgroup` names the group; within a container it may name it as seen from outside, so each folder from
    there up to the mount is tried (cgroups(7), section /proc/PID/cgroup).
    """
    mount = root / "sys/fs/cgroup"
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                yield from _climb(mount, path, "memory.max")
                yield from _climb(mount / "unified", path, "memory.max")
            elif "memory" in controllers.split(","):
                yield from _climb(mount / "memory", path, "memory.limit_in_bytes")


def _climb(mount: Path, path: str, name: str) -> Iterator[int]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for count in range(len(parts), -1, -1):
        with suppress(OSError, ValueError):  # `max` is no number: this group has no limit
            yield int(mount.joinpath(*parts[:count], name).read_text())


def raise_files() -> int:
    """Raise the soft limit of open files to the hard one; returns the number of files that the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_FILES if soft == resource.RLIM_INFINITY else soft


def out_of_files() -> bool:
    """Whether the process, or the machine, can open no file now. A connection that comes then is closed by libuv without a word."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in _NO_FILES  # EBADF, for one, only says that standard input is closed
    return False
