"""Checks passwords against bcrypt hashes: in two threads of the lowest priority, each question once, and never without a bound.

One check takes 60 ms of a core at cost 10, and an attacker asks a thousand a second, so that checks run beside the event loop
and yield to it, answers are kept, and what does not find a place is refused unread. It knows users and hashes. It refuses to
know HTTP (`access.py`), and it keeps no password: an answer is kept under a hash with a key that this process drew.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import bcrypt


CHECKS_AT_ONCE = 2
LOWEST_PRIORITY = 19
"""As `nice -n 19`: on a busy core the event loop gets 70 times as much."""
PLACES = 32
"""Requests that wait for a check, in all: two seconds of work at cost 10."""
PLACES_PER_PEER = 8
"""The most of them for one address, so that one attacker leaves room for Prometheus."""
KNOWN_GOOD = 128
"""Answers that are kept for right passwords. Wrong ones have a store of their own and push none of these out."""
KNOWN_BAD = 1024
LONGEST_PASSWORD_BYTES = 72
"""bcrypt reads no further; what is longer is cut, as htpasswd and Go do."""
_ANY_HASH = "." * 53
"""Salt and digest of the hash that is checked for unknown users, so that they take as long as known ones."""


class BusyError(Exception):
    """No place is free; `Retry-After` is in order."""


class Passwords:
    """The users of one admin listener. Belongs to one event loop. The threads start with the first check."""

    def __init__(self) -> None:
        self._users: Mapping[bytes, bytes] = {}
        self._decoy = b""
        self._key = secrets.token_bytes(32)
        self._good: OrderedDict[bytes, bool] = OrderedDict()
        self._bad: OrderedDict[bytes, bool] = OrderedDict()
        self._asked: dict[bytes, asyncio.Future[bool]] = {}
        self._waiting: Counter[str] = Counter()
        self._threads: ThreadPoolExecutor | None = None

    def admit(self, users: Mapping[str, str]) -> None:
        """Replace the users: name to bcrypt hash. Answers are kept by hash too, so that no old password stays valid."""
        self._users = {name.encode(): hashed.encode() for name, hashed in users.items()}
        costs = [hashed[4:6] for hashed in users.values()]
        self._decoy = f"$2b${max(costs, default='10')}${_ANY_HASH}".encode()

    async def right(self, user: bytes, password: bytes, peer: str) -> bool:
        """Whether this user has this password. `peer`: the address that asks. Raises BusyError."""
        hashed = self._users.get(user)
        question = self._question(user, password, hashed or self._decoy)
        if question in self._good:
            return True
        if question in self._bad:
            return False
        if self._waiting.total() >= PLACES or self._waiting[peer] >= PLACES_PER_PEER:
            raise BusyError
        self._waiting[peer] += 1
        try:
            return await asyncio.shield(self._check(question, password, hashed))
        finally:
            self._waiting[peer] -= 1
            self._waiting += Counter()  # without the peers at 0

    def close(self) -> None:
        """Stop the threads once their checks are done; nothing is waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _question(self, *parts: bytes) -> bytes:
        keyed = hashlib.blake2b(key=self._key, digest_size=32)
        for part in parts:
            keyed.update(b"%d:" % len(part) + part)
        return keyed.digest()

    def _check(self, question: bytes, password: bytes, hashed: bytes | None) -> asyncio.Future[bool]:
        """The check of this question: the one under way, or a new one."""
        if question in self._asked:
            return self._asked[question]
        if self._threads is None:
            self._threads = ThreadPoolExecutor(CHECKS_AT_ONCE, "admin.passwords", _yield_to_all)
        loop = asyncio.get_running_loop()
        checking = loop.run_in_executor(self._threads, _matches, password, hashed or self._decoy)
        known = hashed is not None

        async def answer() -> bool:
            try:
                good = await checking and known
            finally:
                del self._asked[question]
            _keep(*((self._good, KNOWN_GOOD) if good else (self._bad, KNOWN_BAD)), question)
            return good

        self._asked[question] = asking = asyncio.ensure_future(answer())
        asking.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # heard, where all that asked have left
        return asking


def _keep(answers: OrderedDict[bytes, bool], most: int, question: bytes) -> None:
    answers[question] = True
    if len(answers) > most:
        answers.popitem(last=False)


def _yield_to_all() -> None:
    # Linux gives each thread a priority of its own; elsewhere, or where it is forbidden, the checks run as any thread does.
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)


def _matches(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:LONGEST_PASSWORD_BYTES], hashed)
    except ValueError:  # a byte 0, which bcrypt 4 refuses
        return False
