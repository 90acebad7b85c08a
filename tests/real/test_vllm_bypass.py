"""A real vLLM whose clients first all use the sidecar; then half of its traffic goes past the sidecar.

The sidecar recognises the engine by itself, and its page says how much traffic bypasses it and that its sums equal
vLLM's own.
"""

import asyncio
import time
from pathlib import Path

import pytest

from tests.real.environment import Say
from tests.real.server import RunningEngine
from tests.real.told import Page, page_of
from tests.support.client import Connection, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar


CLIENTS = 8
EACH = 20
NEAR = 0.01
"""How far a ratio may be from the one that is right. While the load still runs, it passes through values further away."""
ENOUGH_SECONDS = 30.0
"""Time limit for one value. The sidecar reads vLLM's page every 5 s; on a busy machine a reading may fail."""


def value_of(page: Page, name: str, **labels: str) -> float | None:
    found = [value for with_, value in page.get(name, []) if labels.items() <= with_.items()]
    return found[0] if found else None


async def ask(engine: RunningEngine, port: int, client: int) -> None:
    connection = await Connection.open(port)
    for number in range(EACH):
        body = {
            "model": engine.model,
            "prompt": f"{client} {number} " + "la to mi re nu ka " * 10,
            "max_tokens": 20,
            "ignore_eos": True,
            "stream": True,
        }
        answer = await connection.request(post("/v1/completions", body))
        assert answer.status == 200
    connection.close()


def ratio_after(sidecar: SidecarProcess, name: str, wanted: float, **labels: str) -> float | None:
    """Return the ratio once it is within `NEAR` of `wanted`, or its last value after the time limit."""
    deadline = time.monotonic() + ENOUGH_SECONDS
    while True:
        found = value_of(page_of(sidecar), name, **labels)
        if (found is not None and abs(found - wanted) <= NEAR) or time.monotonic() > deadline:
            return found
        time.sleep(1.0)


def test_who_goes_past_the_sidecar_is_seen_on_a_real_vllm(vllm: RunningEngine, say: Say, tmp_path: Path) -> None:
    """The ratio of traffic seen is 1 first, and 0.5 after as many requests again bypass the sidecar. The agreement
    ratios were 1 before that."""

    async def load(*ports: int) -> None:
        await asyncio.gather(*(ask(vllm, port, client) for client, port in enumerate(ports)))

    with running_sidecar(vllm.url, tmp_path) as sidecar:
        # The first reading begins the window: no request may come before it.
        sidecar.wait_for_log_lines("engine", 2)
        deadline = time.monotonic() + ENOUGH_SECONDS
        while not value_of(page_of(sidecar), "llm_engine_scrapes_total", result="ok") and time.monotonic() < deadline:
            time.sleep(0.2)
        asyncio.run(load(*[sidecar.port] * CLIENTS))
        all_of_it = ratio_after(sidecar, "llm_engine_traffic_seen_ratio", 1.0)
        agreement = {
            phase: ratio_after(sidecar, "llm_engine_report_agreement_ratio", 1.0, phase=phase)
            for phase in ("queue", "prefill", "decode")
        }
        asyncio.run(load(*[vllm.port] * CLIENTS))
        half = ratio_after(sidecar, "llm_engine_traffic_seen_ratio", 0.5)
        line = sidecar.log_lines("engine")[-1]
        say(f"  all: {all_of_it}, {agreement}; half: {half}")

    assert [all_of_it, half] == [pytest.approx(1.0, abs=NEAR), pytest.approx(0.5, abs=NEAR)]
    assert agreement == {phase: pytest.approx(1.0, abs=NEAR) for phase in agreement}
    assert (line["kind"], line["models"], line["hints"]) == ("vllm", [vllm.model], [])
    assert str(line["version"]).startswith("0.32")
