"""A minimal relay: aiohttp's server and client pass each piece on. It measures nothing.

It is measured beside the sidecar where a figure depends on the machine as much as on the code: `added_latency.py`.
`python -m bench.bounds.plain_relay PORT` listens on any port of 127.0.0.1, prints it, and relays to PORT.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop
from aiohttp import ClientSession, web


HOP_BY_HOP = ("Transfer-Encoding", "Connection", "Content-Length")


@contextmanager
def running_plain_relay(origin_port: int) -> Iterator[int]:
    """Its port, for the length of a `with` block, in a process of its own. Raises RuntimeError if it does not start."""
    command = [sys.executable, "-m", "bench.bounds.plain_relay", str(origin_port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if not said:
                raise RuntimeError(f"{' '.join(command)} ended with {process.wait()}")
            yield int(said)
        finally:
            process.kill()


async def _serve(origin_port: int) -> None:
    async with ClientSession(f"http://127.0.0.1:{origin_port}", auto_decompress=False) as session:

        async def relay(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            headers = {"Content-Type": request.content_type}
            async with session.request(request.method, request.rel_url, data=body, headers=headers) as answer:
                kept = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", relay)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
