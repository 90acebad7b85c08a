"""Every picture that the tests look at, drawn in one go: all dashboards in one incident, the first screen in all, and spoiled copies.

Knows what is drawn from what. Refuses to judge.
"""

import asyncio
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from tests.drawn.asking import asked
from tests.drawn.fleets import fleet
from tests.drawn.incidents import INCIDENTS
from tests.drawn.pictures import Picture, easel
from tests.drawn.prometheus_of_recording import recording, remembered
from tests.grafana.boards import UIDS, Json, board


FIRST_SCREEN = "llm-anatomy"
ALL_OF = "decode"
"""The incident in which every dashboard is drawn."""
FLEETS_OF = "prefill"
"""The incident of one slow pod, which is drawn for larger fleets too."""
FLEETS: Mapping[int, int] = {8: 1, 64: 2}
"""Pods to the namespaces that they are in."""
FLEET_UIDS = (FIRST_SCREEN, "llm-fleet")
PICTURES = Path(__file__).parents[2] / ".cache" / "drawn" / "pictures"

Mistake = Callable[[dict[str, Json]], str]
"""Spoils one of the dashboards' data in place, by uid; returns which."""


@dataclass(slots=True)
class Gallery:
    """The pictures."""

    first_screens: dict[str, Picture] = field(default_factory=dict)
    """By incident."""
    dashboards: dict[str, Picture] = field(default_factory=dict)
    """By uid, of the incident `ALL_OF`."""
    fleets: dict[tuple[int, str], Picture] = field(default_factory=dict)
    """By number of pods and uid, of the incident `FLEETS_OF`."""
    spoiled: dict[str, tuple[str, Picture]] = field(default_factory=dict)
    """By the mistake's name: the dashboard's uid and its picture."""


async def _drawn(folder: Path, mistakes: Mapping[str, Mistake]) -> Gallery:
    made = Gallery()
    async with easel(PICTURES) as one:
        for name in INCIDENTS:
            place = folder / name
            place.mkdir()
            with remembered(recording(name), place) as look:
                uids = UIDS if name == ALL_OF else (FIRST_SCREEN,)
                data = {uid: asked(board(uid), look) for uid in uids}
            for uid, each in data.items():
                picture = await one.draw(each, f"{name}-{uid}", whole=uid != FIRST_SCREEN)
                if name == ALL_OF:
                    made.dashboards[uid] = picture
                if uid == FIRST_SCREEN:
                    made.first_screens[name] = picture
            for title, mistake in mistakes.items() if name == ALL_OF else ():
                spoiled = deepcopy(data)
                uid = mistake(spoiled)
                made.spoiled[title] = uid, await one.draw(spoiled[uid], f"spoiled-{title}")
        for pods, namespaces in FLEETS.items():
            place = folder / f"pods-{pods}"
            place.mkdir()
            with remembered(fleet(recording(FLEETS_OF), pods, namespaces), place) as look:
                data = {uid: asked(board(uid), look) for uid in FLEET_UIDS}
            for uid, each in data.items():
                made.fleets[pods, uid] = await one.draw(each, f"{FLEETS_OF}-{pods}-pods-{uid}")
    return made


def gallery(folder: Path, mistakes: Mapping[str, Mistake]) -> Gallery:
    """Draw everything. `folder`: for the blocks of Prometheus."""
    return asyncio.run(_drawn(folder, mistakes))
