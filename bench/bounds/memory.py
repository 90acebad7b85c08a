"""Cost of a stuck reader: growth of the sidecar's resident memory per client that asks for a flood and reads nothing.

User space only: the kernel's socket buffers are not in a process's resident set. The first hundred clients warm the
allocator and are not counted. The floor is the growth of the same process while as many clients are connected and idle.
"""

import asyncio
import socket
from pathlib import Path

from bench.bounds.bound import Bound
from bench.origin import question


READERS = 200
WARM_UP = 100
BOUND_KIB = 256.0
SETTLE_SECONDS = 1.0


def resident_kib(pid: int) -> int:
    """VmRSS in KiB. Raises OSError without /proc."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


async def _stuck(port: int, count: int, request: bytes) -> list[socket.socket]:
    """Open `count` clients that send this and never read. Bare sockets: an event loop's transport would read ahead."""
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(count):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, request)
        clients.append(client)
    await asyncio.sleep(SETTLE_SECONDS)
    return clients


async def stuck_readers(port: int, pid: int) -> list[Bound]:
    """Measure the sidecar with process id `pid` on `port`."""
    clients = await _stuck(port, WARM_UP, question("flood"))
    before = resident_kib(pid)
    clients += await _stuck(port, READERS, b"")
    idle = resident_kib(pid)
    clients += await _stuck(port, READERS, question("flood"))
    after = resident_kib(pid)
    for client in clients:
        client.close()
    words = f"resident memory per stuck reader, {READERS} of them"
    floor = f"{(idle - before) / READERS:.1f} KiB per idle connection"
    return [Bound(words, BOUND_KIB, (after - idle) / READERS, "KiB", "one round", floor)]
