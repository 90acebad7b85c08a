"""Calls and files on the path of a token, and of a request, through the code: a budget, counted and not timed.

Counted are the calls of the package's Python functions, and the files that hold them, with everything wired that the
app wires: objectives, evidence, estimator, and the cut where usage was asked for on the client's behalf.
"""

import inspect
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import sidecar
from sidecar.objectives.objective import Aim, Aims, Objectives
from tests.support.walk import HEAD, LAST, OBJECTIVES, REQUEST, TOKEN, Walk


USAGE_EVENT = b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":9,"total_tokens":11,"completion_tokens":2}}\n\n'
USAGE = b"%x\r\n%b\r\n" % (len(USAGE_EVENT), USAGE_EVENT)
PACKAGE = str(Path(sidecar.__file__).parent)


def calls_of(scenario: Callable[[], None], until: str = "") -> list[CodeType]:
    """The package's functions in the order of their calls, until the one of this name has returned."""
    found: list[CodeType] = []
    ended = False

    def seen(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal ended
        code = frame.f_code
        if ended or not code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            found.append(code)
        elif event == "return" and code.co_name == until:
            ended = True

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        scenario()
    finally:
        sys.setprofile(before)
    return found


def token_calls(*, cut: bool) -> list[CodeType]:
    """Calls for one read of one event with one token, after some other events."""
    walk = Walk(include_usage=cut, objectives=OBJECTIVES, estimate=True)
    walk.client().send(REQUEST)
    walk.engine.send(HEAD)
    for _ in range(3):
        walk.clock.later(0.03)
        walk.engine.send(TOKEN)
    walk.clock.later(0.03)
    before = walk.value("llm_inter_token_seconds_count")
    calls = calls_of(lambda: walk.engine.protocol.data_received(TOKEN))
    assert walk.value("llm_inter_token_seconds_count") == before + 1, "no token was measured"
    assert cut == (b"include_usage" in walk.engine.taken)
    return calls


def request_calls() -> list[CodeType]:
    """Calls from the read of a whole request to the name of its lane; one on the same path came before."""
    walk = Walk(objectives=OBJECTIVES, estimate=True)
    client = walk.client()
    client.send(REQUEST)
    walk.engine.send(HEAD + LAST + b"0\r\n\r\n")
    calls = calls_of(lambda: client.protocol.data_received(REQUEST), until="lane_of")
    assert calls[0].co_name == "data_received"
    assert "lane_of" in [code.co_name for code in calls]
    return calls


def answer_calls(threshold_seconds: float) -> int:
    """Calls of the whole life of a streamed answer of two tokens with usage, in a lane with these thresholds."""
    aims = Aims(ttft=Aim(threshold_seconds, 0.9), tpot=Aim(threshold_seconds, 0.9))
    objectives = Objectives({lane: dict.fromkeys(lengths, aims) for lane, lengths in OBJECTIVES.by_lane.items()})
    walk = Walk(objectives=objectives, estimate=True)
    client = walk.client()

    def request() -> None:
        client.send(REQUEST)
        walk.clock.later(0.03)
        walk.engine.send(HEAD + TOKEN)
        walk.clock.later(0.03)
        walk.engine.send(TOKEN + USAGE + LAST + b"0\r\n\r\n")
        walk.clock.later(0.01)

    for _ in range(3):
        request()
    calls = calls_of(request)
    assert walk.value("llm_slo_requests_total", objective="tpot") == 4, "the pace was not judged"
    return len(calls)


@pytest.mark.parametrize("cut", [False, True], ids=["plain", "usage is cut"])
def test_a_token_passes_few_doors(*, cut: bool) -> None:
    """From the engine's socket to the last number that the token changes: at most 15 calls in 10 files."""
    calls = token_calls(cut=cut)

    assert len(calls) <= 15
    assert len({code.co_filename for code in calls}) <= 10


@pytest.mark.reaches_in
def test_a_request_passes_few_doors_to_its_lane() -> None:
    """With five header fields, each of which is one call of llhttp's: at most 48 calls in 14 files."""
    calls = request_calls()

    assert len(calls) <= 48
    assert len({code.co_filename for code in calls}) <= 14


def test_the_whole_life_of_a_request_is_short() -> None:
    """A streamed request of one token, from its read to its closed ledger, on connections that are open: at most 280 calls."""
    walk = Walk(objectives=OBJECTIVES, estimate=True)
    client = walk.client()

    def request() -> None:
        client.send(REQUEST)
        walk.clock.later(0.03)
        walk.engine.send(HEAD + TOKEN + LAST + b"0\r\n\r\n")
        walk.clock.later(0.01)

    for _ in range(3):
        request()
    calls = calls_of(request)

    assert len(walk.accounts) == 4
    assert len(calls) <= 280


def test_a_miss_is_a_short_way_more() -> None:
    """A streamed answer of two tokens that misses both of its objectives: at most 48 calls more than one that meets them."""
    calls = {threshold: answer_calls(threshold) for threshold in (10.0, 1e-6)}

    assert 0 < calls[1e-6] - calls[10.0] <= 48


def instructions_of_one_that_waits(*, same_id: bool) -> int:
    """Instructions that the interpreter executes for the package in the life of a streamed answer that then waits for its report, as 300 others do."""
    walk = Walk(objectives=OBJECTIVES, estimate=True, mints=True)
    client, found = walk.client(), 0

    def request(number: int) -> None:
        told = TOKEN if same_id else TOKEN.replace(b"chatcmpl-1", b"chat-%05d" % number)
        client.send(REQUEST)
        walk.engine.send(HEAD + told + told + LAST + b"0\r\n\r\n")
        walk.clock.later(0.01)

    def trace(frame: FrameType, what: str, _argument: object) -> Any:
        nonlocal found
        frame.f_trace_opcodes = True
        found += what == "opcode" and frame.f_code.co_filename.startswith(PACKAGE)
        return trace

    for number in range(300):
        request(number)
    sys.settrace(trace)
    try:
        request(300)
    finally:
        sys.settrace(None)
    assert len(walk.settlement.pending) == 301
    return found


@pytest.mark.reaches_in
def test_an_engine_that_gives_one_id_to_all_its_answers_costs_no_more() -> None:
    """A report cannot be joined with any of them, and that is found without a walk over them: at most 5 % more."""
    assert instructions_of_one_that_waits(same_id=True) <= 1.05 * instructions_of_one_that_waits(same_id=False)


@pytest.mark.reaches_in
def test_what_stands_behind_the_doors_is_short() -> None:
    """No function on the path has more than 60 lines, and 95 % have at most 30."""
    on_the_way = {*token_calls(cut=False), *token_calls(cut=True), *request_calls()}
    lines = sorted(len(inspect.getsourcelines(code)[0]) for code in on_the_way)

    assert lines[-1] <= 60
    assert statistics.quantiles(lines, n=20)[-1] <= 30
