"""An admin listener behind a web config, for the tests of who may see it: a user, certificates, and ways to ask."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import uvloop

from sidecar.admin.access import Access
from sidecar.admin.listener import AdminListener
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from tests.support.admin import Double, metrics


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
        children = self.registry.counter(c.LOGINS_TOTAL).children
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
