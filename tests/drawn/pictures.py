"""Draws dashboards in Chromium, and reads back what is drawn: texts, legends, headings, colours.

Knows the page of `drawing/`, and the marks that Grafana's components leave in it. Refuses to judge.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.browser.chromium import Tab, chromium
from tests.drawn.components import page_folder
from tests.grafana.boards import Json
from tests.support.tools import need_tool


WIDTH, HEIGHT = 1366, 960
"""The first screen, as wide as that of a small laptop."""
BAR = 97
"""Pixels of heading and variables above the panels."""
PATIENCE_SECONDS = 90.0

READ = (Path(__file__).parent / "drawing" / "read.js").read_text()
"""An expression whose value is a list of panels; what of each, that file says."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One dashboard, as it was drawn."""

    data: Json
    """The data that was drawn: the panels as they stand in the dashboard, and the answers."""
    panels: list[Json]
    png: Path

    def panel(self, title: str) -> Json:
        """The panel whose title begins so. Raises StopIteration if there is none."""
        return next(one for one in self.panels if one["title"].startswith(title))


@dataclass(frozen=True, slots=True)
class Easel:
    """A browser that draws."""

    tab: Tab
    folder: Path
    pictures: Path

    async def draw(self, data: Json, name: str, *, whole: bool = True) -> Picture:
        """Draw one dashboard, keep it as `pictures/NAME.png`, and read it. Raises AssertionError if a panel breaks.

        `whole`: the picture is of the whole dashboard, else of one window.
        """
        (self.folder / "data.js").write_text(f"window.__DATA__ = {json.dumps(data)};")
        await self.tab.looks(WIDTH, HEIGHT, scheme="dark")
        await self.tab.open((self.folder / "page.html").as_uri())
        await self.tab.until("window.__PANELS__ && window.__DRAWN__ >= window.__PANELS__", PATIENCE_SECONDS)
        # A chart draws in the frames after it got its data.
        await self.tab.ask("new Promise(done => setTimeout(done, 600))")
        broken = await self.tab.ask("window.__BROKEN__")
        assert broken == [], broken
        read: Any = await self.tab.ask(READ)
        self.pictures.mkdir(parents=True, exist_ok=True)
        png = self.pictures / f"{name}.png"
        await self.tab.picture(png, whole=whole)
        return Picture(data, read, png)


@asynccontextmanager
async def easel(pictures: Path) -> AsyncIterator[Easel]:
    """For the length of an `async with` block; the pictures go into this folder."""
    program = need_tool("chromium")
    folder = page_folder()
    async with chromium(program) as browser:
        tab = await browser.tab()
        yield Easel(tab, folder, pictures)
