"""The closed requests as lines of JSON in the order of arrival, and in the trace format that load generators replay."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.account_row import ROW
from sidecar.accounts.workload_lines import FORMATS, SORTED_AT_ONCE, slices_of
from sidecar.ledger.account import Account
from sidecar.timeline.events import Usage
from sidecar.timeline.outcome import Outcome
from tests.accounts.closed import ring_of, streamed, whole


def lines_of(ring: AccountRing, of: str = "accounts") -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(slices_of(ring, FORMATS[of])).splitlines()]


DOCS = Path(__file__).parents[2] / "docs" / "slowest.md"
USAGE = Usage(700, 512, 9)


def arrived(at: float, usage: Usage | None = USAGE) -> Account:
    account = streamed(0.5)
    return replace(account, marks=replace(account.marks, received_at=at, usage=usage))


def test_a_line_has_all_that_is_kept_of_a_request() -> None:
    (line,) = lines_of(ring_of([streamed(0.5)]))

    assert line == {
        "arrived_seconds": 0.0,
        "lane": "chat",
        "model": "llama",
        "streaming": True,
        "outcome": "ok",
        "prompt_tokens": 700,
        "cached_tokens": 512,
        "completion_tokens": 9,
        "ttft_seconds": 1.25,
        "output_seconds": 2.0,
        "whole_seconds": 3.25,
        "phases": {"queue": 0.5, "prefill": 0.5, "first_token": 0.25, "decode": 2.0, "stream": 0.0},
        "reason": "in_band",
        "missed": ["ttft"],
    }


def test_the_page_explains_every_key_of_a_line_and_no_other() -> None:
    (line,) = lines_of(ring_of([streamed(0.5)]))

    explained = re.findall(r"^\| (`[^|]+) \|", DOCS.read_text().split("## The requests")[1], re.MULTILINE)

    assert {key for cell in explained for key in re.findall(r"`(\w+)`", cell)} == line.keys()


def test_what_is_unknown_is_null_and_never_0() -> None:
    failed = replace(whole(2.0), outcome=Outcome.ENGINE_TIMEOUT, ledger=None)

    (line,) = lines_of(ring_of([failed]))

    unknown = {name for name, value in line.items() if value is None}
    tokens = {"prompt_tokens", "cached_tokens", "completion_tokens"}
    assert unknown == {*tokens, "ttft_seconds", "output_seconds", "reason"}
    assert (line["outcome"], line["whole_seconds"], line["phases"], line["missed"]) == ("engine_timeout", 10.0, {}, [])


def test_mooncakes_format_has_whole_milliseconds_lengths_and_no_hashes() -> None:
    """A request whose lengths are unknown, or that got no token, cannot be replayed, and has no line."""
    ring = ring_of(
        [
            arrived(7.0, Usage(5, 0, 0)),
            arrived(10.0, Usage(6755, None, 500)),
            arrived(13.0516, Usage(7319, 512, 1)),
            arrived(14.0, Usage(None, None, 9)),
            arrived(15.0, None),
        ]
    )

    assert lines_of(ring, "mooncake") == [
        {"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": []},
        {"timestamp": 3052, "input_length": 7319, "output_length": 1, "hash_ids": []},
    ]


@given(st.permutations(range(24)), st.integers(1, 30))
def test_lines_are_in_the_order_of_arrival(order: list[int], rows: int) -> None:
    """Requests close in another order than they came. The first line is at 0."""
    ring = ring_of([arrived(100.0 + number) for number in order], rows=rows)

    kept = sorted(order[-rows:])
    assert [line["arrived_seconds"] for line in lines_of(ring)] == [number - kept[0] for number in kept]


def test_runs_that_are_sorted_apart_are_one_order() -> None:
    count = 3 * SORTED_AT_ONCE + 5
    ring = ring_of([arrived(float(count - number)) for number in range(count)])

    assert [line["arrived_seconds"] for line in lines_of(ring)] == list(range(count))


@pytest.mark.parametrize("slices_before", [1, 2, 4])
def test_rows_that_are_overwritten_meanwhile_are_left_out(slices_before: int) -> None:
    """No request stands in two lines, and none that closed later stands in any."""
    rows = 2 * SORTED_AT_ONCE
    ring = AccountRing(rows * ROW.size)
    for number in range(rows):
        ring.add(arrived(float(number)), 10.0, ())
    slices = slices_of(ring, FORMATS["accounts"])
    before = [next(slices) for _ in range(slices_before)]
    for _ in range(SORTED_AT_ONCE):
        ring.add(arrived(1e6), 10.0, ())

    told = [json.loads(line)["arrived_seconds"] for line in b"".join([*before, *slices]).splitlines()]

    already = len(b"".join(before).splitlines())
    assert len(told) == len(set(told)) == already + SORTED_AT_ONCE
    assert told[already:] == [
        float(number) - (told[0] if already else SORTED_AT_ONCE) for number in range(SORTED_AT_ONCE, rows)
    ]
