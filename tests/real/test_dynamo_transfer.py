"""A slower link between Dynamo's prefill and decode workers: what it adds stands in the part `kv_transfer`, and nothing else moves."""

import asyncio
from statistics import median

import pytest

from tests.real.dynamo_environment import DynamoBuild
from tests.real.dynamo_record import CHAT
from tests.real.dynamo_server import TRANSFER_SECONDS_PER_TOKEN, Shape, running_dynamo
from tests.real.environment import Say
from tests.real.told import Line
from tests.support.client import Connection, post
from tests.support.sidecar_process import running_sidecar


REQUESTS, JUDGED = 40, 20
"""One after another, so that none waits for another; the last ones are compared, when prefills can be estimated."""
SIX_TOKENS, REPEATED = "la to mi re nu ka ", 120
NEAR_RATIO, NEAR_SECONDS = 0.15, 0.01


async def one_after_another(port: int) -> None:
    connection = await Connection.open(port)
    for number in range(REQUESTS):
        words = f"{number} {SIX_TOKENS * REPEATED}"
        body = {"model": "tiny", "messages": [{"role": "user", "content": words}], "max_tokens": 8, "stream": True}
        assert (await connection.request(post(CHAT, body))).status == 200
    connection.close()


@pytest.fixture(scope="module")
def played(dynamo_built: DynamoBuild, say: Say, tmp_path_factory: pytest.TempPathFactory) -> dict[float, list[Line]]:
    """The log's lines at a link that moves at once, and at a slow one."""
    found = {}
    for bandwidth_gb in (0.0, 0.1):
        folder = tmp_path_factory.mktemp("dynamo")
        config = folder / "sidecar.yml"
        config.write_text(f"engine:\n  request_trace_dir: {folder}\n")
        flags = [f"--config.file={config}"]
        with (
            running_dynamo(dynamo_built, folder, say, Shape.DISAGGREGATED, bandwidth_gb=bandwidth_gb) as dynamo,
            running_sidecar(dynamo.url, folder, flags=flags) as sidecar,
        ):
            asyncio.run(one_after_another(sidecar.port))
            lines = sidecar.wait_for_log_lines("request", REQUESTS, patience_seconds=30.0)
        found[bandwidth_gb] = [Line(line) for line in lines][-JUDGED:]
    return found


def test_the_transfer_that_was_added_is_the_part_that_grew(played: dict[float, list[Line]]) -> None:
    at_once, slow = played[0.0], played[0.1]
    tokens = median(line.number("prompt_tokens") for line in slow)
    added = tokens * TRANSFER_SECONDS_PER_TOKEN

    grown = median(transfer(line) for line in slow) - median(transfer(line) for line in at_once)

    assert len(at_once) == len(slow) == JUDGED
    assert abs(grown - added) < max(NEAR_RATIO * added, NEAR_SECONDS), (grown, added)


def test_nothing_else_moved(played: dict[float, list[Line]]) -> None:
    """Neither queue nor prefill nor what is left of first_token."""

    def moved(name: str) -> float:
        return median(rest(line)[name] for line in played[0.1]) - median(rest(line)[name] for line in played[0.0])

    split = [line.fields["source"] for lines in played.values() for line in lines]
    assert split == ["estimated"] * (2 * JUDGED)
    assert [name for name in ("queue", "prefill", "first_token") if abs(moved(name)) > NEAR_SECONDS] == []


def transfer(line: Line) -> float:
    parts = line.fields["parts"]
    assert isinstance(parts, dict)
    return float(parts["first_token.kv_transfer"])


def rest(line: Line) -> dict[str, float]:
    """The phases before the first token, without the transfer."""
    phases = dict(line.phases)
    phases["first_token"] -= transfer(line)
    return phases
