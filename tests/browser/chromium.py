"""Drives a real headless Chromium over its own protocol (CDP) on loopback, and returns what it shows as numbers.

It knows how to start the program without any state of this machine, and about ten of the protocol's commands. It
refuses to know the status page. Every wait has a bound. A command that fails raises BrowserError with the browser's own
message.
"""

import asyncio
import json
import shutil
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp


FLAGS = (
    "--headless",
    "--no-sandbox",  # as root, in a container, Chromium has no sandbox
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-port=0",
)
START_SECONDS = 60.0
ANSWER_SECONDS = 30.0


class BrowserError(Exception):
    """The browser did not start, or refused a command."""


class Tab:
    """One tab. Made by `Browser.tab`."""

    def __init__(self, browser: "Browser", session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target

    async def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send one command of the protocol. Raises BrowserError."""
        return await self._browser.send(method, session=self._session, **parameters)

    async def looks(self, width: int, height: int = 900, *, scheme: str = "light", scripts: bool = True) -> None:
        """Set the window's width and height, light or dark colours, and whether JavaScript is on."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await self.send("Emulation.setScriptExecutionDisabled", value=not scripts)

    async def open(self, url: str) -> None:
        """Open the URL, and return when the page has loaded."""
        loaded = self._browser.event("Page.loadEventFired", self._session)
        await self.send("Page.navigate", url=url)
        await asyncio.wait_for(loaded, ANSWER_SECONDS)

    async def loaded_again(self, patience_seconds: float) -> None:
        """Return when the page has reloaded itself once more. Raises TimeoutError."""
        await asyncio.wait_for(self._browser.event("Page.loadEventFired", self._session), patience_seconds)

    async def ask(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page, as JSON. Works also if the page's scripts are
        off."""
        answer = await self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def until(self, script: str, patience_seconds: float) -> None:
        """Return when the expression is true. Raises TimeoutError."""
        async with asyncio.timeout(patience_seconds):
            while not await self.ask(script):  # noqa: ASYNC110  a page has no event for this
                await asyncio.sleep(0.1)

    async def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save a PNG of the window, or of the whole page."""
        shot = await self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **await self._clip(whole)
        )
        await asyncio.to_thread(path.write_bytes, b64decode(shot["data"]))

    async def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = (await self.send("Page.getLayoutMetrics"))["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    async def close(self) -> None:
        """Close the tab."""
        await self._browser.send("Target.closeTarget", targetId=self._target)


class Browser:
    """A running Chromium. Made by `chromium`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        """Errors that tabs wrote to their consoles, including refusals of the content security policy."""
        self._socket = socket
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._events: dict[tuple[str, str], list[asyncio.Future[None]]] = {}
        self._hearing = asyncio.create_task(self._hear())

    async def tab(self) -> Tab:
        """Open a new tab."""
        target = (await self.send("Target.createTarget", url="about:blank"))["targetId"]
        session = (await self.send("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        tab = Tab(self, session, target)
        for domain in ("Page", "Runtime", "Log"):
            await tab.send(f"{domain}.enable")
        return tab

    async def send(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Send one command. Raises BrowserError."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(message if session is None else message | {"sessionId": session})
        told = await asyncio.wait_for(answer, ANSWER_SECONDS)
        if "error" in told:
            raise BrowserError(f"{method}: {told['error']}")
        result: dict[str, Any] = told["result"]
        return result

    def event(self, method: str, session: str) -> "asyncio.Future[None]":
        """Return a future that is done when the next event of this method comes."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events.setdefault((method, session), []).append(future)
        return future

    async def close(self) -> None:
        """Ask Chromium to end."""
        with suppress(BrowserError, TimeoutError, ConnectionError):
            await self.send("Browser.close")
        self._hearing.cancel()
        await asyncio.gather(self._hearing, return_exceptions=True)

    async def _hear(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            future = self._waiting.pop(told.get("id"), None)
            if future is not None and not future.done():
                future.set_result(told)
            self._heard(told)

    def _heard(self, told: dict[str, Any]) -> None:
        method, parameters = told.get("method"), told.get("params", {})
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"])
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        for waiting in self._events.pop((str(method), told.get("sessionId", "")), []):
            if not waiting.done():
                waiting.set_result(None)


@asynccontextmanager
async def chromium(program: Path) -> AsyncIterator[Browser]:
    """Run the program at this path for the length of a `with` block, then delete its profile. Raises BrowserError."""
    profile = Path(tempfile.mkdtemp(prefix="chromium-"))
    process = await asyncio.create_subprocess_exec(
        program,
        *FLAGS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port, path = await _address(process, profile / "DevToolsActivePort")
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as socket,
        ):
            browser = Browser(socket)
            try:
                yield browser
            finally:
                await browser.close()
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 10)
        if process.returncode is None:
            process.kill()
            await process.wait()
        shutil.rmtree(profile, ignore_errors=True)


async def _address(process: asyncio.subprocess.Process, told: Path) -> tuple[str, str]:
    """Port and path of Chromium's socket, which Chromium writes into a file once it listens."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_SECONDS
    while loop.time() < deadline and process.returncode is None:
        with suppress(FileNotFoundError, ValueError):
            port, path = (await asyncio.to_thread(told.read_text)).split()
            return port, path
        await asyncio.sleep(0.05)
    raise BrowserError(f"Chromium did not come up: exit status {process.returncode}")
