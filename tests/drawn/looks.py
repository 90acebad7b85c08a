"""Rules that a drawn dashboard keeps: each takes a picture and returns its complaints, from texts, places, colours and pixels.

Knows what `pictures.py` reads. Refuses to know how anything is drawn.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from grafana.pod_names import SHOWN
from sidecar.admin.page.phase_colours import PHASE_COLOURS
from tests.drawn.pictures import Picture
from tests.grafana.boards import Json


Complaints = Iterator[str]
Look = Callable[[Picture], Complaints]
Colour = tuple[int, ...]

_UNCOLOURED = "rgba(0, 0, 0, 0)"
_LABEL = re.compile(r"\{\{(\w+)\}\}")
ABSENT = ("", "no traffic", "NaN")


def of_hex(colour: str) -> Colour:
    """`#RRGGBB` as three numbers."""
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def panels_of(picture: Picture) -> Iterator[tuple[Json, Json]]:
    """Each panel as it stands in the dashboard, with what is drawn of it."""
    said = [panel for panel in picture.data["panels"] if panel["type"] != "row"]
    yield from zip(said, picture.panels, strict=True)


def named_lines(picture: Picture, panel: Json) -> set[str]:
    """The names of the lines that a panel has data for and that are to stand in its legend."""
    hidden = {
        override["matcher"]["options"]
        for override in panel["fieldConfig"]["overrides"]
        for one in override["properties"]
        if one["id"] == "custom.hideFrom" and one["value"]["legend"]
    }
    return {
        _named(target["legendFormat"], one["metric"])
        for target in panel["targets"]
        if target["refId"] not in hidden
        for one in picture.data["answers"][f"{panel['id']}:{target['refId']}"]
    }


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return _LABEL.sub(lambda match: labels.get(match[1], ""), legend)


def shown_pod(name: str) -> str:
    """As much of a pod's name as a column or a legend has room for: its end, where pods of one Deployment differ."""
    return name if len(name) <= SHOWN + 1 else f"…{name[-SHOWN:]}"


def shows_every_legend_row(picture: Picture) -> Complaints:
    """Each line has its row in the legend, inside its panel: whatever a title promises is there to be read."""
    for panel, drawn in panels_of(picture):
        if panel["type"] != "timeseries":
            continue
        left, top, right, bottom = drawn["box"]
        seen = {
            row["name"]
            for row in drawn["legend"]
            if left <= row["box"][0]
            and top <= row["box"][1]
            and row["box"][2] <= right + 1
            and row["box"][3] <= bottom + 1
        }
        for name in sorted(named_lines(picture, panel) - seen):
            yield f"{drawn['title']}: {name} is not in sight"


def paints_no_absence(picture: Picture) -> Complaints:
    """A cell or tile that says nothing has no colour."""
    for _, drawn in panels_of(picture):
        for cell in (cell for row in drawn["rows"] for cell in row):
            if cell["text"] in ABSENT and cell["colour"] != _UNCOLOURED:
                yield f"{drawn['title']}: {cell['text']!r} is {cell['colour']}"
        for tile in drawn["tiles"]:
            absent = any(tile["text"].endswith(word) for word in ABSENT[1:]) or not tile["text"]
            if absent and (tile["colour"] != _UNCOLOURED or "rgb(" in tile["image"]):
                yield f"{drawn['title']}: {tile['text']!r} is {tile['colour']}, {tile['image']}"


def ends_ratios_at_one(picture: Picture) -> Complaints:
    """The axis of a share goes from 0 % to 100 %."""
    for panel, drawn in panels_of(picture):
        if (
            panel["type"] != "timeseries"
            or panel["fieldConfig"]["defaults"]["unit"] != "percentunit"
            or not drawn["written"]
        ):
            continue
        marks = [float(text.removesuffix("%")) for text in drawn["written"] if text.endswith("%")]
        if (min(marks, default=None), max(marks, default=None)) != (0, 100):
            yield f"{drawn['title']}: its axis goes from {min(marks, default=None)} to {max(marks, default=None)} %"


def clips_nothing(picture: Picture) -> Complaints:
    """No panel's title and no column's heading is cut off."""
    for _, drawn in panels_of(picture):
        if drawn["heading"]["clipped"] or drawn["heading"]["text"] != drawn["title"]:
            yield f"{drawn['title']}: its title is cut off"
        for head in drawn["heads"]:
            if head["clipped"]:
                yield f"{drawn['title']}: {head['text']} is cut off"


def cuts_no_pod(picture: Picture) -> Complaints:
    """A pod can be told from the others of its Deployment: no cell cuts its name off where names differ."""
    for _, drawn in panels_of(picture):
        for at, head in enumerate(drawn["heads"]):
            for cell in (row[at] for row in drawn["rows"] if len(row) > at and head["text"] == "pod"):
                if cell["clipped"]:
                    yield f"{drawn['title']}: {cell['text']} is cut off"


def has_no_column_of_ones(picture: Picture) -> Complaints:
    """A column that reads 1 in every row says nothing: its labels do. A state and a number of pods may be 1."""
    for _, drawn in panels_of(picture):
        for at, head in enumerate(drawn["heads"]):
            column = [row[at]["text"] for row in drawn["rows"] if len(row) > at]
            if column and set(column) == {"1"} and head["text"] not in {"ready", "pods"}:
                yield f"{drawn['title']}: {head['text']} is 1 in every row"


def keeps_phases_colours(picture: Picture) -> Complaints:
    """A phase's row in a legend and its cell in a table have its colour."""
    for panel, drawn in panels_of(picture):
        legends = [target.get("legendFormat", "") for target in panel["targets"]]
        of_phases = any(legend.endswith("{{phase}}") or legend in PHASE_COLOURS for legend in legends)
        coloured = [(row["name"].split(" ")[-1], tuple(row["colour"])) for row in drawn["legend"] if of_phases]
        numbers = re.compile(r"\d+")
        coloured += [
            (cell["text"], tuple(int(part) for part in numbers.findall(cell["colour"])[:3]))
            for row in drawn["rows"]
            for cell, head in zip(row, drawn["heads"], strict=False)
            if head["text"] == "phase"
        ]
        for name, colour in coloured:
            if name in PHASE_COLOURS and colour != of_hex(PHASE_COLOURS[name]):
                yield f"{drawn['title']}: {name} is {colour}"


LOOKS: tuple[Look, ...] = (
    shows_every_legend_row,
    paints_no_absence,
    ends_ratios_at_one,
    clips_nothing,
    cuts_no_pod,
    has_no_column_of_ones,
    keeps_phases_colours,
)


def colours_of(pictures: Mapping[str, Picture], names: set[str]) -> dict[str, set[Colour]]:
    """Name to every colour that it has in the legends of these pictures."""
    found: dict[str, set[Colour]] = {name: set() for name in names}
    for picture in pictures.values():
        for row in (row for drawn in picture.panels for row in drawn["legend"]):
            if row["name"] in names:
                found[row["name"]].add(tuple(row["colour"]))
    return found
