"""Sends the garden to one hop: many connections at once, each one attack, each judged; what looks wrong is sent again alone.

Knows sockets and the order of an attack. Whether an attack succeeded is for `judgement.py`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.garden.hostile_answers import HostileAnswer
from tests.garden.judgement import Exchanged, expected_methods, final_answers, judge_answer, judge_sequence
from tests.garden.recording_origin import RecordingOrigin
from tests.garden.sequence import PAUSE_SECONDS, AttackSequence
from tests.garden.strict_reader import read_answers, read_requests


ATTACKS_AT_ONCE = 32
"""Attacks at one time."""
PATIENCE_SECONDS = 0.3
"""Longest silence of a hop that still reads a request; after that the client leaves."""
PATIENCE_ALONE_SECONDS = 3.0
"""The same where an attack is sent again because it looked wrong, with nothing beside it."""
TRIES_ALONE = 2
ENOUGH_PROVEN = 3
"""Faults of one round that are proven by sending the attack again alone; further ones are believed at once."""


@dataclass(frozen=True, slots=True)
class Hop:
    """An address under attack. `strict`: it promises to accept no more than the strict reader."""

    name: str
    host: str
    port: int
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One attack that showed a fault."""

    family: str
    attack: str
    fault: str


async def send_garden(hop: Hop, sequences: Iterable[AttackSequence], origin: RecordingOrigin) -> list[Finding]:
    """Send all sequences and judge each."""
    every = list(sequences)
    gate = asyncio.Semaphore(ATTACKS_AT_ONCE)
    got: dict[int, Exchanged] = {}

    async def one(sequence: AttackSequence) -> None:
        async with gate:
            got[sequence.number] = await exchange(hop, sequence, PATIENCE_SECONDS)

    for start in range(0, len(every), 1000):
        await asyncio.gather(*map(one, every[start : start + 1000]))
    by_number = origin.by_number()
    unmarked = {request.index for request in origin.requests if not request.numbers}
    findings: list[Finding] = []
    for sequence in every:
        seen = by_number.get(sequence.number, [])
        problem = origin.problems.get(sequence.number)
        fault = judge_sequence(sequence, got[sequence.number], seen, unmarked, problem=problem, strict=hop.strict)
        if fault is not None and len(findings) < ENOUGH_PROVEN:
            fault = await _again_alone(hop, sequence, origin, fault)
        if fault is not None:
            findings.append(Finding(str(sequence.family), str(sequence), fault))
    return findings


async def _again_alone(hop: Hop, sequence: AttackSequence, origin: RecordingOrigin, fault: str | None) -> str | None:
    """The fault, if it shows each time that the attack is sent alone. Another client's answer is a fault at once."""
    if fault is not None and "another client" in fault:
        return fault
    for _ in range(TRIES_ALONE):
        before = len(origin.requests)
        origin.problems.pop(sequence.number, None)
        got = await exchange(hop, sequence, PATIENCE_ALONE_SECONDS)
        seen = [request for request in origin.requests[before:] if sequence.number in request.numbers]
        unmarked = {request.index for request in origin.requests[before:] if not request.numbers}
        problem = origin.problems.get(sequence.number)
        fault = judge_sequence(sequence, got, seen, unmarked, problem=problem, strict=hop.strict)
        if fault is None:
            return None
    return fault


async def exchange(hop: Hop, sequence: AttackSequence, patience_seconds: float) -> Exchanged:
    """Send one attack, and read until every good request is answered, the hop closes, or patience ends."""
    sent = read_requests(sequence.sent)
    methods = expected_methods(sequence.sent, sent)

    def enough(received: bytes) -> bool:
        if sent.problem is not None or (sent.messages and sent.messages[-1].closes):
            return False  # then the hop is to close
        return len(final_answers(read_answers(received, methods, ended=False))) >= len(methods)

    return await talk(hop, sequence.pieces, enough, patience_seconds)


async def talk(
    hop: Hop, pieces: Sequence[bytes], enough: Callable[[bytes], bool], patience_seconds: float
) -> Exchanged:
    """Send the pieces on a connection of its own and read until `enough`, the end, or `patience_seconds` of silence."""
    received, ended = bytearray(), False
    try:
        reader, writer = await asyncio.open_connection(hop.host, hop.port)
    except OSError:
        return Exchanged(b"", ended=True)

    async def write() -> None:
        with suppress(ConnectionError):
            for place, piece in enumerate(pieces):
                if place:
                    await asyncio.sleep(PAUSE_SECONDS)
                writer.write(piece)
                await writer.drain()

    writing = asyncio.ensure_future(write())
    try:
        while not (writing.done() and enough(bytes(received))):
            data = await asyncio.wait_for(reader.read(65536), patience_seconds)
            if not data:
                ended = True
                break
            received += data
    except TimeoutError:
        pass
    except ConnectionError:
        ended = True
    finally:
        writing.cancel()
        writer.transport.abort()
    return Exchanged(bytes(received), ended)


FOLLOWER = b"GET /garden/follower/%d HTTP/1.1\r\nHost: garden\r\n\r\n"


async def send_answers(
    hop: Hop, origin: RecordingOrigin, keep: Callable[[HostileAnswer, bytes, Exchanged], None] | None = None
) -> list[Finding]:
    """Ask for every hostile answer by GET and by HEAD, with one more request behind each on the same connection.

    `keep` is called with each answer, the method and what the client got.
    """
    gate = asyncio.Semaphore(ATTACKS_AT_ONCE)
    judged: dict[tuple[int, bytes], tuple[str | None, Exchanged]] = {}

    async def one(number: int, method: bytes) -> None:
        async with gate:
            judged[number, method] = await _judged_answer(hop, origin, number, method, PATIENCE_SECONDS)

    every = [(number, method) for number in range(len(origin.answers)) for method in (b"GET", b"HEAD")]
    await asyncio.gather(*(one(number, method) for number, method in every))
    findings: list[Finding] = []
    for number, method in every:
        answer, (fault, got) = origin.answers[number], judged[number, method]
        if fault is not None or not got.received:
            # A busy client may lose an answer to the reset that follows it. Nothing else is sent any more.
            fault, got = await _judged_answer(hop, origin, number, method, PATIENCE_ALONE_SECONDS)
        if keep is not None:
            keep(answer, method, got)
        if fault is not None:
            findings.append(Finding("answers", f"{answer.family}: {answer.name} ({method.decode()})", fault))
    return findings


async def _judged_answer(
    hop: Hop, origin: RecordingOrigin, number: int, method: bytes, patience_seconds: float
) -> tuple[str | None, Exchanged]:
    answer = origin.answers[number]
    first = b"%b /garden/answers/%d/ HTTP/1.1\r\nHost: garden\r\n\r\n" % (method, number)
    before = len(origin.requests)
    tag = FOLLOWER % number

    def enough(received: bytes) -> bool:
        return len(final_answers(read_answers(received, [method, b"GET"], ended=False))) >= 2

    got = await talk(hop, (first, tag), enough, patience_seconds)
    target = b"/garden/follower/%d" % number
    seen = [request.index for request in origin.requests[before:] if request.message.start[1] == target]
    bodies = {b"garden-seen %d\n" % index for index in seen}
    finals = final_answers(read_answers(got.received, [method, b"GET"], ended=got.ended))
    follower = finals[1].body if len(finals) > 1 and finals[1].body in bodies else None
    return judge_answer(answer, method, got, follower), got
