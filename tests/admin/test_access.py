"""With a web config the admin listener asks for passwords and certificates as that file says, also once it has changed."""

import asyncio
import base64
import logging
import os
import re
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import uvloop
from aiohttp.test_utils import make_mocked_request

import sidecar
from sidecar.admin import access as gate
from sidecar.admin.access import BUSY_RETRY_AFTER_SECONDS, CHALLENGE, FROM_LOOPBACK, PROBES, Access, _Bucket
from sidecar.admin.listener import AdminListener
from sidecar.admin.passwords import BusyError
from sidecar.admin.web_config import Loaded, RateLimit, load
from sidecar.config.file import ConfigErrors
from sidecar.diagnosis.sources import HOW_TO_LOG_IN
from sidecar.metrics import self_metrics as own
from sidecar.metrics.registry import Metrics
from tests.support.admin import Double, metrics
from tests.support.certificates import Authority


DOCS = Path(__file__).parents[2] / "docs" / "access.md"
PASSWORD = "pw-CANARY"
HASH = "$2b$04$fW.W7YBUr5WJmr8w8DXSYuPqmij6ebLHjzwHswgHUL9zRU9GRBYeK"
USERS = f"basic_auth_users: {{prometheus: {HASH}}}\n"
TLS = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
CLIENTS = (
    "tls_server_config: {cert_file: cert.pem, key_file: key.pem, client_auth_type: RequireAndVerifyClientCert,"
    " client_ca_file: ca.pem%s}\n"
)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


GOOD = basic("prometheus", PASSWORD)


class Visit:
    """A started listener behind a web config, and ways to ask it."""

    def __init__(self, file: Path, access: Access, registry: Metrics, app: Double, port: int) -> None:
        self.file, self.access, self.registry, self.app, self.port = file, access, registry, app, port

    async def ask(
        self, path: str, method: str = "GET", *, tls: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[int, str]:
        """Status and text, on a connection of its own."""
        url = f"http{'' if tls is None else 's'}://127.0.0.1:{self.port}{path}"
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, url, ssl=tls or True) as got,
        ):
            self.headers = got.headers
            return got.status, await got.text()

    def logins(self) -> dict[str, float]:
        children = self.registry.counter(own.LOGINS_TOTAL).children
        return {labels[0]: child.value for labels, child in children.items() if child.value}


def visit(folder: Path, text: str, scenario: Callable[[Visit], Awaitable[None]]) -> None:
    """On uvloop, as the sidecar runs: its TLS is not asyncio's."""
    file = folder / "web.yml"
    file.write_text(text)

    async def play() -> None:
        registry = metrics()
        access = Access(str(file), registry, asyncio.get_running_loop().time)
        app = Double(registry)
        admin = AdminListener(app, registry, asyncio.get_running_loop().time, access=access)
        ((_, port),) = await admin.start("127.0.0.1", 0)
        try:
            await scenario(Visit(file, access, registry, app, port))
        finally:
            await admin.stop()

    uvloop.run(play())


# --- passwords ---------------------------------------------------------------------------------------------------------


def test_every_page_but_the_probes_needs_the_password(tmp_path: Path) -> None:
    """Routes that do not exist are no exception, or an answer would tell which do."""

    async def scenario(visit: Visit) -> None:
        for path in ("/", "/metrics", "/diagnosis", "/incident.json", "/baseline.json", "/runbooks/", "/nothing"):
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
    bucket = _Bucket(RateLimit.model_validate({"interval": "2s", "burst": 2}), iter([0.0, *instants]).__next__)

    assert [bucket.take() for _ in instants] == [True, True, False, False, True, False, True, True, False]


def test_probes_pass_where_the_rate_is_used_up(tmp_path: Path) -> None:
    """Otherwise any client could have the pod restarted."""

    async def scenario(visit: Visit) -> None:
        assert [(await visit.ask("/metrics"))[0] for _ in range(3)] == [200, 429, 429]
        assert visit.headers["Retry-After"] == "1"
        assert [(await visit.ask("/-/healthy"))[0] for _ in range(3)] == [200] * 3

    visit(tmp_path, "rate_limit: {interval: 1h, burst: 1}", scenario)


# --- TLS -------------------------------------------------------------------------------------------------------------------


def test_pages_and_probes_come_over_tls_and_plain_http_is_no_longer_answered(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario(visit: Visit) -> None:
        tls = authority.client()
        assert (await visit.ask("/-/healthy", tls=tls))[0] == 200
        assert (await visit.ask("/metrics", tls=tls))[0] == 401
        assert (await visit.ask("/metrics", tls=tls, Authorization=GOOD))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await visit.ask("/-/healthy")
        assert (await visit.ask("/-/healthy", tls=tls))[0] == 200

    visit(tmp_path, TLS + USERS, scenario)


def test_a_client_without_the_right_certificate_gets_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/metrics", tls=authority.client("prometheus.test")))[0] == 200
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
            await visit.ask("/metrics", tls=authority.client())

    visit(tmp_path, CLIENTS % "", scenario)


def test_a_certificate_of_another_name_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/metrics", tls=authority.client("prometheus.test")))[0] == 200
        assert (await visit.ask("/metrics", tls=authority.client("other.test")))[0] == 403
        assert (await visit.ask("/-/healthy", tls=authority.client("other.test")))[0] == 200

    visit(tmp_path, CLIENTS % ", client_allowed_sans: [prometheus.test]", scenario)


@pytest.mark.parametrize("kind", ["RequireAndVerifyClientCert", "VerifyClientCertIfGiven"])
def test_a_hook_without_a_certificate_passes_only_where_none_is_required(kind: str, tmp_path: Path) -> None:
    """docs/access.md recommends the second kind, with a password for all that is neither a probe nor a hook."""
    authority = Authority(tmp_path)

    async def scenario(visit: Visit) -> None:
        if kind == "RequireAndVerifyClientCert":
            with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
                await visit.ask("/-/drain", "POST", tls=authority.client())
            return
        assert (await visit.ask("/-/drain", "POST", tls=authority.client()))[0] == 200
        assert (await visit.ask("/-/engine", tls=authority.client()))[0] == 200
        assert (await visit.ask("/metrics", tls=authority.client()))[0] == 401

    visit(tmp_path, (CLIENTS % "").replace("RequireAndVerifyClientCert", kind) + USERS, scenario)


# --- the commands that ask -------------------------------------------------------------------------------------------------


def test_the_commands_ask_over_tls_with_the_password_of_the_address_and_never_repeat_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    environment = {**os.environ, "SSL_CERT_FILE": str(authority.folder / "ca.pem")}

    async def scenario(visit: Visit) -> None:
        async def said(command: str, flag: str, login: str) -> str:
            words = [*command.split(), f"--{flag}=https://{login}127.0.0.1:{visit.port}"]
            pipe, folder = asyncio.subprocess.PIPE, Path(sidecar.__file__).parents[1]
            run = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sidecar", *words), stdout=pipe, stderr=pipe, env=environment, cwd=folder
            )
            told = b"".join(await run.communicate()).decode()
            assert "CANARY" not in told
            return told

        export = f"baseline export --out={tmp_path / 'baseline.json'}"
        none, wrong, right, exported = await asyncio.gather(
            said("diagnose", "sidecar.url", ""),
            said("diagnose", "sidecar.url", "prometheus:wrong-CANARY@"),
            said("diagnose", "sidecar.url", f"prometheus:{PASSWORD}@"),
            said(export, "url", f"prometheus:{PASSWORD}@"),
        )
        assert HOW_TO_LOG_IN in none
        assert "refuses this user and password" in wrong
        assert "No lane had a request" in right
        assert "no usual values are kept" in exported

    visit(tmp_path, TLS + USERS, scenario)


# --- changes -----------------------------------------------------------------------------------------------------------------


def test_a_renewed_certificate_is_shown_to_the_next_client(tmp_path: Path) -> None:
    """Another authority has signed it, so that only the new certificate passes the new check."""
    Authority(tmp_path)

    async def scenario(visit: Visit) -> None:
        renewed = Authority(tmp_path)
        assert await visit.access.reload() == []

        assert (await visit.ask("/-/healthy", tls=renewed.client()))[0] == 200

    visit(tmp_path, TLS, scenario)


def test_clients_that_must_show_a_certificate_from_now_on_must_do_so_at_once(tmp_path: Path) -> None:
    """The whole of TLS is taken anew, not only the certificate."""
    authority = Authority(tmp_path)

    async def scenario(visit: Visit) -> None:
        assert (await visit.ask("/metrics", tls=authority.client()))[0] == 200
        visit.file.write_text(CLIENTS % "")
        assert await visit.access.reload() == []

        with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
            await visit.ask("/metrics", tls=authority.client())

    visit(tmp_path, TLS, scenario)


def test_a_change_of_any_file_is_seen_without_being_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "FILES_LOOKED_AT_SECONDS", 0.0)
    Authority(tmp_path)

    async def scenario(visit: Visit) -> None:
        loads = asyncio.Queue[None]()
        visit.access.on_loaded = lambda: loads.put_nowait(None)
        Authority(tmp_path)
        visit.file.write_text(TLS + USERS)
        # A load between two of the writes may be refused, or see the old file.
        while visit.access.refused is not None or not visit.access.users:
            await loads.get()

        authority_now = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        assert (await visit.ask("/metrics", tls=authority_now))[0] == 401

    visit(tmp_path, TLS, scenario)


def test_the_watch_goes_on_whatever_a_load_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted and told as a refusal. Without the watch, no renewed certificate would ever be taken."""
    monkeypatch.setattr(gate, "FILES_LOOKED_AT_SECONDS", 0.0)
    right = load

    def failing(_file: str) -> Loaded:
        raise RuntimeError("CANARY")

    async def scenario(visit: Visit) -> None:
        loads = asyncio.Queue[None]()
        visit.access.on_loaded = lambda: loads.put_nowait(None)
        monkeypatch.setattr(gate, "load", failing)
        renewed = tmp_path / "renewed.yml"
        renewed.write_text("rate_limit: {}\n" + USERS)
        renewed.replace(visit.file)  # one change: the watch could see the file while it is written, and count two
        await loads.get()
        assert visit.access.refused == f"{visit.file}: cannot be read: RuntimeError"
        refused = visit.registry.counter(own.WEB_CONFIG_LOADS_TOTAL).child("refused").value
        assert refused == 1
        assert (await visit.ask("/metrics"))[0] == 401

        monkeypatch.setattr(gate, "load", right)
        visit.file.write_text("")
        await loads.get()
        assert visit.access.refused is None
        assert (await visit.ask("/metrics"))[0] == 200

    visit(tmp_path, USERS, scenario)


def test_a_bad_file_leaves_the_old_one_in_force_and_is_counted_and_told(tmp_path: Path) -> None:
    async def scenario(visit: Visit) -> None:
        loads = visit.registry.counter(own.WEB_CONFIG_LOADS_TOTAL)
        visit.file.write_text("basic_auth_users: {prometheus: nonsense}")
        (error,) = await visit.access.reload()

        assert error.endswith(
            "is no bcrypt hash: must be a bcrypt hash, as `htpasswd -nBC 10 NAME` prints behind the colon"
        )
        assert visit.access.refused == error
        assert (await visit.ask("/metrics"))[0] == 401
        assert (await visit.ask("/metrics", Authorization=GOOD))[0] == 200
        visit.file.unlink()
        assert "cannot be read" in (await visit.access.reload())[0]
        assert (await visit.ask("/metrics"))[0] == 401
        visit.file.write_text("")
        assert await visit.access.reload() == []
        assert visit.access.refused is None
        assert (await visit.ask("/metrics"))[0] == 200
        assert {labels[0]: child.value for labels, child in loads.children.items()} == {"ok": 2, "refused": 2}

    visit(tmp_path, USERS, scenario)


@pytest.mark.parametrize(("before", "after"), [(TLS, USERS), (USERS, TLS)])
def test_tls_is_switched_on_or_off_by_a_restart_only(before: str, after: str, tmp_path: Path) -> None:
    """Clients that speak the one would get nonsense from the other; the whole new file waits."""
    authority = Authority(tmp_path)

    async def scenario(visit: Visit) -> None:
        visit.file.write_text(after)
        (error,) = await visit.access.reload()

        assert error.endswith("TLS cannot be switched on or off while the process runs; restart the sidecar")
        tls = authority.client() if before == TLS else None
        assert (await visit.ask("/metrics", tls=tls))[0] == (200 if before == TLS else 401)

    visit(tmp_path, before, scenario)


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
