"""Answers over real sockets, cut as an engine may cut them: each size line by itself, as Python's http.server does, and at every byte."""

import asyncio
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest

from sidecar.proxy.chunks import CHUNK, LAST_CHUNK
from sidecar.timeline.outcome import Outcome
from tests.support.messages import read
from tests.support.origin import Origin, Visit
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS = (b'data: {"text":"a"}\n\n', b'data: {"text":"b"}\n\n', b"data: [DONE]\n\n")
LINES = [part for event in EVENTS for part in (b"%x\r\n" % len(event), event + b"\r\n")]
ANSWER = HEAD + b"".join(CHUNK % (len(event), event) for event in EVENTS) + LAST_CHUNK
BODY = b"".join(EVENTS)
TURNS = 5
"""Turns of the loop in which a piece goes through two sockets of this process."""


async def answers(ways: Sequence[tuple[int, ...]]) -> list[tuple[bytes, bytes, int]]:
    """For one answer after the other, each cut at other places: the body that the client got, the one that the observer got, and in
    how many pieces.
    """

    async def script(visit: Visit) -> None:
        for places in ways:
            await visit.head()
            for begin, end in pairwise([0, *places, len(ANSWER)]):
                visit.send(ANSWER[begin:end])
                for _ in range(TURNS):
                    await asyncio.sleep(0)

    bodies = []
    async with Origin(script).listening() as origin, running(origin.port) as relay:
        client = await RawClient.connect(relay.port)
        for _ in ways:
            client.send(GET)
            bodies.append(read(await client.until(b"\r\n" + LAST_CHUNK))[2])
        await client.close()
        await relay.settled()
        assert {end[0] for end in relay.ends} == {Outcome.OK}
        seen = [(bytes(each.body), len(each.instants("data"))) for each in relay.recordings]
    return [(body, *told) for body, told in zip(bodies, seen, strict=True)]


@pytest.mark.parametrize("first", [(), (len(HEAD),)], ids=["behind the head", "alone"])
def test_an_engine_that_sends_each_size_line_by_itself_is_relayed_whole(first: tuple[int, ...]) -> None:
    """Each size line and each chunk behind it is a read of its own."""
    places = (*first, *(len(HEAD) + at for at in accumulate(map(len, LINES))))

    assert play(answers([places] * 3)) == [(BODY, BODY, len(EVENTS))] * 3


def test_an_answer_is_relayed_whole_wherever_it_is_cut() -> None:
    found = play(answers([(place,) for place in range(1, len(ANSWER))]))

    assert {(to_the_client, to_the_observer) for to_the_client, to_the_observer, _ in found} == {(BODY, BODY)}
    in_two_reads = sum(pieces > 1 for _, _, pieces in found)
    assert in_two_reads > len(BODY) / 2, "whole, it is one read"
