"""No damaged answer is ok, and none changes how the good ones behind it are asked and split."""

import json

import pytest

from sidecar.engines.engine import Engine
from sidecar.timeline.belief import LEARNED_FROM
from sidecar.timeline.outcome import Outcome
from sidecar.timeline.proof import Proofs
from tests.answers.damaged import NO_ERRORS, SPELLINGS, Damage, damaged, said
from tests.answers.spoken import SPOKEN, event
from tests.support.messages import read
from tests.support.vllm_stream import chunk
from tests.support.walk import Walk


GOOD_BEHIND_EACH = 60
ENGINES = {"ollama": "ollama", "llama.cpp": "llama_cpp", "tgi": "tgi", "sglang": "sglang", "triton": "triton"}
"""The engine of each API; of all others vLLM."""
SORTS = ("cut", "error", "page", "junk")
ASKED = ("chat", "completions")
"""APIs on which vLLM is asked for usage."""
USAGE = event(
    {
        "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
        "metrics": {"queue_time_ms": 1.0, "time_to_first_token_ms": 2.0, "generation_time_ms": 3.0},
    }
)


class Played:
    """One engine that answers on one API, behind the whole road in memory."""

    def __init__(self, name: str) -> None:
        self.name, self.api = name, SPOKEN[name]
        self.walk = Walk(engine=Engine(ENGINES.get(name, "vllm"), ["tiny"]))
        api = self.api
        finish = api.finish[:-1] if name in ASKED else api.finish
        self.good = b"".join((*api.begin, api.token, api.token, *finish)), b"".join(api.end)

    def answer(self, body: bytes, media_type: str, *, end: bytes = b"", cut: bool = False) -> tuple[bool, bytes]:
        """One streamed request, and its answer: this body, then usage if it was asked for, then `end`. Returns whether that was asked for,
        and the body that the client got.
        """
        walk, client = self.walk, self.walk.client()
        order = json.dumps({"model": "tiny", "stream": True, "messages": [], "prompt": "a"}).encode()
        head = b"POST %b HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n" % (self.api.path.encode(), len(order))
        before = sum(socket.taken.count(b"include_usage") for socket in walk.pool.sockets)
        client.send(head + order)
        asked = sum(socket.taken.count(b"include_usage") for socket in walk.pool.sockets) > before
        sent = [body, USAGE if asked and end else b"", end]
        typed = b"content-type: %b\r\n" % media_type.encode() if media_type else b""
        chunks = b"".join(map(chunk, filter(None, sent)))
        walk.engine.send(b"HTTP/1.1 200 OK\r\n%btransfer-encoding: chunked\r\n\r\n" % typed + chunks)
        if cut:
            walk.engine.lose(ConnectionResetError())
        else:
            walk.engine.send(b"0\r\n\r\n")
        client.lose()
        return asked, read(bytes(client.taken) + (b"0\r\n\r\n" if cut else b""))[2]

    def damage(self, damage: Damage) -> tuple[Outcome, bool]:
        """Play one damaged answer. Returns its outcome, and whether its client got each byte of it."""
        body = damage.of(self.api)
        media_type = self.api.media_type if damage.media_type is None else damage.media_type
        _, got = self.answer(body, media_type, cut=damage.cut)
        return self.walk.accounts[-1].outcome, got == body

    def well(self, times: int) -> set[tuple[object, ...]]:
        """So many good answers. Returns what became of them: asked for usage or not, the client's bytes, the outcome, the split, and usage."""
        begun, end = self.good
        found: set[tuple[object, ...]] = set()
        for _ in range(times):
            asked, got = self.answer(begun, self.api.media_type, end=end)
            account = self.walk.accounts[-1]
            split = None if account.ledger is None else (account.ledger.source, account.ledger.reason)
            found.add((asked, got == begun + end, account.outcome, split, account.marks.usage))
        return found


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(
    "name", [name if name in ASKED else pytest.param(name, marks=pytest.mark.long) for name in SPOKEN]
)
def test_a_damaged_answer_is_not_ok_and_teaches_nothing(name: str, sort: str) -> None:
    """On an engine that was seen to prove its ends. Behind each, sixty good requests are what they were before it, asked for usage too."""
    played = Played(name)
    before = played.well(LEARNED_FROM)
    found = {}
    for api, kind, damage in damaged():
        if api == name and kind.startswith(sort):
            was, behind = played.damage(damage), played.well(GOOD_BEHIND_EACH)
            if was != (damage.outcome, True) or behind != before:
                found[kind] = was, behind

    assert not found
    ((asked, whole, outcome, _, _),) = before
    assert (asked, whole, outcome) == (name in ASKED, True, Outcome.OK)


@pytest.mark.parametrize("name", SPOKEN)
def test_what_an_engine_says_itself_needs_no_learning(name: str) -> None:
    """Errors, pages and junk are the engine's failure on the first answer; a mark that is missing may be this engine's habit."""
    played = Played(name)
    found = {}
    for api, kind, damage in damaged():
        if api == name:
            played.walk.observers.proofs = Proofs()
            was = played.damage(damage)
            if was != (damage.outcome if damage.at_once else Outcome.OK, True):
                found[kind] = was

    assert not found


@pytest.mark.parametrize("name", SPOKEN)
def test_an_error_of_any_spelling_is_the_engines_and_an_empty_one_is_none(name: str) -> None:
    """Behind tokens, in place of a stream, and in place of an answer that is not streamed; on the first answer too."""
    played = Played(name)
    found = []
    for spelled, outcome in (
        *((each, Outcome.ENGINE_ERROR) for each in SPELLINGS),
        *((each, Outcome.OK) for each in NO_ERRORS),
    ):
        begun, event = b"".join((*played.api.begin, played.api.token)), said(played.api, spelled)
        for body, media_type in (
            (begun + event, played.api.media_type),
            (event, played.api.media_type),
            (json.dumps(spelled).encode(), "application/json"),
        ):
            played.walk.observers.proofs = Proofs()
            played.answer(body, media_type)
            if played.walk.accounts[-1].outcome is not outcome:
                found.append((body, media_type))

    assert not found


def test_there_are_fifty_of_them_and_ten_dialects() -> None:
    rows = list(damaged())

    assert len(rows) >= 50
    assert {(api, kind.partition(":")[0]) for api, kind, _ in rows} == {(api, sort) for api in SPOKEN for sort in SORTS}
    assert len(SPOKEN) == 10
