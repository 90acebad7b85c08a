"""Every API, every kind of end, every framing, every split: the outcome is what the API's own words say.

An end is denied by the engine's own words, or by what is no answer, at once. A mark that is missing counts only on an engine that was seen to set it. The table is
in `sidecar/timeline/proof.py`; `expected` below is written without it, from the words of the issue.
"""

import json
from collections.abc import Iterator
from itertools import product

import pytest

from sidecar.timeline.belief import LEARNED_FROM
from sidecar.timeline.outcome import Outcome
from sidecar.timeline.proof import Proofs
from tests.answers.spoken import SPOKEN, Api
from tests.support.walk import Walk


OK, TRUNCATED, ERROR = Outcome.OK, Outcome.ENGINE_TRUNCATED, Outcome.ENGINE_ERROR
FRAMINGS = ("chunked", "length", "close")
SIZES = (None, 37, 1)
"""Bytes of each read; None: all at once."""


def head(framing: str, media_type: str, size: int) -> bytes:
    said = {
        "chunked": b"transfer-encoding: chunked",
        "length": b"content-length: %d" % size,
        "close": b"connection: close",
    }
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n%b\r\n\r\n" % (media_type.encode(), said[framing])


def answer(
    walk: Walk, api: Api, pieces: list[bytes], framing: str, size: int | None, *, cut: bool, streamed: bool
) -> None:
    """The engine answers with these pieces of body. `cut`: it breaks off before the framing's end."""
    client = walk.client()
    body = json.dumps({"model": "tiny", "stream": streamed, "messages": [], "prompt": "a"}).encode()
    client.send(b"POST %b HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (api.path.encode(), len(body), body))
    whole = b"".join(pieces)
    media_type = api.media_type if streamed else "application/json"
    sent = head(framing, media_type, len(whole) + cut)
    if framing == "chunked":
        sent += b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n" * (not cut)
    else:
        sent += whole
    engine = walk.engine
    engine.send(sent, size)
    if cut:
        engine.lose(ConnectionResetError())
    elif framing == "close":
        engine.lose()
    client.lose()


def kinds_of_streams(api: Api) -> Iterator[tuple[str, list[bytes], bool, Outcome, Outcome]]:
    """A name, the events, whether the transport is cut, and the outcome before and after the engine was seen to set its marks."""
    begun = [*api.begin, api.token, api.token]
    finish, end = list(api.finish), list(api.end)
    missed = TRUNCATED if api.has_marks else OK
    marked = bool(end) or api.path != TRITON_PATH
    yield "whole", [*begun, *finish, *end], False, OK, OK
    yield (
        "whole, and its last bytes are missing",
        [*begun, *finish, *end],
        True,
        *((OK, OK) if marked else (TRUNCATED, TRUNCATED)),
    )
    yield "neither finish nor end mark", begun, False, OK, missed
    yield "cut in the middle", begun, True, TRUNCATED, TRUNCATED
    yield "begun, and no token", list(api.begin), False, OK, missed
    yield "begun, no token, and cut", list(api.begin), True, TRUNCATED, TRUNCATED
    yield "empty", [], False, OK, missed
    yield "empty and cut", [], True, TRUNCATED, TRUNCATED
    if end:
        yield "no end mark", [*begun, *finish], False, OK, missed
        yield "no end mark, and cut", [*begun, *finish], True, TRUNCATED, TRUNCATED
        yield "an end mark alone", [*begun, *end], False, OK, missed
    for name, said in api.denied.items():
        yield f"after tokens, {name}", [*begun, *said], False, ERROR, ERROR
        yield f"at once, {name}", list(said), False, ERROR, ERROR
        yield f"after tokens, {name}, and cut", [*begun, *said], True, ERROR, ERROR


TRITON_PATH = SPOKEN["triton"].path


def kinds_of_wholes(api: Api) -> Iterator[tuple[str, list[bytes], bool, Outcome, Outcome]]:
    """The same for answers that are not streamed."""
    body = json.dumps(api.whole).encode()
    missed = TRUNCATED if api.has_marks else OK
    yield "whole", [body], False, OK, OK
    yield "cut in the middle", [body[:-5]], True, TRUNCATED, TRUNCATED
    yield "half of it, and its framing is whole", [body[:-5]], False, ERROR, ERROR
    yield "a page", [b"<html>bad gateway</html>"], False, ERROR, ERROR
    yield "a text", [b"Internal Server Error"], False, ERROR, ERROR
    yield "a detail", [b'{"detail": "Internal Server Error"}'], False, ERROR, ERROR
    yield "no detail and no error", [b'{"detail": null, "error": {}}'], False, OK, missed
    yield "empty", [], False, OK, missed
    yield "an empty object", [b"{}"], False, OK, missed
    if api.unfinished is not None:
        yield "no finish", [json.dumps(api.unfinished).encode()], False, OK, missed
    for name, said in api.failed.items():
        yield name, [json.dumps(said).encode()], False, ERROR, ERROR


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", SPOKEN)
def test_the_outcome_of_each_end_is_what_the_api_says(name: str, framing: str) -> None:
    """Streams and whole answers, before and after this engine was seen to set its marks."""
    api = SPOKEN[name]
    walk, wrong = Walk(), []
    for streamed, kinds in ((True, kinds_of_streams(api)), (False, kinds_of_wholes(api))):
        taught = Proofs()
        for kind, pieces, cut, before, after in kinds:
            for size, (learned, wanted) in product(SIZES, ((False, before), (True, after))):
                walk.observers.proofs = taught if learned else Proofs()
                answer(walk, api, pieces, framing, size, cut=cut, streamed=streamed)
                got = walk.accounts[-1].outcome
                if got is not wanted:
                    wrong.append((streamed, kind, size, learned, got.value, wanted.value))
            if kind == "whole":  # the first kind, of which the others are known by
                walk.observers.proofs = taught
                for _ in range(LEARNED_FROM):
                    answer(walk, api, pieces, framing, None, cut=False, streamed=streamed)

    assert not wrong
