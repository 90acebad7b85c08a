"""Delay that a thousand wrong passwords a second at the admin listener add to the events of a stream, at p99.

A process of its own asks, each time with another password, on connections that stay open. In a round a direct and a proxied
stream run side by side, first in quiet and then under the attack. The figure is by how much the proxied stream's p99 grew more
than that of the direct one: load on the machine delays both. The floor is the growth of the direct one.
"""

import asyncio
import sys
from dataclasses import dataclass
from statistics import median

from bench.bounds.bound import Bound, spread
from bench.origin import Origin, Reader


ROUNDS = 7
EVENTS = 400
GAP_SECONDS = 0.004
PASSWORDS_PER_SECOND = 1000
CONNECTIONS = 20
BOUND_MS = 2.0
USERS = "basic_auth_users: {prometheus: $2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG}\n"
"""A web config for the sidecar that is measured; the hash is of cost 10, as `htpasswd -C 10` makes it."""
ATTACKER = """
import asyncio, base64, itertools, os, sys, time

port, rate, connections = (int(word) for word in sys.argv[1:])
os.nice(5)  # the cost of attacking is not measured
numbers, began_at = itertools.count(), time.monotonic()

async def one():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:  # shared: a connection whose password is being checked leaves its turns to the others
        await asyncio.sleep(began_at + number / rate - time.monotonic())
        told = base64.b64encode(b"prometheus:%d-%d" % (os.getpid(), number)).decode()
        writer.write(f"GET /metrics HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Basic {told}\\r\\n\\r\\n".encode())
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\\r\\n")[0])
        await reader.readexactly(length)
        print(int(head[9:12]), flush=True)

async def main():
    await asyncio.gather(*(one() for _ in range(connections)))

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Delays:
    """The p99 of both streams, in milliseconds."""

    direct: float
    proxied: float


async def wrong_passwords(origin: Origin, port: int, web_port: int) -> list[Bound]:
    """Measure the sidecar on these ports in front of `origin`. It runs with USERS as its web config."""
    readers = [await Reader.open(origin.port), await Reader.open(port)]
    await _streams(readers)
    grown, floors, rates = [], [], []
    for _ in range(ROUNDS):
        quiet = await _streams(readers)
        command = [sys.executable, "-c", ATTACKER, str(web_port), str(PASSWORDS_PER_SECOND), str(CONNECTIONS)]
        attacker = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert attacker.stdout is not None
            await attacker.stdout.readline()
            attacked = await _streams(readers)
        finally:
            attacker.kill()
            told, _ = await attacker.communicate()
        rates.append(told.count(b"\n") / (EVENTS * GAP_SECONDS))
        floors.append(attacked.direct - quiet.direct)
        grown.append(attacked.proxied - quiet.proxied - max(0.0, floors[-1]))
    words = f"added to a stream's events by wrong passwords, p99 ({median(rates):.0f} a second were answered)"
    floor = f"{median(floors):.3f} ms to a direct stream beside it"
    return [Bound(words, BOUND_MS, median(grown), "ms", spread(grown), floor)]


async def _streams(readers: list[Reader]) -> Delays:
    for reader in readers:
        reader.delays.clear()
    await asyncio.gather(*(reader.ask(f"{EVENTS} events {GAP_SECONDS} seconds") for reader in readers))
    return Delays(*(sorted(reader.delays)[len(reader.delays) * 99 // 100] * 1e3 for reader in readers))
