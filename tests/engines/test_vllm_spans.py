"""vLLM's spans through the whole sidecar: each request gets its own split, late, and never another's."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.span import Span
from sidecar.engines.vllm import report_in_span
from sidecar.ledger.account import Ledger, Reason
from sidecar.ledger.report import EngineReport, of_choices, response_key, span_key
from sidecar.observe.settlement import GIVES_UP_AFTER
from sidecar.timeline.events import Usage
from tests.support.memory import Socket
from tests.support.scenario import phases
from tests.support.spans import fixture
from tests.support.vllm_stream import DONE, FINISH, ROLE, STREAM, TOKEN, USAGE, chunk, play, post
from tests.support.walk import Walk


GENERATION = fixture("vllm-chat")
(SPAN,) = GENERATION.spans
TRACE = "0af7651916cd43dd8448eb211c80319c"


def walk_without_metrics() -> Walk:
    """A vLLM without --enable-per-request-metrics, which exports spans."""
    return Walk(include_usage=False, mints=True)


def minted(engine: Socket) -> tuple[str, str]:
    """Trace and span id that the last request on this connection to the engine carried."""
    _, trace, span, flags = engine.taken.rpartition(b"traceparent: ")[2][:55].decode().split("-")
    assert flags == "01"
    return trace, span


def ask(walk: Walk, body: dict[str, object] | None = None, *fields: str) -> str:
    """Play one whole request on a connection of its own; returns the span that was minted for it."""
    walk.client().send(post({"stream": True, **(body or {})}, *fields))
    span = minted(walk.engine)[1]
    play(walk, usage=False)
    return span


def generation(parent: str, queue: float = 0.1, prefill: float = 0.3, decode: float = 0.2, *, answer: str = "") -> Span:
    """A span of one generation under this parent, for the answer with this id; times in seconds."""
    said: dict[str, str | float] = {
        "gen_ai.latency.time_to_first_token": queue + prefill + 0.03,
        "gen_ai.latency.time_in_queue": queue,
        "gen_ai.latency.time_in_model_prefill": prefill,
        "gen_ai.latency.time_in_model_decode": decode,
        "gen_ai.request.id": answer or f"chatcmpl-{parent}",
    }
    return replace(SPAN, parent_span_id=parent, span_id=f"{parent}-{queue}", attributes={**SPAN.attributes, **said})


def ledger(walk: Walk, number: int = -1) -> Ledger:
    found = walk.accounts[number].ledger
    assert found is not None
    return found


# --- what a span says ------------------------------------------------------------------------------------------------------


def test_a_generations_span_is_a_word_on_its_request() -> None:
    """Durations are seconds; the request is found by the span's parent or, within its trace, by the answer's id."""
    keyed = report_in_span(GENERATION.under("00000000000000aa")[0])

    assert keyed is not None
    assert keyed.report == EngineReport(0.1, 0.3, 0.2)
    assert keyed.keys == (span_key("00000000000000aa"), response_key("chatcmpl-7"))
    assert keyed.trace_id == TRACE


@pytest.mark.parametrize(
    ("generation_id", "answer_id"),
    [
        ("chatcmpl-7", "chatcmpl-7"),
        ("chatcmpl-request-0", "chatcmpl-request-0"),
        ("cmpl-7-0", "cmpl-7"),
        ("cmpl-request-1-11", "cmpl-request-1"),
        ("resp_7_0", "resp_7"),
    ],
)
def test_the_generations_id_leads_to_the_answers(generation_id: str, answer_id: str) -> None:
    """Completions number the prompts, responses the turns."""
    keyed = report_in_span(replace(SPAN, attributes={**SPAN.attributes, "gen_ai.request.id": generation_id}))

    assert keyed is not None
    assert response_key(answer_id) in keyed.keys


@pytest.mark.parametrize("generation_id", ["resp_7_1", "cmpl-7-4f2a-beam-0", "chatcmpl-7-beam-12"])
def test_a_later_turn_and_a_beam_are_not_the_requests_split(generation_id: str) -> None:
    """Turns begin after the request's first token, and a beam is one of many at each step."""
    assert report_in_span(replace(SPAN, attributes={**SPAN.attributes, "gen_ai.request.id": generation_id})) is None


def test_spans_of_starting_up_say_nothing() -> None:
    """vLLM traces its own start, too."""
    assert report_in_span(replace(SPAN, name="Load model")) is None
    assert report_in_span(replace(SPAN, attributes={"code.function": "load_model"})) is None


@given(
    st.dictionaries(
        st.sampled_from(sorted(SPAN.attributes)),
        st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    ),
    st.text(max_size=20),
)
def test_whatever_the_attributes_only_durations_are_stated(
    damage: dict[str, bool | int | float | str], parent: str
) -> None:
    """A value that is negative, huge, no number, a string or a boolean is not stated, and nothing is raised."""
    keyed = report_in_span(replace(SPAN, attributes={**SPAN.attributes, **damage}, parent_span_id=parent))

    if keyed is not None:
        stated = (keyed.report.queue_seconds, keyed.report.prefill_seconds, keyed.report.decode_seconds)
        assert all(value is None or 0 <= value < float("inf") for value in stated)


# --- through the whole sidecar -----------------------------------------------------------------------------------------------


def test_an_engine_without_per_request_metrics_tells_by_its_span() -> None:
    """The request ends, its log line waits, the batch comes 5 s later: the same five phases as in-band."""
    walk = walk_without_metrics()
    span = ask(walk)
    walk.clock.later(4.9)
    assert walk.accounts == []

    assert walk.settlement.span(GENERATION.under(span)[0])

    assert phases(ledger(walk)) == {
        "queue": (100, "engine"),
        "prefill": (300, "engine"),
        "first_token": (50, "derived"),
        "decode": (200, "engine"),
        "stream": (50, "derived"),
    }
    assert ledger(walk).reason is Reason.LATE_REPORT


def test_tokens_that_its_span_alone_states_are_counted() -> None:
    """A client that asks for no usage: bucket, tokens and time per token are those of the span, as if the answer had stated them."""
    walk = walk_without_metrics()
    span = ask(walk)

    walk.settlement.span(GENERATION.under(span)[0])

    assert [walk.value(f"llm_{which}_tokens_sum") for which in ("prompt", "output")] == [600, 2]
    assert walk.value("llm_time_per_output_token_seconds_sum") == pytest.approx(0.2)
    assert walk.value("llm_request_phase_seconds_count", prompt_bucket="512-4k", phase="queue") == 1
    (account,) = walk.accounts
    assert account.marks.usage == Usage(600, None, 2)


def test_spans_teach_how_long_prompts_are() -> None:
    """Once twenty prompts were counted in spans, the length of the next one is known when it comes: it has its bucket and its threshold."""
    walk = walk_without_metrics()
    long: dict[str, object] = {"messages": [{"role": "user", "content": "word " * 480}]}
    for _ in range(20):
        walk.settlement.span(GENERATION.under(ask(walk, long))[0])

    ask(walk, long)

    by_bucket = [walk.value("llm_requests_total", prompt_bucket=bucket) for bucket in ("unknown", "512-4k")]
    assert by_bucket == [20, 1]


def test_the_answer_s_own_counts_stand_beside_a_span_s() -> None:
    """Tokens are counted once, where both the answer and the span state them."""
    walk = Walk(mints=True)
    walk.client().send(post({"stream": True}))
    span = minted(walk.engine)[1]
    walk.engine.send(STREAM + b"".join(map(chunk, (ROLE, TOKEN, FINISH))))
    walk.engine.send(chunk(USAGE.partition(b',"metrics"')[0] + b"}\n\n") + chunk(DONE) + b"0\r\n\r\n")

    walk.settlement.span(GENERATION.under(span)[0])

    assert (walk.value("llm_prompt_tokens_count"), walk.value("llm_prompt_tokens_sum")) == (1, 600)
    assert [account.marks.usage for account in walk.accounts] == [Usage(600, 64, 2)]


def test_fewer_tokens_than_events_are_another_workers() -> None:
    """A disaggregated prefill worker counts the one token that it made itself: the output's length stays unknown."""
    walk = walk_without_metrics()
    (span,) = GENERATION.under(ask(walk))

    walk.settlement.span(replace(span, attributes={**span.attributes, "gen_ai.usage.completion_tokens": 1}))
    walk.settlement.expire(walk.clock.later(10))

    assert walk.value("llm_prompt_tokens_sum") == 600
    assert [account.marks.usage for account in walk.accounts] == [Usage(600)]


def test_the_length_of_several_prompts_is_unknown_and_of_several_choices_it_is_one() -> None:
    """Each prompt has a generation of its own, with its own length; choices of one prompt repeat it."""
    counted = {"gen_ai.usage.prompt_tokens": 600, "gen_ai.usage.completion_tokens": 2}

    def usage(*generations: str) -> Usage | None:
        spans = [
            replace(SPAN, attributes={**SPAN.attributes, **counted, "gen_ai.request.id": each}) for each in generations
        ]
        return of_choices([keyed.report for span in spans if (keyed := report_in_span(span))]).usage

    assert (usage("chatcmpl-7", "chatcmpl-7"), usage("cmpl-7-0", "cmpl-7-1")) == (
        Usage(600, None, 4),
        Usage(None, None, 4),
    )


def test_where_the_answer_itself_reports_no_request_waits() -> None:
    """With both on, the in-band report is first, and the span that comes later changes nothing."""
    walk = Walk(mints=True)
    walk.client().send(post({"stream": True}))
    span = minted(walk.engine)[1]
    play(walk)
    assert ledger(walk).reason is Reason.IN_BAND

    walk.settlement.span(generation(span, queue=9.0))
    walk.clock.later(11)
    walk.settlement.expire(walk.clock.now)

    assert [round(share.seconds, 6) for share in ledger(walk).shares][:2] == [0.1, 0.3]
    assert len(walk.accounts) == 1
    assert walk.value("llm_phase_attribution_total", reason="late_report") == 0
    assert walk.value("llm_sidecar_dropped_total", reason="report_twice") == 1


def test_forty_requests_in_one_trace_of_a_client_are_each_joined_right() -> None:
    """A shared trace does not tell which request a span belongs to; the parent does. Batches come in any order."""
    walk = walk_without_metrics()
    spans = [ask(walk, None, f"traceparent: 00-{TRACE}-b7ad6b7169203331-01") for _ in range(40)]
    order = sorted(range(40), key=lambda number: number * 7 % 40)

    for number in order:
        walk.settlement.span(generation(spans[number], queue=0.06 + number / 1000))

    assert len(set(spans)) == 40
    assert [round(ledger(walk, at).shares[0].seconds * 1000) - 60 for at in range(40)] == order
    assert walk.value("llm_phase_attribution_total", reason="late_report", source="engine") == 40


def test_an_id_that_a_client_uses_twice_leads_to_no_other_request() -> None:
    """The client chooses X-Request-Id, and a retry has the same; it does not choose the span's parent."""
    walk = walk_without_metrics()
    spans = []
    for _ in range(2):
        walk.client().send(post({"stream": True}))
        spans.append(minted(walk.engine)[1])
        walk.clock.later(0.45)
        walk.engine.send(STREAM + chunk(TOKEN.replace(b"{", b'{"id":"chatcmpl-same",', 1)))
        walk.clock.later(0.2)
        walk.engine.send(chunk(DONE) + b"0\r\n\r\n")

    walk.settlement.span(generation(spans[1], queue=0.05, answer="chatcmpl-same"))
    assert len(walk.accounts) == 1
    walk.settlement.expire(walk.clock.later(10))

    assert [account.ledger.reason for account in walk.accounts if account.ledger] == [
        Reason.LATE_REPORT,
        Reason.NO_REPORT,
    ]


@pytest.mark.parametrize("same_trace", [True, False])
def test_under_a_span_of_a_proxy_in_between_the_answers_id_leads_to_the_request_within_its_trace(
    same_trace: bool,
) -> None:
    """A mesh that traces puts its own span in between. Another client's request with the same id has another trace."""
    walk = walk_without_metrics()
    walk.client().send(post({"stream": True}, f"traceparent: 00-{TRACE}-b7ad6b7169203331-00"))
    walk.clock.later(0.45)
    walk.engine.send(STREAM + chunk(TOKEN.replace(b"{", b'{"id":"chatcmpl-7",', 1)))
    walk.clock.later(0.2)
    walk.engine.send(chunk(DONE) + b"0\r\n\r\n")

    walk.settlement.span(replace(SPAN, parent_span_id="f" * 16, trace_id=TRACE if same_trace else "f" * 32))
    walk.settlement.expire(walk.clock.later(10))

    assert ledger(walk).reason is (Reason.LATE_REPORT if same_trace else Reason.NO_REPORT)
    assert walk.value("llm_sidecar_dropped_total", reason="report_unmatched") == (0 if same_trace else 1)


def test_a_span_that_comes_twice_is_used_once_and_an_unmatched_one_is_counted() -> None:
    """Exporters retry, and other clients use the engine too."""
    walk = walk_without_metrics()
    span = ask(walk)
    walk.settlement.span(generation(span))
    walk.settlement.span(generation(span))
    walk.settlement.span(generation("00000000deadbeef"))
    walk.clock.later(10)
    walk.settlement.expire(walk.clock.now)

    assert len(walk.accounts) == 1
    assert walk.value("llm_sidecar_dropped_total", reason="report_twice") == 1
    assert walk.value("llm_sidecar_dropped_total", reason="report_unmatched") == 1


def test_a_client_that_reads_slowly_still_gets_its_split() -> None:
    """The engine was done half a minute before the last byte was read: its report is kept while the request runs."""
    walk = walk_without_metrics()
    walk.client().send(post({"stream": True}))
    span = minted(walk.engine)[1]
    walk.clock.later(0.45)
    walk.engine.send(STREAM + chunk(ROLE) + chunk(TOKEN))
    walk.settlement.span(generation(span))
    for _ in range(30):
        walk.settlement.expire(walk.clock.later(1))
    walk.engine.send(chunk(FINISH) + chunk(DONE) + b"0\r\n\r\n")

    assert ledger(walk).reason is Reason.LATE_REPORT
    assert walk.value("llm_sidecar_dropped_total", reason="report_unmatched") == 0


# --- several choices -----------------------------------------------------------------------------------------------------------


def choice(index: int, text: bytes = b"a", finish: bytes = b"null") -> bytes:
    return chunk(
        b'data: {"choices":[{"index":%d,"delta":{"content":"%s"},"finish_reason":%s}]}\n\n' % (index, text, finish)
    )


def two_choices(walk: Walk) -> str:
    """Choice 1 begins after 0.45 s, choice 0 another 0.3 s later: it had to wait for a slot."""
    walk.client().send(post({"stream": True, "n": 2}))
    span = minted(walk.engine)[1]
    walk.clock.later(0.45)
    walk.engine.send(STREAM + choice(1))
    walk.clock.later(0.3)
    walk.engine.send(choice(0))
    walk.clock.later(0.2)
    walk.engine.send(choice(1, finish=b'"length"') + choice(0, finish=b'"length"') + chunk(DONE) + b"0\r\n\r\n")
    return span


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_choices_the_split_is_that_of_the_first_to_speak(order: tuple[int, int]) -> None:
    """Each choice has a span; the TTFT is that of the first with a token, in any order. Decode is the wire's."""
    walk = walk_without_metrics()
    span = two_choices(walk)
    spans = [generation(span, queue=0.4, prefill=0.3, decode=0.2), generation(span, queue=0.1, prefill=0.3, decode=0.5)]

    walk.settlement.span(spans[order[0]])
    assert walk.accounts == []
    walk.settlement.span(spans[order[1]])

    assert phases(ledger(walk)) == {
        "queue": (100, "engine"),
        "prefill": (300, "engine"),
        "first_token": (50, "derived"),
        "decode": (500, "wire"),
        "stream": (0, "wire"),
    }


def test_where_one_choices_span_is_lost_nothing_is_claimed() -> None:
    """One report of two is not enough: it is not known which choice was first."""
    walk = walk_without_metrics()
    span = two_choices(walk)
    walk.settlement.span(generation(span, queue=0.4))
    walk.settlement.span(generation(span, queue=0.4))
    walk.settlement.expire(walk.clock.later(10))

    assert ledger(walk).reason is Reason.NO_REPORT
    assert walk.value("llm_sidecar_dropped_total", reason="report_twice") == 1
    assert walk.value("llm_sidecar_dropped_total", reason="report_unmatched") == 1


# --- an engine that exports no spans -----------------------------------------------------------------------------------------------


def in_vain(walk: Walk, requests: int) -> None:
    """Play requests that never get a report."""
    for _ in range(requests):
        ask(walk)
        walk.settlement.expire(walk.clock.later(10))


def test_an_engine_that_exports_nothing_holds_nothing_back_for_long() -> None:
    """After twenty waits in vain only one request at a time waits; the others end at once without a split."""
    walk = walk_without_metrics()
    in_vain(walk, GIVES_UP_AFTER)
    settled = len(walk.accounts)

    for _ in range(30):
        ask(walk)

    assert settled == GIVES_UP_AFTER
    assert len(walk.accounts) == settled + 29
    assert {account.ledger.reason for account in walk.accounts if account.ledger} == {Reason.NO_REPORT}
    assert len(walk.settlement.pending) == 1


def test_once_it_exports_again_every_request_waits_again() -> None:
    """Either the report of the one that still waits shows it, or a late one of a request that had been given up."""
    for late in (True, False):
        walk = walk_without_metrics()
        in_vain(walk, GIVES_UP_AFTER)
        probe, given_up = ask(walk), ask(walk)

        walk.settlement.span(generation(given_up if late else probe))
        spans = [ask(walk) for _ in range(5)]
        for span in spans:
            walk.settlement.span(generation(span))

        assert [account.ledger.reason for account in walk.accounts if account.ledger][-5:] == [Reason.LATE_REPORT] * 5


def test_where_no_span_can_come_no_request_waits() -> None:
    """The receiver is off: no span is minted, and a ledger without a report is closed when the stream ends."""
    walk = Walk(include_usage=False)
    walk.client().send(post({"stream": True}))
    assert b"traceparent" not in walk.engine.taken
    play(walk, usage=False)

    assert ledger(walk).reason is Reason.NO_REPORT
    assert USAGE not in walk.engine.taken
