"""No client value becomes a series, and no secret is written: the real process under twenty thousand hostile requests.

Judged by the metrics page before and after, and by all other outputs of the process: its log and its pages.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.client import Connection, post
from tests.support.in_tests import INVENTIONS
from tests.support.plain_engine import MODEL, plain_engine
from tests.support.promtool import check_metrics, families, samples
from tests.support.scenario_loop import play
from tests.support.sidecar_process import SidecarProcess, running_sidecar, stop


PATIENCE_SECONDS = 60.0
CANARY = "sk-CANARY"
CONFIG = """\
engine:
  kind: vllm
lanes:
  default: interactive
  header: X-Lane
  names: [batch]
  rules:
    - lane: code
      headers: {X-Team: [code-*]}
shutdown: {lame_duck_seconds: 0}
log:
  level: debug
  headers: [x-team]
"""
ODDITIES = (
    "",
    "other",
    "unknown",
    "batch ",
    'quote"d',
    "back\\slash",
    "br{ac}es",
    "comma,=",
    "\u202eright-to-left",
    "\N{GRINNING FACE}" * 40,
    "nul\x00",
    "line\nfeed",
    "é\u0301",
    "a" * 3000,
)
"""Characters that break label syntax, terminals and comparisons. A number follows them, so that each value is
different."""


def invention(number: int) -> str:
    return f"{ODDITIES[number % len(ODDITIES)]}{number}"


def field_value(number: int) -> bytes:
    """The same as a header's value, which has no control character; every third is not UTF-8 (RFC 9110 5.5 allows
    it)."""
    text = invention(number).replace("\x00", "").replace("\n", "").encode()[:200]
    return text + b"\xff\xfe\x80" if number % 3 == 0 else text


def inference(number: int) -> bytes:
    """A request with a new model, lane, header and query; every fifth body is not UTF-8."""
    body = {"model": invention(number), "user": invention(number), "prompt": "abc", "max_tokens": 1}
    content = json.dumps(body, ensure_ascii=number % 2 == 0).encode(errors="surrogatepass")
    if number % 5 == 0:
        content = content.replace(b'"prompt"', b'"pr\xff\xc3mpt"')
    head = b"POST /v1/completions?%d HTTP/1.1\r\nHost: pod\r\nContent-Type: application/json\r\n" % number
    fields = b"".join(
        b"%b: %b\r\n" % (name, field_value(number)) for name in (b"X-Lane", b"X-Team", b"User-Agent", b"X-Request-Id")
    )
    return head + fields + b"Content-Length: %d\r\n\r\n%b" % (len(content), content)


def passing(number: int) -> bytes:
    """A request to a new path, some of it percent-encoded nonsense."""
    odd = ("/v1/completions/", "/v1/models/", "/%ff%fe", "/..%2f", "//", "/metrics/", "/%00")[number % 7]
    method = ("GET", "POST", "DELETE", "PUT")[number % 4]
    return f"{method} {odd}{number} HTTP/1.1\r\nHost: pod-{number}\r\nContent-Length: 0\r\n\r\n".encode()


async def send_all(port: int, requests: Iterable[bytes], count: int) -> dict[bytes, int]:
    """Pipeline requests on eight connections, and return status line to its count."""
    statuses: dict[bytes, int] = {}

    async def some(mine: list[bytes]) -> None:
        connection = await Connection.open(port)
        for start in range(0, len(mine), 25):
            batch = mine[start : start + 25]
            connection.write(b"".join(batch))
            for _ in batch:
                status = await next_status(connection)
                statuses[status] = statuses.get(status, 0) + 1
        connection.close()

    waiting = list(requests)
    assert len(waiting) == count
    await asyncio.gather(*(some(waiting[offset::8]) for offset in range(8)))
    return statuses


pending: dict[Connection, bytes] = {}


async def next_status(connection: Connection) -> bytes:
    """The status line of the next answer, which has a Content-Length."""
    data = pending.pop(connection, b"")
    while True:
        head, separator, rest = data.partition(b"\r\n\r\n")
        if separator:
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            if len(rest) >= length:
                pending[connection] = rest[length:]
                return head.split(b"\r\n", 1)[0]
        read = await connection.next_read()
        assert read is not None, f"closed after {data[:200]!r}"
        data += read[1]


@asynccontextmanager
async def sidecar_in(folder: Path) -> AsyncIterator[SidecarProcess]:
    config = folder / "sidecar.yml"
    config.write_text(CONFIG)
    async with plain_engine() as url:
        running = running_sidecar(url, folder, flags=[f"--config.file={config}"])
        sidecar = await asyncio.to_thread(running.__enter__)
        try:
            yield sidecar
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)


async def scraped(sidecar: SidecarProcess) -> bytes:
    page = await asyncio.to_thread(sidecar.page, "/metrics")
    return page.encode()


@pytest.mark.long
@pytest.mark.parametrize("inventions", [1_500, pytest.param(INVENTIONS, marks=pytest.mark.thorough)])
def test_twenty_thousand_inventions_leave_the_series_as_they_were(inventions: int, tmp_path: Path) -> None:
    """The first few hundred requests make the series of `other`; thousands more, and as many paths, make none."""

    async def scenario() -> tuple[bytes, bytes, dict[bytes, int]]:
        async with sidecar_in(tmp_path) as sidecar:
            await send_all(sidecar.port, map(inference, range(500)), 500)
            await send_all(sidecar.port, map(passing, range(100)), 100)
            await scraped(sidecar)  # the age of the last scrape is unknown, and absent, until there is one
            before = await scraped(sidecar)
            statuses = await send_all(sidecar.port, map(inference, range(500, 500 + inventions)), inventions)
            for status, count in (await send_all(sidecar.port, map(passing, range(inventions)), inventions)).items():
                statuses[status] = statuses.get(status, 0) + count
            return before, await scraped(sidecar), statuses

    before, after, statuses = play(scenario(), patience_seconds=PATIENCE_SECONDS)

    assert statuses == {b"HTTP/1.1 200 OK": 2 * inventions}
    assert samples(after).keys() == samples(before).keys()
    counted = samples(after)
    requests = sum(value for (name, _), value in counted.items() if name == "llm_requests_total")
    assert requests == 500 + inventions
    assert (
        sum(value for (name, _), value in counted.items() if name == "llm_passthrough_requests_total")
        == 100 + inventions
    )
    lanes = {
        dict(labels)["lane"] for (name, labels), value in counted.items() if name == "llm_requests_total" and value
    }
    assert lanes <= {"interactive", "batch", "code", "other"}
    models = {dict(labels)["model"] for (name, labels) in counted if name == "llm_requests_total"}
    assert models == {MODEL, "other"}
    check_metrics(after)


def secrets() -> Iterator[bytes]:
    """The canary in every place where clients put keys, in requests that pass, that are refused and that are no
    HTTP."""
    body = {"model": CANARY, "prompt": CANARY, "user": CANARY, "messages": [{"role": "user", "content": CANARY}]}
    keys = [
        ("Authorization", f"Bearer {CANARY}-1"),
        ("x-api-key", CANARY),
        ("api-key", CANARY),
        ("Cookie", f"k={CANARY}"),
    ]
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses", f"/v1/{CANARY}-4567"):
        yield post(f"{path}?api_key={CANARY}&key={CANARY}-12345", body, keys)
        yield post(
            path, body, [*keys, ("X-Lane", CANARY), ("X-Team", f"{CANARY}-team"), ("X-Request-Id", f"{CANARY}-id")]
        )
        yield post(path, f'{{"model":"{CANARY}", broken'.encode(), keys)
        yield post(path, {**body, "stream": True, "max_tokens": CANARY}, keys)
    yield f"GET http://{CANARY}:x@pod/v1/models?{CANARY} HTTP/1.1\r\nHost: {CANARY}:x@pod\r\n\r\n".encode()
    yield f"GET /v1/models HTTP/1.1\r\nHost: user:{CANARY}@pod\r\n\r\n".encode()
    yield f"POST /v1/completions#{CANARY} HTTP/1.1\r\nHost: pod\r\n{CANARY}: {CANARY}\r\n\r\n".encode()
    yield f"{CANARY} / HTTP/1.1\r\n\r\n".encode()
    yield f"POST /v1/completions HTTP/9.9\r\nAuthorization: {CANARY}\r\n\r\n".encode()
    yield post("/v1/completions", body, [("Transfer-Encoding", CANARY), *keys])
    yield post("/v1/completions", body, [("Expect", CANARY), *keys])
    yield post("/v1/completions", body, [("traceparent", CANARY), ("X-Padding", CANARY * 20_000)])


@pytest.mark.long
def test_a_secret_comes_out_nowhere(tmp_path: Path) -> None:
    """The canary is in no metric, no log line at debug level, no page and no answer that the sidecar itself writes."""

    async def scenario() -> tuple[str, list[bytes], dict[str, str]]:
        async with sidecar_in(tmp_path) as sidecar:
            answers = []
            for request in secrets():
                connection = await Connection.open(sidecar.port)
                connection.write(request)
                read = await connection.next_read()
                answers.append(read[1] if read is not None else b"")
                connection.close()
            leaver = await Connection.open(sidecar.port)
            leaver.write(post("/v1/completions", {"prompt": CANARY}, [("Authorization", CANARY)])[:-3])
            leaver.close()
            pages = {
                path: await asyncio.to_thread(sidecar.page, path)
                for path in ("/metrics", "/", "/-/healthy", "/-/ready")
            }
            # When it stops, it logs the requests that still wait for the engine's report.
            await asyncio.to_thread(stop, sidecar)
            assert len(sidecar.log_lines("request")) >= 16
            return sidecar.log.read_text(), answers, pages

    log, answers, pages = play(scenario(), patience_seconds=PATIENCE_SECONDS)

    said = {"log": log, "answers": b"".join(answers).decode(), **pages}
    assert [place for place, text in said.items() if CANARY.lower() in text.lower()] == []
    assert families(pages["/metrics"].encode(), openmetrics=False)
