"""A web config that changes is in force without a restart; a bad one leaves the one before in force, and is told."""

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest

from sidecar.admin import access as gate
from sidecar.admin.web_config import Loaded, load
from sidecar.metrics import catalogue as c
from tests.admin.guarded import CLIENTS, GOOD, TLS, USERS, Visit, visit
from tests.support.certificates import Authority


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
        refused = visit.registry.counter(c.WEB_CONFIG_LOADS_TOTAL).child("refused").value
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
        loads = visit.registry.counter(c.WEB_CONFIG_LOADS_TOTAL)
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
