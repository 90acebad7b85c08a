"""`/workload.jsonl` of the admin listener: the closed requests of this process as a workload, a line each, without text.

It knows HTTP, and neither a row nor a format (`sidecar/accounts/workload_lines.py`). The lines are written in slices between which traffic has
the loop. A client that does not read holds one of DOWNLOADS_AT_ONCE places for DOWNLOAD_SECONDS at most.
"""

import asyncio
import zlib

from aiohttp import hdrs, web

from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.workload_lines import FORMATS, slices_of
from sidecar.admin.diagnosis import JSON_HEADERS
from sidecar.metrics.negotiation import accepts_gzip


DOWNLOADS_AT_ONCE = 2
"""Downloads at once: each sorts the ring, in 16 bytes a request; a further one gets 503."""
DOWNLOAD_SECONDS = 300.0
"""A full ring is 80 MB, or 9 MB with gzip."""


class WorkloadDownload:
    """The path for one ring."""

    def __init__(self, ring: AccountRing) -> None:
        self._ring = ring
        self._inside = 0

    def routes(self) -> list[web.RouteDef]:
        """The path, for GET and HEAD."""
        return [web.get("/workload.jsonl", self._answer)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        default, *_ = FORMATS
        asked = request.query.getall("format", [default])
        line = FORMATS.get(asked[0]) if len(asked) == 1 else None
        if line is None:
            return web.Response(status=400, text=f"format: one of {', '.join(FORMATS)}.\n", headers=JSON_HEADERS)
        if self._inside >= DOWNLOADS_AT_ONCE:
            return web.Response(status=503, text="Too many downloads at once.\n", headers={"Retry-After": "5"})
        gzip = accepts_gzip(",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, [])))
        response = web.StreamResponse(
            headers={**JSON_HEADERS, "Content-Type": "application/x-ndjson", "Vary": "Accept-Encoding"}
        )
        if gzip:
            response.headers["Content-Encoding"] = "gzip"
        squeeze = zlib.compressobj(level=1, wbits=31) if gzip else None
        self._inside += 1
        try:
            async with asyncio.timeout(DOWNLOAD_SECONDS):
                await response.prepare(request)
                if request.method != hdrs.METH_HEAD:
                    for lines in slices_of(self._ring, line):
                        await _put(response, squeeze.compress(lines) if squeeze else lines)
                    await _put(response, squeeze.flush() if squeeze else b"")
                await response.write_eof()
        except (TimeoutError, ConnectionError):
            # A file that was cut off must not look complete: the chunked body has no end.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._inside -= 1
        return response


async def _put(response: web.StreamResponse, data: bytes) -> None:
    if data:
        await response.write(data)
    await asyncio.sleep(0)
