"""Spans that an engine sends while it is probed: those of the probes are kept, by the trace that each probe minted."""

import asyncio

import aiohttp
import pytest

from sidecar.commands.verify import span_listener
from sidecar.commands.verify.span_listener import SpanListener
from sidecar.engines.kinds import kind_named
from sidecar.ledger.report import EngineReport
from tests.support.otlp import Plain, request_of
from tests.support.ports import free_port


ATTRIBUTES: dict[str, Plain] = {
    "gen_ai.request.id": "chatcmpl-1",
    "gen_ai.latency.time_in_queue": 0.25,
    "gen_ai.latency.time_in_model_prefill": 0.5,
    "gen_ai.latency.time_in_model_decode": 1.0,
}


async def send(listener: SpanListener, trace_id: str, parent: str) -> int:
    body = request_of({"trace_id": trace_id, "parent_span_id": parent}, attributes=ATTRIBUTES).SerializeToString()
    url = "http://{}:{}/v1/traces".format(*listener.address)
    headers = {"Content-Type": "application/x-protobuf"}
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
        return answer.status


def test_the_report_of_a_probe_is_found_and_that_of_another_request_is_dropped() -> None:
    async def scenario() -> None:
        async with SpanListener("127.0.0.1", 0) as listener:
            listener.reads(kind_named("vllm"))
            trace_id, span_id = listener.mint()

            assert await send(listener, "ab" * 16, "cd" * 8) == 200
            assert listener.report("ab" * 16) is None
            assert await send(listener, trace_id, span_id) == 200
            await listener.last_ones()
            assert listener.report(trace_id) == EngineReport(0.25, 0.5, 1.0)

    asyncio.run(scenario())


def test_reports_that_do_not_come_are_waited_for_no_longer_than_they_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_listener, "EVERY_LOOK_SECONDS", 0.0)
    instants = iter(range(100))

    async def scenario() -> float:
        listener = SpanListener("127.0.0.1", 0, clock=lambda: float(next(instants)))
        listener.reads(kind_named("tensorrt_llm"))
        listener.mint()
        await listener.last_ones()
        return float(next(instants))

    assert asyncio.run(scenario()) == kind_named("tensorrt_llm").late_report_seconds + 1


def test_an_address_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    port = free_port()

    async def scenario() -> None:
        async with SpanListener("127.0.0.1", port):
            with pytest.raises(OSError, match="address already in use"):
                async with SpanListener("127.0.0.1", port):
                    raise AssertionError("unreachable")

    asyncio.run(scenario())
