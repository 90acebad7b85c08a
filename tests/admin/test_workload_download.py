"""The closed requests can be downloaded as a workload, in a format that the request names."""

import asyncio
import json
import zlib

from sidecar.accounts.workload_lines import FORMATS, slices_of
from sidecar.admin.workload_download import DOWNLOADS_AT_ONCE
from tests.accounts.closed import ring_of, streamed
from tests.support.admin import Visit, visit


RING = ring_of([streamed(number / 64) for number in range(200)])


def test_the_whole_ring_is_a_line_each() -> None:
    async def scenario(visit: Visit) -> None:
        status, headers, body = await visit.ask("/workload.jsonl")
        head = await visit.ask("/workload.jsonl", "HEAD")

        assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, "application/x-ndjson", "no-store")
        assert body == b"".join(slices_of(RING, FORMATS["accounts"]))
        assert len(body.splitlines()) == 200
        assert (head[0], head[2]) == (200, b"")

    visit(scenario, accounts=RING)


def test_gzip_is_used_where_it_is_accepted() -> None:
    async def scenario(visit: Visit) -> None:
        _, plain_headers, plain = await visit.ask("/workload.jsonl")
        _, headers, body = await visit.ask("/workload.jsonl", Accept_Encoding="gzip")

        assert ("Content-Encoding" in plain_headers, headers["Content-Encoding"]) == (False, "gzip")
        assert zlib.decompress(body, wbits=31) == plain

    visit(scenario, accounts=RING)


def test_mooncakes_format_is_named_and_any_other_is_refused_with_what_is_allowed() -> None:
    async def scenario(visit: Visit) -> None:
        _, _, mooncake = await visit.ask("/workload.jsonl?format=mooncake")
        refused = [
            await visit.ask(f"/workload.jsonl?{query}")
            for query in ("format=csv", "format=", "format=mooncake&format=x")
        ]

        assert list(json.loads(mooncake.splitlines()[0])) == ["timestamp", "input_length", "output_length", "hash_ids"]
        assert {(status, body) for status, _, body in refused} == {(400, b"format: one of accounts, mooncake.\n")}

    visit(scenario, accounts=RING)


def test_without_a_request_the_file_is_empty() -> None:
    async def scenario(visit: Visit) -> None:
        status, _, body = await visit.ask("/workload.jsonl")

        assert (status, body) == (200, b"")

    visit(scenario)


def test_more_downloads_at_once_are_refused_and_later_ones_are_not() -> None:
    """Each download sorts the ring: clients that do not read must not hold its memory many times."""
    large = ring_of([streamed(number / 64) for number in range(5000)])

    async def scenario(visit: Visit) -> None:
        answers = await asyncio.gather(*(visit.ask("/workload.jsonl") for _ in range(DOWNLOADS_AT_ONCE + 2)))
        later = await visit.ask("/workload.jsonl")

        assert sorted(status for status, _, _ in answers) == [200] * DOWNLOADS_AT_ONCE + [503] * 2
        assert {len(body.splitlines()) for status, _, body in answers if status == 200} == {5000}
        assert later[0] == 200

    visit(scenario, accounts=large)
