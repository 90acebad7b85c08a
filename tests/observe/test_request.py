"""One request from its first byte to the page of metrics, in memory: what the observer makes of the bytes that pass."""

import gc
import json
from collections.abc import Callable, Sequence

import pytest

from sidecar.budgets.budgets import Budget, Kind
from sidecar.engines.engine import Engine
from sidecar.ledger.account import Phase, Source
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.timeline.belief import LEARNED_FROM
from sidecar.timeline.outcome import Outcome, Stage
from tests.support.messages import read
from tests.support.vllm_stream import DONE, FINISH, ROLE, STREAM, TOKEN, USAGE, chunk, play, post
from tests.support.walk import Walk


def test_a_vllm_stream_comes_out_as_five_phases() -> None:
    """Usage was asked for on the client's behalf, read, and cut out again; the engine's own numbers make the split."""
    walk = Walk()
    client = walk.client()

    client.send(post({"stream": True}))
    play(walk)

    assert b'"stream_options":{"include_usage":true}' in walk.engine.taken
    assert client.taken.endswith(chunk(ROLE) + chunk(TOKEN) + chunk(FINISH) + chunk(DONE) + b"0\r\n\r\n")
    (account,) = walk.accounts
    assert account.ledger is not None
    assert [(share.phase, round(share.seconds, 9), share.source) for share in account.ledger.shares] == [
        (Phase.QUEUE, 0.1, Source.ENGINE),
        (Phase.PREFILL, 0.3, Source.ENGINE),
        (Phase.FIRST_TOKEN, 0.05, Source.DERIVED),
        (Phase.DECODE, 0.2, Source.ENGINE),
        (Phase.STREAM, 0.05, Source.DERIVED),
    ]
    assert (
        account.labels,
        account.streaming,
        account.outcome,
    ) == (RequestLabels("tiny", "interactive", "512-4k"), True, Outcome.OK)


def test_the_page_holds_what_the_request_owed() -> None:
    """TTFT and gaps are apart, phases have their source, tokens are the engine's count, and the split has a reason."""
    walk = Walk()
    walk.client().send(post({"stream": True}, "X-Lane: batch"))
    play(walk)

    assert walk.value("llm_requests_total", lane="batch", prompt_bucket="512-4k", outcome="ok") == 1
    assert pytest.approx(walk.value("llm_time_to_first_token_seconds_sum", lane="batch")) == 0.45
    assert pytest.approx(walk.value("llm_inter_token_seconds_sum", lane="batch")) == 0.2
    assert pytest.approx(walk.value("llm_time_per_output_token_seconds_sum", lane="batch")) == 0.2
    assert walk.value("llm_request_phase_seconds_sum", lane="batch", phase="queue", source="engine") == 0.1
    assert walk.value("llm_request_seconds_sum", lane="batch") == pytest.approx(
        walk.value("llm_request_phase_seconds_sum", lane="batch")
    )
    assert walk.value("llm_prompt_tokens_sum", lane="batch") == 600
    assert walk.value("llm_cached_prompt_tokens_total", lane="batch") == 64
    assert walk.value("llm_phase_attribution_total", lane="batch", source="engine", reason="in_band") == 1
    assert walk.value("llm_sidecar_usage_injection_total", result="asked") == 1
    assert walk.value("llm_requests_in_flight", lane="batch") == 0


def test_in_flight_says_who_waits_and_who_streams() -> None:
    """A request waits until its first output, then streams, then is gone; the page has the age of the oldest."""
    walk = Walk()
    walk.client().send(post({"stream": True}))
    walk.engine.send(STREAM + chunk(ROLE))
    walk.clock.later(3)
    assert (
        walk.value("llm_requests_in_flight", state="waiting"),
        walk.value("llm_requests_in_flight", state="streaming"),
    ) == (1, 0)
    assert walk.value("llm_oldest_request_seconds", state="waiting") == 3

    walk.engine.send(chunk(TOKEN))

    assert (
        walk.value("llm_requests_in_flight", state="waiting"),
        walk.value("llm_requests_in_flight", state="streaming"),
    ) == (0, 1)


@pytest.mark.parametrize(("choices", "unknown"), [(1, 1.0), (4, 0.0)])
def test_a_request_with_four_choices_runs_as_four_and_hides_no_other_client(choices: int, unknown: float) -> None:
    """The engine runs four sequences and this sidecar has sent one request. One choice would mean three requests that pass it
    by, and then no step has a known cost.
    """
    walk = Walk()
    walk.metrics.gauge(c.ENGINE_REQUESTS_RUNNING).child().set(4.0)

    walk.client().send(post({"stream": True, "n": choices}))
    walk.engine.send(STREAM + chunk(ROLE))
    for _ in range(60):
        walk.clock.later(1)
        walk.slo.tick(walk.clock.now)

    assert walk.value("llm_engine_cost_unknown", part="decode", reason="coverage") == unknown


def test_a_client_that_does_not_read_holds_its_stream_and_the_page_can_say_so() -> None:
    """The stream is `held` exactly while the client does not read."""
    walk = Walk()
    client = walk.client()
    client.send(post({"stream": True}))
    client.room = 0
    walk.engine.send(STREAM + chunk(TOKEN))
    while walk.engine.reading:
        walk.engine.send(chunk(TOKEN))
    (held,) = walk.instruments.in_flight.oldest(walk.clock.now, 9)
    client.take(None)
    (flowing,) = walk.instruments.in_flight.oldest(walk.clock.now, 9)

    assert (held.stage.value, flowing.stage.value) == ("held", "streaming")


def test_the_tokens_of_two_choices_are_known_and_their_chunk_is_cut_out() -> None:
    """vLLM states the usage of all choices in one chunk, which this client did not ask for: it is asked for and cut out."""
    walk = Walk()
    client = walk.client()
    second = [each.replace(b'"index":0', b'"index":1') for each in (TOKEN, FINISH)]
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":600,"completion_tokens":4}}\n\n'
    client.send(post({"stream": True, "n": 2}))
    walk.engine.send(STREAM + b"".join(map(chunk, (ROLE, TOKEN, second[0], FINISH))))
    walk.engine.send(b"".join(map(chunk, (second[1], usage, DONE))) + b"0\r\n\r\n")

    assert b'"stream_options":{"include_usage":true}' in walk.engine.taken
    passed = (ROLE, TOKEN, second[0], FINISH, second[1], DONE)
    assert client.taken.endswith(b"".join(map(chunk, passed)) + b"0\r\n\r\n")
    assert [walk.value(f"llm_{which}_tokens_sum") for which in ("prompt", "output")] == [600, 4]
    assert walk.value("llm_requests_total", prompt_bucket="512-4k", outcome="ok") == 1


def test_a_client_that_asked_for_usage_gets_every_byte() -> None:
    """Nothing is inserted and nothing is cut; the report is read all the same."""
    walk = Walk()
    client = walk.client()

    client.send(post({"stream": True, "stream_options": {"include_usage": True}}))
    play(walk)

    assert client.taken.endswith(chunk(FINISH) + chunk(USAGE) + chunk(DONE) + b"0\r\n\r\n")
    assert walk.accounts[0].ledger.source == "engine"  # type: ignore[union-attr]  # an ok request has one


def streamed(
    walk: Walk, answer: Callable[[bool], Sequence[bytes]], *fields: str, head: bytes = STREAM
) -> tuple[bytes, bytes]:
    """One streamed request, and the events that the engine answers if it was asked for usage, or if not. Returns what the engine got, and the
    body that the client got.
    """
    before, client = [len(socket.taken) for socket in walk.pool.sockets], walk.client()
    client.send(post({"stream": True}, *fields))
    asked = b"".join(socket.taken[at:] for socket, at in zip(walk.pool.sockets, [*before, 0], strict=False))
    events = answer(b"include_usage" in asked)
    walk.clock.later(0.45)
    walk.engine.send(head + b"".join(map(chunk, events[:2])))
    walk.clock.later(0.25)
    walk.engine.send(b"".join(map(chunk, events[2:])) + b"0\r\n\r\n")
    return asked, read(bytes(client.taken))[2]


def good(asked: bool) -> Sequence[bytes]:
    """As an engine that states usage where it is asked answers."""
    return [ROLE, TOKEN, FINISH, *([USAGE] if asked else []), DONE]


@pytest.mark.parametrize("by_itself", [True, False])
def test_usage_that_the_engine_states_by_itself_is_the_clients(*, by_itself: bool) -> None:
    """Twenty streams show it, before anything is asked for or cut."""
    walk = Walk(states_no_usage=False)
    for number in range(LEARNED_FROM + 2):
        asked, got = streamed(walk, lambda asked: good(by_itself or asked))

        assert (b"include_usage" in asked) == (number >= LEARNED_FROM and not by_itself)
        assert got == b"".join(good(by_itself))


NULL = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}\n\n'
FINISH_AND_USAGE = FINISH.replace(b"]}", b'],"usage":{"prompt_tokens":5}}')
SECOND = b'data: {"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null}]}\n\n'


@pytest.mark.parametrize(
    ("odd", "is_cut", "outcome"),
    [
        pytest.param((ROLE, TOKEN, USAGE, DONE), True, Outcome.ENGINE_TRUNCATED, id="usage and no finish"),
        pytest.param(
            (ROLE, TOKEN, SECOND, FINISH, USAGE, DONE), True, Outcome.ENGINE_TRUNCATED, id="an unfinished choice"
        ),
        pytest.param((ROLE, NULL, FINISH, USAGE, DONE), True, Outcome.OK, id="a null usage"),
        pytest.param((ROLE, USAGE, TOKEN, FINISH, DONE), False, Outcome.OK, id="usage in the middle"),
        pytest.param((ROLE, TOKEN, FINISH_AND_USAGE, USAGE, DONE), False, Outcome.OK, id="usage beside the finish too"),
    ],
)
def test_one_odd_stream_changes_nothing_for_the_others(
    odd: tuple[bytes, ...], outcome: Outcome, *, is_cut: bool
) -> None:
    """Twenty good ones, the odd one, sixty good ones: all are asked for usage and split by it. The odd client gets its bytes, less the chunk
    in front of the end mark.
    """
    walk, known = Walk(), {}
    for _ in range(LEARNED_FROM):
        streamed(walk, good)
    _, got = streamed(walk, lambda _asked: odd)
    odd_one = walk.accounts[-1]
    for _ in range(3 * LEARNED_FROM):
        asked, _ = streamed(walk, good)
        ledger = walk.accounts[-1].ledger
        known[b"include_usage" in asked] = ledger is not None and ledger.source

    assert (odd_one.outcome, got) == (outcome, b"".join(odd).replace(USAGE if is_cut else b"none", b""))
    assert known == {True: "engine"}
    assert walk.value("llm_sidecar_usage_injection_total", result="asked") == 4 * LEARNED_FROM + 1


def test_a_server_that_answers_include_usage_in_every_chunk_is_not_asked_for_long() -> None:
    """Its clients got a null that they had not asked for, twenty times in a row."""
    walk = Walk()
    for _ in range(LEARNED_FROM + 2):
        streamed(walk, lambda asked: [NULL if asked else TOKEN, FINISH, DONE])

    assert walk.value("llm_sidecar_usage_injection_total", result="asked") == LEARNED_FROM
    assert walk.value("llm_sidecar_usage_injection_total", result="usage_shows") == 2


ZIPPED = STREAM.replace(b"content-type", b"content-encoding: gzip\r\ncontent-type")


def test_an_answer_that_comes_compressed_all_the_same_stops_the_asking() -> None:
    """Its client gets its bytes as they are. Then one request a minute asks for `identity` alone, and twenty plain answers to these start the
    asking again.
    """

    def packed(_asked: bool) -> Sequence[bytes]:
        return [b"\x1f\x8b\x08", b"..."]

    walk, accepts = Walk(), "Accept-Encoding: gzip, br"
    first, got = streamed(walk, packed, accepts, head=ZIPPED)
    identity, asked = [], []
    for number in range(1, 140):  # ten seconds apart
        walk.clock.later(10.0 - 0.7)
        request, _ = streamed(walk, good if number > 10 else packed, accepts, head=STREAM if number > 10 else ZIPPED)
        identity += [number] if b"\r\nAccept-Encoding: identity\r\n" in request else []
        asked += [number] if b"include_usage" in request else []
        assert request.count(b"Accept-Encoding:") == 1

    assert (b"include_usage" in first, got) == (True, b"\x1f\x8b\x08...")
    assert identity[:21] == list(range(7, 133, 6))  # the first one came compressed
    assert asked == identity[21:] == list(range(128, 140))
    assert walk.value("llm_sidecar_usage_injection_total", result="compressed_answers") == 127


@pytest.mark.parametrize("coding", ["", "none", "utf-8", "identity, identity"])
def test_a_coding_that_is_none_stops_no_asking(coding: str) -> None:
    """Servers of events write `none` so that nothing in between compresses them."""
    walk, head = Walk(), STREAM.replace(b"content-type", f"content-encoding: {coding}\r\ncontent-type".encode())
    asked = [b"include_usage" in streamed(walk, good, head=head)[0] for _ in range(3)]

    assert asked == [True] * 3
    assert walk.value("llm_answer_proofs_total", proof="marked") == 3


@pytest.mark.parametrize(
    ("walk", "result"),
    [
        pytest.param(Walk(include_usage=False), "off", id="switched off"),
        pytest.param(Walk(engine=Engine("auto", ["tiny"])), "engine_not_proven", id="an unknown engine"),
    ],
)
def test_where_usage_may_not_be_asked_for_the_body_goes_untouched_and_the_split_is_unknown(
    walk: Walk, result: str
) -> None:
    """Unknown is not zero: the time before the first token is unattributed, and counted as such."""
    client = walk.client()
    request = post({"stream": True})

    client.send(request)
    play(walk, usage=False)

    assert request == walk.engine.taken
    assert walk.value("llm_sidecar_usage_injection_total", result=result) == 1
    assert pytest.approx(walk.value("llm_request_phase_seconds_sum", phase="unattributed", source="wire")) == 0.45
    assert walk.value("llm_phase_attribution_total", source="none", reason="no_report") == 1


def test_a_whole_answer_states_its_usage_and_its_phases() -> None:
    """Unstreamed requests have series of their own, and are never in TTFT or inter-token."""
    walk = Walk()
    answer = json.dumps(
        {
            "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 9},
            "metrics": {"queue_time_ms": 100, "time_to_first_token_ms": 200, "generation_time_ms": 600},
        }
    ).encode()
    walk.client().send(post({}))
    walk.clock.later(1)

    walk.engine.send(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer
    )

    assert walk.value("llm_request_phase_seconds_sum", phase="queue", streaming="false") == 0.1
    assert pytest.approx(walk.value("llm_request_phase_seconds_sum", phase="unattributed", streaming="false")) == 0.1
    assert walk.value("llm_output_tokens_sum") == 9
    assert walk.accounts[0].labels.prompt_bucket == "0-512"
    with pytest.raises(AssertionError, match="no sample"):
        walk.value("llm_time_to_first_token_seconds_count", lane="batch")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", Outcome.CLIENT_ERROR, id="400"),
        pytest.param(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n", Outcome.REJECTED, id="429"),
        pytest.param(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", Outcome.REJECTED, id="503"),
        pytest.param(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", Outcome.ENGINE_ERROR, id="500"),
        pytest.param(
            STREAM + chunk(b'data: {"error":{"message":"out of memory"}}\n\n') + b"0\r\n\r\n",
            Outcome.ENGINE_ERROR,
            id="in mid-stream",
        ),
    ],
)
def test_the_engines_failures_are_its_own_outcomes(answer: bytes, outcome: Outcome) -> None:
    """A 200 with an error inside is no success; no failure has phases."""
    walk = Walk()
    walk.client().send(post({"stream": True}))

    walk.engine.send(answer)

    assert walk.value("llm_requests_total", outcome=outcome) == 1
    assert walk.accounts[0].ledger is None


def test_a_client_that_leaves_during_its_upload_is_counted_there() -> None:
    """The cancel comes before the body was classified: it counts in the lane that the head states."""
    walk = Walk()
    client = walk.client()
    client.send(post({"stream": True}, "X-Lane: batch")[:-5])

    client.end()

    assert Stage.UPLOAD is walk.accounts[0].cancelled_in
    assert walk.value("llm_client_cancels_total", lane="batch", stage="upload") == 1
    assert walk.value("llm_requests_total", lane="batch", outcome="client_cancelled") == 1


def test_what_a_client_invents_is_other_and_counted() -> None:
    """No lane, model or header value that a client invents becomes a label."""
    walk = Walk()
    before = walk.page().count("\n")
    for number in range(50):
        client = walk.client()
        client.send(post({"model": f"model-{number}"}, f"X-Lane: lane-\xff-{number}"))
        walk.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        client.end()
    first = walk.page().count("\n")

    walk.client().send(post({"model": "yet another"}, "X-Lane: yet-another"))
    walk.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    assert first == walk.page().count("\n") > before
    assert walk.value("llm_requests_total", lane="other", model="other", outcome="ok") == 51
    assert walk.value("llm_sidecar_label_overflow_total", label="model") == 51
    assert walk.value("llm_sidecar_label_overflow_total", label="lane") == 51


def test_the_length_is_estimated_only_once_usage_has_taught_it() -> None:
    """Without usage the bucket is unknown at first, and estimated after twenty prompts that the engine counted."""
    walk = Walk()
    text = [{"role": "user", "content": "x" * 800}]

    def request(*, usage: bool) -> str:
        client = walk.client()
        client.send(post({"stream": True, "messages": text}))
        play(walk, usage=usage)
        client.end()
        return walk.accounts[-1].labels.prompt_bucket

    assert request(usage=False) == "unknown"
    for _ in range(20):
        assert request(usage=True) == "512-4k"
    assert request(usage=False) == "512-4k"


def test_after_a_restart_the_first_length_is_estimated() -> None:
    """The tokens in a byte of text are kept with the usual values: a step counts from the first request on."""
    before, after = Walk(), Walk()
    text = [{"role": "user", "content": "x" * 800}]
    for walk, usage in [*[(before, True)] * 20, (after, False)]:
        if walk is after:
            for name, learner in after.settlement.instruments.slo.learners.items():
                learner.restore(before.settlement.instruments.slo.learners[name].state())
        client = walk.client()
        client.send(post({"stream": True, "messages": text}))
        play(walk, usage=usage)
        client.end()

    assert after.accounts[-1].labels.prompt_bucket == before.accounts[-1].labels.prompt_bucket == "512-4k"


def test_lengths_stay_known_when_usual_values_are_dropped() -> None:
    """They do not depend on what is usual."""
    walk = Walk()
    slo = walk.settlement.instruments.slo
    for _ in range(20):
        slo.tokens_per_byte.learn("llama", 800, 200)

    slo.unlearn()

    assert slo.tokens_per_byte.known == {"llama": 0.25}


def test_the_log_line_has_allowed_headers_and_no_query() -> None:
    """The line has the path without its query, the one allowed header and the status; nothing else of the request."""
    walk = Walk()
    walk.client().send(
        post({}, "X-Team: search", "Authorization: Bearer sk-CANARY", path="/v1/chat/completions?key=sk-CANARY")
    )
    walk.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    assert walk.accounts[0].notes == {"path": "/v1/chat/completions", "header.x-team": "search", "status": "200"}


def test_everything_else_is_one_counter() -> None:
    """Such a request has no lane and no account."""
    walk = Walk()
    walk.client().send(b"GET /v1/models HTTP/1.1\r\nHost: pod\r\n\r\n")
    walk.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    assert walk.value("llm_passthrough_requests_total", outcome="ok") == 1
    assert walk.accounts == []


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_an_endpoint_picker_gets_the_engines_own_page(size: int) -> None:
    """The picker of an inference gateway reads `/metrics` at the target port, which is the sidecar's: of any other page its queue and its KV
    usage would be zero. A GET of Go's client, as it asks, and every byte of the answer behind the head, as the engine wrote it.
    """
    walk = Walk()
    client = walk.client()
    client.send(
        b"GET /metrics HTTP/1.1\r\nHost: 10.0.0.7:8900\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n"
    page = (
        b'# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine="0"} 7.0\nllm_requests_total 3.0\n'
    )
    body = b"content-length: %d\r\n\r\n" % len(page) + page
    whole = head + body
    for at in range(0, len(whole), size):
        walk.engine.send(whole[at : at + size])

    assert walk.engine.taken.startswith(b"GET /metrics HTTP/1.1\r\n")
    assert client.taken.endswith(b"\r\n\r\n" + page)
    assert walk.value("llm_passthrough_requests_total", outcome="ok") == 1
    assert walk.accounts == []


def test_a_compressed_answer_passes_unread_and_says_so() -> None:
    """A client that asks for gzip from an engine that supports it gets gzip; only the wire's marks are known."""
    walk = Walk(include_usage=False)
    client = walk.client()
    client.send(post({"stream": True}))
    walk.engine.send(
        STREAM.replace(b"content-type", b"content-encoding: gzip\r\ncontent-type")
        + chunk(b"\x1f\x8b...")
        + b"0\r\n\r\n"
    )

    assert client.taken.endswith(chunk(b"\x1f\x8b...") + b"0\r\n\r\n")
    assert walk.value("llm_sidecar_dropped_total", reason="encoded_response") == 1
    assert walk.value("llm_requests_total", outcome="ok") == 1


def test_a_sampled_trace_becomes_an_exemplar() -> None:
    """The client's own trace becomes one if the client samples it."""
    walk = Walk()
    trace = "0af7651916cd43dd8448eb211c80319c"
    walk.client().send(post({"stream": True}, f"traceparent: 00-{trace}-b7ad6b7169203331-01"))
    play(walk)

    assert trace == walk.accounts[0].trace_id


@pytest.mark.parametrize("ending", ["whole", "left", "engine failed"])
def test_a_request_that_is_over_is_freed_without_the_garbage_collector(ending: str) -> None:
    """No cycle of references stays behind: the collector would have to walk the heap to find each one.

    A closed client connection and its parser do hold each other: one pair for each connection, not for each request.
    """
    walk = Walk(estimate=True)

    def request() -> None:
        client = walk.client()
        client.send(post({"stream": True}))
        if ending == "whole":
            play(walk)
            return
        walk.engine.send(STREAM + chunk(ROLE) + chunk(TOKEN))
        if ending == "left":
            client.lose()
        else:
            walk.engine.lose()

    request()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        request()
        gc.collect()
        found = {f"{type(one).__module__}.{type(one).__name__}" for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert len(walk.accounts) == 2
    accept = ("accept.ClientConnection", "requests.RequestReader", "waiting.Waiting")
    connection = {f"sidecar.proxy.{name}" for name in accept}
    assert {name for name in found if name.startswith("sidecar.")} - connection == set()


def test_an_answer_that_is_read_whole_is_counted_as_held_until_it_is_over() -> None:
    """Beyond the budget only its outline is kept: the client gets every byte, and its usage is known all the same."""
    answer = b'{"usage":{"prompt_tokens":5,"completion_tokens":2}}'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
    for limit, exceeded in ((1 << 20, 0), (10, 1)):
        walk = Walk()
        walk.observers.held = held = Budget(Kind.HELD_BYTES, limit)
        client = walk.client()
        client.send(post({}))
        walk.engine.send(head + answer[:20])
        assert held.used == (0 if exceeded else 20)
        walk.engine.send(answer[20:])

        assert client.taken.endswith(answer)
        assert (held.used, held.exceeded, walk.dropped) == (0, exceeded, [])
        assert walk.value("llm_output_tokens_sum") == 2
