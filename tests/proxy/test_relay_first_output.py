"""Before the first output the limit of the first byte holds, whatever came; the gap limit holds from then on.

Engines send their head long before their first token: vLLM at once, Anthropic's servers with pings while a queue lasts.
"""

import pytest

from sidecar.timeline.outcome import Outcome
from tests.answers.spoken import CHAT, MESSAGES, RESPONSES, SPOKEN, Api, event
from tests.support.memory import ENGINE_LIMITS, LIMITS
from tests.support.vllm_stream import STREAM, chunk, post
from tests.support.walk import Walk


GAP_SECONDS, FIRST_SECONDS = ENGINE_LIMITS.gap_timeout_seconds, ENGINE_LIMITS.first_byte_timeout_seconds
COMMENT = b": ping\n\n"


def begun(api: Api, *pieces: bytes) -> Walk:
    """A walk in which the engine's head has come, and these pieces of body."""
    walk = Walk(limits=LIMITS)
    walk.client().send(post({"stream": True}, path=api.path))
    walk.engine.send(STREAM.replace(b"text/event-stream", api.media_type.encode()) + b"".join(map(chunk, pieces)))
    return walk


@pytest.mark.parametrize(
    ("api", "pieces"),
    [
        (CHAT, ()),
        (CHAT, (COMMENT,)),
        (CHAT, CHAT.begin),
        (MESSAGES, MESSAGES.begin),
        (RESPONSES, RESPONSES.begin),
    ],
    ids=["a head", "a comment", "a role frame", "a ping", "a created response"],
)
def test_a_stream_without_output_waits_as_long_as_one_without_a_head(api: Api, pieces: tuple[bytes, ...]) -> None:
    walk = begun(api, *pieces)

    walk.runs(GAP_SECONDS + 1)
    assert walk.accounts == []
    walk.engine.send(chunk(api.token))
    walk.runs(GAP_SECONDS - 1)
    assert walk.accounts == []
    walk.engine.send(chunk(b"".join((*api.finish, *api.end))) + b"0\r\n\r\n")

    assert walk.accounts[-1].outcome is Outcome.OK


def test_pings_do_not_make_the_wait_longer() -> None:
    """The first output is waited for, and nothing else."""
    walk = begun(MESSAGES)
    for _ in range(int(FIRST_SECONDS // 60)):
        walk.runs(60.0)
        walk.engine.send(chunk(COMMENT) + chunk(event({"type": "ping"}, "ping")))
    assert walk.accounts == []

    walk.runs(2.0)

    assert (walk.accounts[-1].outcome, walk.accounts[-1].notes["error"]) == (
        Outcome.ENGINE_TIMEOUT,
        "engine_first_byte_timeout",
    )


@pytest.mark.parametrize("api", SPOKEN.values(), ids=list(SPOKEN))
def test_the_gap_limit_begins_with_the_first_output(api: Api) -> None:
    walk = begun(api, *api.begin, api.token)

    walk.runs(GAP_SECONDS + 1)

    assert walk.accounts[-1].notes["error"] == "engine_gap_timeout"


@pytest.mark.parametrize(
    "events",
    [(b"data: {broken\n\n",), (b"data: " + b"y" * 5000 + b"\n\n",), (event({"kind": "new"}),) * 65],
    ids=["an event that cannot be read", "one too long to be read", "many of a kind that is not known"],
)
def test_a_stream_whose_output_is_not_known_is_never_cut_for_that(events: tuple[bytes, ...]) -> None:
    """Its events may be output: then only silence is a reason to cut it."""
    walk = begun(CHAT, *events)
    for _ in range(int(FIRST_SECONDS // 100) + 1):
        walk.runs(100.0)
        walk.engine.send(chunk(events[0]))

    assert walk.accounts == []


def test_a_whole_answer_begins_with_its_first_byte() -> None:
    """An engine that sends its head at once, and its JSON when it is done."""
    walk = Walk(limits=LIMITS)
    walk.client().send(post({"stream": False}))
    walk.engine.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n")
    walk.runs(GAP_SECONDS + 1)
    assert walk.accounts == []
    walk.engine.send(b'{"choices"')
    walk.runs(GAP_SECONDS + 1)

    assert walk.accounts[-1].notes["error"] == "engine_gap_timeout"


@pytest.mark.parametrize("api", SPOKEN.values(), ids=list(SPOKEN))
def test_a_stream_that_speaks_in_reads_of_one_token_is_never_cut(api: Api) -> None:
    """As a slow engine's: each read is one event, and the answer is longer than any limit."""
    walk = begun(api)
    for piece in (*api.begin, *(api.token,) * 150):
        walk.runs(10.0)
        walk.engine.send(chunk(piece))

    assert walk.accounts == []


def test_progress_of_a_long_prefill_is_no_waiting() -> None:
    """llama.cpp with `return_progress`: the engine says itself that it works."""
    walk = begun(CHAT)
    for done in range(30):
        walk.runs(100.0)
        walk.engine.send(chunk(event({"choices": [], "prompt_progress": {"total": 90_000, "processed": done}})))

    assert walk.accounts == []


def test_a_long_first_event_is_no_silence_before_the_first_output() -> None:
    """Its beginning has come: from then on the gap limit holds, and not that of the first output."""
    walk = begun(CHAT)
    walk.engine.send(b"1194\r\n" + b'data: {"choices":[{"delta":{"content":"'.ljust(4500, b"y") + b"\r\n")
    for _ in range(int(FIRST_SECONDS // 100) + 1):
        walk.runs(100.0)
        walk.engine.send(b"1\r\ny\r\n")

    assert walk.accounts == []
