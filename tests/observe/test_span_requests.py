"""Requests of which only the engine's span is known: the numbers of proxied ones in the same shape, as far as a span tells."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from bench.incidents.prometheus import hear, names_in
from bench.incidents.samples import Samples
from sidecar.budgets.machine import Machine
from sidecar.commands.diagnose.terminal import text
from sidecar.diagnosis.document import document
from sidecar.diagnosis.live import LiveDiagnosis
from sidecar.diagnosis.tree import diagnose
from sidecar.engines.engine import Engine
from sidecar.history.ring import History
from sidecar.history.slices import run_now
from sidecar.ledger.account import Phase, Reason
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import UNTOLD_BY_SPANS
from sidecar.observe import span_requests
from sidecar.observe.span_requests import DELAY_SECONDS, EngineClock, left_out, unable
from sidecar.otlp.intake import Intake
from sidecar.serving import Serving
from tests.support.memory import Clock
from tests.support.otlp import request_of
from tests.support.span_story import SPAN, SpanStory, config
from tests.support.spans import fixture
from tests.support.tools import need_tool


CALM_SECONDS, FAULT_SECONDS = 400, 60
TWO_MINUTES = 120
"""As much of a calm as a person waits for, before a fault is tried on a sidecar that was just started."""
SAYS = fixture("vllm-chat").says


def posted(story: SpanStory, *spans: Any) -> None:
    """These spans come as one OTLP request in protobuf, through the receiver's own intake."""

    async def body() -> AsyncIterator[bytes]:
        fields = (
            {
                "span_id": span.span_id,
                "parent_span_id": span.parent_span_id,
                "name": span.name,
                "start_time_unix_nano": span.start_unix_nano,
                "end_time_unix_nano": span.end_unix_nano,
            }
            for span in spans
        )
        yield request_of(*fields, attributes=spans[0].attributes).SerializeToString()

    recorder = story.settlement.instruments.recorder
    intake = Intake(story.settlement.span, clock=story.clock, count=recorder.spans, dropped=recorder.dropped)
    asyncio.run(_taken(intake, body()))


async def _taken(intake: Intake, body: AsyncIterator[bytes]) -> None:
    await intake.take(body)


def test_a_posted_span_gives_the_phases_the_bucket_and_the_lane_of_its_request() -> None:
    """As vLLM states them: queue, prefill and decode to the last digit, the front end beside them, and nothing of a stream."""
    story = SpanStory()
    posted(story, replace(SPAN, parent_span_id="00f067aa0ba902b7", attributes={**SPAN.attributes, "lane": "batch"}))

    by = ("lane", "prompt_bucket", "streaming", "phase", "source")
    request = ("batch", "512-4k", "true")
    seconds = story.samples("llm_request_phase_seconds_sum", *by)
    assert seconds == pytest.approx(
        {
            (*request, "queue", "engine"): SAYS["queue"],
            (*request, "prefill", "engine"): SAYS["prefill"],
            (*request, "first_token", "derived"): 0.03,
            (*request, "decode", "engine"): SAYS["decode"],
            (*request, "unattributed", "derived"): 0.01,
        }
    )
    assert story.samples("llm_request_seconds_sum", "lane") == pytest.approx({"batch": sum(seconds.values())})
    assert story.samples("llm_time_to_first_token_seconds_sum", "model") == pytest.approx({"tiny": 0.43})
    assert story.samples("llm_phase_attribution_total", "source", "reason") == {("engine", "span_alone"): 1}
    assert story.samples("llm_sidecar_spans_total", "result") == {"taken": 1}
    assert [story.samples(f"llm_{of}_tokens_sum", "lane") for of in ("prompt", "output")] == [
        {"batch": 600},
        {"batch": 2},
    ]


def test_what_no_span_tells_is_absent_and_not_zero() -> None:
    """Stream, gaps, cancels, requests in flight, the engine's silence: 0 would be a claim."""
    story = SpanStory().seconds(5)
    prefixes = tuple(metric.name for metric in UNTOLD_BY_SPANS)

    assert story.samples("llm_requests_total", "outcome") == {"ok": 10}
    assert [name for name in story.names() if name.startswith(prefixes)] == []
    assert {"stream"} & set(story.samples("llm_request_phase_seconds_count", "phase")) == set()


def test_an_account_says_where_it_is_from_and_its_ledger_adds_up() -> None:
    story = SpanStory().seconds(5)
    (account, *_) = story.accounts
    ledger = account.ledger

    assert ledger is not None
    assert (ledger.reason, account.notes, len(story.accounts)) == (Reason.SPAN_ALONE, {"known_from": "span"}, 10)
    assert sum(share.seconds for share in ledger.shares) == pytest.approx(ledger.e2e_seconds)
    assert Phase.STREAM not in {share.phase for share in ledger.shares}


FAULTS = {
    ("queue", "kv"): {"queue": 1.5},
    ("prefill", "prefill_cost"): {"prefill": 1.2},
    ("first_token", "front_end"): {"front_end": 1.2},
    ("decode", "decode_cost"): {"pace": 0.08},
}


@pytest.mark.parametrize("root", FAULTS)
def test_a_burning_objective_has_the_root_that_broke_of_each_phase_that_spans_tell(root: tuple[str, str]) -> None:
    """Each miss is blamed on its phase, and most of them have the right root; the engine's page says what waits there."""
    full = root == ("queue", "kv")
    story = SpanStory().engine_says(c.ENGINE_REQUESTS_WAITING, 0.0).engine_says(c.ENGINE_KV_CACHE_USAGE_RATIO, 0.3)
    story.seconds(CALM_SECONDS)
    calm = story.samples("llm_slo_misses_total", "lane")
    story.engine_says(c.ENGINE_REQUESTS_WAITING, 10.0 * full)
    story.engine_says(c.ENGINE_KV_CACHE_USAGE_RATIO, 0.97 if full else 0.3).seconds(FAULT_SECONDS, **FAULTS[root])
    roots, objective = story.roots(), "tpot" if root[0] == "decode" else "ttft"

    assert (calm, story.samples("llm_slo_misses_total", "objective")) == ({}, {objective: 2 * FAULT_SECONDS})
    assert story.samples("llm_slo_blamed_misses_total", "phase") == {root[0]: 2 * FAULT_SECONDS}
    assert max(roots, key=roots.__getitem__) == root
    assert not {phase for phase, _ in roots} & {"stream", "engine", "sidecar"}


def test_a_dearer_decode_has_its_root_after_two_calm_minutes() -> None:
    """All but the first misses of 20 to 120 ms a token: what is usual is known by then, as it is where traffic passes."""
    story = SpanStory().engine_says(c.ENGINE_REQUESTS_WAITING, 0.0).seconds(TWO_MINUTES, tokens=100)
    story.seconds(FAULT_SECONDS, tokens=100, pace=0.12)

    roots = story.roots()
    assert (max(roots, key=roots.__getitem__), {*roots}) == (
        ("decode", "decode_cost"),
        {("decode", "decode_cost"), ("unattributed", "unclear")},
    )
    assert roots["decode", "decode_cost"] > 0.8 * sum(roots.values())


def told_of(story: SpanStory, seconds: int, **of: Any) -> str:
    """The text of `sidecar diagnose --all` after this time."""
    history = History(story.metrics, at=story.clock.now)
    live = LiveDiagnosis(history)
    for second in range(seconds):
        story.second(**of)
        if second % 5 == 0:
            story.metrics.refresh(story.clock.now)
            run_now(history.tick(story.clock.now))
    story.metrics.refresh(story.clock.now)
    lanes = run_now(live.lanes(run_now(history.now(story.clock.now)), engine="vllm"))
    return text(document([diagnose(lane) for lane in lanes]))


def test_a_diagnosis_prints_no_number_that_no_span_tells_and_no_step_that_this_mode_refuses() -> None:
    """No gap is counted here; usage cannot be asked for, the engine reports by spans already, and no span tells of delivery."""
    well = told_of(SpanStory().seconds(60), 60)
    broken = told_of(SpanStory().seconds(30), 60, pace=0.12)

    assert "between tokens:      MET     0 of 120 requests missed 50 ms a token" in well
    assert "UNATTRIBUTED, perhaps decode  (worst: between tokens" in broken
    for said in (well, broken):
        assert not re.search(r"gaps|p99 -|include_usage|by spans|report each request|proxy_buffering|slow reader", said)


PAGES = {
    "queue": ("LLMQueueBurn", "kv"),
    "prefill": ("LLMPrefillBurn", "prefill_cost"),
    "first_token": ("LLMFirstTokenBurn", "front_end"),
    "decode": ("LLMDecodeBurn", "decode_cost"),
    "engine": ("LLMEngineDown", None),
}
SCRAPE_SECONDS, CALM_SCRAPES, BROKEN_SCRAPES = 15, 80, 16


def scraped(phase: str) -> Samples:
    """Twenty minutes of usual spans and four of broken ones, as Prometheus scrapes them from the page of metrics."""
    aims = {name: {"threshold_seconds": at, "target": 0.99} for name, at in (("ttft", 1.0), ("tpot", 0.05))}
    story = SpanStory(config(objectives={"chat": {"preset": "none", **aims}}))
    story.engine_says(c.ENGINE_REQUESTS_WAITING, 0.0).engine_says(c.ENGINE_KV_CACHE_USAGE_RATIO, 0.3)
    story.engine_says(c.ENGINE_UP, 1.0)
    fault = next((of for (name, _), of in FAULTS.items() if name == phase), {})
    samples = Samples(story.metrics, names_in(), SCRAPE_SECONDS)
    for scrape in range(CALM_SCRAPES + BROKEN_SCRAPES):
        if scrape == CALM_SCRAPES:
            story.engine_says(c.ENGINE_REQUESTS_WAITING, 10.0 * (phase == "queue"))
            story.engine_says(c.ENGINE_KV_CACHE_USAGE_RATIO, 0.97 if phase == "queue" else 0.3)
            story.engine_says(c.ENGINE_UP, float(phase != "engine"))
        story.metrics.refresh(story.clock.now)
        samples.take()
        for _ in range(SCRAPE_SECONDS):
            if phase == "engine" and scrape >= CALM_SCRAPES:
                story.clock.later(1.0)  # no request ends well: no span comes
            else:
                story.second(**(fault if scrape >= CALM_SCRAPES else {}))
    samples.add_target()
    samples.without_idle()
    return samples


@pytest.mark.long
@pytest.mark.parametrize("phase", PAGES)
def test_a_page_names_each_phase_that_spans_tell(phase: str) -> None:
    """The shipped rules, evaluated by promtool: one page, of the phase that broke, and none before."""
    need_tool("promtool")
    samples = scraped(phase)
    fault_at, ends_at = (SCRAPE_SECONDS * scrapes for scrapes in (CALM_SCRAPES, CALM_SCRAPES + BROKEN_SCRAPES - 1))
    heard = hear([samples], fault_at, ends_at, ends_at)
    alert, cause = PAGES[phase]

    assert [each.alert for each in heard.before] == ["Watchdog"]
    pages = [each for each in heard.during if each.labels["severity"] == "page"]
    assert [(each.alert, each.labels["phase"], each.annotations.get("cause")) for each in pages] == [
        (alert, phase, cause)
    ]


def test_slow_clients_and_hops_break_nothing_here_because_no_span_knows_them() -> None:
    """The phase stream cannot be told: the engine's times are the usual ones, whatever clients see. The page says why it is absent."""
    story = SpanStory().seconds(CALM_SECONDS)

    assert (story.samples("llm_slo_misses_total", "objective"), story.roots()) == ({}, {})
    assert "The phase stream, the gaps between tokens, stalls and requests in flight are unknown." in left_out(None)


def test_an_engine_that_sends_spans_lives_whatever_its_health_checks_say() -> None:
    """As bytes of its answers do where traffic passes: it is too busy to answer the check."""
    of = config()
    clock = Clock()
    serving = Serving(of, clock, Machine(1 << 30, 4096))
    before = serving.engine_heard_at
    serving.settlement.span(SPAN)

    assert (before, serving.engine_heard_at) == (float("-inf"), clock.now)
    assert serving.road.engine_heard_at != clock.now


def test_a_log_line_has_what_the_span_states_and_nothing_that_was_not_seen(capfd: pytest.CaptureFixture[str]) -> None:
    """A request of 21 tokens has no number of events, not even 0, and no instant at which its client had the last byte."""
    story, serving = (
        SpanStory(),
        Serving(config(log={"format": "json", "level": "info"}), Clock(), Machine(1 << 30, 4096)),
    )
    try:
        serving.settlement.span(story.span())
        assert serving.logs.flush()
    finally:
        serving.logs.close()
    (line,) = [json.loads(each) for each in capfd.readouterr().err.splitlines() if '"request"' in each]

    stated = [
        "event",
        "level",
        "timestamp",
        "outcome",
        "lane",
        "model",
        "prompt_bucket",
        "streaming",
        "trace_id",
        "notes",
    ]
    stated += ["e2e_seconds", "ttft_seconds", "phases", "sources", "source", "reason", "marks"]
    assert line.keys() == {*stated, "prompt_tokens", "completion_tokens"}
    assert line["marks"].keys() == {"received_at", "first_token_at", "last_token_at", "ended_at"}
    assert (line["completion_tokens"], line["notes"]) == (21, {"known_from": "span"})


def test_a_lane_that_is_not_declared_is_other_and_counted() -> None:
    story = SpanStory()
    for lane in ("batch", "b\nad", 7, "x" * 5000):
        story.settlement.span(story.span(said={"lane": lane}))

    assert story.samples("llm_requests_total", "lane") == {"batch": 1, "other": 3}
    assert story.samples("llm_sidecar_label_overflow_total", "label") == {"lane": 3}


@pytest.mark.parametrize(
    ("state", "lane"),
    [
        ("lane=batch", "batch"),
        ("other=1, lane=batch,x=y", "batch"),
        ("lane=bad", "other"),
        ("lanes=batch", "chat"),
        ("", "chat"),
        (",=", "chat"),
    ],
)
def test_a_client_names_its_lane_in_the_tracestate_that_engines_hand_on(state: str, lane: str) -> None:
    story = SpanStory(config(lanes={"default": "chat", "span_attribute": "tracestate.lane", "names": ["batch"]}))
    story.settlement.span(replace(story.span(said={"lane": "batch"}), trace_state=state))

    assert story.samples("llm_requests_total", "lane") == {lane: 1}


def test_a_rule_sorts_by_what_a_span_states() -> None:
    """Lengths and the answer's limit; without an attribute the first rule that holds decides."""
    rules = [{"lane": "long", "prompt_tokens_from": 4000}, {"lane": "short", "max_tokens_at_most": 16}]
    story = SpanStory(config(lanes={"default": "chat", "rules": rules}))
    for prompt, most in ((5000, 2), (600, 16), (600, 17)):
        said = {"gen_ai.usage.prompt_tokens": prompt, "gen_ai.request.max_tokens": most}
        story.settlement.span(story.span(said=said))

    assert story.samples("llm_requests_total", "lane", "prompt_bucket") == {
        ("long", "4k-16k"): 1,
        ("short", "512-4k"): 1,
        ("chat", "512-4k"): 1,
    }


def test_an_answer_that_was_cut_off_is_no_request_that_ended_well() -> None:
    """SGLang states the word with which an answer finished, and so does a vLLM that is yet to come. A span without times is none either."""
    story = SpanStory()
    story.settlement.span(story.span(said={"gen_ai.response.finish_reasons": '["abort"]'}))
    story.settlement.span(story.span(said={"gen_ai.latency.e2e": -1.0}))

    assert story.samples("llm_requests_total", "outcome") == {}
    assert story.samples("llm_sidecar_dropped_total", "reason") == {"span_of_aborted": 1, "span_incomplete": 1}


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_span_that_comes_twice_is_one_request(kind: str) -> None:
    """An exporter sends a batch again after a timeout, and a Collector may have two pipelines: whole batches come again, of each engine."""
    story = SpanStory(config(engine={"url": "http://engine:8000", "kind": kind, "models": ["tiny"]}))
    sent = fixture("sglang").under("", "0a" * 16) if kind == "sglang" else [story.span(), story.span()]
    requests = 1 if kind == "sglang" else 2
    before = len(story.accounts)
    for _ in range(3):
        for span in sent:
            assert story.settlement.span(span)

    assert (before, len(story.accounts)) == (0, requests)
    assert story.samples("llm_requests_total", "outcome") == {"ok": requests}
    assert story.samples("llm_request_seconds_count", "lane") == {"chat": requests}
    assert story.samples("llm_sidecar_dropped_total", "reason") == ({"report_twice": 4} if kind == "vllm" else {})


def test_choices_of_one_answer_are_no_second_spans() -> None:
    """They have one trace, one parent, and may end at one instant: the span's own id tells them apart. Another trace may have the same id."""
    story = SpanStory()
    span = story.span()
    for other in (span, replace(span, span_id="cc" * 8), replace(span, trace_id="dd" * 16)):
        story.settlement.span(other)

    assert story.samples("llm_requests_total", "outcome") == {"ok": 3}


def test_the_spans_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_requests, "MAX_TAKEN", 2)
    story = SpanStory()
    first, second, third = (story.span() for _ in range(3))
    for span in (first, second, third, second, third, first):
        story.settlement.span(span)

    assert story.samples("llm_requests_total", "outcome") == {"ok": 4}
    assert story.samples("llm_sidecar_dropped_total", "reason") == {"report_twice": 2}


def test_the_requests_of_the_other_engine_are_told_by_its_root_span() -> None:
    """SGLang's slices come first, and its root states the request, the cached tokens and the model."""
    story = SpanStory(config(engine={"url": "http://engine:8000", "kind": "sglang", "models": ["tiny"]}))
    sent = fixture("sglang")
    for span in sent.under("", "0af7651916cd43dd8448eb211c80319c"):
        story.settlement.span(span)

    phases = story.samples("llm_request_phase_seconds_sum", "phase")
    assert {phase: phases[phase] for phase in ("queue", "prefill", "decode")} == pytest.approx(dict(sent.says))
    assert story.samples("llm_cached_prompt_tokens_total", "model") == {"tiny": 64}


def test_a_lane_with_an_objective_for_the_whole_answer_alone_is_judged_by_it() -> None:
    """No span says whether an answer was streamed: where a lane promises a first token, that counts."""
    aims = {"preset": "none", "e2e": {"threshold_seconds": 0.5, "target": 0.9}}
    story = SpanStory(config(objectives={"chat": aims})).seconds(5, pace=0.05).seconds(5, prefill=1.0)

    assert story.samples("llm_slo_requests_total", "objective") == {"e2e": 20}
    assert story.samples("llm_slo_misses_total", "objective") == {"e2e": 20}
    assert story.samples("llm_slo_blamed_misses_total", "phase") == {"decode": 10, "prefill": 10}


def test_the_engines_times_are_laid_on_the_sidecars_clock_by_the_smallest_delay() -> None:
    """Their distances stay, none lies in the future, and a clock that was set anew, back or forth, is followed at once."""
    clock = EngineClock()
    near = [clock.local(unix, at) for unix, at in ((1000.0, 5.0), (1001.0, 10.0), (1006.0, 10.0), (1000.5, 10.0))]
    set_anew = [clock.local(unix, at) for unix, at in ((5000.0, 11.0), (1001.0, 12.0), (1002.0, 15.0))]
    drifted = [clock.local(900.0 + at, at) for at in (20.0, 20.0 + DELAY_SECONDS, 20.0 + 2 * DELAY_SECONDS)]

    assert near == [5.0, 6.0, 10.0, 4.5]
    assert set_anew == [11.0, 12.0, 13.0]
    assert drifted == [20.0 - 89.0, 20.0 + DELAY_SECONDS - 89.0, 20.0 + 2 * DELAY_SECONDS]


def test_the_page_says_what_engines_leave_out_and_how_much_that_is() -> None:
    assert "Requests that failed, were cancelled" in left_out(None)
    assert " 97% of the requests that the engine counted as ended had one." in left_out(0.97)
    said = {kind: "".join(unable(Engine(kind).speaks)) for kind in ("auto", "none", "vllm", "sglang", "ollama")}
    assert (said["vllm"], said["sglang"], said["auto"]) == ("", "", said["none"])
    assert said["auto"].startswith("The engine's kind is not known: a span counts only if it states ")
    assert said["auto"].endswith(" If it is sglang or vllm, set engine.kind.")
    assert said["ollama"].startswith("The spans of Ollama do not state requests")


UNRECOGNISED = {"url": "http://gateway:8000", "models": ["tiny"]}


def test_whole_spans_of_an_engine_that_is_not_recognised_count_as_those_of_one_that_is() -> None:
    """Behind a gateway's URL, or before the first probe: each number on the page is that of a recognised engine."""
    stories = [SpanStory(), SpanStory(config(engine=UNRECOGNISED))]
    for story in stories:
        story.seconds(10, queue=0.3)
    split, tokens = [
        [story.samples(name, *by) for story in stories]
        for name, by in (
            ("llm_request_phase_seconds_sum", ("prompt_bucket", "phase", "source")),
            ("llm_output_tokens_sum", ("model",)),
        )
    ]

    assert stories[1].engine.kind == "auto"
    assert split[0][("512-4k", "queue", "engine")] == pytest.approx(20 * 0.3)
    assert (split[0], tokens[0]) == (split[1], tokens[1])
    assert tokens[0] == {"tiny": 20 * 21}


def test_a_batch_that_comes_again_once_the_engine_is_recognised_adds_nothing() -> None:
    story = SpanStory(config(engine=UNRECOGNISED))
    batch = [story.span() for _ in range(5)]
    for kind in ("auto", "vllm"):
        story.engine.is_kind(kind)
        story.settlement.engine_known()
        for span in batch:
            assert story.settlement.span(span)

    assert story.samples("llm_requests_total", "outcome") == {"ok": 5}
    assert story.samples("llm_sidecar_dropped_total", "reason") == {"report_twice": 5}


def test_a_span_of_an_engine_that_is_not_recognised_has_to_state_a_whole_request() -> None:
    """SGLang's does not: there the queue is in what is called the prefill."""
    story = SpanStory(config(engine=UNRECOGNISED))
    left = [story.span(said={f"gen_ai.latency.{name}": -1.0}) for name in ("e2e", "time_in_queue")]
    taken = [story.settlement.span(span) for span in (*left, *fixture("sglang").under("", "0a" * 16))]

    assert (taken[:2], any(taken[2:])) == ([True, False], False)
    assert story.samples("llm_requests_total", "outcome") == {}
    assert story.samples("llm_sidecar_dropped_total", "reason") == {"span_incomplete": 1}
