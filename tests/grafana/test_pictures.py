"""The dashboards keep the rules of a legible picture, and each rule notices the mistake that it is about."""

import re
from collections.abc import Callable
from itertools import combinations, pairwise
from math import dist

import pytest

from grafana.colours import RED, STACKED, WARN
from grafana.first_steps import ONE_POD, SEVERAL_PODS, first_steps
from grafana.gate_query import FAILS_BELOW
from sidecar.admin.page.phase_colours import PHASE_COLOURS
from sidecar.diagnosis.first_steps import first_step
from sidecar.diagnosis.interventions import CHAPTERS, chapters
from sidecar.pod.causes import ROOTS
from tests.grafana import picture_rules, rules
from tests.grafana.boards import UIDS, Json, board, column_of, names_of, panels
from tests.grafana.picture_rules import GRAFANAS, PICTURE_RULES, Rule


@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("rule", PICTURE_RULES, ids=lambda rule: rule.__name__)
def test_a_dashboard_keeps_the_rule(rule: Rule, uid: str) -> None:
    assert list(rule(board(uid))) == []


def _panel(dashboard: Json, title: str) -> Json:
    return next(one for one in panels(dashboard) if one["title"].startswith(title))


def _without_an_end(dashboard: Json) -> None:
    del _panel(dashboard, "Good requests")["fieldConfig"]["defaults"]["max"]


def _green_nothing(dashboard: Json) -> None:
    mappings = _panel(dashboard, "Verdict over time")["fieldConfig"]["defaults"]["mappings"]
    next(one for one in mappings if one["type"] == "special")["options"]["result"]["color"] = "green"


def _grey_cells(dashboard: Json) -> None:
    for override in _panel(dashboard, "Pods")["fieldConfig"]["overrides"]:
        for one in override["properties"]:
            if one["id"] == "mappings":
                del one["value"][1:]


def _green_base(dashboard: Json) -> None:
    _panel(dashboard, "Error budget")["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["color"] = "green"


def _judged_in_orange(dashboard: Json) -> None:
    _panel(dashboard, "Error budget")["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["color"] = PHASE_COLOURS[
        "queue"
    ]


def _decode_in_green(dashboard: Json) -> None:
    for override in _panel(dashboard, "Mean seconds")["fieldConfig"]["overrides"]:
        if override["matcher"]["options"] == "decode":
            override["properties"] = [{"id": "color", "value": {"mode": "fixed", "fixedColor": "green"}}]


def _phases_by_their_names_alone(dashboard: Json) -> None:
    for override in _panel(dashboard, "Seconds of the latencies that missed")["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        if matcher["id"] == "byRegexp":
            override["matcher"] = {"id": "byName", "options": matcher["options"][2:-2]}


def _names(dashboard: Json) -> dict[str, str]:
    steps = _panel(dashboard, "Pods")["transformations"]
    names: dict[str, str]
    (names,) = [step["options"]["renameByName"] for step in steps if step["id"] == "organize"]
    return names


def _whole_names_of_pods(dashboard: Json) -> None:
    del _names(dashboard)["shown_pod"]


def _whole_names_beside_them(dashboard: Json) -> None:
    _names(dashboard)["pod"] = "name"


def _lines_with_whole_names(dashboard: Json) -> None:
    _panel(dashboard, "Mean seconds")["targets"][0]["legendFormat"] = "{{pod}}"


def _a_mark_of_one_scrape(dashboard: Json) -> None:
    (annotation,) = [one for one in dashboard["annotations"]["list"] if one["name"] == "Config changes"]
    annotation["expr"] = annotation["expr"].replace("[5m]", "[1m]")


def _another_group(dashboard: Json) -> None:
    for variable in dashboard["templating"]["list"]:
        if variable["name"] == "computed":
            variable["query"]["query"] = variable["query"]["query"].replace("quantiles|phases", "pods|phases")


def _one_of_two_groups(dashboard: Json) -> None:
    for variable in dashboard["templating"]["list"]:
        if variable["name"] == "computed":
            variable["query"]["query"] = variable["query"]["query"].replace(" == 2", " == 1")


def _colours_in_order(dashboard: Json) -> None:
    _panel(dashboard, "Arrivals")["fieldConfig"]["defaults"]["color"] = {"mode": "palette-classic"}


def _legend_below(dashboard: Json) -> None:
    _panel(dashboard, "Arrivals")["options"]["legend"]["placement"] = "bottom"


def _legend_without_its_row(dashboard: Json) -> None:
    _panel(dashboard, "Time to first token")["targets"][1]["legendFormat"] = "promised to {{lane}}"


def _flat_zero(dashboard: Json) -> None:
    target = _panel(dashboard, "Arrivals")["targets"][0]
    target["expr"] = target["expr"].removesuffix(" > 0")


def _linear(dashboard: Json) -> None:
    _panel(dashboard, "Between tokens")["fieldConfig"]["defaults"]["custom"]["scaleDistribution"] = {"type": "linear"}


def _solid_threshold(dashboard: Json) -> None:
    _panel(dashboard, "Time to first token")["fieldConfig"]["overrides"][0]["properties"].pop(0)


def _nothing_promised(dashboard: Json) -> None:
    _panel(dashboard, "Time to first token")["targets"].pop(1)


def _no_number(dashboard: Json) -> None:
    _panel(dashboard, "Time to first token")["targets"].pop(2)


def _a_number_that_is_a_line(dashboard: Json) -> None:
    properties = _panel(dashboard, "Time to first token")["fieldConfig"]["overrides"][1]["properties"]
    next(one for one in properties if one["id"] == "custom.lineWidth")["value"] = 1


def _a_number_out_of_the_tooltip(dashboard: Json) -> None:
    properties = _panel(dashboard, "Time to first token")["fieldConfig"]["overrides"][1]["properties"]
    next(one for one in properties if one["id"] == "custom.hideFrom")["value"]["viz"] = True


def _ones(dashboard: Json) -> None:
    _panel(dashboard, "Verdict")["targets"][4]["expr"] = "group by (namespace, lane) (llm_requests_total)"
    _panel(dashboard, "Verdict")["fieldConfig"]["overrides"] = []


def _too_wide(dashboard: Json) -> None:
    for override in _panel(dashboard, "Pods")["fieldConfig"]["overrides"]:
        for one in override["properties"]:
            if one["id"] == "custom.width":
                one["value"] *= 2


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        (picture_rules.ends_its_axes, _without_an_end),
        (picture_rules.paints_no_absence, _green_nothing),
        (picture_rules.paints_no_absence, _green_base),
        (picture_rules.paints_no_absence, _grey_cells),
        (picture_rules.keeps_phases_from_judgement, _judged_in_orange),
        (picture_rules.keeps_phases_from_judgement, _decode_in_green),
        (picture_rules.keeps_phases_from_judgement, _phases_by_their_names_alone),
        (picture_rules.shows_where_pods_differ, _whole_names_of_pods),
        (picture_rules.shows_where_pods_differ, _lines_with_whole_names),
        (picture_rules.shows_where_pods_differ, _whole_names_beside_them),
        (rules.shows_what_was_changed, _a_mark_of_one_scrape),
        (rules.has_the_switch, _another_group),
        (rules.has_the_switch, _one_of_two_groups),
        (picture_rules.colours_by_name, _colours_in_order),
        (picture_rules.shows_its_legend, _legend_below),
        (picture_rules.shows_its_legend, _legend_without_its_row),
        (rules.says_on_how_many_samples, _no_number),
        (rules.says_on_how_many_samples, _a_number_that_is_a_line),
        (rules.says_on_how_many_samples, _a_number_out_of_the_tooltip),
        (picture_rules.leaves_flat_zero_out, _flat_zero),
        (picture_rules.stands_against_what_is_promised, _linear),
        (picture_rules.stands_against_what_is_promised, _solid_threshold),
        (picture_rules.stands_against_what_is_promised, _nothing_promised),
        (picture_rules.has_no_constant_column, _ones),
        (picture_rules.has_room_for_its_columns, _too_wide),
    ],
    ids=lambda one: one.__name__.strip("_"),
)
def test_a_mistake_in_the_picture_is_noticed(rule: Rule, mistake: Callable[[Json], None]) -> None:
    """One on the first screen, which had none."""
    dashboard = board("llm-anatomy")
    mistake(dashboard)

    assert len(list(rule(dashboard))) >= 1


def test_every_rule_has_a_mistake() -> None:
    marks = test_a_mistake_in_the_picture_is_noticed.pytestmark  # type: ignore[attr-defined]

    others = {rules.says_on_how_many_samples, rules.has_the_switch, rules.shows_what_was_changed}
    assert {rule for rule, _ in marks[0].args[1]} == {*PICTURE_RULES, *others}


def _lab(colour: str) -> tuple[float, float, float]:
    """CIE L*a*b* of `#RRGGBB` (D65)."""
    linear = []
    for at in (1, 3, 5):
        part = int(colour[at : at + 2], 16) / 255
        linear.append(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
    rows = ((0.4124, 0.3576, 0.1805, 0.95047), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.08883))
    x, y, z = (
        (share ** (1 / 3) if share > 0.008856 else 7.787 * share + 16 / 116)
        for share in (sum(a * b for a, b in zip(row, linear, strict=False)) / row[3] for row in rows)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _apart(one: str, other: str) -> float:
    return dist(_lab(one), _lab(other))


LEAST_APART = 25.0
"""Least distance of two colours, in CIE L*a*b*; a just noticeable difference is 2.3, and a legend's square is small."""
LEAST_LIGHTER = 12.0
"""Least difference of neighbours in the stack, in L* (0 is black, 100 white): a print in grey."""


def test_no_phase_looks_like_another_or_like_a_judgement() -> None:
    """All phases are told apart, and from the colours that warn and that page."""
    judging = [GRAFANAS[name] for name in (WARN, RED)]
    alike = [
        (one, other)
        for one, other in [
            *combinations(PHASE_COLOURS.values(), 2),
            *((p, j) for p in PHASE_COLOURS.values() for j in judging),
        ]
        if _apart(one, other) < LEAST_APART
    ]

    assert alike == []
    assert _apart(PHASE_COLOURS["queue"], GRAFANAS["orange"]) < LEAST_APART  # what it was like


def test_the_stack_can_be_read_in_grey() -> None:
    """Its layers, from the bottom up, differ in lightness from their neighbours."""
    lightness = {phase: _lab(PHASE_COLOURS[phase])[0] for phase in STACKED}

    assert [pair for pair in pairwise(STACKED) if abs(lightness[pair[0]] - lightness[pair[1]]) < LEAST_LIGHTER] == []


def test_the_first_thing_to_do_is_a_fix_of_that_root() -> None:
    """For every root that a pod can decide for, in the words of its runbook; it aims at the cause wherever a fix does."""
    steps = first_steps()
    beside = []
    for phase, cause in ROOTS:
        fixes = {fix.title.replace("`", ""): fix for fix in chapters()[CHAPTERS[phase]].fixes}
        aimed = [fix for fix in fixes.values() if {cause, phase} & set(fix.targets)]
        if aimed and not {cause, phase} & set(fixes[steps[f"{phase}/{cause}/{ONE_POD}"]].targets):
            beside.append((phase, cause))

    assert beside == []
    assert {f"{phase}/{cause}/{reach}" for phase, cause in ROOTS for reach in (ONE_POD, SEVERAL_PODS)} <= set(steps)


def test_no_machine_is_taken_out_for_a_fault_of_several_pods() -> None:
    """The node of one slow pod is cordoned; what all pods share has another reason."""
    steps = first_steps()

    assert [key for key, step in steps.items() if "ordon" in step and key.endswith(SEVERAL_PODS)] == []
    assert "ordon" in first_step("decode", "decode_cost", one_pod=True)


def test_a_first_step_has_room_in_two_lines() -> None:
    """Beside all other columns, at 1366 pixels."""
    assert [step for step in first_steps().values() if len(step) > 80] == []


def test_the_first_screen_says_what_to_do() -> None:
    """The cell of every root is mapped to its first fix."""
    said = [
        {key: shown["text"] for key, shown in one["value"][0]["options"].items()}
        for override in _panel(board("llm-anatomy"), "Verdict: ")["fieldConfig"]["overrides"]
        for one in override["properties"]
        if override["matcher"]["options"] == "do_first" and one["id"] == "mappings"
    ]

    assert said == [first_steps()]


def _verdict() -> Json:
    return _panel(board("llm-anatomy"), "Verdict: ")


def _steps_of(panel: Json, kind: str) -> Json:
    (found,) = [one["options"] for one in panel["transformations"] if one["id"] == kind]
    return dict(found)


def _words(panel: Json, column: str) -> dict[str, str]:
    return {
        number: shown["text"]
        for override in panel["fieldConfig"]["overrides"]
        for one in override["properties"]
        if override["matcher"]["options"] == column and one["id"] == "mappings"
        for number, shown in one["value"][0]["options"].items()
    }


def test_a_row_of_the_verdict_is_a_root_with_its_lanes_inside() -> None:
    """Lanes, objectives and what they waited in are lists of a row, the worst lane first; its number is what the row is sorted by."""
    fields = _steps_of(_verdict(), "groupBy")["fields"]
    (first,) = _steps_of(_verdict(), "sortBy")["sort"]
    rows = {name for name, one in fields.items() if one["operation"] == "groupby"}
    listed = {name for name, one in fields.items() if "uniqueValues" in one["aggregations"]}

    assert rows == {"cluster", "namespace", "job", "model", "phase", "cause", "do_first", "runbook", "dashboard"}
    assert listed == {"lane", "objective", "waited_in"}
    assert (column_of(_verdict(), first["field"][-1]), first["desc"]) == ("burn", True)


def test_where_it_waited_stands_beside_what_broke() -> None:
    order = sorted(_steps_of(_verdict(), "organize")["indexByName"].items(), key=lambda pair: pair[1])

    assert [name for name, _ in order][:3] == ["phase", "cause", "waited_in (uniqueValues)"]


def test_a_severity_is_page_or_ticket_and_the_scope_says_how_many_pods() -> None:
    assert set(_words(_verdict(), "severity").values()) == {"page", "ticket"}
    assert set(_words(_verdict(), "scope").values()) == {"one pod", "all pods"}


JARGON = re.compile(
    r"\b(provisional|own of expected|chance alone|agreed|residuals|blamed?|odd|dearer|told|alike|pure|stretch|begun|near|lead)\b",
    re.IGNORECASE,
)
"""Words of this project's code, that no reader knows."""


def _read_at_once(uid: str) -> list[str]:
    """All that stands on a dashboard before anything is pointed at: titles, legends, headings of columns, words for values."""
    dashboard = board(uid)
    found = [dashboard["title"], *(one["title"] for one in dashboard["panels"])]
    for panel in panels(dashboard):
        defaults = panel["fieldConfig"]["defaults"]
        found += [target.get("legendFormat", "") for target in panel["targets"]]
        found += [defaults["noValue"], *names_of(panel).values()]
        found += [
            shown["text"] for one in defaults["mappings"] if one["type"] == "value" for shown in one["options"].values()
        ]
    return found


@pytest.mark.parametrize("uid", UIDS)
def test_no_word_of_a_picture_is_this_projects_own(uid: str) -> None:
    assert [text for text in _read_at_once(uid) if JARGON.search(text)] == []


def test_a_word_of_ones_own_is_noticed() -> None:
    """In a title, in a legend, in a heading."""
    assert [
        bool(JARGON.search(text))
        for text in ("Chance alone: errors", "own of expected", "{{pod}} provisional", "errors")
    ] == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("uid", ["llm-fleet", "llm-lanes"])
def test_a_few_misses_have_no_colour(uid: str) -> None:
    """One or two of ten requests: within some targets, and by chance."""
    steps = [
        one["value"]["steps"]
        for panel in panels(board(uid))
        for override in panel["fieldConfig"]["overrides"]
        for one in override["properties"]
        if "missed" in str(override["matcher"]["options"]) and one["id"] == "thresholds"
    ]

    assert [[step["color"] for step in each if (step["value"] or 0) <= 0.18] for each in steps] == [
        ["transparent"]
    ] * len(steps)
    assert len(steps) == 1


def test_the_budget_is_of_thirty_days() -> None:
    """For any time that is shown, from recorded hours or from the counters."""
    budget = _panel(board("llm-lanes"), "Error budget")

    assert all(target["expr"].count("[30d") >= 2 and "$__range" not in target["expr"] for target in budget["targets"])
    assert [column_of(budget, target["refId"]) for target in budget["targets"]] == [
        "budget left",
        "missed in 30 days",
        "allowed in 30 days",
    ]


def test_the_canarys_tiles_have_three_words() -> None:
    """Not worse, worse, and unknown where there is no answer; the limit is that of rollouts."""
    tiles = [panel for panel in panels(board("llm-canary")) if panel["type"] == "stat"]
    words = {
        (one["options"]["from"], one["options"]["to"], one["options"]["result"]["text"])
        for panel in tiles
        for one in panel["fieldConfig"]["defaults"]["mappings"]
        if one["type"] == "range"
    }

    assert words == {(FAILS_BELOW, 1, "not worse"), (0, FAILS_BELOW, "worse")}
    assert {panel["fieldConfig"]["defaults"]["noValue"].partition(":")[0] for panel in tiles} == {"unknown"}


def test_an_alert_of_many_lanes_tints_a_panel_once() -> None:
    """Annotations of each lane and pod, one over the other, hide the lines."""
    expressions = [
        one["expr"] for one in board("llm-anatomy")["annotations"]["list"] if one["name"] in {"Pages", "Tickets"}
    ]

    assert [
        expr.startswith("group by (severity, alertname, phase, cluster, namespace) (ALERTS{") for expr in expressions
    ] == [True] * 2
