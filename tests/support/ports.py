"""Ports for servers in a process of their own, which cannot tell the port that the kernel chose.

They lie below those that the kernel assigns by itself (Linux: from 32768 on), so that no connection takes one before
its server listens there. Each worker of pytest-xdist has its own share of them.
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
    """A port of 127.0.0.1 that is free now. Each is returned once, and nothing reserves it."""
    for port in _ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port from {FIRST} to {END} is free")
