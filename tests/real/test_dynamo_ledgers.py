"""Mixed clients through the sidecar to a real Dynamo: who is split, and whether queue and prefill are told apart, for three shapes of workers.

The truth is Dynamo's own: its request trace states queue and prefill of each request as one number, and the move of the KV cache with the wait for
a place at the decode worker as another. Its mocker's prefill and its move are laws of the prompt's length, which requests that are alone show
first; the rest of both numbers is the queue. Half of the clients ask for usage, a quarter for the timing, some bring tools.
"""

import asyncio
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random

import pytest

from tests.real.dynamo_environment import DynamoBuild
from tests.real.dynamo_record import CHAT, COMPLETIONS, TIMING, TOOL, USAGE
from tests.real.dynamo_server import RunningDynamo, Shape, running_dynamo
from tests.real.environment import Say
from tests.real.mixed_table import keep, row_of
from tests.real.told import Line
from tests.support.client import Connection, event_json, events, post
from tests.support.sidecar_process import SidecarProcess, running_sidecar


LOADS = ((5.0, 120), (14.0, 160))
"""Arrivals a second, and requests: nearly idle, so that there is something to learn from, and then more than four slots serve."""
LAW_TOKENS = (60, 400, 900, 1_600, 2_400)
"""Prompts that are alone, whose prefill and whose move are the laws."""
SHORTEST_LAW_TOKENS = 20
"""Shorter ones were asked to see whether it answers."""
SHORT, LONG, USUAL, SPREAD = 8, 380, 4.1, 0.8
"""Repetitions of six words, of which half are below 60: prompts of 50 to 2,300 tokens."""
LEARNED = 120
"""Requests from which is learned before any is judged."""
RIGHT, SLOWEST_RIGHT = 0.95, 0.9
"""Least share that is right of all and of the slowest tenth."""
JUDGED = 50
"""Requests of which the last load's are at least so many."""


@dataclass(frozen=True, slots=True)
class Truth:
    tokens: int
    both_seconds: float
    """Queue and prefill together."""
    transfer_seconds: float | None

    @classmethod
    def of(cls, request: dict[str, float]) -> "Truth":
        transfer = request.get("kv_transfer_estimated_latency_ms")
        return cls(int(request["input_tokens"]), request["ttft_ms"] / 1e3, None if transfer is None else transfer / 1e3)


def trace_of(dynamo: RunningDynamo) -> dict[str, Truth]:
    """Dynamo's own lines, by the id in them."""
    lines = [json.loads(line)["event"]["request"] for line in dynamo.trace.read_text().splitlines()]
    return {request["request_id"]: Truth.of(request) for request in lines if "ttft_ms" in request}


def asked(rng: Random, number: int) -> bytes:
    """Chat and completions, with and without usage, timing and tools, in every combination that an API has."""
    words = f"{number} " + "la to mi re nu ka " * int(min(LONG, max(SHORT, rng.lognormvariate(USUAL, SPREAD))))
    body: dict[str, object] = {"model": "tiny", "max_tokens": rng.randint(8, 40), "stream": True}
    body |= USAGE if number % 2 else {}
    body |= TIMING if number % 4 == 0 else {}
    headers = [("X-Request-Id", f"request-{number}")]
    if number % 3 == 0:
        return post(COMPLETIONS, {**body, "prompt": words}, headers)
    body |= {"tools": [TOOL]} if number % 7 == 0 else {}
    return post(CHAT, {**body, "messages": [{"role": "user", "content": words}]}, headers)


async def ask(port: int, request: bytes, wait_seconds: float) -> str:
    """The id of the answer, as it stands in the trace."""
    await asyncio.sleep(wait_seconds)
    connection = await Connection.open(port)
    answer = await connection.request(request)
    connection.close()
    said = next(found for _, event in events(answer) if (found := event_json(event)) is not None)
    return str(said["id"]).partition("-")[2]


async def load(port: int, seed: int) -> dict[str, str]:
    """All loads, one after another; the ids of the answers by the requests' own."""
    rng, number = Random(seed), 0
    found: dict[str, str] = {}
    for rate, count in LOADS:
        at, asking = 0.0, {}
        for _ in range(count):
            number += 1
            at += rng.expovariate(rate)
            asking[f"request-{number}"] = asyncio.ensure_future(ask(port, asked(rng, number), at))
        found |= dict(zip(asking, await asyncio.gather(*asking.values()), strict=True))
    return found


class Law:
    """Seconds by the tokens of a prompt, between those that were measured alone: of each length the least."""

    def __init__(self, measured: Iterable[tuple[int, float]]) -> None:
        least: dict[int, float] = {}
        for tokens, seconds in measured:
            least[tokens] = min(seconds, least.get(tokens, inf))
        self._measured = sorted(least.items())

    def seconds(self, tokens: int) -> float:
        lengths = [length for length, _ in self._measured]
        at = min(max(bisect_left(lengths, tokens), 1), len(lengths) - 1)
        (low, low_seconds), (high, high_seconds) = self._measured[at - 1], self._measured[at]
        return low_seconds + (high_seconds - low_seconds) * (tokens - low) / (high - low)


@dataclass(frozen=True, slots=True)
class Alone:
    """The laws of prompts that do not wait."""

    prefill: Law
    move: Law | None
    """The KV cache's, with a step of the decode; None where prompts are decoded where they were computed."""

    def parts(self, truth: Truth) -> dict[str, float]:
        prefill = min(self.prefill.seconds(truth.tokens), truth.both_seconds)
        queue = truth.both_seconds - prefill
        if self.move is not None and truth.transfer_seconds is not None:
            queue += max(0.0, truth.transfer_seconds - self.move.seconds(truth.tokens))
        return {"queue": queue, "prefill": prefill}


async def alone(dynamo: RunningDynamo) -> Alone:
    """Each prompt three times, straight to Dynamo."""
    for tokens in LAW_TOKENS * 3:
        body = {"model": "tiny", "prompt": "la to mi re nu ka " * (tokens // 6), "max_tokens": 4, "stream": True}
        await ask(dynamo.port, post(COMPLETIONS, body), 0.0)
    await asyncio.sleep(0.4)
    shown = [truth for truth in trace_of(dynamo).values() if truth.tokens > SHORTEST_LAW_TOKENS]
    moved = [(truth.tokens, truth.transfer_seconds) for truth in shown if truth.transfer_seconds]
    return Alone(Law((truth.tokens, truth.both_seconds) for truth in shown), Law(moved) if moved else None)


@dataclass(frozen=True, slots=True)
class Run:
    lines: dict[str, Line]
    truths: dict[str, Truth]
    alone: Alone

    @property
    def judged(self) -> list[str]:
        """The requests behind the first ones, in the order of their ends."""
        return list(self.lines)[LEARNED:]

    def split(self) -> float:
        sources = Counter(self.lines[name].fields["source"] for name in self.judged)
        return (sources["engine"] + sources["estimated"]) / sources.total()

    @property
    def truth(self) -> dict[str, dict[str, float]]:
        """Queue and prefill of those that are judged."""
        return {name: self.alone.parts(self.truths[name]) for name in self.judged}


def played(dynamo: RunningDynamo, sidecar: SidecarProcess, seed: int) -> Run:
    law = asyncio.run(alone(dynamo))
    ids = asyncio.run(load(sidecar.port, seed))
    total = sum(count for _, count in LOADS)
    lines = [Line(line) for line in sidecar.wait_for_log_lines("request", total, patience_seconds=30.0)]
    truths = trace_of(dynamo)
    assert len(lines) == total
    return Run({line.request_id: line for line in lines}, {name: truths[found] for name, found in ids.items()}, law)


@pytest.mark.proves("dynamo", "timing")
@pytest.mark.proves("dynamo", "trace")
@pytest.mark.parametrize("traced", [True, False], ids=["with the trace", "without"])
@pytest.mark.parametrize(
    ("shape", "least"), [(Shape.AGGREGATED, 0.97), (Shape.KV_ROUTED, 0.97), (Shape.DISAGGREGATED, 0.95)]
)
def test_mixed_clients_are_split_and_queue_and_prefill_told_apart(
    shape: Shape, least: float, dynamo_built: DynamoBuild, say: Say, tmp_path: Path, *, traced: bool
) -> None:
    """Model and length are known of nearly all; parts and rest add up to their phase."""
    folder = tmp_path / "dynamo"
    folder.mkdir()
    config = tmp_path / "sidecar.yml"
    config.write_text(
        "log:\n  headers: [x-request-id]\n" + (f"engine:\n  request_trace_dir: {folder}\n" if traced else "")
    )
    with (
        running_dynamo(dynamo_built, folder, say, shape, worker_flags=("--no-enable-prefix-caching",)) as dynamo,
        running_sidecar(dynamo.url, tmp_path, flags=[f"--config.file={config}"]) as sidecar,
    ):
        run = played(dynamo, sidecar, seed=43)
    kind, by = shape.name.lower(), ", traced" if traced else ""
    row = row_of(
        f"dynamo-load-{kind}{'-traced' if traced else ''}",
        f"Dynamo under load, {kind.replace('_', ' ')}{by}",
        [run.lines[name] for name in run.judged],
        {},
        truth=run.truth,
    )
    keep(row)
    known = [run.lines[name].fields for name in run.judged]
    why = Counter(str(fields["reason"]) for fields in known)
    say(
        f"{shape.name}{' traced' if traced else ''}: split {run.split():.3f}, {row.verdicts} of all, {row.slowest} of the slowest, {why}"
    )

    for line in run.lines.values():
        parts = line.fields.get("parts", {})
        assert isinstance(parts, dict)
        for phase in {name.partition(".")[0] for name in parts}:
            of_phase = sum(seconds for name, seconds in parts.items() if name.startswith(f"{phase}."))
            assert of_phase == pytest.approx(line.phases[phase], abs=1e-5)
    named = [fields["model"] == "tiny" and fields["prompt_bucket"] != "unknown" for fields in known]
    assert sum(named) / len(named) >= 0.99
    assert run.split() >= least, why
    assert row.verdicts is not None
    assert row.slowest is not None
    assert row.verdicts.asked >= JUDGED
    assert row.verdicts.holds(RIGHT)
    assert row.slowest.holds(SLOWEST_RIGHT)
