"""`make dashboards-drawn` draws; this module alone is for looking: `python -m tests.drawn [INCIDENT] [UID...]`, one recorded incident.

Knows which dashboards and recordings there are. Prints the pictures' paths.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.drawn.asking import asked
from tests.drawn.fleets import fleet
from tests.drawn.gallery import PICTURES
from tests.drawn.pictures import easel
from tests.drawn.prometheus_of_recording import recording, remembered
from tests.grafana.boards import UIDS, board


async def main(incident: str = "decode", *uids: str) -> None:
    """Draw these dashboards in this incident; all, if none is named. `prefill:64:2`: of 64 pods in two namespaces."""
    name, *numbers = incident.split(":")
    one_incident = fleet(recording(name), *map(int, numbers)) if numbers else recording(name)
    with tempfile.TemporaryDirectory() as folder, remembered(one_incident, Path(folder)) as look:
        async with easel(PICTURES) as one:
            for uid in uids or UIDS:
                picture = await one.draw(asked(board(uid), look), f"{incident.replace(':', '-')}-{uid}")
                sys.stdout.write(f"{picture.png}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
