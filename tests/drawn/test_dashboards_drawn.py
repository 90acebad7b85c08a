"""Every dashboard as Grafana's own components draw it, from a Prometheus that remembers a recorded incident: it can be read.

`make dashboards-drawn`. The pictures are kept in `.cache/drawn/pictures` for people to look at.
"""

import json
import re
import urllib.parse
from collections.abc import Iterator

import pytest

from bench.incidents.engines import MODEL
from grafana.first_steps import runbooks
from sidecar.admin.page.phase_colours import PHASE_COLOURS
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.diagnosis.first_steps import first_step
from tests.drawn import looks
from tests.drawn.fleets import namespaces_of
from tests.drawn.gallery import ALL_OF, FIRST_SCREEN, FLEET_UIDS, FLEETS, FLEETS_OF, Gallery, gallery
from tests.drawn.incidents import INCIDENTS, PODS, pod_name
from tests.drawn.looks import LOOKS, Look, colours_of, shown_pod
from tests.drawn.mistakes import MISTAKES
from tests.drawn.pictures import HEIGHT, Picture
from tests.drawn.prometheus_of_recording import EPOCH, recording
from tests.drawn.recording import STEP_SECONDS, VERSIONS, digest
from tests.grafana.boards import UIDS, Json
from tests.support.ports import free_port
from tests.support.sidecar_process import SidecarProcess, running_sidecar


pytestmark = [pytest.mark.drawn, pytest.mark.timeout(900)]

MOST_TINTS = 3
"""Annotations of alerts that may lie over each other in a chart of one incident."""
FEWEST_PIXELS = 100
"""A line over the whole of a panel has more."""
LANES = {"interactive", "batch", "code"}
COUNTERS = ("llm_slo_misses_total", "llm_slo_allowed_misses_total")
WELL = {
    "llm-queue": {"Parts of phases: mean seconds per request"},
    "llm-stream": {
        "Paused for slow clients, by lane",
        "KV transfer p95 by lane",
        "Reads that bring more than five events at once, by pod",
    },
    "llm-sidecar": {"Lost, refused or failed"},
}
"""Panels that show what goes wrong, and that are empty while only decode does, or what the bench's engine does not state."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return gallery(tmp_path_factory.mktemp("blocks"), MISTAKES)


@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
def test_a_dashboard_can_be_read(drawn: Gallery, look: Look, uid: str) -> None:
    assert list(look(drawn.dashboards[uid])) == []


@pytest.mark.parametrize("name", INCIDENTS)
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
def test_every_first_screen_can_be_read(drawn: Gallery, look: Look, name: str) -> None:
    assert list(look(drawn.first_screens[name])) == []


def test_a_lane_has_one_colour_on_all_dashboards(drawn: Gallery) -> None:
    """However many lines stand beside it; and two lanes do not share one."""
    found = colours_of(drawn.dashboards, LANES)

    assert {name: len(colours) for name, colours in found.items()} == dict.fromkeys(LANES, 1)
    assert len(set().union(*found.values())) == len(LANES)


def test_a_pods_line_has_the_colour_of_its_row(drawn: Gallery) -> None:
    """Grafana takes a line's colour from its name; where a transformation gives the name, the first line keeps its former colour."""
    rows = drawn.dashboards["llm-queue"].panel("KV cache in use by pod")["legend"]

    assert {row["name"] for row in rows} == {shown_pod(pod_name(number)) for number in range(PODS)}
    assert [row["name"] for row in rows if row["pixels"] < FEWEST_PIXELS] == []


def test_the_stack_shows_where_the_time_went(drawn: Gallery) -> None:
    """In pixels: decode was slow, and its layer is the largest."""
    stack = drawn.first_screens[ALL_OF].panel("Mean seconds by phase")
    areas = {row["name"]: row["pixels"] for row in stack["legend"] if row["name"] in PHASE_COLOURS}

    assert max(areas, key=lambda name: areas[name]) == ALL_OF
    assert areas[ALL_OF] > 1000


@pytest.mark.parametrize(
    ("mistake", "look"),
    [
        ("legend_below", looks.shows_every_legend_row),
        ("coloured_absence", looks.paints_no_absence),
        ("coloured_tile", looks.paints_no_absence),
        ("endless_ratio", looks.ends_ratios_at_one),
        ("narrow_column", looks.clips_nothing),
        ("whole_pods", looks.cuts_no_pod),
        ("long_title", looks.clips_nothing),
        ("column_of_ones", looks.has_no_column_of_ones),
        ("green_decode", looks.keeps_phases_colours),
    ],
)
def test_a_mistake_is_seen(drawn: Gallery, mistake: str, look: Look) -> None:
    """Each was drawn once, and one look complains."""
    _, picture = drawn.spoiled[mistake]

    assert len(list(look(picture))) >= 1


def test_another_colour_of_a_lane_is_seen(drawn: Gallery) -> None:
    uid, picture = drawn.spoiled["colours_in_order"]
    found = colours_of({**drawn.dashboards, uid: picture}, LANES)

    assert max(len(colours) for colours in found.values()) > 1


# --- the first screen ---------------------------------------------------------------------------------------------------------


def verdict(picture: Picture) -> list[dict[str, Json]]:
    """The rows of the verdict that are in sight, by the headings of their columns."""
    table = picture.panel("Verdict: ")
    heads = [head["text"] for head in table["heads"]]
    return [
        dict(zip(heads, row, strict=True))
        for row in table["rows"]
        if row[0]["box"][3] <= table["box"][3] and row[0]["box"][3] <= HEIGHT
    ]


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_first_screen_says_what_broke_where_and_since_when(drawn: Gallery, name: str) -> None:
    """Its first row, in words that are drawn: phase, the cause that was injected, lanes, whether one pod is hit or all, for how long, and
    how fast budget burns."""
    broken, said = INCIDENTS[name], verdict(drawn.first_screens[name])[0]
    lasted = drawn.first_screens[name].data["range"]["to"] - EPOCH - recording(name).fault_at
    one = broken.at_fault == 1

    assert said["phase"]["text"] == broken.phase
    assert said["cause"]["text"] in broken.causes
    assert set(said["lanes"]["text"].split(", ")) <= LANES
    assert said["scope"]["text"] == ("one pod" if one else "all pods")
    assert said.get("pod", {"text": ""})["text"] == (shown_pod(pod_name(0)) if one else "")
    assert abs(seconds_of(said["age"]["text"]) - lasted) <= STEP_SECONDS
    assert float(said["burn"]["text"]) > 1


def seconds_of(age: str) -> int:
    """`6 minutes, 48 seconds` as seconds."""
    units = {"second": 1, "minute": 60, "hour": 3600}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+) (second|minute|hour)", age))


def burns_of_pods(name: str, lane: str, objective: str) -> list[float]:
    """Misses over allowed misses of each pod, over the last five minutes of a recording, from the counters alone."""
    grown: dict[tuple[str, str], float] = {}
    for counter, labels, column in recording(name).series:
        if counter in COUNTERS and (labels["lane"], labels["objective"]) == (lane, objective):
            last, before = (
                column[-1],
                column[-1 - 300 // STEP_SECONDS] or 0.0,
            )  # a counter that was not there had counted nothing
            assert last is not None
            grown[counter, labels["pod"]] = grown.get((counter, labels["pod"]), 0.0) + last - before
    misses, allowed = COUNTERS
    return [count / grown[allowed, pod] for (counter, pod), count in grown.items() if counter == misses]


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_burn_that_is_drawn_is_that_of_the_counters(drawn: Gallery, name: str) -> None:
    """Worst first; and each is between the burns of its lanes' pods, but for what `rate` extrapolates to the edges of its window."""
    rows = verdict(drawn.first_screens[name])
    burns = [float(row["burn"]["text"]) for row in rows]
    own = [
        [
            burn
            for lane in row["lanes"]["text"].split(", ")
            for objective in row["objectives"]["text"].split(", ")
            for burn in burns_of_pods(name, lane, objective)
        ]
        for row in rows
    ]

    assert burns == sorted(burns, reverse=True)
    assert [min(pods) / 1.1 <= burn <= max(pods) * 1.1 for burn, pods in zip(burns, own, strict=True)] == [True] * len(
        rows
    )


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_first_screen_says_what_to_do_first(drawn: Gallery, name: str) -> None:
    """Each row in sight has the whole sentence of the first fix of its root, and none is cut off."""
    rows = verdict(drawn.first_screens[name])
    wrong = [
        row["do_first"]["text"]
        for row in rows
        if row["do_first"]["text"]
        != first_step(row["phase"]["text"], row["cause"]["text"], one_pod=row["scope"]["text"] == "one pod")
        or row["do_first"]["clipped"]
    ]

    assert (len(rows) >= 1, wrong) == (True, [])


@pytest.mark.parametrize("name", INCIDENTS)
def test_no_word_of_the_verdict_is_cut_off(drawn: Gallery, name: str) -> None:
    rows = verdict(drawn.first_screens[name])

    assert [(head, cell["text"]) for row in rows for head, cell in row.items() if cell["clipped"]] == []


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_pods_stand_worst_first(drawn: Gallery, name: str) -> None:
    """By how fast they burn, so that the pod that was hit is the first."""
    table = drawn.first_screens[name].panel("Pods, worst first")
    heads = [head["text"] for head in table["heads"]]
    burns = [float(row[heads.index("burn")]["text"] or 0) for row in table["rows"]]
    hit = {shown_pod(pod_name(number)) for number in range(INCIDENTS[name].at_fault)}

    assert burns == sorted(burns, reverse=True)
    assert len(burns) >= PODS
    assert table["rows"][0][heads.index("pod")]["text"] in hit


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    """One that has the incidents' lanes and model, as those that were recorded."""
    folder = tmp_path_factory.mktemp("sidecar")
    lanes = {"header": "x-lane", "names": sorted(LANES), "default": min(LANES)}
    (folder / "sidecar.yml").write_text(json.dumps({"lanes": lanes, "engine": {"models": [MODEL]}}))
    flags = [f"--config.file={folder / 'sidecar.yml'}"]
    with running_sidecar(f"http://127.0.0.1:{free_port()}", folder, flags=flags, until="/-/healthy") as process:
        yield process


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_runbook_of_the_first_screen_answers(drawn: Gallery, sidecar: SidecarProcess, name: str) -> None:
    """The link that is drawn, asked of a sidecar: 200, and it is the runbook of this phase, for this lane and pod."""
    said = verdict(drawn.first_screens[name])[0]
    base, path = said["cause"]["href"][: len(RUNBOOKS)], said["cause"]["href"][len(RUNBOOKS) :]
    asked_for = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(path).query))

    assert base == RUNBOOKS
    assert runbooks()[INCIDENTS[name].phase] in sidecar.page(f"/runbooks{path}")
    assert asked_for["lane"] == said["lanes"]["text"].split(", ")[0]
    assert asked_for.get("pod") == (pod_name(0) if INCIDENTS[name].at_fault == 1 else None)


@pytest.mark.parametrize("name", INCIDENTS)
def test_a_root_is_one_row(drawn: Gallery, name: str) -> None:
    """However many lanes and objectives miss for it."""
    roots = [(row["phase"]["text"], row["cause"]["text"]) for row in verdict(drawn.first_screens[name])]

    assert sorted(roots) == sorted(set(roots))


@pytest.mark.parametrize("uid", FLEET_UIDS)
@pytest.mark.parametrize("pods", FLEETS)
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__)
def test_a_larger_fleet_can_be_read(drawn: Gallery, look: Look, pods: int, uid: str) -> None:
    assert list(look(drawn.fleets[pods, uid])) == []


@pytest.mark.parametrize(("pods", "namespaces"), FLEETS.items())
def test_the_verdict_on_a_fleet_names_the_one_pod_and_where_it_is(drawn: Gallery, pods: int, namespaces: int) -> None:
    """One pod is slow in each namespace: a row each. The namespace stands there if there are several."""
    rows = [row for row in verdict(drawn.fleets[pods, FIRST_SCREEN]) if row["phase"]["text"] == FLEETS_OF]

    assert [(row["scope"]["text"], row["pod"]["text"]) for row in rows] == [
        ("one pod", shown_pod(pod_name(0)))
    ] * namespaces
    assert {row["where"]["text"] for row in rows if "where" in row} == (
        set(namespaces_of(namespaces)) if namespaces > 1 else set()
    )


def test_the_alerts_are_drawn_over_each_chart(drawn: Gallery) -> None:
    """The page's tint does not hide the lines: one of each alert, however many lanes it is about."""
    picture = drawn.first_screens[ALL_OF]
    alerts = [one for one in picture.data["annotations"] if one["name"] in {"Pages", "Tickets"}]
    marked = {one["marks"] for one in picture.panels if one["type"] == "timeseries"}

    assert marked == {len(picture.data["annotations"])}
    assert 1 <= len(alerts) <= MOST_TINTS


def test_the_first_screen_fits_one_window(drawn: Gallery) -> None:
    """Verdict, the two numbers, burn, stack and pods end above the lower edge of 960 pixels."""
    ends = {one["title"]: one["box"][3] for one in drawn.first_screens[ALL_OF].panels[:6]}

    assert {title: end for title, end in ends.items() if end > HEIGHT} == {}


def test_the_canary_opens_with_the_older_version_beside_the_newer(drawn: Gallery) -> None:
    """By the age of their pods."""
    variables = drawn.dashboards["llm-canary"].data["variables"]
    newer, older = VERSIONS

    assert (variables["baseline"], variables["canary"]) == (older, newer)


@pytest.mark.parametrize("name", INCIDENTS)
def test_a_recording_is_of_the_shipped_rules(name: str) -> None:
    """A rule that has changed since would leave the pictures as they were; `python -m tests.drawn.recording` records anew."""
    assert recording(name).rules == digest()


@pytest.mark.parametrize("uid", UIDS)
def test_the_recordings_are_of_these_rules_and_metrics(drawn: Gallery, uid: str) -> None:
    """Panels of the incident have data: a recording that is too old would leave them empty without a word."""
    empty = {
        one["title"]
        for one in drawn.dashboards[uid].panels
        if not (one["legend"] or one["rows"] or one["tiles"] or one["type"] in {"state-timeline", "heatmap"})
    }

    assert empty == WELL.get(uid, set())
