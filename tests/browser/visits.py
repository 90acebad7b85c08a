"""Visits the status page of each broken sidecar with a real browser, and records its first words and its layout faults.

It knows the widths and colours to visit in. It refuses to judge. It takes pictures if it is given a folder for them.
"""

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.browser.chromium import Tab, chromium
from tests.browser.layout import COMPLAINTS
from tests.browser.worlds import broken_worlds


LOOKS = ((390, 844, "dark"), (1440, 1600, "light"))
"""A phone at night and a desk by day: width, height, colours."""
TOLD = """
({
  phase: document.getElementById("headline").dataset.phase ?? null,
  verdict: document.getElementById("verdict").dataset.phase ?? null,
  title: document.title,
  chip: document.querySelector("#headline .chip")?.textContent ?? null,
  lines: Object.fromEntries([...document.querySelectorAll("#headline dl > div")].map((row) => [row.firstChild.textContent, row.lastChild.textContent])),
  rows: document.querySelectorAll("#table tbody tr").length,
  bars: document.querySelectorAll("#anatomy svg.lane").length,
})
"""


@dataclass
class Visit:
    """Findings of the visits to one sidecar's page."""

    told: dict[str, Any] = field(default_factory=dict)
    """Texts of the page, by the names in `TOLD`."""
    diagnosis: list[dict[str, Any]] = field(default_factory=list)
    """Answer of `/diagnosis` a moment later."""
    complaints: dict[int, list[str]] = field(default_factory=dict)
    """Window width to complaints about the layout."""
    console: list[str] = field(default_factory=list)
    """Errors in the browser's console."""


async def visits(program: Path, pictures: Path | None = None) -> Mapping[str, Visit]:
    """Broken phase to the findings there. Takes a minute and a half."""
    seen: dict[str, Visit] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with broken_worlds(Path(folder)) as pages, chromium(program) as browser:
            tab = await browser.tab()
            for name, url in pages.items():
                seen[name] = await _visit(tab, name, url, pictures)
                seen[name].console, browser.complaints = browser.complaints, []
    return seen


async def _visit(tab: Tab, name: str, url: str, pictures: Path | None) -> Visit:
    visit = Visit()
    for width, height, scheme in LOOKS:
        await tab.looks(width, height, scheme=scheme)
        await tab.open(f"{url}/?refresh=off")
        visit.told = await tab.ask(TOLD)
        visit.complaints[width] = await tab.ask(COMPLAINTS)
        if pictures is not None:
            await tab.picture(pictures / f"{name}-{width}.png", whole=False)
            await tab.picture(pictures / f"{name}-{width}-whole.png")
    await tab.open(f"{url}/diagnosis")
    visit.diagnosis = (await tab.ask("JSON.parse(document.body.textContent)"))["diagnoses"]
    return visit


async def take_pictures(program: Path, folder: Path) -> None:
    """Take two pictures for each incident and width: the window, and the whole page."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    await visits(program, folder)
