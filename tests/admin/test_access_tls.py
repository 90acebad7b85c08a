"""With a web config the admin listener asks for certificates as that file says, and the commands speak TLS to it."""

import asyncio
import os
import ssl
import sys
from pathlib import Path

import aiohttp
import pytest

import sidecar
from sidecar.commands.asking import HOW_TO_LOG_IN
from tests.admin.guarded import CLIENTS, GOOD, PASSWORD, TLS, USERS, Visit, visit
from tests.support.certificates import Authority


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


@pytest.mark.long
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
            return " ".join(told.split())

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
