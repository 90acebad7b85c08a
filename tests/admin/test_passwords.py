"""Passwords are checked beside the event loop, once per question, at most two at a time, and at an equal cost for all."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable

import bcrypt
import pytest

from sidecar.admin import passwords as checking
from sidecar.admin.passwords import (
    CHECKS_AT_ONCE,
    KNOWN_BAD,
    KNOWN_GOOD,
    LOWEST_PRIORITY,
    PLACES,
    PLACES_PER_PEER,
    BusyError,
    Passwords,
)


USER, PASSWORD = b"prometheus", b"pw-CANARY"
HASH = bcrypt.hashpw(PASSWORD, bcrypt.gensalt(4)).decode()
matches = checking._matches


def priority() -> int:
    """The priority of the thread that asks."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


class Checks:
    """Counts the checks, and lets them wait until it is opened."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bytes]] = []
        self.at_once = self.most_at_once = 0
        self.priorities: set[int] = set()
        self.opened = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        with self._lock:
            self.asked.append((password, hashed))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.priorities.add(priority())
        assert self.opened.wait(30)
        with self._lock:
            self.at_once -= 1
        return matches(password, hashed)


def play(scenario: Callable[[Passwords, Checks], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Checks()
    monkeypatch.setattr(checking, "_matches", checks)

    async def whole() -> None:
        passwords = Passwords()
        passwords.admit({USER.decode(): HASH})
        try:
            await scenario(passwords, checks)
        finally:
            checks.opened.set()
            passwords.close()

    asyncio.run(whole())


def test_right_and_wrong_are_told_apart_and_each_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(passwords: Passwords, checks: Checks) -> None:
        checks.opened.set()
        asked = [(USER, PASSWORD), (USER, b"wrong"), (b"other", PASSWORD), (USER, b""), (USER, b"\0")]
        twice = [[await passwords.right(*each, peer="a") for each in asked] for _ in range(2)]

        assert twice == [[True, False, False, False, False]] * 2
        assert len(checks.asked) == len(asked)

    play(scenario, monkeypatch)


def test_an_unknown_user_costs_as_much_as_the_dearest_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the time of an answer would tell which names exist. The hash is a real one of the same cost."""

    async def scenario(passwords: Passwords, checks: Checks) -> None:
        checks.opened.set()
        dear = bcrypt.hashpw(PASSWORD, bcrypt.gensalt(6)).decode()
        passwords.admit({"cheap": HASH, "dear": dear})
        await passwords.right(b"unknown", PASSWORD, peer="a")
        ((_, decoy),) = checks.asked

        assert (decoy[:7], len(decoy)) == (dear[:7].encode(), len(dear))
        assert matches(PASSWORD, decoy) is False

    play(scenario, monkeypatch)


def test_equal_questions_at_one_time_are_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(passwords: Passwords, checks: Checks) -> None:
        asking = [asyncio.ensure_future(passwords.right(USER, PASSWORD, peer=str(n))) for n in range(5)]
        await asyncio.sleep(0)
        asking[0].cancel()  # the one that began it leaves, and the others still get their answer
        checks.opened.set()

        assert await asyncio.gather(*asking[1:]) == [True] * 4
        assert len(checks.asked) == 1

    play(scenario, monkeypatch)


@pytest.mark.long
def test_two_are_checked_at_a_time_at_the_lowest_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's own thread keeps the priority that it had."""

    async def scenario(passwords: Passwords, checks: Checks) -> None:
        before = priority()
        asking = [asyncio.ensure_future(passwords.right(USER, b"%d" % n, peer=str(n))) for n in range(PLACES)]
        await asyncio.sleep(0)
        checks.opened.set()

        assert await asyncio.gather(*asking) == [False] * PLACES
        assert 1 <= checks.most_at_once <= CHECKS_AT_ONCE
        assert (checks.priorities, priority()) == ({LOWEST_PRIORITY}, before)

    play(scenario, monkeypatch)


def test_who_finds_no_place_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One address may take a quarter of the places, all of them together no more than there are; answered ones free theirs."""

    async def scenario(passwords: Passwords, checks: Checks) -> None:
        first = [asyncio.ensure_future(passwords.right(USER, b"%d" % n, peer="a")) for n in range(PLACES_PER_PEER)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await passwords.right(USER, b"one more", peer="a")
        rest = [
            asyncio.ensure_future(passwords.right(USER, b"+%d" % n, peer=str(n)))
            for n in range(PLACES - PLACES_PER_PEER)
        ]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await passwords.right(USER, PASSWORD, peer="b")
        checks.opened.set()
        await asyncio.gather(*first, *rest)

        assert await passwords.right(USER, PASSWORD, peer="a") is True
        assert not passwords._waiting

    play(scenario, monkeypatch)


def test_a_password_that_is_known_passes_while_an_attacker_holds_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """And wrong passwords, however many, do not push it out of memory."""

    async def scenario(passwords: Passwords, checks: Checks) -> None:
        checks.opened.set()
        assert await passwords.right(USER, PASSWORD, peer="prometheus") is True
        for number in range(2 * KNOWN_BAD):
            checking._keep(passwords._bad, KNOWN_BAD, b"%d" % number)
        checks.opened.clear()
        attack = [asyncio.ensure_future(passwords.right(USER, b"%d" % n, peer=str(n))) for n in range(PLACES)]
        await asyncio.sleep(0)

        assert await passwords.right(USER, PASSWORD, peer="prometheus") is True
        assert (len(passwords._bad), len(passwords._good) <= KNOWN_GOOD) == (KNOWN_BAD, True)
        checks.opened.set()
        await asyncio.gather(*attack)

    play(scenario, monkeypatch)


@pytest.mark.long
def test_a_changed_hash_ends_the_old_password_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(passwords: Passwords, checks: Checks) -> None:
        checks.opened.set()
        assert await passwords.right(USER, PASSWORD, peer="a") is True
        passwords.admit({USER.decode(): bcrypt.hashpw(b"new", bcrypt.gensalt(4)).decode()})

        assert [await passwords.right(USER, each, peer="a") for each in (PASSWORD, b"new")] == [False, True]
        passwords.admit({})
        assert await passwords.right(USER, b"new", peer="a") is False

    play(scenario, monkeypatch)


def test_no_password_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(passwords: Passwords, checks: Checks) -> None:
        checks.opened.set()
        await passwords.right(USER, PASSWORD, peer="a")
        await passwords.right(USER, PASSWORD + b"wrong", peer="a")

        assert b"CANARY" not in b"".join([*passwords._good, *passwords._bad, *passwords._asked])
        assert (len(passwords._good), len(passwords._bad), len(passwords._asked)) == (1, 1, 0)

    play(scenario, monkeypatch)


@pytest.mark.parametrize("length", [72, 73, 500])
def test_a_long_password_is_cut_as_htpasswd_cuts_it(length: int) -> None:
    """bcrypt reads 72 bytes; version 5 of the library raises for more, and version 4 did not."""
    hashed = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4))

    assert matches(b"x" * length, hashed) is True
