"""Parts that all readers of reports share: the sink for reports, GETs over HTTP, and the counting and logging of failures.

GETs use connections of their own and never the relay's, one at a time and fresh each time; answers are bounded in size and
time. Knows no engine and does not interpret answers. Every failure is counted; it is logged when it begins.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import aiohttp
import structlog

from sidecar.engines.probe.scrape import state_session
from sidecar.engines.probe.where import http_url, unix_path
from sidecar.ledger.report import KeyedReport


POLL_TIMEOUT_SECONDS = 2.0
FAILED_SECONDS = 5.0
"""Seconds until the next try after a source could not be read."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ReportSink:
    """The calls that every reader of a source is given."""

    reported: Callable[[KeyedReport], None]
    dropped: Callable[[str, int], None]
    waiting: Callable[[], int]
    """How many requests wait for a report."""
    in_flight: Callable[[], int]
    clock: Callable[[], float]


NOT_FOUND = 404
NOT_THERE = f"status {NOT_FOUND}: this release has no such page"


class SourceHealth:
    """Counts every failed read of a source, and logs when the failures begin and end."""

    def __init__(self, source: str, hint: str, dropped: Callable[[str, int], None]) -> None:
        self._source, self._hint, self._dropped = source, hint, dropped
        self._why: str | None = None

    def failed(self, why: str, hint: str = "") -> float:
        """The source could not be read. `why` has no secrets; `hint`: another one than usual. Returns the seconds until the next try."""
        self._dropped("report_source_failed", 1)
        if why != self._why:
            log.warning("report_source_unreadable", source=self._source, why=why, hint=hint or self._hint)
        self._why = why
        return FAILED_SECONDS

    def over(self) -> None:
        if self._why is not None:
            log.info("report_source_readable", source=self._source)
        self._why = None


class SourceClient:
    """GETs on connections of its own."""

    def __init__(self, url: str) -> None:
        self._url, self._unix_path = http_url(url), unix_path(url)
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, step_bytes: int, most_bytes: int) -> AsyncGenerator[bytes, None]:
        """The body in steps. Raises Unanswered."""
        if self._session is None:
            self._session = state_session(POLL_TIMEOUT_SECONDS, self._unix_path)
        size = 0
        try:
            async with self._session.get(self._url + path, allow_redirects=False) as response:
                if response.status != 200:
                    raise Unanswered(NOT_THERE if response.status == NOT_FOUND else f"status {response.status}")
                if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
                    raise Unanswered("compressed, although the request did not accept that")
                while data := await response.content.read(step_bytes):
                    size += len(data)
                    if size > most_bytes:
                        raise Unanswered(f"more than {most_bytes} bytes")
                    yield data
        except TimeoutError:
            raise Unanswered(f"no whole answer in {POLL_TIMEOUT_SECONDS} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unanswered(type(error).__name__) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class Unanswered(Exception):  # noqa: N818  it happens, it is no error of ours
    """The engine gave no readable answer; the text is the reason, without parts of its body."""
