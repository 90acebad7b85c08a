"""The admin listener over real sockets: its answers, the clients that it accepts, and that no client delays another."""

import asyncio
import gzip
import json
from collections.abc import Callable

import pytest
import structlog.testing

from sidecar.admin import access as gate
from sidecar.admin import listener as listening
from sidecar.admin.access import is_loopback
from sidecar.admin.listener import AdminListener
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import Snapshot
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.observe.record import Recorder
from sidecar.pod.liveness.progress import Progress, State
from sidecar.shutdown import Drained
from tests.support.admin import Double, Visit, metrics, visit
from tests.support.promtool import check_metrics, samples


def test_metrics_come_in_the_format_that_was_asked_for() -> None:
    """Text by default, OpenMetrics and gzip on request. Each is valid, and `Vary` keeps caches from mixing them."""

    async def scenario(visit: Visit) -> None:
        status, headers, text = await visit.ask("/metrics")
        assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert headers["Vary"] == "Accept, Accept-Encoding"
        check_metrics(text)

        _, headers, page = await visit.ask("/metrics", Accept="application/openmetrics-text;version=1.0.0")
        assert headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert ("llm_requests_total" in {name for name, _ in samples(page, openmetrics=True)}) is True

        _, headers, squeezed = await visit.ask("/metrics", Accept_Encoding="gzip")
        assert headers["Content-Encoding"] == "gzip"
        check_metrics(gzip.decompress(squeezed))

    visit(scenario)


def test_a_lean_page_has_the_whole_one_behind_a_question() -> None:
    """As the doctor asks it; any other profile is refused."""
    registry = metrics()
    Recorder(registry)
    registry.histogram(c.EVENT_LOOP_LAG_SECONDS).child().observe(0.001)

    async def scenario(visit: Visit) -> None:
        (_, _, lean), (_, _, whole), (status, _, text) = [
            await visit.ask(f"/metrics{asked}") for asked in ("", "?profile=full", "?profile=wide")
        ]
        assert (status, text[:14]) == (400, b"profile: full,")
        assert {name for name, _ in samples(lean)} < {name for name, _ in samples(whole)}
        assert (b"_bucket{" in lean, b"llm_sidecar_event_loop_lag_seconds_bucket{" in whole) == (False, True)

    visit(scenario, registry, profile="lean")


def test_a_page_waits_until_what_has_ended_is_closed() -> None:
    async def scenario(visit: Visit) -> None:
        await visit.ask("/metrics")

        assert visit.app.settled == 1

    visit(scenario)


def test_the_history_ticks_on_where_a_diagnosis_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise every window would begin at the failure for the rest of the process."""
    monkeypatch.setattr(listening, "PERIOD_SECONDS", 0.0)
    learned: list[Snapshot] = []

    def fails(now: Snapshot) -> Sliced[None]:
        learned.append(now)
        raise RuntimeError("no such phase")

    async def scenario() -> None:
        registry = metrics()
        admin = AdminListener(Double(registry), registry, asyncio.get_running_loop().time)
        monkeypatch.setattr(admin._diagnoses, "learn", fails)
        await admin.start("127.0.0.1", 0)
        for _ in range(300):
            await asyncio.sleep(0)
        await admin.stop()

        assert len(learned) >= 3
        assert list(admin._history._whole)[-len(learned) :] == learned
        assert registry.counter(c.DROPPED_TOTAL).child("observer_error").value == len(learned)

    asyncio.run(scenario())


def test_ready_and_healthy_say_why_not() -> None:
    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/-/ready"))[::2] == (200, b"ready\n")
        assert (await visit.ask("/-/healthy"))[::2] == (200, b"healthy\n")

        visit.app.is_ready = (False, "shutting down")
        visit.app.is_healthy = (False, "the loop lags")

        assert (await visit.ask("/-/ready"))[::2] == (503, b"shutting down\n")
        assert (await visit.ask("/-/healthy"))[::2] == (503, b"the loop lags\n")
        assert (await visit.ask("/metrics"))[0] == 200
        assert (await visit.ask("/"))[0] == 200

    visit(scenario)


def test_the_probe_of_the_engines_container_fails_only_when_a_stall_is_proven() -> None:
    """A stall takes the pod out of its Service at once; the container may be restarted half a minute later."""

    async def scenario(visit: Visit) -> None:
        found = []
        for state, beyond_seconds in (
            (State.FINE, 0.0),
            (State.UNSURE, 90.0),
            (State.STALLED, 29.0),
            (State.STALLED, 30.0),
        ):
            visit.app.progress = Progress(state, "why", 41.26, 8.0, beyond_seconds)
            status, _, body = await visit.ask("/-/engine")
            found.append((status, json.loads(body)["state"]))
        _, headers, body = await visit.ask("/-/engine")

        assert found == [(200, "fine"), (200, "unsure"), (200, "stalled"), (503, "stalled")]
        assert json.loads(body) == {
            "state": "stalled",
            "reason": "why",
            "silent_seconds": 41.3,
            "explained_seconds": 8.0,
            "beyond_seconds": 30.0,
        }
        assert headers["Cache-Control"] == "no-store"

    visit(scenario)


def test_a_reload_is_a_write_and_never_a_read() -> None:
    """POST and PUT reload, one at a time; GET is refused as a method; the answer holds all errors."""

    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/-/reload"))[0] == 405
        assert visit.app.reloads == 0

        both = await asyncio.gather(visit.ask("/-/reload", "POST"), visit.ask("/-/reload", "PUT"))
        assert [status for status, _, _ in both] == [200, 200]
        assert visit.app.reloads == 2

        visit.app.errors = ["lanes.rules[0]: no lane", "engine.url: no URL"]
        status, _, body = await visit.ask("/-/reload", "POST")
        assert (status, body) == (500, b"lanes.rules[0]: no lane\nengine.url: no URL\n")

    visit(scenario)


def test_a_browser_cannot_be_led_to_reload() -> None:
    """A web page may make a browser on this host POST here; the headers that browsers add give it away."""

    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/-/reload", "POST", Origin="http://evil.example"))[0] == 403
        assert (await visit.ask("/-/reload", "POST", Sec_Fetch_Site="cross-site"))[0] == 403
        assert visit.app.reloads == 0

    visit(scenario)


@pytest.mark.parametrize(
    ("peer", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.0.0.6", False),
        ("::ffff:127.0.0.6", False),
        ("127.9.9.9", False),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.7", False),
        ("::ffff:10.0.0.7", False),
        ("fe80::1%eth0", False),
        ("", False),
        (None, False),
        ("localhost", False),
    ],
)
def test_only_loopback_may_write(peer: str | None, loopback: bool) -> None:
    """One address, not its network: a mesh delivers from 127.0.0.6 what came from outside."""
    assert loopback == is_loopback(peer)


@pytest.mark.parametrize(
    "header", ["Forwarded", "X_Forwarded_For", "x_forwarded_proto", "X_Forwarded_Client_Cert", "X_Envoy_Attempt_Count"]
)
def test_what_a_proxy_has_forwarded_is_no_write_of_this_pod(header: str) -> None:
    """A proxy of a mesh stands in the pod, and its connections come from loopback."""

    async def scenario(visit: Visit) -> None:
        for path in ("/-/reload", "/-/drain"):
            status, _, body = await visit.ask(path, "POST", **{header: "127.0.0.1"})
            assert (status, b"or a proxy" in body) == (403, True)
        assert visit.app.reloads == 0
        assert (await visit.ask("/-/healthy", **{header: "127.0.0.1"}))[0] == 200

    visit(scenario)


def test_a_write_from_elsewhere_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "is_loopback", lambda _peer: False)

    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/-/reload", "POST", X_Forwarded_For="127.0.0.1"))[0] == 403
        assert (await visit.ask("/-/drain", "POST"))[0] == 403
        assert visit.app.reloads == 0

    visit(scenario)


def test_a_drain_is_answered_at_its_end() -> None:
    """200 when nothing is in flight any more, 503 when the deadline came first; never for another host or a browser."""

    async def scenario(visit: Visit) -> None:
        status, _, body = await visit.ask("/-/drain", "POST")
        assert (status, json.loads(body)) == (200, {"drained": True, "in_flight": 0, "waited_seconds": 1.5})
        visit.app.end_of_drain = Drained(drained=False, in_flight=3, waited_seconds=25.0)
        status, _, body = await visit.ask("/-/drain", "PUT")
        assert (status, json.loads(body)) == (503, {"drained": False, "in_flight": 3, "waited_seconds": 25.0})
        assert (await visit.ask("/-/drain", "POST", Origin="http://evil.example"))[0] == 403
        assert (await visit.ask("/-/drain"))[0] == 405

    visit(scenario)


def test_every_answer_bears_our_name_and_not_the_library_s() -> None:
    async def scenario(visit: Visit) -> None:
        for path, status in (("/", 200), ("/metrics", 200), ("/-/ready", 200), ("/nowhere", 404), ("/-/reload", 405)):
            found, headers, _ = await visit.ask(path)
            assert (status, "llm-phase-sidecar") == (found, headers["Server"])

    visit(scenario)


def test_the_landing_page_is_html_that_may_load_nothing() -> None:
    async def scenario(visit: Visit) -> None:
        _, headers, page = await visit.ask("/")

        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Content-Security-Policy"].startswith("default-src 'none';")
        assert b"No traffic yet" in page
        assert b"refresh" in page
        assert b'http-equiv="refresh"' not in (await visit.ask("/?refresh=off"))[2]

    visit(scenario)


def test_a_page_that_fails_says_nothing_and_breaks_no_other() -> None:
    async def scenario(visit: Visit) -> None:
        visit.app.is_healthy = (True, "broken")

        status, _, body = await visit.ask("/")

        assert (status, body) == (500, b"The sidecar failed to answer; its log says why.\n")
        assert (await visit.ask("/metrics"))[0] == 200

    visit(scenario)


def big() -> Metrics:
    """A page of some megabytes, more than any socket buffer takes."""
    registry = Metrics(
        lanes=[f"lane-{n}" for n in range(60)], prompt_buckets=["0-512"], models=["llama"], series_limit=1_000_000
    )
    Recorder(registry)
    phases = registry.histogram(c.REQUEST_PHASE_SECONDS)
    for lane in registry.lanes.shown():
        for bucket in registry.prompt_buckets.shown():
            for together in phases.metric.together:
                phases.child("llama", lane, bucket, *together).observe(0.1)
    return registry


async def hang(port: int) -> asyncio.StreamWriter:
    """Send a scrape, and never read its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    await writer.drain()
    await reader.read(1)
    return writer


async def until(said: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not said():  # noqa: ASYNC110  a counter has no event
            await asyncio.sleep(0.001)


def test_scrapers_that_hang_hold_up_no_other() -> None:
    """While seven scrapers hang, the eighth is served. While eight hang, a ninth gets 503, and `/-/ready` answers."""

    async def scenario(visit: Visit) -> None:
        hanging = [await hang(visit.port) for _ in range(7)]
        status, _, page = await visit.ask("/metrics")
        assert status == 200
        assert len(page) > 4_000_000

        hanging.append(await hang(visit.port))
        status, headers, _ = await visit.ask("/metrics")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert (await visit.ask("/-/ready"))[0] == 200

        scrapes = visit.metrics.counter(c.SCRAPES_TOTAL)
        assert tuple(scrapes.child(result).value for result in ("ok", "refused", "abandoned")) == (1, 1, 0)

        for writer in hanging:
            writer.transport.abort()
        await until(lambda: scrapes.child("abandoned").value == 8)
        assert (await visit.ask("/metrics"))[0] == 200

    visit(scenario, big())


def test_a_scraper_that_never_reads_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time limit its connection is cut, so that half a page is not taken for a whole one."""
    monkeypatch.setattr(listening, "SCRAPE_TIMEOUT_SECONDS", 0.3)

    async def scenario(visit: Visit) -> None:
        writer = await hang(visit.port)

        scrapes = visit.metrics.counter(c.SCRAPES_TOTAL)
        await until(lambda: scrapes.child("abandoned").value == 1)

        assert scrapes.child("ok").value == 0
        writer.transport.abort()
        assert (await visit.ask("/-/healthy"))[0] == 200

    visit(scenario, big())


def test_a_head_request_for_metrics_has_no_body() -> None:
    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/metrics", "HEAD"))[::2] == (200, b"")

    visit(scenario)


def test_a_port_that_is_taken_is_said_at_once() -> None:
    async def scenario(visit: Visit) -> None:
        with pytest.raises(OSError, match="address already in use"):
            await AdminListener(Double(metrics()), metrics(), lambda: 0.0).start("127.0.0.1", visit.port)

    visit(scenario)


def test_under_a_foreign_host_name_only_scrapes_probes_and_what_refuses_browsers_answer() -> None:
    """A page whose name leads here (DNS rebinding) reads nothing else; the log names the host, and all say what to set."""

    async def scenario(visit: Visit) -> None:
        refused = {path for path in visit.routes if (await visit.ask(path, Host="rebound.example:9901"))[0] == 421}
        _, _, text = await visit.ask("/nothing", Host="rebound.example")

        assert refused == visit.routes - {"/metrics", "/-/healthy", "/-/ready", "/-/engine"}
        assert {"/", "/config", "/workload.jsonl", "/diagnosis", "/incident.json"} <= refused
        assert (await visit.ask("/-/reload", "POST", Host="rebound.example"))[0] == 200
        assert (await visit.ask("/-/reload", "POST", Host="rebound.example", Origin="http://rebound.example"))[0] == 403
        assert b"web.allowed_hosts" in text
        assert visit.metrics.counter(c.HOSTS_REFUSED_TOTAL).child().value == len(refused) + 1

    with structlog.testing.capture_logs() as logs:
        visit(scenario)
    assert {(line["event"], line["host"]) for line in logs if "web.allowed_hosts" in line["hint"]} == {
        ("host_refused", "rebound.example:9901"),
        ("host_refused", "rebound.example"),
    }


def test_a_client_without_a_host_is_no_browser() -> None:
    """HTTP/1.0 has none."""

    async def scenario(visit: Visit) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", visit.port)
        writer.write(b"GET /config HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()

        assert answer.startswith(b"HTTP/1.0 200 ")
        assert visit.metrics.counter(c.HOSTS_REFUSED_TOTAL).child().value == 0

    visit(scenario)


def test_no_answer_may_be_taken_for_another_type_than_it_states() -> None:
    """Not even a refusal, an error or a page that is not there."""

    async def scenario(visit: Visit) -> None:
        asked = [("GET", path, "127.0.0.1") for path in sorted(visit.routes)]
        asked += [("POST", "/config", "127.0.0.1"), ("GET", "/nothing", "127.0.0.1"), ("GET", "/", "rebound.example")]
        asked.append(("POST", "/-/reload", "127.0.0.1"))
        answers = [await visit.ask(path, method, Host=host) for method, path, host in asked]

        assert [headers["X-Content-Type-Options"] for _, headers, _ in answers] == ["nosniff"] * len(asked)
        assert {200, 404, 405, 421} <= {status for status, _, _ in answers}

    visit(scenario)
