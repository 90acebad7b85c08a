"""Two vLLM workers had a part in one request, and each states a span of its own: the split is put together of both, or there is none.

The spans are those of `do_tracing` (`v1/engine/output_processor.py` of 0.32, read in the installed release): the worker of the prefill was asked
for one token (llm-d-router at ebab6879, `pkg/sidecar/proxy/connector_nixlv2.go`), and the queue of the worker of the decode holds its wait for the
KV cache (`WAITING_FOR_REMOTE_KVS` of `v1/core/sched/scheduler.py` comes before its first SCHEDULED event).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from sidecar.engines.span import Span
from sidecar.ledger.account import Account, Reason
from tests.support.scenario import phases
from tests.support.spans import fixture
from tests.support.vllm_stream import DONE, FINISH, ROLE, STREAM, TOKEN, USAGE, chunk, play, post
from tests.support.walk import Walk


(SPAN,) = fixture("vllm-chat").spans
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = f"traceparent: 00-{TRACE}-b7ad6b7169203331-01"
DUE = 10.0
NOT_SPLIT = {"unattributed": (450, "wire"), "decode": (200, "wire"), "stream": (50, "wire")}
BOTH = {
    "queue": (100, "engine"),
    "prefill": (200, "engine"),
    "first_token": (90, "derived"),
    "unattributed": (60, "engine"),
    "decode": (200, "engine"),
    "stream": (50, "derived"),
}
"""The prefill worker's queue and prefill, the decode worker's decode; nothing tells how much of the latter's 60 ms was its queue."""


def span(
    parent: str, name: str, times: tuple[float, float, float], tokens: int, ttft: float, **said: str | float
) -> Span:
    """The span of one worker; `times`: queue, prefill and decode in seconds."""
    queue, prefill, decode = times
    stated: dict[str, str | float] = {
        "gen_ai.latency.time_to_first_token": ttft,
        "gen_ai.latency.time_in_queue": queue,
        "gen_ai.latency.time_in_model_prefill": prefill,
        "gen_ai.latency.time_in_model_decode": decode,
        "gen_ai.usage.completion_tokens": tokens,
        "gen_ai.request.id": "chatcmpl-7",
        **said,
    }
    return replace(SPAN, parent_span_id=parent, span_id=f"{parent}{name}", attributes={**SPAN.attributes, **stated})


def of_prefill(parent: str, **said: str | float) -> Span:
    return span(parent, "p", (0.1, 0.2, 0.0), 1, 0.31, **{"gen_ai.request.max_tokens": 1, **said})


def of_decode(parent: str, **said: str | float) -> Span:
    return span(parent, "d", (0.06, 0.02, 0.2), 2, 0.1, **said)


def of_encoder(parent: str) -> Span:
    """llm-d sends each image alone to a worker that encodes it (`connector_ec_common.go`)."""
    return span(parent, "e", (0.0, 0.03, 0.0), 1, 0.04, **{"gen_ai.usage.prompt_tokens": 40})


def begun(walk: Walk, *fields: str) -> str:
    """A request is sent on a connection of its own; returns the span that was minted for it."""
    walk.client().send(post({"stream": True}, *fields))
    return walk.engine.taken.rpartition(b"traceparent: ")[2][36:52].decode()


def walk() -> Walk:
    return Walk(include_usage=False, mints=True)


def asked(walk: Walk) -> str:
    span_id = begun(walk)
    play(walk, usage=False)
    return span_id


def due(walk: Walk) -> Account:
    """The last account when no report is expected any more."""
    for _ in range(int(DUE) + 1):
        walk.settlement.expire(walk.clock.later(1.0))
    return walk.accounts[-1]


def split(account: Account) -> dict[str, tuple[float, str]]:
    assert account.ledger is not None
    return {phase: value for phase, value in phases(account.ledger).items() if value != (0, "derived")}


def reason(account: Account) -> Reason:
    assert account.ledger is not None
    return account.ledger.reason


def parts(account: Account) -> list[tuple[str, int]]:
    return [(part.part, round(part.seconds * 1000)) for part in account.parts]


@pytest.mark.proves("vllm", "workers")
@pytest.mark.parametrize("workers", list(permutations([of_prefill, of_decode])), ids=["in order", "reversed"])
@pytest.mark.parametrize("between", [0.0, 4.0, 9.0], ids=["one batch", "4 s apart", "9 s apart"])
def test_both_spans_are_put_together_in_either_order(workers: Sequence[Callable[[str], Span]], between: float) -> None:
    """Neither settles the request alone, however long the other one takes within the wait for reports."""
    story = walk()
    parent = asked(story)

    for worker in workers:
        assert story.accounts == []
        story.settlement.span(worker(parent))
        story.settlement.expire(story.clock.later(between))

    (account,) = story.accounts
    assert (split(account), reason(account)) == (BOTH, Reason.LATE_REPORT)
    assert parts(account) == [("prefill_queue", 100), ("rest", 0), ("compute", 200), ("rest", 0)]
    assert account.marks.usage is not None
    assert account.marks.usage.completion_tokens == 2


def test_the_span_of_the_prefill_waits_for_a_long_stream() -> None:
    """Its batch comes seconds after the prefill, and the stream goes on: it is kept until the other span has come, not only until the end."""
    story = walk()
    parent = begun(story)
    story.clock.later(0.45)
    story.engine.send(STREAM + chunk(ROLE) + chunk(TOKEN))
    story.settlement.span(of_prefill(parent))
    for _ in range(9):
        story.settlement.expire(story.clock.later(1.0))
    story.engine.send(chunk(FINISH) + chunk(DONE) + b"0\r\n\r\n")
    for _ in range(5):
        story.settlement.expire(story.clock.later(1.0))

    story.settlement.span(of_decode(parent))

    (account,) = story.accounts
    assert [split(account)[phase][0] for phase in ("queue", "prefill", "decode")] == [100, 200, 200]


def test_an_encoders_span_is_not_taken_for_the_prefills() -> None:
    """It has another prompt: the image alone. Whichever comes first, the request is not settled without the prefill's own."""
    for order in permutations([of_prefill, of_decode, of_encoder]):
        story = walk()
        parent = asked(story)
        for worker in order:
            story.settlement.span(worker(parent))

        assert (split(due(story)), len(story.accounts)) == (BOTH, 1)


@pytest.mark.parametrize("workers", list(permutations([of_prefill, of_decode])), ids=["in order", "reversed"])
def test_of_a_whole_answer_too_both_are_waited_for(workers: Sequence[Callable[[str], Span]]) -> None:
    """Its usage says that the prefill worker made less, and the time that is left that the decode worker began late."""
    story = walk()
    story.client().send(post({}))
    parent = story.engine.taken.rpartition(b"traceparent: ")[2][36:52].decode()
    story.clock.later(0.7)
    body = b'{"choices":[{"index":0,"message":{"content":"ab"},"finish_reason":"length"}],"usage":{"prompt_tokens":600,"completion_tokens":2}}'
    story.engine.send(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )

    for worker in workers:
        assert story.accounts == []
        story.settlement.span(worker(parent))

    (account,) = story.accounts
    assert split(account) == {
        "queue": (100, "engine"),
        "prefill": (200, "engine"),
        "decode": (200, "engine"),
        "unattributed": (200, "derived"),
    }


@pytest.mark.parametrize("early", [False, True])
def test_the_prefill_workers_span_alone_settles_nothing(early: bool) -> None:
    """It made one token of a stream that went on: no decode of zero, and no split that is another's."""
    story = walk()
    parent = begun(story)
    if early:
        story.settlement.span(of_prefill(parent))
    play(story, usage=False)
    if not early:
        story.settlement.span(of_prefill(parent))
    assert story.accounts == []

    account = due(story)

    assert (split(account), reason(account)) == (NOT_SPLIT, Reason.REPORT_INCOMPLETE)
    assert account.marks.usage is not None
    assert account.marks.usage[::2] == (600, None)


def test_the_decode_workers_span_alone_settles_nothing_where_workers_share_requests() -> None:
    """Once two workers had a part in a request, a span that begins long after its request waits for the other's, and is not believed alone."""
    story = walk()
    parent = asked(story)
    story.settlement.span(of_prefill(parent))
    story.settlement.span(of_decode(parent))
    story.settlement.span(of_decode(asked(story)))

    account = due(story)

    assert (split(account), reason(account), account.parts) == (NOT_SPLIT, Reason.REPORT_INCOMPLETE, ())


@pytest.mark.parametrize("comes", [True, False])
def test_what_the_decode_worker_says_in_the_answer_is_doubted_too(comes: bool) -> None:
    """Its `metrics` are as partial as its span: once spans told that workers share requests, those of both are waited for."""
    story = Walk(mints=True)
    in_band = USAGE.replace(
        b'"queue_time_ms":100,"time_to_first_token_ms":300', b'"queue_time_ms":60,"time_to_first_token_ms":20'
    )
    for _ in range(2):
        parent = begun(story)
        story.clock.later(0.45)
        story.engine.send(STREAM + chunk(ROLE) + chunk(TOKEN))
        story.clock.later(0.2)
        story.engine.send(chunk(FINISH))
        story.clock.later(0.05)
        story.engine.send(chunk(in_band) + chunk(DONE) + b"0\r\n\r\n")
        for worker in (of_prefill, of_decode) if comes or not story.settlement.pending else ():
            story.settlement.span(worker(parent))

    account = due(story)

    assert reason(story.accounts[0]) is Reason.IN_BAND
    assert (split(account), reason(account)) == ((BOTH, Reason.LATE_REPORT) if comes else (NOT_SPLIT, Reason.NO_REPORT))


def test_a_worker_that_did_all_of_a_request_is_believed_beside_them() -> None:
    """llm-d leaves out the prefill worker where the decode worker has most of the prompt in its cache: its span begins with the request."""
    story = walk()
    parent = asked(story)
    story.settlement.span(of_prefill(parent))
    story.settlement.span(of_decode(parent))

    story.settlement.span(span(asked(story), "d", (0.1, 0.3, 0.2), 2, 0.44))

    assert len(story.accounts) == 2
    assert split(story.accounts[1])["prefill"] == (300, "engine")
    assert story.accounts[1].parts == ()


def test_a_slow_way_to_one_engine_is_still_told_as_before() -> None:
    """One worker, and a hop before it that took long: the wait for a second span ends, and the hop's time is in first_token."""
    story = walk()
    story.settlement.span(of_decode(asked(story)))
    assert story.accounts == []

    account = due(story)

    assert reason(account) is Reason.LATE_REPORT
    assert split(account)["first_token"] == (370, "derived")


def test_two_requests_of_one_trace_keep_their_own_pairs() -> None:
    """An agent sends many requests in its trace, at once: each pair hangs under the span of its own request."""
    story = walk()
    parents, engines = [], []
    for _ in range(2):
        parents.append(begun(story, TRACED))
        engines.append(story.engine)
    story.clock.later(0.45)
    for engine in engines:
        engine.send(STREAM + chunk(ROLE) + chunk(TOKEN))
    story.clock.later(0.2)
    for engine in engines:
        engine.send(chunk(FINISH) + chunk(DONE) + b"0\r\n\r\n")
    slower = {"gen_ai.latency.time_in_queue": 0.15, "gen_ai.latency.time_in_model_prefill": 0.15}

    story.settlement.span(replace(of_prefill(parents[0], **slower), trace_id=TRACE))
    story.settlement.span(replace(of_prefill(parents[1]), trace_id=TRACE))
    story.settlement.span(replace(of_decode(parents[1]), trace_id=TRACE))
    story.settlement.span(replace(of_decode(parents[0]), trace_id=TRACE))

    assert [(split(account)["queue"], split(account)["prefill"]) for account in story.accounts] == [
        ((100, "engine"), (200, "engine")),
        ((150, "engine"), (150, "engine")),
    ]


def test_two_requests_of_one_trace_are_told_apart_under_a_routers_own_spans_too() -> None:
    """Their parents are unknown here, and the trace is both's: only the id of the answer leads to each."""
    story = walk()
    engines = []
    for number in (1, 2):
        begun(story, TRACED)
        story.engine.send(STREAM)
        engines.append((number, story.engine))
    story.clock.later(0.45)
    for number, engine in engines:
        engine.send(chunk(TOKEN.replace(b"{", b'{"id":"chatcmpl-%d",' % number, 1)))
    story.clock.later(0.2)
    for _, engine in engines:
        engine.send(chunk(FINISH) + chunk(DONE) + b"0\r\n\r\n")

    for number, worker in ((1, of_prefill), (2, of_decode), (2, of_prefill), (1, of_decode)):
        queue: dict[str, str | float] = {
            "gen_ai.latency.time_in_queue": 0.05 * number,
            "gen_ai.request.id": f"chatcmpl-{number}",
        }
        story.settlement.span(replace(worker(f"{number}c", **queue), trace_id=TRACE))

    assert [split(account)["queue"] for account in story.accounts] == [(100, "engine"), (50, "engine")]
    assert [split(account)["decode"] for account in story.accounts] == [(200, "engine")] * 2


def test_under_a_routers_own_spans_the_answers_id_joins_both() -> None:
    """A router that traces puts its spans in between; it hands one X-Request-Id to both workers, which is the answer's id."""
    story = walk()
    story.client().send(post({"stream": True}, TRACED))
    story.clock.later(0.45)
    story.engine.send(STREAM + chunk(TOKEN.replace(b"{", b'{"id":"chatcmpl-7",', 1)))
    story.clock.later(0.2)
    story.engine.send(chunk(FINISH) + chunk(DONE) + b"0\r\n\r\n")

    for worker in (of_decode("d" * 16), of_prefill("c" * 16)):
        story.settlement.span(replace(worker, trace_id=TRACE))

    (account,) = story.accounts
    assert split(account)["queue"] == (100, "engine")
    assert split(account)["decode"] == (200, "engine")


@pytest.mark.parametrize(
    "spans",
    [
        [(2, 600), (2, 600)],  # the decode in pieces, or a request that was sent twice
        [(1, 600), (1, 600)],  # a prefill that was tried again: the decode worker's span did not come
        [(1, 600), (1, 600), (2, 600)],
        [(1, 300), (2, 600)],  # an encoder's and the decode worker's
    ],
)
def test_spans_that_cannot_be_told_apart_split_nothing(spans: Sequence[tuple[int, int]]) -> None:
    story = walk()
    parent = begun(story)
    for number, (tokens, prompt) in enumerate(spans):
        said = {"gen_ai.usage.prompt_tokens": prompt}
        story.settlement.span(span(parent, str(number), (0.06, 0.02, 0.1), tokens, 0.1, **said))
    play(story, usage=False)

    account = due(story)

    assert (split(account), reason(account)) == (NOT_SPLIT, Reason.REPORT_INCOMPLETE)
    assert story.value("llm_sidecar_dropped_total", reason="report_unmatched") == 0
