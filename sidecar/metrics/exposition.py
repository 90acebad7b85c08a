"""The pages of one process in every format, written in slices that never stop the event loop for long.

A page as a whole takes many turns of the loop. Refuses to know HTTP. prometheus_client's own process_* and python_* families come
last, from collectors on a registry of their own; a lean page has no python_*, unless the whole page is asked for.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition

from sidecar.metrics.declaration import Profile
from sidecar.metrics.lean_page import lean_families
from sidecar.metrics.negotiation import Format, preferred
from sidecar.metrics.protobuf_page import ProtobufPage, process_families
from sidecar.metrics.registry import Metrics
from sidecar.metrics.text_page import slices


END = b"# EOF\n"


class ProcessPage:
    """process_*, and unless lean python_* with the garbage collector's counters, as prometheus_client writes them."""

    def __init__(self, profile: Profile = "full") -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        if profile == "full":
            PlatformCollector(registry=self._registry)
            GCCollector(registry=self._registry)

    def render(self, form: Format) -> bytes:
        """Render them: takes about 0.5 ms, and more with many open files, so call it in a thread."""
        if form is Format.PROTOBUF:
            return process_families(self._registry)
        if form is Format.OPENMETRICS:
            page: bytes = openmetrics_exposition.generate_latest(self._registry)  # type: ignore[no-untyped-call]  # theirs
            return page.removesuffix(END)
        return generate_latest(self._registry)


class Pages:
    """The pages of one process, in every format. `profile`: what stands on them, unless the whole page is asked for."""

    def __init__(self, metrics: Metrics, profile: Profile = "full") -> None:
        self._metrics = metrics
        self._whole_process = ProcessPage()
        self._process = self._whole_process if profile == "full" else ProcessPage(profile)
        self._families = None if profile == "full" else lean_families(metrics)
        self._protobuf = None if metrics.native_histograms == "off" else ProtobufPage(metrics)

    def preferred(self, accept: str) -> Format:
        """The format for a scraper with this Accept."""
        return preferred(accept, protobuf=self._protobuf is not None)

    def slices(self, form: Format, at: float, *, whole: bool = False) -> Iterator[bytes]:
        """The registry's part of the page. `whole`: all of it, whatever the profile."""
        if form is Format.PROTOBUF:
            assert self._protobuf is not None, "there is no such page"
            return self._protobuf.slices(at)
        families = None if whole else self._families
        return slices(self._metrics, openmetrics=form is Format.OPENMETRICS, at=at, families=families)

    async def write(
        self, write: Callable[[bytes], Awaitable[None]], form: Format, *, gzip: bool, at: float, whole: bool = False
    ) -> None:
        """Write one page, giving the loop a turn after every slice. Raises what `write` raises."""
        squeeze = zlib.compressobj(level=1, wbits=31) if gzip else None
        for part in self.slices(form, at, whole=whole):
            await _put(write, squeeze.compress(part) if squeeze else part)
        # A thread, because it reads /proc: with thousands of open files that takes milliseconds.
        process = self._whole_process if whole else self._process
        tail = await asyncio.to_thread(process.render, form)
        tail += END if form is Format.OPENMETRICS else b""
        await _put(write, squeeze.compress(tail) + squeeze.flush() if squeeze else tail)


async def _put(write: Callable[[bytes], Awaitable[None]], data: bytes) -> None:
    if data:
        await write(data)
    await asyncio.sleep(0)
