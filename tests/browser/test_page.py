"""The status page in a real browser: it fits a phone and a desk, in light and dark, updates in place, needs no
script."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from sidecar.admin import listener
from sidecar.admin.listener import AdminListener
from tests.browser.busy import BusyApp
from tests.browser.chromium import Browser, Tab, chromium
from tests.browser.layout import COMPLAINTS, FAINT
from tests.support.background import Background, background
from tests.support.tools import need_tool


pytestmark = [pytest.mark.long, pytest.mark.timed]

WIDTHS = (320, 390, 768, 1440)
PATIENCE_SECONDS = 15.0
"""The page asks again every 5 s."""


@dataclass
class Desk:
    """A person at a browser, and the sidecar whose status page is open."""

    thread: Background
    browser: Browser
    app: BusyApp
    url: str


@asynccontextmanager
async def listening(app: BusyApp) -> AsyncIterator[str]:
    admin = AdminListener(app, app.metrics, lambda: app.now)
    app.fill()
    ((host, port),) = await admin.start("127.0.0.1", 0)
    try:
        yield f"http://{host}:{port}/"
    finally:
        await admin.stop()


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    program = need_tool("chromium")
    with ExitStack() as stack:
        # The test sets the sidecar's clock, and the sidecar takes snapshots only on request: all that happened lies in
        # the window.
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(listener, "PERIOD_SECONDS", 3600.0)
        thread = stack.enter_context(background())
        app = BusyApp(1000.0)
        url = stack.enter_context(thread.entered(lambda: listening(app)))
        browser = stack.enter_context(thread.entered(lambda: chromium(program)))
        yield Desk(thread, browser, app, url)


@pytest.fixture
def tab(desk: Desk) -> Iterator[Tab]:
    tab = desk.thread.run(desk.browser.tab())
    yield tab
    desk.thread.run(tab.close())


def open_(desk: Desk, tab: Tab, width: int, *, scheme: str = "light", scripts: bool = True, path: str = "") -> None:
    desk.thread.run(tab.looks(width, scheme=scheme, scripts=scripts))
    desk.thread.run(tab.open(desk.url + path))


def changed(desk: Desk, text: str) -> None:
    """Change a text on the page, and let the clock pass the time for which a drawn page is served again."""
    desk.app.text = text
    desk.app.now += 2.0


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_overlaps_or_is_cut_off(desk: Desk, tab: Tab, width: int) -> None:
    """No layout fault, also with everything unfolded, a lane's name of 60 letters, and durations from 2 ms to
    minutes."""
    open_(desk, tab, width)
    assert desk.thread.run(tab.ask(COMPLAINTS)) == []

    desk.thread.run(tab.ask("document.querySelectorAll('details').forEach((one) => { one.open = true })"))

    assert desk.thread.run(tab.ask("document.querySelectorAll('details').length")) >= 5
    assert desk.thread.run(tab.ask(COMPLAINTS)) == []


FOLDED = "[...document.querySelectorAll('details.folds')].filter((one) => !one.open).length"


def test_a_phone_shows_the_whole_page_in_five_screens_and_unfolds_the_rest(desk: Desk, tab: Tab) -> None:
    """Five lanes have traffic. A part that was unfolded stays so when the page updates; a desk has everything unfolded."""

    def ask(question: str) -> Any:
        return desk.thread.run(tab.ask(question))

    open_(desk, tab, 390)
    parts = ask("document.querySelectorAll('details.folds').length")

    assert ask("document.documentElement.scrollHeight") <= 5 * 844
    assert ask(FOLDED) == parts >= 6
    ask("document.querySelector('#budgets summary').click()")
    changed(desk, "news for the phone")
    desk.thread.run(
        tab.until("document.getElementById('engine').textContent.includes('news for the phone')", PATIENCE_SECONDS)
    )
    assert ask(FOLDED) == parts - 1
    assert ask("document.getElementById('budgets-part').open") is True

    open_(desk, tab, 1440)
    assert ask(FOLDED) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_on_its_ground(desk: Desk, tab: Tab, scheme: str) -> None:
    open_(desk, tab, 1440, scheme=scheme)

    ground = desk.thread.run(tab.ask("getComputedStyle(document.body).backgroundColor"))
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 18, 21)"}[scheme]
    assert desk.thread.run(tab.ask(FAINT)) == []


def test_the_checks_see_what_is_wrong(desk: Desk, tab: Tab) -> None:
    """Each layout fault that is put into the page is found; otherwise the tests above would prove nothing."""
    open_(desk, tab, 390)
    for fault, complaint in (
        ("document.getElementById('anatomy').style.marginTop = '-400px'", "overlaps"),
        ("document.getElementById('anatomy').style.width = '500px'", "outside the window"),
        ("document.querySelector('#headline h1').style.whiteSpace = 'nowrap'", "cut off"),
        ("document.querySelector('#two-numbers td').textContent = 'x'.repeat(90)", "sticks out of the window"),
        ("document.getElementById('table').remove()", "there is no #table"),
    ):
        open_(desk, tab, 390, path="?refresh=off")
        desk.thread.run(tab.ask(f"{fault}; 0"))
        assert any(complaint in told for told in desk.thread.run(tab.ask(COMPLAINTS))), fault
    desk.thread.run(tab.ask("document.querySelector('h1').style.color = '#ddd'; 0"))
    assert desk.thread.run(tab.ask(FAINT)) != []


def test_the_page_updates_in_place(desk: Desk, tab: Tab) -> None:
    """The page updates without reloading: unfolded parts, focus and scroll position stay."""
    changed(desk, "before")
    open_(desk, tab, 1440)
    desk.thread.run(
        tab.ask(
            """
            window.marker = 1;
            const one = document.querySelector("#anatomy details:not(.folds)");
            one.open = true;
            one.querySelector("summary").focus({ preventScroll: true });
            scrollTo(0, document.getElementById("in-flight").getBoundingClientRect().top + scrollY - 30);
            0
            """
        )
    )
    place = "Math.round(document.getElementById('in-flight').getBoundingClientRect().top)"
    assert desk.thread.run(tab.ask(place)) == 30

    changed(desk, "after")
    desk.app.request("interactive", "4k-16k", queue=77.0)  # one more row above, and longer bars
    desk.thread.run(tab.until("document.getElementById('engine').textContent.includes('after')", PATIENCE_SECONDS))

    assert desk.thread.run(tab.ask("window.marker")) == 1
    assert desk.thread.run(tab.ask("document.querySelector('#anatomy details:not(.folds)').open")) is True
    assert (
        desk.thread.run(
            tab.ask("document.activeElement === document.querySelector('#anatomy details:not(.folds) summary')")
        )
        is True
    )
    assert abs(desk.thread.run(tab.ask(place)) - 30) <= 1
    assert desk.thread.run(tab.ask(COMPLAINTS)) == []


def test_a_selection_that_a_reader_copies_is_left_alone(desk: Desk, tab: Tab) -> None:
    changed(desk, "to be copied")
    open_(desk, tab, 1440)
    desk.thread.run(tab.ask("getSelection().selectAllChildren(document.querySelector('#engine p')); 0"))

    changed(desk, "another")
    desk.app.request("batch")
    desk.thread.run(
        tab.until(
            "document.title.length > 0 && window.performance.getEntriesByType('resource').length > 0", PATIENCE_SECONDS
        )
    )

    assert desk.thread.run(tab.ask("String(getSelection())")) == "to be copied"
    desk.thread.run(tab.ask("getSelection().removeAllRanges()"))
    desk.thread.run(tab.until("document.getElementById('engine').textContent.includes('another')", PATIENCE_SECONDS))


def test_without_javascript_the_page_is_whole_and_loads_itself_again(desk: Desk, tab: Tab) -> None:
    changed(desk, "static before")
    open_(desk, tab, 390, scripts=False)
    assert desk.thread.run(tab.ask(COMPLAINTS)) == []
    changed(desk, "static after")

    desk.thread.run(tab.loaded_again(PATIENCE_SECONDS))

    assert "static after" in desk.thread.run(tab.ask("document.body.textContent"))


def test_a_page_that_holds_still_does(desk: Desk, tab: Tab) -> None:
    """With refresh off, the page neither runs a script nor reloads, and a link switches refresh on again."""
    open_(desk, tab, 1440, path="?refresh=off")

    assert desk.thread.run(tab.ask("document.scripts.length")) == 0
    assert desk.thread.run(tab.ask("document.querySelector('meta[http-equiv]')")) is None
    assert desk.thread.run(tab.ask("document.querySelector('nav a:last-child').getAttribute('href')")) == "/"


def test_an_old_page_says_that_it_is_old(desk: Desk, tab: Tab) -> None:
    """A page whose sidecar no longer answers says that it is old, and cannot be taken for one without traffic."""
    open_(desk, tab, 390)
    desk.thread.run(tab.send("Network.enable"))
    desk.thread.run(
        tab.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    )

    desk.thread.run(
        tab.until("document.getElementById('stale').textContent.includes('does not answer')", PATIENCE_SECONDS)
    )

    assert desk.thread.run(tab.ask(COMPLAINTS)) == []
    desk.thread.run(
        tab.send(
            "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
    )
    desk.thread.run(tab.until("document.getElementById('stale').textContent === ''", PATIENCE_SECONDS))


def test_nothing_else_may_run_on_the_page(desk: Desk, tab: Tab) -> None:
    """The content security policy admits the page's own style and script; the browser refuses any other."""
    before = len(desk.browser.complaints)
    open_(desk, tab, 1440)
    assert desk.browser.complaints[before:] == []

    desk.thread.run(
        tab.ask(
            """
            const made = document.createElement("script");
            made.textContent = "window.evil = 1";
            document.body.append(made);
            0
            """
        )
    )

    assert desk.thread.run(tab.ask("window.evil === undefined")) is True
    assert any("Content Security Policy" in told for told in desk.browser.complaints[before:])
