"""With a web config the admin listener asks for passwords as that file says, sets its headers and keeps its rate."""

import asyncio
import base64
import logging
import re
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from sidecar.admin import access as gate
from sidecar.admin.access import BUSY_RETRY_AFTER_SECONDS, CHALLENGE, FROM_LOOPBACK, PROBES, Access, _Bucket
from sidecar.admin.passwords import BusyError
from sidecar.admin.web_config import RateLimit, load
from sidecar.config.file import ConfigErrors
from tests.admin.guarded import GOOD, HASH, PASSWORD, USERS, Visit, basic, visit
from tests.support.admin import metrics
from tests.support.certificates import Authority
from tests.support.configs import section_of


DOCS = Path(__file__).parents[2] / "docs" / "access.md"


# --- passwords ---------------------------------------------------------------------------------------------------------


def test_every_page_but_the_probes_needs_the_password(tmp_path: Path) -> None:
    """Routes that do not exist are no exception, or an answer would tell which do."""

    async def scenario(visit: Visit) -> None:
        for path in (
            "/",
            "/metrics",
            "/diagnosis",
            "/incident.json",
            "/baseline.json",
            "/workload.jsonl",
            "/runbooks/",
            "/nothing",
        ):
            assert (await visit.ask(path), visit.headers["WWW-Authenticate"]) == (
                (401, "A user and a password are needed.\n"),
                CHALLENGE,
            )
            assert (await visit.ask(path, Authorization=GOOD))[0] != 401
        assert (await visit.ask("/metrics", "HEAD"))[0] == 401
        assert [(await visit.ask(path))[0] for path in ("/-/healthy", "/-/ready")] == [200, 200]

    visit(tmp_path, USERS, scenario)


@pytest.mark.parametrize(
    "path", ["/-/healthy/../../metrics", "//-/healthy", "/-/healthy/", "/-/healthy%2f", "/%2D/ready/x"]
)
def test_a_path_that_only_looks_like_a_probe_needs_the_password(path: str, tmp_path: Path) -> None:
    """The route decides, not the text."""

    async def scenario(visit: Visit) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", visit.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()

        assert answer.startswith(b"HTTP/1.1 401 ")

    visit(tmp_path, USERS, scenario)


@pytest.mark.parametrize(
    "told",
    [
        basic("prometheus", "wrong"),
        basic("Prometheus", PASSWORD),
        basic("", PASSWORD),
        basic("prometheus", ""),
        basic("prometheus", PASSWORD + "\0"),
        GOOD.replace("Basic", "Bearer"),
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"\xff:\xfe").decode(),
    ],
)
def test_all_else_is_refused(told: str, tmp_path: Path) -> None:
    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/metrics", Authorization=told))[0] == 401
        assert visit.logins().keys() <= {"wrong", "missing"}

    visit(tmp_path, USERS, scenario)


def test_two_authorizations_are_none(tmp_path: Path) -> None:
    async def scenario(visit: Visit) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", visit.port)
        told = f"Authorization: {GOOD}\r\nAuthorization: {basic('a', 'b')}\r\n"
        writer.write(f"GET /metrics HTTP/1.1\r\nHost: x\r\n{told}Connection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()

        assert answer.startswith(b"HTTP/1.1 401 ")

    visit(tmp_path, USERS, scenario)


def test_what_came_of_each_login_is_counted_and_no_secret_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario(visit: Visit) -> None:
        await visit.ask("/metrics")
        for told in (GOOD, basic("a", "wrong-CANARY")):
            await visit.ask("/metrics", Authorization=told)
        _, page = await visit.ask("/metrics", Authorization=GOOD)
        _, status = await visit.ask("/", Authorization=GOOD)

        assert visit.logins() == {"missing": 1, "wrong": 1, "ok": 3}
        assert [text for text in (page, status) if "CANARY" in text or HASH in text] == []

    visit(tmp_path, USERS, scenario)
    shown = caplog.text + "".join(capsys.readouterr())
    assert ("CANARY" in shown, HASH in shown) == (False, False)


def test_who_finds_no_place_is_told_when_to_ask_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy(*_: object, **__: object) -> bool:
        raise BusyError

    async def scenario(visit: Visit) -> None:
        monkeypatch.setattr(visit.access._passwords, "right", busy)

        assert (await visit.ask("/metrics", Authorization=GOOD))[0] == 429
        assert visit.headers["Retry-After"] == str(BUSY_RETRY_AFTER_SECONDS)
        assert (await visit.ask("/-/healthy"))[0] == 200
        assert visit.logins() == {"busy": 1}

    visit(tmp_path, USERS, scenario)


def test_each_refusal_has_a_turn_of_the_loop_to_itself(tmp_path: Path) -> None:
    """Twenty that come at once would hold the loop for two milliseconds, and streams with it."""

    async def scenario(visit: Visit) -> None:
        turns, answered = 0, list[int]()

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async def refuse() -> None:
            request = make_mocked_request("GET", "/metrics")
            assert await visit.access.refusal(request) is not None
            answered.append(turns)

        turning = asyncio.create_task(turn())
        await asyncio.gather(*(refuse() for _ in range(20)))
        turning.cancel()

        assert len(set(answered)) == len(answered)

    visit(tmp_path, USERS, scenario)


def test_a_process_on_this_host_writes_without_a_password_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exec hook of the pod has no password. From elsewhere the password comes first, and then the loopback rule."""

    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/-/reload", "POST"))[0] == 200
        assert (await visit.ask("/-/reload", "POST", Forwarded="for=10.0.0.7"))[0] == 401
        monkeypatch.setattr(gate, "is_loopback", lambda _: False)

        assert (await visit.ask("/-/reload", "POST"))[0] == 401
        assert (await visit.ask("/-/reload", "POST", Authorization=GOOD))[0] == 403
        assert visit.app.reloads == 1

    visit(tmp_path, USERS, scenario)


def test_no_route_passes_both_as_a_probe_and_as_a_write() -> None:
    assert PROBES.isdisjoint(FROM_LOOPBACK)


def test_the_page_lists_the_routes_that_need_no_password() -> None:
    rows = re.findall(r"^\| (`/.*?) \| (anywhere|this pod) \|", DOCS.read_text(), re.MULTILINE)
    listed = {(path, where) for paths, where in rows for path in re.findall(r"`(.+?)`", paths)}

    assert listed == {(path, "anywhere") for path in PROBES} | {(path, "this pod") for path in FROM_LOOPBACK}


def test_the_example_of_the_page_is_a_good_one(tmp_path: Path) -> None:
    example = next(
        block for block in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "cert_file" in block
    )
    Authority(tmp_path)
    (tmp_path / "cert.pem").rename(tmp_path / "tls.crt")
    (tmp_path / "key.pem").rename(tmp_path / "tls.key")
    (tmp_path / "web.yml").write_text(example)

    assert set(load(str(tmp_path / "web.yml")).web.basic_auth_users) == {"prometheus"}


# --- headers and rate ----------------------------------------------------------------------------------------------------


def test_the_headers_of_the_file_are_on_every_answer_and_a_page_keeps_its_own(tmp_path: Path) -> None:
    told = "http_server_config: {headers: {X-Frame-Options: deny, Content-Security-Policy: default-src x, X-XSS-Protection: ''}}"

    async def scenario(visit: Visit) -> None:
        for path in ("/metrics", "/-/healthy", "/nothing"):
            await visit.ask(path)
            assert visit.headers["X-Frame-Options"] == "deny"
            assert visit.headers["Content-Security-Policy"] == "default-src x"
            assert "X-XSS-Protection" not in visit.headers
        await visit.ask("/")
        assert visit.headers["Content-Security-Policy"].startswith("default-src 'none'")

    visit(tmp_path, told, scenario)


def test_a_rate_is_a_burst_and_then_one_request_per_interval() -> None:
    instants = [0.0, 0.0, 0.0, 1.9, 2.0, 2.1, 100.0, 100.0, 100.0]
    bucket = _Bucket(section_of(RateLimit, {"interval": "2s", "burst": 2}), iter([0.0, *instants]).__next__)

    assert [bucket.take() for _ in instants] == [True, True, False, False, True, False, True, True, False]


def test_probes_pass_where_the_rate_is_used_up(tmp_path: Path) -> None:
    """Otherwise any client could have the pod restarted."""

    async def scenario(visit: Visit) -> None:
        assert [(await visit.ask("/metrics"))[0] for _ in range(3)] == [200, 429, 429]
        assert visit.headers["Retry-After"] == "1"
        assert [(await visit.ask("/-/healthy"))[0] for _ in range(3)] == [200] * 3

    visit(tmp_path, "rate_limit: {interval: 1h, burst: 1}", scenario)


# --- the start ---------------------------------------------------------------------------------------------------------


def test_no_listener_starts_behind_a_bad_file(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("basic_auth_users: 5")
    with pytest.raises(ConfigErrors):
        Access(str(tmp_path / "web.yml"), metrics(), lambda: 0.0)


def test_without_a_file_nothing_is_asked_and_nothing_is_read() -> None:
    async def scenario() -> None:
        access = Access("", metrics(), lambda: 0.0)
        await access.watch()

        assert (await access.reload(), access.tls, access.refused) == ([], None, None)

    asyncio.run(scenario())


def test_behind_a_password_every_host_name_passes_and_a_file_without_one_changes_nothing(tmp_path: Path) -> None:
    """A browser keeps a password for one host name: a page with another name has none."""

    async def named(visit: Visit, authorization: str = "") -> int:
        return (await visit.ask("/config", Host="sidecar.example.com", Authorization=authorization))[0]

    async def guarded(visit: Visit) -> None:
        assert [await named(visit), await named(visit, GOOD)] == [401, 200]

    async def open_to_all(visit: Visit) -> None:
        assert await named(visit) == 421

    visit(tmp_path, USERS, guarded)
    visit(tmp_path, "http_server_config: {headers: {X-Frame-Options: deny}}\n", open_to_all)
