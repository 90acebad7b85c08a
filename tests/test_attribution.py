"""A delay that is put into a known place is counted in that place's phase, and in no other.

The phases of a ledger always add up, so a wrong ledger counts time under a wrong phase. Here an engine, a hop or a
client is made slow in one place at a time. The true times are not assumed: they come from the simulation, for those
very requests, and from the client's own clock. Every request has a prompt length of its own, which connects its ledger
with its true times.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import fsum
from statistics import fmean, median
from typing import Any

import pytest

from sidecar.ledger.account import Account, Phase, Reason, Source
from sidecar.simulator.http_face import SimulatedEngine
from sidecar.simulator.physics import Costs, Limits
from sidecar.simulator.replica_presets import CHAT_WITH_DOCUMENTS, Preset
from sidecar.simulator.simulated_request import SimulatedRequest
from tests.support.client import Connection, post
from tests.support.road import Road, road_to
from tests.support.scenario_loop import play
from tests.support.withholding import Withholding, withholding


pytestmark = [pytest.mark.live, pytest.mark.timed]

PATIENCE_SECONDS = 60.0
TICK_SECONDS = 0.005
STALL_PER_REQUEST_SECONDS = 0.015
ATTEMPTS = 3
TOKENS = 40
ENGINE = Preset(
    name="attribution",
    model="attribution",
    quantization="none",
    gpu_type="none",
    limits=Limits(
        max_num_seqs=8, max_num_batched_tokens=2048, max_model_len=8192, kv_blocks=4096, prefix_caching=False
    ),
    costs=Costs(
        step_seconds=0.004,
        per_prompt_token_seconds=1e-4,
        front_end_request_seconds=0.002,
        delivery_seconds=0.001,
    ),
    reference_load=CHAT_WITH_DOCUMENTS,
)
"""400 prompt tokens take 44 ms of prefill; 40 output tokens take 156 ms of decode."""
FIVE = (Phase.QUEUE, Phase.PREFILL, Phase.FIRST_TOKEN, Phase.DECODE, Phase.STREAM)

Phases = dict[Phase, float]


def truth_of(request: SimulatedRequest) -> Phases:
    """The true phases from the simulation. It has no client and no hop, so its stream phase is 0."""
    true = request.phases
    return {
        Phase.QUEUE: true.queue_seconds,
        Phase.PREFILL: true.prefill_seconds,
        Phase.FIRST_TOKEN: true.front_end_seconds + true.delivery_seconds,
        Phase.DECODE: true.decode_seconds,
        Phase.STREAM: 0.0,
    }


def phases_of(account: Account) -> Phases:
    assert account.ledger is not None, account
    return {share.phase: share.seconds for share in account.ledger.shares}


@dataclass(slots=True)
class Run:
    """Requests by prompt length: the sidecar's account of each, and its true phases."""

    accounts: dict[int, Account] = field(default_factory=dict)
    truths: dict[int, Phases] = field(default_factory=dict)
    stalled_seconds: float = 0.0
    """Seconds for which this process did not get to run during the requests. They come from the machine, and are in no
    true phase."""
    client_e2e_seconds: list[float] = field(default_factory=list)
    """By the client's own clock, from its last byte out to its last byte in."""

    def true_mean(self, phase: Phase) -> float:
        return fmean(truth[phase] for truth in self.truths.values())

    def error(self, phase: Phase) -> float:
        """Seconds by which the ledger exceeds the simulation: the median over the requests, so that one hiccup of a
        busy machine does not count."""
        return median(
            phases_of(account)[phase] - self.truths[prompt][phase] for prompt, account in self.accounts.items()
        )


class Chain:
    """An engine, optionally a buffering hop, the proxy, and the load that is sent through them."""

    def __init__(
        self, engine: SimulatedEngine, hop: Withholding, road: Road, simulated: list[SimulatedRequest]
    ) -> None:
        self.engine = engine
        self.hop = hop
        self.road = road
        self._simulated = simulated
        self._prompts = 400

    async def run(self, ask: Callable[["Chain", int], Awaitable[float]], *, requests: int, at_once: int) -> Run:
        """Send `requests` requests, `at_once` of them side by side. `ask(chain, prompt_tokens)` sends one and returns
        the client's seconds."""
        self.road.accounts.clear()
        self._simulated.clear()
        run = Run()
        watching = asyncio.create_task(_notice_stalls(run))
        for _ in range(requests // at_once):
            self._prompts += at_once
            asked = (ask(self, self._prompts - number) for number in range(at_once))
            run.client_e2e_seconds += await asyncio.gather(*asked)
        watching.cancel()
        for account in self.road.accounts:
            usage = account.marks.usage
            assert usage is not None
            assert usage.prompt_tokens is not None
            run.accounts[usage.prompt_tokens] = account
        run.truths = {request.prompt_tokens: truth_of(request) for request in self._simulated}
        assert run.accounts.keys() == run.truths.keys()
        assert len(run.accounts) == requests
        return run


async def _notice_stalls(run: Run) -> None:
    while True:
        due_at = time.monotonic() + TICK_SECONDS
        await asyncio.sleep(TICK_SECONDS)
        late_seconds = time.monotonic() - due_at
        run.stalled_seconds += late_seconds if late_seconds > 2 * TICK_SECONDS else 0.0


@asynccontextmanager
async def running_chain(
    monkeypatch: pytest.MonkeyPatch, *, proxy: dict[str, object] | None = None
) -> AsyncIterator[Chain]:
    async with (
        SimulatedEngine(ENGINE) as engine,
        withholding(int(engine.url.rpartition(":")[2])) as hop,
        road_to(f"http://127.0.0.1:{hop.port}", [ENGINE.model], proxy=proxy) as road,
    ):
        simulated: list[SimulatedRequest] = []
        arrive = engine.simulation.arrive

        def remembered(at: float, prompt: int, output: int, hashes: Sequence[bytes] = ()) -> SimulatedRequest:
            simulated.append(arrive(at, prompt, output, hashes))
            return simulated[-1]

        monkeypatch.setattr(engine.simulation, "arrive", remembered)
        yield Chain(engine, hop, road, simulated)


def question(prompt_tokens: int, tokens: int = TOKENS) -> bytes:
    body = {"model": ENGINE.model, "prompt": "abc " * prompt_tokens, "max_tokens": tokens, "stream": True}
    return post("/v1/completions", body)


async def ask(chain: Chain, prompt_tokens: int) -> float:
    connection = await Connection.open(chain.road.port)
    answer = await connection.request(question(prompt_tokens))
    connection.close()
    assert answer.complete
    assert answer.body.endswith(b"data: [DONE]\n\n")
    return answer.ended_at - answer.sent_at


def told(scenario: Callable[[], Coroutine[Any, Any, tuple[Run, Run]]]) -> tuple[Run, Run]:
    """(healthy, faulted), run on the loop that the sidecar runs on; repeated if a busy machine kept the loop from
    running.

    The machine's delays are in no true phase, and the ledger would count them in the phase that was running. Whether the
    last attempt was measured, the control says (`timed`).
    """
    for _ in range(ATTEMPTS):
        healthy, faulted = play(scenario(), patience_seconds=PATIENCE_SECONDS)
        if all(run.stalled_seconds <= STALL_PER_REQUEST_SECONDS * len(run.accounts) for run in (healthy, faulted)):
            break
    for run in (healthy, faulted):
        for account in run.accounts.values():
            assert account.ledger is not None
            assert fsum(phases_of(account).values()) == pytest.approx(account.ledger.e2e_seconds, abs=1e-9)
    assert {phase: healthy.error(phase) for phase in FIVE} == pytest.approx(dict.fromkeys(FIVE, 0.0), abs=0.03)
    return healthy, faulted


def assert_engine_delay_landed(healthy: Run, faulted: Run, place: Phase, *, at_least: float) -> None:
    """The ledger's `place` grew by as much as the true phase, within 10 %, and each other phase differs by no more than
    that."""
    added = faulted.true_mean(place) - healthy.true_mean(place)
    assert added >= at_least
    misplaced = {phase: faulted.error(phase) - healthy.error(phase) for phase in FIVE}
    assert {phase: seconds for phase, seconds in misplaced.items() if abs(seconds) > added / 10} == {}


def test_300_ms_in_the_front_end_come_out_in_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> tuple[Run, Run]:
        async with running_chain(monkeypatch) as chain:
            healthy = await chain.run(ask, requests=5, at_once=1)
            chain.engine.adjust(front_end_extra_seconds=0.3)
            return healthy, await chain.run(ask, requests=5, at_once=1)

    assert_engine_delay_landed(*told(scenario), Phase.FIRST_TOKEN, at_least=0.299)


def test_slots_taken_away_come_out_in_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six requests at once on eight slots, then on one: each waits for those before it, and prefill does not grow."""

    async def scenario() -> tuple[Run, Run]:
        async with running_chain(monkeypatch) as chain:
            healthy = await chain.run(ask, requests=6, at_once=6)
            chain.engine.adjust(slots=1)
            return healthy, await chain.run(ask, requests=6, at_once=6)

    assert_engine_delay_landed(*told(scenario), Phase.QUEUE, at_least=0.3)


def test_a_slower_prompt_pass_comes_out_in_prefill(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> tuple[Run, Run]:
        async with running_chain(monkeypatch) as chain:
            healthy = await chain.run(ask, requests=5, at_once=1)
            chain.engine.adjust(prefill_factor=8)
            return healthy, await chain.run(ask, requests=5, at_once=1)

    assert_engine_delay_landed(*told(scenario), Phase.PREFILL, at_least=0.25)


async def ask_for_much(chain: Chain, prompt_tokens: int) -> float:
    """Ask for an answer with 0.7 s of decode, longer than the time for which the hop withholds output."""
    connection = await Connection.open(chain.road.port)
    answer = await connection.request(question(prompt_tokens, 175))
    connection.close()
    return answer.ended_at - answer.sent_at


def test_500_ms_of_output_withheld_before_the_sidecar_come_out_in_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine decoded, and the sidecar saw nothing: this is not first_token, although TTFT grew.

    The last token is not late, so the whole does not grow: the withheld time is taken off decode, which is limited to
    the time seen here, and counted in stream.
    """
    withheld = 0.5

    async def scenario() -> tuple[Run, Run]:
        async with running_chain(monkeypatch) as chain:
            healthy = await chain.run(ask_for_much, requests=4, at_once=1)
            chain.hop.seconds = withheld
            return healthy, await chain.run(ask_for_much, requests=4, at_once=1)

    healthy, faulted = told(scenario)

    moved = {phase: faulted.error(phase) - healthy.error(phase) for phase in FIVE}
    expected = {
        Phase.QUEUE: 0.0,
        Phase.PREFILL: 0.0,
        Phase.FIRST_TOKEN: 0.0,
        Phase.DECODE: -withheld,
        Phase.STREAM: withheld,
    }
    assert moved == pytest.approx(expected, abs=withheld / 10)
    held = [account.ledger.held_seconds for account in faulted.accounts.values() if account.ledger is not None]
    assert median(held) == pytest.approx(withheld, rel=0.1)


STALL_SECONDS = 1.0
MANY = 600
"""Tokens of an answer of 120 kB, so that the kernel's buffers cannot hide a reader that stops."""


def reader(stall_seconds: float) -> Callable[[Chain, int], Awaitable[float]]:
    """A client with a small receive buffer that reads half of its answer, stops for a while, and reads on."""

    async def ask_and_stall(chain: Chain, prompt_tokens: int) -> float:
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        with sock:
            await loop.sock_connect(sock, ("127.0.0.1", chain.road.port))
            await loop.sock_sendall(sock, question(prompt_tokens, MANY))
            sent_at = time.monotonic()
            got = b""
            stalled = False
            while not got.endswith(b"\r\n0\r\n\r\n"):
                data = await loop.sock_recv(sock, 4096)
                assert data, "the answer was cut short"
                got += data
                if not stalled and len(got) > 50_000:
                    stalled = True
                    await asyncio.sleep(stall_seconds)
            return time.monotonic() - sent_at

    return ask_and_stall


def test_a_reader_that_stops_for_1_s_comes_out_in_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine had long finished, so decode does not grow."""

    async def scenario() -> tuple[Run, Run]:
        async with running_chain(monkeypatch, proxy={"client_buffer_bytes": 4096}) as chain:
            chain.engine.adjust(decode_factor=0.05)  # 0.2 ms a token: all are made before the reader goes on
            healthy = await chain.run(reader(0.0), requests=3, at_once=1)
            return healthy, await chain.run(reader(STALL_SECONDS), requests=3, at_once=1)

    healthy, faulted = told(scenario)

    added = median(faulted.client_e2e_seconds) - median(healthy.client_e2e_seconds)
    assert added == pytest.approx(STALL_SECONDS, rel=0.1)
    moved = {phase: faulted.error(phase) - healthy.error(phase) for phase in FIVE}
    expected = dict.fromkeys(FIVE, 0.0) | {Phase.STREAM: added}
    assert moved == pytest.approx(expected, abs=added / 10)


def test_a_report_that_contradicts_the_wire_is_refused_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine reports three times its durations: TTFT stays whole and unattributed, and decode comes from the
    wire."""

    async def scenario() -> tuple[Run, Run, float, float]:
        async with running_chain(monkeypatch) as chain:
            honest = await chain.run(ask, requests=3, at_once=1)
            chain.engine.report_factor = 3.0
            lying = await chain.run(ask, requests=3, at_once=1)
            counted = chain.road.total("llm_phase_attribution_total", source="none", reason="report_exceeds_wire")
            split = chain.road.total("llm_request_phase_seconds_count", phase="queue")
            return honest, lying, counted, split

    honest, lying, counted, split = play(scenario(), patience_seconds=PATIENCE_SECONDS)

    assert [account.ledger.reason for account in honest.accounts.values() if account.ledger] == [Reason.IN_BAND] * 3
    for account in lying.accounts.values():
        ledger = account.ledger
        assert ledger is not None
        assert ledger.reason is Reason.REPORT_EXCEEDS_WIRE
        assert [(share.phase, share.source) for share in ledger.shares] == [
            (Phase.UNATTRIBUTED, Source.WIRE),
            (Phase.DECODE, Source.WIRE),
            (Phase.STREAM, Source.WIRE),
        ]
        assert phases_of(account)[Phase.UNATTRIBUTED] == ledger.ttft_seconds
        assert fsum(phases_of(account).values()) == pytest.approx(ledger.e2e_seconds, abs=1e-9)
    assert (counted, split) == (3, 3)
