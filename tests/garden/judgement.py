"""Verdicts on attacks: what was sent, what the origin read and what the client got are held against each other.

A hop may read a request in its own way, or refuse it. It must not let the origin read other requests than it has read
itself. This shows without a look inside the hop: each request that the origin reads is answered with its number, so the
answers that the client gets are the requests that the hop knows of. Knows bytes that have gone by, and no socket.
"""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from tests.garden.hostile_answers import HostileAnswer
from tests.garden.recording_origin import SEEN_FIELD, SeenRequest
from tests.garden.sequence import AttackSequence, Family
from tests.garden.strict_reader import ABOUT_THE_TARGET, INCOMPLETE, Reading, ReadMessage, read_answers, read_requests


_RAW_SEEN = re.compile(rb"garden-seen ([0-9]+)\n")
_OTHER_VERSION = re.compile(rb"(?:\A|\n)[A-Z]+ +[^ \r\n]+ *\r?\n|PRI \* HTTP/2\.0\r\n")
_FRAMING = (b"content-length", b"transfer-encoding")


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The client's side of one attack. `ended`: the hop closed the connection, else the client lost patience."""

    received: bytes
    ended: bool


def final_answers(reading: Reading) -> list[ReadMessage]:
    """The answers without the 1xx before them."""
    return [message for message in reading.messages if message.status >= 200]


def judge_sequence(
    sequence: AttackSequence,
    got: Exchanged,
    seen: Sequence[SeenRequest],
    unmarked: Container[int] = (),
    *,
    problem: str | None = None,
    strict: bool,
) -> str | None:
    """Why this attack shows a fault, in one line, or None.

    `seen`: the requests of this attack at the origin, in order. `unmarked`: the numbers of requests without a mark, such
    as health checks. `problem`: the origin could not read a request of this attack. `strict`: the first hop promises to
    accept no more than the strict reader does.
    """
    sent = read_requests(sequence.sent)
    answers = _read(got, expected_methods(sequence.sent, sent))
    finals = final_answers(answers)
    old = b"" if strict else _old_answer(sequence.sent, got.received[answers.end :])
    if answers.problem == INCOMPLETE and got.ended and not old:
        return "an answer was cut short"
    if answers.problem not in (None, INCOMPLETE) and not old:
        return f"the client got no valid answer: {answers.problem}"
    if len(finals) > len(sent.messages) and sent.problem is None:
        return f"{len(finals)} answers to {len(sent.messages)} requests"
    # A hop that waits for the rest of a very long line does no harm.
    if sent.problem is None and sequence.family is not Family.LONG and not sent_all(sent, finals, ended=got.ended):
        return f"{len(finals)} answers to {len(sent.messages)} good requests, and no end of the connection"
    delivered = [int(value) for message in finals for value in message.values(SEEN_FIELD)]
    delivered += [int(number) for number in _RAW_SEEN.findall(old)]
    if problem is not None and problem not in ABOUT_THE_TARGET:
        return f"the origin got bytes that some servers read as another request: {problem}"
    return _judge_seen(sent, delivered, got, seen, unmarked, strict=strict)


def expected_methods(data: bytes, sent: Reading) -> list[bytes]:
    """The method of each request, in order; the last is of the one that the strict reader does not accept, if there is one."""
    rest = data[sent.end :].lstrip(b"\r\n").split(b" ", 1)[0]
    return [*(message.start[0] for message in sent.messages), *([rest] if sent.problem is not None else ())]


def _read(got: Exchanged, methods: list[bytes]) -> Reading:
    """The client's answers. A refusal that ends the connection may have a body though its request was a HEAD: a hop that
    cannot read a request need not know its method.
    """
    answers = read_answers(got.received, methods, ended=got.ended)
    finals = final_answers(answers)
    if answers.problem is None or not finals or finals[-1].status < 400:
        return answers
    again = read_answers(got.received, [*methods[: len(finals) - 1], b"GET"], ended=got.ended)
    return answers if again.problem is not None else again


def sent_all(sent: Reading, finals: Sequence[ReadMessage], *, ended: bool) -> bool:
    """Whether each request has its answer, or the connection ended after a refusal or an answer."""
    return len(finals) >= len(sent.messages) or (ended and bool(finals))


def _old_answer(sent: bytes, rest: bytes) -> bytes:
    """The rest of what the client got, if it may be an answer to HTTP/0.9, which is a body alone, or frames of HTTP/2."""
    return rest if _OTHER_VERSION.search(sent) and not rest.startswith(b"HTTP/") else b""


def _judge_seen(
    sent: Reading,
    delivered: list[int],
    got: Exchanged,
    seen: Sequence[SeenRequest],
    unmarked: Container[int],
    *,
    strict: bool,
) -> str | None:
    own = [request.index for request in seen]
    delivered = [index for index in delivered if index not in unmarked]
    if stolen := sorted(set(delivered) - set(own)):
        return f"the client got the answer to request {stolen[0]}, which another client sent"
    words = [request.message.words for request in seen]
    entitled = [message.words for message in sent.messages]
    within = words == entitled[: len(words)]
    if delivered != own and (got.ended or not within or delivered != own[: len(delivered)]):
        return f"the origin read {len(own)} requests, and the client got answers to {len(delivered)}: {_targets(seen)}"
    if strict and not within:
        return f"the origin read requests that were not sent so: {_difference(words, entitled)}"
    if not within and _body_lost(words, entitled):
        return "a body came with other bytes than were sent"
    for request in seen:
        for name, _ in request.message.fields:
            if b"_" in name and name.lower().replace(b"_", b"-") in _FRAMING:
                return f"the origin got a field that some servers take for the framing: {name.decode()}"
    return None


def _body_lost(words: Sequence[tuple[bytes, ...]], entitled: Sequence[tuple[bytes, ...]]) -> bool:
    """Whether a request has the right method and target, and a body that differs in more than its length."""
    for read, right in zip(words, entitled, strict=False):
        if read[:2] == right[:2] and not (right[2].startswith(read[2]) or read[2].startswith(right[2])):
            return True
    return False


def _targets(seen: Sequence[SeenRequest]) -> str:
    return ", ".join(request.message.start[1].decode("latin-1")[-40:] for request in seen[:4]) or "none"


def _difference(words: Sequence[tuple[bytes, ...]], entitled: Sequence[tuple[bytes, ...]]) -> str:
    for place, read in enumerate(words):
        right = entitled[place] if place < len(entitled) else None
        if read != right:
            return f"request {place + 1} is {_brief(read)}, sent was {_brief(right) if right else 'no other'}"
    return "none"


def _brief(words: tuple[bytes, ...]) -> str:
    return f"{words[0][:10]!r} {words[1][-40:]!r} with {len(words[2])} bytes {words[2][:40]!r}"


def judge_answer(answer: HostileAnswer, method: bytes, got: Exchanged, follower: bytes | None) -> str | None:
    """Why the client was harmed by this hostile answer, in one line, or None.

    `got`: all that the client got for the request and for one more behind it on the same connection, whose answer must
    have the body `follower` if it came at all.
    """
    meant = read_answers(answer.sent, [method], ended=answer.closes)
    right = next(iter(final_answers(meant)), None)
    answers = read_answers(got.received, [method, b"GET"], ended=got.ended)
    finals = final_answers(answers)
    if answers.problem not in (None, INCOMPLETE):
        return f"the client got no valid answer: {answers.problem}"
    if len(finals) > 2:
        return f"{len(finals)} answers to 2 requests"
    if len(finals) == 2 and finals[1].body != follower and finals[1].status < 400:
        return f"the next request got other bytes: {finals[1].body[:60]!r}"
    if finals and finals[0].status < 500:
        if right is None:
            return f"the origin's answer had no valid end, and the client got {finals[0].status} as a whole one"
        if finals[0].body != right.body or finals[0].status != right.status:
            return f"status or body differ: {finals[0].status} with {len(finals[0].body)} bytes"
        if finals[0].values(b"x-split") != right.values(b"x-split"):
            return "a field of the client's answer was none of the origin's"
    if not finals and not got.ended and (answer.closes or meant.problem != INCOMPLETE):
        return "no answer, and no end of the connection"
    return None
