"""Asks the engine for its health (`/health`), its models (`/v1/models`) and, once, for a few more pages that show its kind.

`detect.py` decides the kind, `identity.py` reads the description. The prober has connections of its own and never uses the
relay's. Answers are bounded in size and time; an engine that is down or hangs costs a missed check and nothing else. A busy
engine is not down: if it leaves `/health` without an answer but sends bytes to its clients, it is up. A check that lacks a file,
memory or a port of our own tells nothing. A request that found no engine makes the next check due at once, so that what the
sidecar says of the engine is not two seconds behind what its clients see. The kind is asked again
after the engine was away, after a restart that its counters show, and when its list of models names another kind, again and again
(`timeline/belief.py`): one answer may come from another server. A round
has at most seven questions; while the engine leaves some of them without an answer, rounds become rarer. While its pool may be gone
(`engines/pool_behind.py`), each check asks for the list of models, and for nothing else.
"""

import asyncio
from collections.abc import Callable

import aiohttp
import structlog

from sidecar.engines.engine import AUTO, NONE, Engine
from sidecar.engines.kinds import kind_named
from sidecar.engines.pool_behind import NOT_HERE, WHY
from sidecar.engines.probe.detect import next_question, recognised
from sidecar.engines.probe.identity import identity_of
from sidecar.engines.probe.replies import MODELS_PATH, Answer, Answers, lists_nothing, models_in, says_nothing_behind
from sidecar.engines.probe.unreached import why_unreached
from sidecar.engines.probe.where import http_url, unix_path
from sidecar.lifecycle import FAILED_CHECKS, SILENCE_SECONDS, Readiness
from sidecar.proxy.errors import is_ours
from sidecar.timeline.belief import Belief


INTERVAL_SECONDS = 2.0
TIMEOUT_SECONDS = 2.0
MAX_ANSWER_BYTES = 192 << 10
"""Enough for SGLang's /server_info, the longest, and for hundreds of adapters; reading it blocks the loop."""
MODELS_AGAIN_SECONDS = 60.0
"""LoRA adapters come and go while the engine runs."""
MAX_HEALTH_BYTES = 4096
"""A page of health that says that nothing stands behind it is short."""
REFUSALS = (401, 403)
NO_MODELS_AGAIN_SECONDS = 5.0
"""While no model is known every request counts as one of `other`: an engine may still load its models, or refuse the question."""


log = structlog.get_logger()


class Prober:
    """Keeps an `Engine` and a `Readiness` informed."""

    def __init__(
        self,
        url: str,
        engine: Engine,
        readiness: Readiness,
        *,
        clock: Callable[[], float],
        changed: Callable[[], None],
        heard_at: Callable[[], float] = lambda: float("-inf"),
        key: Callable[[], str] = str,
    ) -> None:
        """`clock`: monotonic seconds; `changed`: told when something was learned; `heard_at`: when traffic last brought a byte from the engine.
        `key`: the engine's API key, "" for none; called at each question, in a thread, because it may read a file.
        """
        self._key = key
        self._stated_url, self._url, self._unix_path = url, http_url(url), unix_path(url)
        self._engine = engine
        self._readiness = readiness
        self._clock = clock
        self._changed = changed
        self._heard_at = heard_at
        self._unanswered = 0
        self._away = ""
        """The reason in words why the last check failed."""
        self._was_reached = False
        """A check of this process was answered."""
        self._was_up: bool | None = None
        """As it was last told."""
        self._says_so = False
        """Its health says that it cannot work, or has nothing behind it, as of the last check."""
        self._lacking = False
        """The last check was not made, for want of a file, memory or a port."""
        self._models_at = float("-inf")
        self._asked_lists: tuple[str, ...] = ()
        self._anew = True
        """All questions are due, not only the models."""
        self._another = Belief()  # its list of models names another kind
        self._again_at = float("-inf")
        self._rounds = 0
        self._missed = asyncio.Event()
        """Since the last check a request found no engine."""

    async def run(self) -> None:
        """Ask for ever. Cancel to stop."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        jar = aiohttp.DummyCookieJar()
        headers = {"Accept-Encoding": "identity"}
        connector = aiohttp.UnixConnector(self._unix_path) if self._unix_path else None
        async with aiohttp.ClientSession(
            timeout=timeout, cookie_jar=jar, auto_decompress=False, headers=headers, connector=connector
        ) as session:
            early = False
            while True:
                self._missed.clear()
                try:
                    await self.ask(session)
                except Exception:
                    log.exception("probe_failed")
                early = await self._next_is_due(may_be_early=not early)

    async def _next_is_due(self, *, may_be_early: bool) -> bool:
        """Wait for an interval, or until a request finds no engine. Returns whether it was the request."""
        try:
            async with asyncio.timeout(INTERVAL_SECONDS):
                # After an early check the interval is a whole one: a flood of failed requests doubles the checks at most.
                await (self._missed.wait() if may_be_early else asyncio.Event().wait())
        except TimeoutError:
            return False
        return True

    def not_reached(self) -> None:
        """A request found no engine. While the last check found one, the next is made at once."""
        if self._engine.up is not False:
            self._missed.set()

    def ask_anew(self) -> None:
        """The engine restarted: it may have another version, kind and models."""
        self._engine.began_anew()
        self._anew = True
        self._rounds = 0
        self._again_at = float("-inf")

    async def ask(self, session: aiohttp.ClientSession) -> None:
        answers, pool = await self._is_up(session), self._engine.pool
        if answers is None:
            return
        if pool.in_doubt or pool.gone:
            await self._list(session)
        self._engine.up = answers
        up, away = self._engine.up, WHY if pool.gone else None if answers else self._away
        if up != self._was_up:
            self._was_up, self._engine.away = up, away
            self.ask_anew()
            self._changed()
        elif away != self._engine.away:
            self._engine.away = away
            self._changed()
        now = self._clock()
        if not up or pool.in_doubt or self._engine.kind == NONE or now < self._again_at:
            return
        again_seconds = MODELS_AGAIN_SECONDS if self._engine.names.listed else NO_MODELS_AGAIN_SECONDS
        new_place = self._engine.lists != self._asked_lists
        if self._anew or new_place or now - self._models_at > again_seconds:
            before = self._engine.told
            await self._ask_what(session)
            if self._engine.told != before:
                self._changed()

    async def _is_up(self, session: aiohttp.ClientSession) -> bool | None:
        """Whether the engine is up; None if the check could not be made."""
        # A server without /health (404) is there all the same; one that answers 5xx says itself that it cannot work.
        try:
            status = await self._status(session, "/health")
        except OSError as ours:
            if not self._lacking:
                log.warning("probe_not_made", error=ours.strerror, hint="the engine's state stays as it was last seen")
            self._lacking = True
            return None
        self._lacking = False
        now = self._clock()
        self._engine.is_silent = status == _SILENT
        self._says_so = self._says_so or (status is not None and 500 <= status != _SILENT)
        if status is not None and status < 500:
            self._unanswered, self._was_reached = 0, True
            self._readiness.answered(now)
            return True
        self._readiness.failed()
        self._unanswered += 1
        # Silence alone is what overload looks like: only a lasting one, on all connections, is taken for an end.
        busy = self._unanswered < FAILED_CHECKS or now - self._heard_at() <= SILENCE_SECONDS
        return status == _SILENT and self._engine.up is True and busy

    async def _ask_what(self, session: aiohttp.ClientSession) -> None:
        engine = self._engine
        answers = {MODELS_PATH: await self._list(session)}
        refused = answers[MODELS_PATH].status
        engine.refuses_models = refused if refused in REFUSALS else None
        if answers[MODELS_PATH].status is None:
            self._wait_longer()
            return
        self._models_at = self._clock()
        kind = recognised(answers) if engine.detects else engine.kind
        if not self._anew and not self._names_another(kind, answers):
            return
        while engine.detects and (path := next_question(answers)) is not None:
            answers[path] = await self._answer(session, path)
        kind = recognised(answers) if engine.detects else engine.kind
        for path in kind_named(kind or AUTO).asks:
            if path not in answers:
                answers[path] = await self._answer(session, path)
        if all(answer.status is not None for answer in answers.values()):
            self._anew, self._rounds = False, 0
        else:
            self._anew = True
            self._wait_longer()
            if kind is None:
                return  # what it was before, it may still be
        self._another = Belief()
        engine.is_kind(kind or AUTO)
        engine.says(identity_of(engine.speaks, answers))

    def _names_another(self, kind: str | None, answers: Answers) -> bool:
        """Take in a list of models. Returns whether it names another kind, as often as it takes to believe that."""
        engine = self._engine
        another = kind is not None and kind != engine.kind
        self._another.seen(another)
        if another and engine.kind != AUTO and not self._another.holds:
            self._models_at = float("-inf")  # asked again at the next check
            return False
        listed = identity_of(engine.speaks, answers)
        if listed.models is not None:
            engine.serves(listed.models, listed.adapters)
        return another

    async def _list(self, session: aiohttp.ClientSession) -> Answer:
        """The engine's list of models, from the first place that has one; the answer of the usual place if none has."""
        engine = self._engine
        found = usual = await self._answer(session, MODELS_PATH)
        self._asked_lists = engine.lists
        for path in engine.lists if usual.status is not None and models_in(usual.body) is None else ():
            other = await self._answer(session, path)
            if other.status is None or models_in(other.body) is not None:
                found = other
                break
        models = models_in(found.body)
        has_some = models is not None and bool(models.data)
        if has_some or str(found.status) in NOT_HERE or lists_nothing(found.body):
            engine.pool.lists(self._clock(), models=has_some, says_so=self._says_so)
        return usual if found.status is None else found

    def _wait_longer(self) -> None:
        """A question had no answer: the next round comes later, and each further one later still."""
        self._rounds += 1
        self._again_at = self._clock() + min(MODELS_AGAIN_SECONDS, INTERVAL_SECONDS * (2 ** min(self._rounds, 10) - 2))

    async def _status(self, session: aiohttp.ClientSession, path: str) -> int | None:
        """The status, None for no connection, or `_SILENT`. Raises OSError if the lack is our own (`is_ours`)."""
        pool = self._engine.pool
        self._says_so = False
        try:
            async with session.get(self._url + path, allow_redirects=False) as response:
                self._away = f"{self._stated_url} answers {response.status} to {path}"
                if pool.in_doubt or pool.gone:
                    self._says_so = says_nothing_behind(await response.content.read(MAX_HEALTH_BYTES))
                return response.status
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, OSError) and is_ours(error):
                raise
            self._away = why_unreached(error, self._stated_url, was_reached=self._was_reached)
            return _SILENT if isinstance(error, TimeoutError) else None

    async def _answer(self, session: aiohttp.ClientSession, path: str) -> Answer:
        key = await asyncio.to_thread(self._key)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            async with session.get(self._url + path, allow_redirects=False, headers=headers) as response:
                server = response.headers.get("Server", "")
                if response.status != 200:
                    return Answer(response.status, server=server)
                pieces, size = [], 0
                while size < MAX_ANSWER_BYTES and (more := await response.content.read(MAX_ANSWER_BYTES - size)):
                    pieces.append(more)
                    size += len(more)
                return Answer(200, b"".join(pieces), server)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return Answer(None)


_SILENT = 599
"""Stands for a status: the connection is open, and no answer came in time."""
