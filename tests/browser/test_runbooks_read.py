"""The runbooks in a real browser: each can be read on a phone and on a desk, and nothing is cut off or scrolls sideways."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from sidecar.admin import listener
from sidecar.admin.listener import AdminListener
from sidecar.metrics.catalogue import ENGINE_INFO
from tests.admin.runbook_parts import NAMES
from tests.browser.busy import LONG, MODEL, BusyApp
from tests.browser.chromium import Tab, chromium
from tests.browser.layout import FAINT, complaints
from tests.support.background import Background, background
from tests.support.tools import need_tool


pytestmark = [pytest.mark.long, pytest.mark.timed]

POD = "vllm-small-chat-1b-deployment-of-the-platform-team-7c9d8b5f6d-x2x7q"
PAGE = f"lane={LONG}&model={MODEL}&namespace=llm-platform-production&job=monitoring/vllm-small-chat&pod={POD}"
WIDTHS = (390, 1440)


@dataclass
class Reader:
    thread: Background
    tab: Tab
    url: str

    def opens(self, path: str, width: int, scheme: str = "light") -> None:
        self.thread.run(self.tab.looks(width, scheme=scheme))
        self.thread.run(self.tab.open(f"{self.url}/runbooks/{path}"))
        self.asks("document.querySelectorAll('details').forEach((one) => { one.open = true })")

    def asks(self, script: str) -> object:
        return self.thread.run(self.tab.ask(script))


@asynccontextmanager
async def listening(app: BusyApp) -> AsyncIterator[str]:
    admin = AdminListener(app, app.metrics, lambda: app.now)
    ((host, port),) = await admin.start("127.0.0.1", 0)
    app.fill()
    app.metrics.info(ENGINE_INFO, "vllm", "0.25.0")
    try:
        yield f"http://{host}:{port}"
    finally:
        await admin.stop()


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    program = need_tool("chromium")
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(listener, "PERIOD_SECONDS", 3600.0)
        thread = stack.enter_context(background())
        url = stack.enter_context(thread.entered(lambda: listening(BusyApp(1000.0))))
        browser = stack.enter_context(thread.entered(lambda: chromium(program)))
        yield Reader(thread, thread.run(browser.tab()), url)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_runbook_fits_with_one_engine_and_with_all(reader: Reader, width: int) -> None:
    """With a lane's name of 60 letters and a pod's of 70, and with the columns of all four engines at once."""
    told = {}
    for name in ["", *NAMES]:
        for engines in ("", "&engine=all"):
            reader.opens(f"{name}?{PAGE}{engines}", width)
            told[name, engines] = reader.asks(complaints(*["box"] if name else []))

    assert {page: found for page, found in told.items() if found} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_a_runbook_can_be_read_on_its_ground(reader: Reader, scheme: str) -> None:
    reader.opens(f"LLMQueueBurn?lane=nothing&model={MODEL}", 390, scheme)

    assert reader.asks("document.querySelectorAll('.answer').length") == 2
    assert reader.asks(FAINT) == []


def test_on_a_phone_a_row_is_a_list_and_each_cell_says_its_column(reader: Reader) -> None:
    reader.opens(f"LLMQueueBurn?{PAGE}", 390)
    cell = "document.querySelector('td[data-head=\"works when\"]')"

    assert reader.asks("getComputedStyle(document.querySelector('thead')).display") == "none"
    assert reader.asks(f"getComputedStyle({cell}, '::before').content") == '"works when"'
    assert reader.asks(f"{cell}.getBoundingClientRect().left < 60") is True
