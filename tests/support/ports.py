"""Ports for servers that run in a process of their own and cannot say which port the kernel gave them.

They lie below those that the kernel hands out by itself (Linux: from 32768 on), so that no connection takes one before its
server listens there. Each worker of pytest-xdist has its own share of them.
"""

import os
import socket
from collections.abc import Iterator
from random import Random


FIRST, END = 10_000, 32_768


def _shuffled() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ports = list(range(FIRST + worker, END, workers))
    Random().shuffle(ports)
    yield from ports


_ports = _shuffled()


def free_port() -> int:
    """A port of 127.0.0.1 that is free now. It is given once, and nothing reserves it."""
    for port in _ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port from {FIRST} to {END} is free")
