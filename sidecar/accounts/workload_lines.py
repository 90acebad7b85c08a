"""The ring of closed accounts as a workload: one line of JSON per request in the order of arrival, without text.

Two formats: `accounts` has all that a row holds; `mooncake` is the trace format of Mooncake (kvcache-ai/Mooncake, FAST25-release), which
load generators replay: arrival in whole milliseconds since the first line, tokens in, tokens out, and ids of prompt blocks. The sidecar
keeps no text and no hash of it, so that `hash_ids` is always empty: prompts of that length, which share nothing. A line is
written only where both lengths are known. Pure, and in slices: requests may close meanwhile, which are in no line, and
overwrite the oldest, which are left out.
"""

from array import array
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice

import msgspec

from sidecar.accounts.account_ring import AccountRing
from sidecar.accounts.account_row import ARRIVAL, AccountRow


LINES_AT_ONCE = 16
"""Rows written in one slice, each in 10 to 20 us."""
SORTED_AT_ONCE = 512
"""Rows whose arrivals are sorted in one slice; the sorted runs are merged as they are written."""
_DECIMALS = 6
"""Decimals of seconds: microseconds."""
_encode = msgspec.json.Encoder().encode


def _arrivals(ring: AccountRing, first: int, last: int) -> Iterator[tuple[float, int]]:
    """Arrivals and numbers of these accounts by arrival, without those that are overwritten by the time they are asked for."""
    numbers = array("Q", range(first, last))
    arrivals: list[float] = []
    while first < last:  # in two pieces where the memory ends between them
        piece = [arrived_at for (arrived_at,) in ring.read(first, last, ARRIVAL)]
        arrivals += piece
        first += len(piece)
    in_order = array("d"), array("Q")
    for arrived_at, number in sorted(zip(arrivals, numbers, strict=True)):
        in_order[0].append(arrived_at)
        in_order[1].append(number)
    return ((at, number) for at, number in zip(*in_order, strict=True) if number >= ring.first)


def slices_of(ring: AccountRing, line: Callable[[AccountRow, float], bytes | None]) -> Iterator[bytes]:
    """The lines of all requests that are closed by now, some in each slice, which may be empty. `line`: one of FORMATS."""
    runs: list[Iterator[tuple[float, int]]] = []
    number, last = ring.first, ring.closed
    while number < last:
        number = max(number, ring.first)  # what was overwritten since the last slice is gone
        runs.append(_arrivals(ring, number, min(last, number + SORTED_AT_ONCE)))
        number += SORTED_AT_ONCE
        yield b""
    merged = merge(*runs)
    began_at: float | None = None
    while some := list(islice(merged, LINES_AT_ONCE)):
        lines: list[bytes] = []
        for _, number in some:
            if number < ring.first:
                continue
            row = ring.row(number)
            written = line(row, row.arrived_at if began_at is None else began_at)
            if written is not None:
                began_at = row.arrived_at if began_at is None else began_at
                lines += (written, b"\n")
        yield b"".join(lines)


def account_line(row: AccountRow, began_at: float) -> bytes:
    """All that is kept of one request. `began_at`: arrival of the first line, from which arrivals are counted."""
    return _encode(
        {
            "arrived_seconds": round(row.arrived_at - began_at, _DECIMALS),
            "lane": row.lane,
            "model": row.model,
            "streaming": row.streaming,
            "outcome": row.outcome,
            "prompt_tokens": row.prompt_tokens,
            "cached_tokens": row.cached_tokens,
            "completion_tokens": row.completion_tokens,
            "ttft_seconds": _rounded(row.ttft_seconds),
            "output_seconds": _rounded(row.output_seconds),
            "whole_seconds": _rounded(row.whole_seconds),
            "phases": {phase: _rounded(part) for phase, part in row.phases.items()},
            "reason": row.reason,
            "missed": row.missed,
        }
    )


def mooncake_line(row: AccountRow, began_at: float) -> bytes | None:
    """One request in Mooncake's format; None where a length is not known, or no token was generated."""
    if row.prompt_tokens is None or not row.completion_tokens:
        return None
    return _encode(
        {
            "timestamp": round((row.arrived_at - began_at) * 1000),
            "input_length": row.prompt_tokens,
            "output_length": row.completion_tokens,
            "hash_ids": (),
        }
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DECIMALS) + 0.0  # -0.0 is written as 0.0


FORMATS: dict[str, Callable[[AccountRow, float], bytes | None]] = {"accounts": account_line, "mooncake": mooncake_line}
"""By the name that is asked for; the first one is the default."""
