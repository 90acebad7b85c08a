"""Serves the runbooks on the admin listener, so that links in alerts work in a cluster without internet access.

| path | answers |
|---|---|
| `/runbooks/` | the index |
| `/runbooks/NAME` | the runbook of the alert of this name, filled in for the labels of its link (`runbook_labels.py`), with this pod's answers to its queries |
| `/runbooks/NAME.md` | the file as it is, as text: nothing is filled in |

Knows the files of `sidecar/runbooks/`, all read when the process starts. Refuses to know their content. A requested name is
looked up among the existing names and never becomes a path. What is kept is one drawing for each file; what depends on a
link or an instant is made anew, in slices.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import structlog
from aiohttp import web

from sidecar.admin import runbook_page as around
from sidecar.admin.diagnosis import Diagnoses
from sidecar.admin.page.page import PAGE_HEADERS
from sidecar.admin.runbook_drawing import INDEX, Part, Query, Shown, drawn, parts
from sidecar.admin.runbook_labels import LINK_LABELS, Asked, asked
from sidecar.diagnosis.confirming import Answer, answered
from sidecar.history.ring import History
from sidecar.history.rows import Moment
from sidecar.history.slices import Sliced, run_sliced
from sidecar.history.snapshot import Snapshot
from sidecar.metrics.catalogue import DROPPED_TOTAL


log = structlog.get_logger()


@cache
def read() -> Mapping[str, str]:
    """Name to text, the index included. Raises OSError if the package lost its files."""
    texts = {file.name: file.read_text("utf-8") for file in files("sidecar").joinpath("runbooks").iterdir()}
    return {name.removesuffix(".md"): text for name, text in sorted(texts.items()) if name.endswith(".md")}


class Runbooks:
    """The runbooks of one process. `clock`: monotonic seconds; `unix`: Unix seconds; `placement`: `logs/placement.py`."""

    def __init__(
        self,
        history: History,
        clock: Callable[[], float],
        diagnoses: Diagnoses,
        *,
        unix: Callable[[], float] = time.time,  # noqa: TID251  one check is the age of a timestamp
        placement: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._texts = read()
        self._history = history
        self._clock = clock
        self._diagnoses = diagnoses
        self._unix = unix
        self._placement = placement
        # Without the downward API: in Kubernetes a pod's name is its host name, unless it uses the node's network.
        self._pod = placement.get("pod") or os.uname().nodename
        self._reading = asyncio.Lock()
        # Made once, on the first request: some milliseconds each, and few of them are ever requested.
        self._parts: Callable[[str], tuple[Part, ...]] = cache(lambda name: parts(self._texts[name]))

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/runbooks", self._to_the_index), web.get("/runbooks/{name:.*}", self._answer)]

    async def _to_the_index(self, _request: web.Request) -> web.StreamResponse:
        raise web.HTTPPermanentRedirect("/runbooks/")

    async def _answer(self, request: web.Request) -> web.Response:
        wanted = request.match_info["name"]
        name = wanted.removesuffix(".md") or INDEX
        text = self._texts.get(name)
        if text is None:
            names = (other for other in self._texts if other != INDEX)
            return _html(around.no_such_runbook(names), 404)
        if wanted.endswith(".md"):
            return web.Response(text=text, content_type="text/plain", charset="utf-8", headers=PAGE_HEADERS)
        # In a thread: reading Markdown must not delay traffic. One at a time: mdurl 0.1.2, which writes the links, shares a table
        # that is not whole while its first user fills it, and a second thread then fails with IndexError.
        async with self._reading:
            of = await asyncio.to_thread(self._parts, name)
        if name == INDEX:
            return _html(around.page("Runbooks", await run_sliced(drawn(of, Shown(values={}, answers={})))))
        closed = {"lane": self._history.metrics.lanes.shown(), "model": self._history.metrics.models.shown()}
        what = asked(list(request.query.items()), closed["lane"], closed["model"], self._placement)
        body = await run_sliced(self._filled(name, of, what, closed, _port(request)))
        return _html(around.page(name, body), 400 if what.refused else 200)

    def _filled(
        self,
        name: str,
        of: tuple[Part, ...],
        what: Asked,
        closed: Mapping[str, Sequence[str]],
        port: int | None = None,
    ) -> Sliced[str]:
        """A runbook as of now."""
        now = yield from self._history.now(self._clock())
        places = [label for label in LINK_LABELS if f"${label}" in self._texts[name]]
        diagnosis = around.of_lane((yield from self._diagnoses.of(now)), what.values, any_lane="lane" not in places)
        engines, about_engines = around.engines_shown(what, self._diagnoses.engine())
        html = yield from drawn(
            of,
            Shown(
                values=what.values,
                answers=(yield from self._answers(of, now, what)),
                engines=engines,
                about_engines=about_engines,
                cause=(diagnosis and diagnosis.cause) or "",
                phase=(diagnosis and diagnosis.phase) or "",
            ),
        )
        yield
        lane = (what.values if "lane" in places else what.given).get("lane")
        present = around.present(name, diagnosis, lane, self._diagnoses.engine_down(now))
        return around.under_title(html, around.box(what, places, closed, present, pod=self._pod, port=port))

    def _answers(self, of: tuple[Part, ...], now: Snapshot, what: Asked) -> Sliced[dict[str, Answer]]:
        moment = Moment(history=self._history, now=now, at_unix=self._unix(), labels=what.values)
        found = {}
        for check in [part.check for part in of if isinstance(part, Query) and part.check]:
            yield
            try:
                found[check] = yield from answered(check, moment)
            except Exception:  # the text of the runbook is worth more than the number
                self._history.metrics.counter(DROPPED_TOTAL).child("observer_error").inc()
                log.exception("runbook_check_failed", check=check)
                found[check] = Answer(False, ("unknown: the sidecar failed to answer, and its log says why",))
        return found


def _port(request: web.Request) -> int | None:
    """The port of the listener itself: a Service in front of it may have another."""
    address = None if request.transport is None else request.transport.get_extra_info("sockname")
    return int(address[1]) if isinstance(address, tuple) else None


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(status=status, text=text, content_type="text/html", charset="utf-8", headers=PAGE_HEADERS)
