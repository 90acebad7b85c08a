"""Traffic that bypasses the sidecar, and agreement of its phase sums with the engine's: both need enough requests."""

import asyncio
from collections.abc import Callable

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.replica_presets import CHAT_WITH_DOCUMENTS, Preset
from sidecar.engines.engine import Engine
from sidecar.engines.probe.agreement import MIN_REQUESTS, MIN_SECONDS, WINDOW_SECONDS, Agreement, Ratios, Tally
from sidecar.engines.probe.scrape import StateProber, state_session
from sidecar.engines.probe.state import Growth
from sidecar.engines.probe.state_names import Count
from sidecar.ledger.account import Account, Ledger, Phase, Reason, Share, Source
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.observe.engine_state import EngineStateRecorder
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.support.client import Connection, post
from tests.support.road import Road, road_to
from tests.support.slo_walk import (
    GENEROUS,
    LAST,
    REPORT,
    TOKEN,
    USAGE,
    answer,
    ask,
    event,
    play,
    promising,
    stream,
)
from tests.support.walk import Walk


class Comparison:
    """Both sides of the comparison, fed step by step."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.agreement = Agreement(self.tally)
        self.at = 100.0
        self.ratios = Ratios()
        self.read()

    def read(
        self,
        requests: float = 0.0,
        queue: float = 0.0,
        *,
        in_flight: int = 0,
        restarted: bool = False,
        later: float = 5.0,
    ) -> Ratios:
        """Read the engine's page, grown by this since the last reading."""
        self.at += later
        growth = Growth({Count.REQUESTS: requests, Count.QUEUE_SECONDS: queue}, restarted)
        self.ratios = self.agreement.read(growth, self.at, in_flight)
        return self.ratios

    def ours(self, requests: float, queue: float = 0.0) -> None:
        self.tally.counts[Count.REQUESTS] += requests
        self.tally.counts[Count.QUEUE_SECONDS] += queue


def test_half_of_the_traffic_past_the_sidecar_is_half_of_it_seen() -> None:
    comparison = Comparison()
    comparison.ours(150, queue=30.0)

    assert comparison.read(300, queue=40.0) == Ratios(0.5, {Phase.QUEUE: 0.75})


def test_probes_of_verify_that_passed_here_are_no_traffic_past_the_sidecar() -> None:
    comparison = Comparison()
    comparison.ours(130)
    for _ in range(20):
        comparison.tally.probe_done()

    assert comparison.read(150).traffic_seen == 1.0


def test_of_little_traffic_nothing_is_said() -> None:
    """Requests are not forgotten either: they add up over the window."""
    comparison = Comparison()
    seen = []
    for _ in range(4):
        comparison.ours(MIN_REQUESTS / 4)
        seen.append(comparison.read(MIN_REQUESTS / 4).traffic_seen)

    assert seen == [None, None, None, 1.0]


def test_many_in_flight_ask_for_many_requests() -> None:
    """Each of them may have ended on one side of the window's edge and not on the other."""
    comparison = Comparison()
    comparison.ours(100)
    few = comparison.read(100, in_flight=100).traffic_seen
    comparison.ours(300)

    assert [few, comparison.read(300, in_flight=100).traffic_seen] == [None, 1.0]


def test_what_is_older_than_the_window_is_forgotten() -> None:
    """A bypass that ended more than ten minutes ago does not count."""
    comparison = Comparison()
    comparison.read(1000)
    for _ in range(int(WINDOW_SECONDS / 60) + 2):
        comparison.ours(100)
        comparison.read(100, later=60.0)

    assert comparison.ratios.traffic_seen == 1.0


def test_a_restart_begins_the_comparison_anew() -> None:
    """Requests that the old process counted after its last reading are not known."""
    comparison = Comparison()
    comparison.ours(1000)
    comparison.read(500)

    assert comparison.read(30, restarted=True) == Ratios()


def test_a_page_that_leaves_a_count_out_for_a_while_begins_it_anew() -> None:
    comparison = Comparison()
    comparison.ours(500)
    comparison.read(500)
    comparison.agreement.read(Growth({Count.QUEUE_SECONDS: 0.0}), comparison.at + 5, 0)
    comparison.ours(500)

    assert comparison.read(0).traffic_seen is None


def test_an_engine_that_reports_on_no_request_has_no_disagreement() -> None:
    """Its own sums grow; that the sidecar has no reports is published elsewhere."""
    comparison = Comparison()
    comparison.ours(200)

    assert comparison.read(200, queue=100.0) == Ratios(1.0, {})


def test_an_engine_without_a_count_of_requests_is_compared_by_its_seconds() -> None:
    tally = Tally()
    agreement = Agreement(tally)
    agreement.read(Growth({Count.QUEUE_SECONDS: 0.0}), 0.0, 0)
    tally.counts[Count.REQUESTS] += 200
    tally.counts[Count.QUEUE_SECONDS] += 9.0

    assert agreement.read(Growth({Count.QUEUE_SECONDS: 10.0}), 5.0, 0) == Ratios(None, {Phase.QUEUE: 0.9})


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.booleans(), st.floats(1, 400)), max_size=30))
def test_a_ratio_is_never_negative_and_needs_its_hundred(steps: list[tuple[int, int, bool, float]]) -> None:
    comparison = Comparison()
    for ours, theirs, restarted, later in steps:
        comparison.ours(ours)
        ratio = comparison.read(theirs, restarted=restarted, later=later).traffic_seen
        assert ratio is None or ratio >= 0


# --- the sidecar's side --------------------------------------------------------------------------------------------------

ACCOUNT = Account(
    labels=RequestLabels("m", "chat", "0-512"),
    streaming=True,
    outcome=Outcome.OK,
    marks=Marks(0.0, choices=1),
    ledger=Ledger(
        (
            Share(Phase.QUEUE, 0.5, Source.ENGINE),
            Share(Phase.PREFILL, 0.25, Source.DERIVED),
            Share(Phase.STREAM, 1.0, Source.WIRE),
        ),
        1.75,
        0.75,
        0.0,
        Reason.IN_BAND,
    ),
)


def test_only_what_the_engine_said_of_requests_that_ended_well_is_ours() -> None:
    """A derived prefill is not an engine's report; the engine does not count cancels either, and counts each choice as
    a request.
    """
    tally = Tally()
    for account in (
        ACCOUNT,
        replace(ACCOUNT, marks=Marks(0.0, choices=3)),
        replace(ACCOUNT, outcome=Outcome.CLIENT_CANCELLED, ledger=None),
    ):
        tally.closed(account)

    assert tally.counts == {
        Count.REQUESTS: 4.0,
        Count.QUEUE_SECONDS: 1.0,
        Count.PREFILL_SECONDS: 0.0,
        Count.DECODE_SECONDS: 0.0,
    }


# --- requests without a report, from the wire ----------------------------------------------------------------------------

ENGINE_SECONDS = {Count.QUEUE_SECONDS: 0.35, Count.PREFILL_SECONDS: 0.05, Count.DECODE_SECONDS: 0.2}
"""The engine's seconds for each choice, as its reports say; its answers take 0.45 s to the first token and 0.2 s more."""
SAID = (
    b'{"type":"message_start","message":{"id":"m","usage":{"input_tokens":600,"output_tokens":1}}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}',
    b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}',
    b'{"type":"message_stop"}',
)
SECOND = tuple(each.replace(b'"index":0', b'"index":1') for each in (TOKEN, LAST))
BOTH = b'{"choices":[%s],"usage":{"prompt_tokens":600,"completion_tokens":4}}' % b",".join(
    b'{"index":%d,"finish_reason":"stop","message":{"content":"ab"}}' % index for index in range(2)
)


def a_report(walk: Walk) -> int:
    ask(walk, stream=True)
    play(walk, REPORT)
    return 1


def a_message(walk: Walk) -> int:
    """The Messages API states no times."""
    body = b'{"model":"tiny","stream":true,"max_tokens":9,"messages":[]}'
    walk.client().send(b"POST /v1/messages HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    stream(walk)
    walk.clock.later(0.45)
    walk.engine.send(event(SAID[0]) + event(SAID[1]))
    walk.clock.later(0.2)
    walk.engine.send(event(SAID[2]) + event(SAID[3]) + b"0\r\n\r\n")
    return 1


def two_choices(walk: Walk) -> int:
    ask(walk, stream=True, n=2)
    stream(walk)
    walk.clock.later(0.45)
    walk.engine.send(event(TOKEN) + event(SECOND[0]))
    walk.clock.later(0.2)
    walk.engine.send(event(LAST) + event(SECOND[1]) + event(USAGE) + event(b"[DONE]") + b"0\r\n\r\n")
    return 2


def two_at_once(walk: Walk) -> int:
    ask(walk, n=2)
    walk.clock.later(0.65)
    answer(walk, BOTH)
    return 2


def one_that_gives_up(walk: Walk) -> int:
    """The engine counts its queue, and never reports on it."""
    client = ask(walk, stream=True)
    walk.clock.later(0.65)
    client.lose()
    return 1


@pytest.mark.parametrize("beside", [a_report, a_message, two_choices, two_at_once, one_that_gives_up])
@pytest.mark.parametrize(("counted", "disagrees"), [(1.0, False), (0.5, True), (2.0, True)])
def test_requests_without_a_report_make_no_disagreement_and_hide_none(
    beside: Callable[[Walk], int], counted: float, *, disagrees: bool
) -> None:
    """One request in five has none. `counted`: the engine's own seconds, over those that its reports state. The alert asks whether a ratio
    is more than a tenth away from 1.
    """
    walk, tally = promising(GENEROUS), Tally()
    agreement = Agreement(tally)
    agreement.read(Growth(dict.fromkeys((Count.REQUESTS, *ENGINE_SECONDS), 0.0)), 0.0, 0)
    made = sum((a_report if number % 5 else beside)(walk) for number in range(200))
    for account in walk.accounts:
        tally.closed(account)
    grown = {Count.REQUESTS: float(made), **{of: made * counted * each for of, each in ENGINE_SECONDS.items()}}
    found = agreement.read(Growth(grown), 600.0, 0)

    assert found.traffic_seen == (0.8 if beside is one_that_gives_up else 1.0)
    assert any(abs(1.0 - ratio) > 0.1 for ratio in found.agreement.values()) is disagrees


# --- a simulated engine, half of its clients bypass the sidecar --------------------------------------------------------------

PRESET = Preset(
    name="bypass",
    model="bypass",
    quantization="none",
    gpu_type="none",
    limits=Limits(
        max_num_seqs=8, max_num_batched_tokens=2048, max_model_len=8192, kv_blocks=4096, prefix_caching=False
    ),
    costs=Costs(step_seconds=0.002, per_prompt_token_seconds=1e-5),
    reference_load=CHAT_WITH_DOCUMENTS,
)


async def ask_engine(port: int, requests: int) -> int:
    """Number of requests answered: on a starved machine a connect may be given up, and that is no traffic."""
    answered = 0
    for _ in range(requests):
        connection = await Connection.open(port)
        body = {"model": PRESET.model, "prompt": "abc " * 50, "max_tokens": 4, "stream": True}
        answer = await connection.request(post("/v1/completions", body))
        answered += answer.complete and answer.status == 200
        connection.close()
    return answered


async def sums_of(engine: SimulatedEngine, session: aiohttp.ClientSession) -> dict[str, float]:
    """The engine's own sums, as prometheus_client reads its page."""
    async with session.get(f"{engine.url}/metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
    return {
        sample.name: sample.value for family in families for sample in family.samples if sample.name.endswith("_sum")
    }


@pytest.mark.parametrize("past", [0, 8], ids=["none", "half"])
def test_on_a_simulated_engine_the_share_that_goes_past_is_seen(past: int) -> None:
    """Sixteen clients, all or half through the sidecar: the ratios equal those of the clients and of both pages."""

    async def comparison() -> tuple[dict[str, float | None], dict[str, float]]:
        async with (
            SimulatedEngine(PRESET) as engine,
            road_to(engine.url, [PRESET.model]) as road,
            state_session() as session,
        ):
            direct = int(engine.url.rpartition(":")[2])
            await ask_engine(direct, 1)  # before it, no count of requests stands on the page
            metrics, tally, known = Metrics(lanes=["chat"], prompt_buckets=["0-512"]), Tally(), Engine("vllm")
            known.up = True
            recorder = EngineStateRecorder(metrics, Agreement(tally), lambda: (0.0, road.in_flight))
            prober = StateProber(engine.url, known, recorder)
            await prober.probe(session)
            before = await sums_of(engine, session)
            through = asyncio.gather(*(ask_engine(road.port, 10) for _ in range(16 - past)))
            around = asyncio.gather(*(ask_engine(direct, 10) for _ in range(past)))
            seen, unseen = sum(await through), sum(await around)
            await settled(road, 10 * (16 - past))
            for account in road.accounts:
                tally.closed(account)
            await prober.probe(session)
            after = await sums_of(engine, session)
        grown = {phase: after[name] - before[name] for phase, name in SUMS.items()}
        # On a starved machine the clients come one by one, and hardly a request waits: then its ratio is unknown.
        expected = {phase: tally.counts[Count(phase)] / grown[phase] for phase in SUMS if grown[phase] >= MIN_SECONDS}
        ratios = {phase: metrics.gauge(c.ENGINE_REPORT_AGREEMENT_RATIO).child(phase).value for phase in SUMS}
        ratios["traffic"] = metrics.gauge(c.ENGINE_TRAFFIC_SEEN_RATIO).child().value
        return ratios, {"traffic": seen / (seen + unseen), **expected}

    ratios, expected = asyncio.run(comparison())
    assert "decode" in expected
    assert {name: ratio for name, ratio in ratios.items() if ratio is not None} == pytest.approx(expected)
    assert 0 < min(expected.values()) <= max(expected.values()) <= 1.01


SUMS = {phase: f"vllm:request_{phase}_time_seconds_sum" for phase in ("queue", "decode")}


async def settled(road: Road, requests: int) -> None:
    while len(road.accounts) < requests:  # noqa: ASYNC110  a client has its last byte before its request is settled
        await asyncio.sleep(0.01)
