"""A diagnosis as text for a terminal, most important line first, to be read in twenty seconds.

The text is written from the JSON document, so that the answer of another process can be shown too. It states nothing that
is not in the document. Of several lanes the first one is told, and of the others one sentence; of each list as many items as find
room in `MOST_LINES` lines, the most useful lists first. `whole`: all lanes with all that is known of them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from math import inf
from typing import Any, NamedTuple

from sidecar.config.folding import WIDTH, folded
from sidecar.diagnosis.slowest_text import beside, count, parts, window
from sidecar.diagnosis.wording import (
    digits,
    effort,
    expected,
    instant,
    is_known,
    listed,
    percent,
    phase_name,
    seconds,
    times,
)


MOST_LINES = 40
"""Lines of an answer that is not asked for whole, at `WIDTH` columns: one screen, with room for the command."""
MOST_STEPS = 4
"""Steps that are told of the first phase, unless the whole is asked for."""
MOST_STEPS_SECOND = 1
"""The same of the second phase."""
MOST_NOT_TO_DO = 3
QUESTIONS = 3
ALL = "--all"
"""The flag that asks for the whole."""
MOST_LANES = 5
"""Further lanes that are named; more are counted."""
_NUMBERS = {"time_to_first_token": "time to first token", "inter_token": "between tokens"}
_SAMPLES = {"time_to_first_token": "first tokens", "inter_token": "gaps"}
_BEGINNING = re.compile(r" *(?:- |[0-9]+[.] |[a-z ]+: +[A-Z]+ +)?")
"""The beginning of a line before its text: a mark, a number, or the name and the state of a latency."""
_KEPT_TOGETHER = re.compile(r"(\d) (%|x|ms|s|min)(?![a-z])")
"""A number stays on one line with its unit."""
_OBJECTIVES = {
    "ttft": "time to first token",
    "tpot": "between tokens",
    "e2e": "whole answer, not streamed",
    "stall": "longest gap of an answer",
}


def text(document: Mapping[str, Any], columns: int = WIDTH, *, whole: bool = True) -> str:
    """Engines that are down, then the lanes in the document's order, then the slowest requests. Lines are folded at `columns`."""
    blocks = [[*_down(engine)] for engine in document.get("engines_down", ())]
    told = document["diagnoses"]
    if not told:
        untold = "." if document.get("engines_down") else ": there is nothing to diagnose."
        blocks.append([f"No lane had a request within the window{untold}"])
    elif whole:
        blocks += [[*_lines(one)] for one in told]
    else:
        room = MOST_LINES - sum(len(_drawn(block, columns)) + 1 for block in blocks)
        blocks.append(_in_short(told[0], told[1:], columns, room))
    if whole and document.get("slowest") is not None and document["slowest"]["of"]:
        blocks.append([*_slowest(document["slowest"])])
    return "\n".join("".join(f"{part}\n" for part in _drawn(block, columns)) for block in blocks)


def _drawn(lines: Iterable[str], columns: int) -> list[str]:
    return [part for line in lines for part in _fold(line, columns)]


class _Section(NamedTuple):
    """A list of the text. Where room is short, the list with the highest `goes_first` loses items first, down to `least`."""

    title: str
    items: Sequence[str]
    least: int = 0
    goes_first: int = 0
    most: int = 99
    """Items at most, unless the whole is asked for."""
    numbered: bool = False
    always: bool = False
    """The title says something by itself."""


class Detail(IntEnum):
    """How much is told of a step."""

    BRIEF = 0
    """The step with its numbers, and what must hold before it."""
    CONDITIONS = 1
    """And the effects on other steps and pools."""
    FULL = 2
    """And its expected effect, with the source."""


def _in_short(d: Mapping[str, Any], others: Sequence[Mapping[str, Any]], columns: int, room: int) -> list[str]:
    """One lane within so many lines: each list loses its last items, the least useful list first, until all has room. Steps are told
    with as much detail as leaves room for all of them.
    """
    for detail in sorted(Detail, reverse=True):
        sections = _sections(d, detail)
        kept = [[*each.items[: each.most]] for each in sections]
        while len(_drawn(lines := _shown(d, sections, kept, others), columns)) > room:
            long = [number for number, each in enumerate(sections) if len(kept[number]) > each.least]
            if not long:
                break
            kept[max(long, key=lambda number: sections[number].goes_first)].pop()
        if all(
            len(items) == min(each.most, len(each.items))
            for each, items in zip(sections, kept, strict=True)
            if each.numbered
        ):
            break
    return lines


def _shown(
    d: Mapping[str, Any], sections: Sequence[_Section], kept: Sequence[list[str]], others: Sequence[Mapping[str, Any]]
) -> list[str]:
    told = zip(sections, kept, strict=True)
    left_out = sum(len(each.items) for each in sections) - sum(map(len, kept))
    more = "1 more line" if left_out == 1 else f"{left_out} more lines" if left_out else ""
    rest = " and ".join(filter(None, (more, "the other lanes" if others else "")))
    return [
        *_head(d),
        *(line for each, items in told for line in _section(each, items)),
        *_beside(others),
        *_runbook(d),
        *([f"  {rest[0].upper()}{rest[1:]}: `sidecar diagnose {ALL}`."] if rest else []),
    ]


def _beside(others: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """One sentence for the other lanes of each outcome."""
    for outcome, words in (("verdict", "Broken too"), ("refused", "No verdict on"), ("well", "Well")):
        named = [_named(one) for one in others if one["outcome"] == outcome]
        more = [f"{len(named) - MOST_LANES} more"] if len(named) > MOST_LANES else []
        if named:
            yield f"  {words}: {listed([*named[:MOST_LANES], *more], 'and')}."


def _named(d: Mapping[str, Any]) -> str:
    about = ", ".join(phase_name(d[key]) for key in ("phase", "cause") if d[key])
    return f"lane {d['lane']} ({about})" if about else f"lane {d['lane']}"


def _slowest(found: Mapping[str, Any]) -> Iterable[str]:
    yield f"SLOWEST 1 %  [{window(found)}]"
    for one in found["of"]:
        made_of = f": {parts(one)}" if one["slowest"] else ""
        facts = "".join(f" {fact}." for fact in beside(one))
        yield f"  {one['lane']}, {_OBJECTIVES[one['objective']]}: {count(one)}{made_of}.{facts}"


def _down(engine: Mapping[str, Any]) -> Iterable[str]:
    pods, namespace = engine["pods"], f"namespace {engine['namespace']}" if engine["namespace"] else ""
    job = f"job {engine['job']}" if engine.get("job") else ""
    about = ", ".join(filter(None, (namespace, job, f"pod {', '.join(pods)}" if pods else "")))
    state = "STALLED" if engine.get("stalled") else "DOWN"
    many = f"THE ENGINE IS {state}"
    if engine["of_pods"] is not None:
        many = f"{len(pods)} OF {engine['of_pods']} ENGINES {'IS' if len(pods) == 1 else 'ARE'} {state}"
    if engine.get("coming_up"):
        many = "THE ENGINE HAS NOT COME UP YET"
    yield f"{many}{f'  [{about}]' if about else ''}"
    age = engine["seconds"]
    since = (
        ""
        if age is None or round(age) == 0
        else f" for {seconds(float(round(age) if age < 119.5 else 60 * round(age / 60)))}"
    )
    what = "stopped in the middle of work" if engine.get("stalled") else "not passed a health check"
    yield f"  {'They have' if len(pods) > 1 else 'It has'} {what}{since}."
    if engine.get("why"):
        yield f"  {engine['why'][0].upper()}{engine['why'][1:]}"
    yield f"  Runbook: /runbooks/{engine['runbook']} on the sidecar's admin port"


def _fold(line: str, columns: int) -> list[str]:
    beginning = _BEGINNING.match(line)
    whole = _KEPT_TOGETHER.sub("\\1\u00a0\\2", line)
    parts = folded(whole, columns, rest=" " * max(2, beginning.end() if beginning else 0))
    return [part.replace("\u00a0", " ") for part in parts]


def _lines(d: Mapping[str, Any]) -> Iterable[str]:
    """One lane, whole."""
    yield from _head(d)
    for each in _sections(d, Detail.FULL):
        yield from _section(each, each.items)
    yield from _runbook(d)


def _runbook(d: Mapping[str, Any]) -> Iterable[str]:
    if d["runbook"]:
        yield f"  Runbook: /runbooks/{d['runbook']} on the sidecar's admin port"


def _head(d: Mapping[str, Any]) -> Iterable[str]:
    yield _headline(d)
    for key, name in _NUMBERS.items():
        yield _number(name, d[key], _SAMPLES[key], delivered=key == "inter_token" and d["source"] != "hand")
        if key == "time_to_first_token" and (d["measured"]["rejected"] or 0.0) >= 1.0:
            yield f"  {'':<21}{digits(d['measured']['rejected'])} more were rejected, and have no first token"


def _sections(d: Mapping[str, Any], detail: Detail) -> list[_Section]:
    """All lists of one lane, in the order of the text."""
    if d["outcome"] == "refused":
        return [
            _Section("What is missing", [f"{item['what']}: {item['how']}" for item in d["missing"]], least=1),
            _Section("State", d["evidence"], goes_first=2),
            _Section("To know more", d["hints"], goes_first=1),
        ]
    if d["outcome"] == "well":
        return [
            _Section("State", d["evidence"], goes_first=1),
            _Section("Now beside the usual", d["changes"], goes_first=2),
        ]
    sure = "not known" if d["confidence"] is None else f"{percent(d['confidence'])} that this phase broke"
    firsts = [step for step in d["steps"] if step["phase"] in _first_phases(d)]
    later = [step for step in d["steps"] if step["phase"] not in _first_phases(d)]
    when = {"spike": ", in this spike", "steady": ", as it is steady", None: ""}[d["regime"]]
    said = " ".join(d["because"])
    return [
        _Section("Why", d["evidence"], least=3, goes_first=3),
        _Section("What changed", d["changes"], least=1, goes_first=4),
        _Section(f"Confidence: {sure}", d["because"], goes_first=8, always=True),
        _Section("" if d["second"] is None else f"Same lane: {_second(d)}", [], always=d["second"] is not None),
        _Section(
            f"Do, in this order{when}",
            [*_steps(firsts, detail)],
            least=2,
            goes_first=1,
            most=MOST_STEPS,
            numbered=True,
        ),
        _Section("Then", [*_steps(later, detail)], goes_first=6, most=MOST_STEPS_SECOND, numbered=True),
        _Section(
            "Do not",
            [f"{item['do']}: {item['why']}" for item in d["not_to_do"]],
            least=1,
            goes_first=7,
            most=MOST_NOT_TO_DO,
        ),
        _Section(
            "Still to ask",
            [f"{one['ask']} {one['changes']} [{one['how']}]" for one in d["questions"]],
            least=1,
            goes_first=5,
            most=QUESTIONS,
        ),
        _Section("To know more", [hint for hint in d["hints"] if hint not in said], goes_first=9),
    ]


def _headline(d: Mapping[str, Any]) -> str:
    who = ", ".join(
        f"{name} {d[key]}"
        for key, name in (("lane", "lane"), ("model", "model"), ("namespace", "namespace"), ("job", "job"))
        if d[key]
    )
    window = "" if d["window_seconds"] is None else f", last {seconds(d['window_seconds'])}"
    of = "all engines" if d["source"] == "engine" else "given by hand"
    subject = f"[{who or of}{window}]"
    if d["outcome"] == "refused":
        return f"NO VERDICT  {subject}"
    if d["outcome"] == "well":
        return f"WELL  {subject}"
    named = phase_name(d["phase"]).upper()
    if d["candidates"]:
        named += f", perhaps {listed([phase_name(one) for one in d['candidates']])}"
    about = [f"worst: {_OBJECTIVES[d['first']]}"]
    if d["cause"] is not None:
        size = "" if d["size"] is None else f" {times(d['size']['ratio'])} the usual"
        about.append(f"cause {phase_name(d['cause'])}{size}")
    if d["since_timestamp_seconds"] is not None:
        about.append(f"since {instant(d['since_timestamp_seconds'])}")
    return f"{named}  ({', '.join(about)})  {subject}"


def _number(name: str, number: Mapping[str, Any], samples_name: str, *, delivered: bool) -> str:
    """The line of one latency: its misses beside those that may be, or its p99 beside a threshold of its kind.

    `delivered`: its quantiles are taken before delivery, and its misses include it.
    """
    threshold, samples = number["threshold_seconds"], number["samples"]
    many = "" if samples is None else f"{digits(samples)} {samples_name}"
    value = _value(number)
    if None not in (number["burn"], number["misses"], threshold):
        before = ", before delivery" if delivered else ""
        taken = f"; {value}{f' of {many}' if many else ''}{before}"
        nothing_taken = samples is None and number["p99_seconds"] is None and number["mean_seconds"] is None
        told = f"{_missed(number, delivered=delivered)}{'' if nothing_taken else taken}"
    else:
        assumed = ", assumed" if number["threshold_assumed"] else ""
        of = "no threshold" if threshold is None else f"threshold {seconds(threshold)}{assumed}"
        over = "" if number["over"] in (None, "+Inf") else f": {times(number['over'])} of it"
        told = f"{value} ({of}{over}{f', {many}' if many else ''})"
    return f"  {name + ':':<21}{number['state'].upper():<8}{told}"


def _missed(number: Mapping[str, Any], *, delivered: bool) -> str:
    """The requests that missed beside those that may: an objective is a share of requests, and no quantile."""
    misses, judged, burn = number["misses"], number.get("judged"), number["burn"]
    of = " a token, the mean of an answer" if delivered else ""
    many = digits(misses) if judged is None else f"{digits(misses)} of {digits(judged)}"
    may = f", {digits(round(misses / burn, 1))} allowed" if burn else ""
    return f"{many} requests missed {seconds(number['threshold_seconds'])}{of}{may}"


def _value(number: Mapping[str, Any]) -> str:
    if number["p99_seconds"] is None and number["mean_seconds"] is not None:
        return f"mean {seconds(number['mean_seconds'])} (too few samples for a p99)"
    return f"p99 {seconds(inf if number['p99_seconds'] == '+Inf' else number['p99_seconds'])}"


def _second(d: Mapping[str, Any]) -> str:
    second = d["second"]
    near = {"near": "is near its threshold", "broken": "is broken too"}[second["state"]]
    return f"{_OBJECTIVES[second['objective']]} {near}; phase {phase_name(second['phase'])}"


def _first_phases(d: Mapping[str, Any]) -> set[str]:
    return {d["phase"], *d["candidates"]}


def _steps(steps: Sequence[Mapping[str, Any]], detail: Detail) -> Iterable[str]:
    for step in steps:
        flag = f" {step['flag']}" if step["flag"] else ""
        about = effort(step["phase"], step["cost"], step["works_when"])
        yield " ".join((f"{step['do']}{flag} [{about}].", *_about_step(step, detail)))


def _about_step(step: Mapping[str, Any], detail: Detail) -> Iterable[str]:
    """The numbers that make it a step, its expected effect with the source, its conditions, and what it does to others."""
    if step["told"]:
        yield f"{step['told']}."
    elif detail >= Detail.FULL and is_known(step["expect"]):
        yield f"Expect: {expected(step['expect'])} ({step['expect']['source']})."
    yield from (f"Needs first: {condition}." for condition in step["after"])
    if step["depends"] and detail >= Detail.CONDITIONS:
        yield f"Beware: {step['depends']}."
    if step["not_with"] and detail >= Detail.CONDITIONS:
        titles = [f'"{title}"' for title in step["not_with"]]
        yield f"Do not combine with: {listed(titles)}."


def _section(of: _Section, items: Sequence[str]) -> Iterable[str]:
    """The lines of a list with these of its items; none without an item, unless its title says something by itself."""
    if items or of.always:
        yield f"  {of.title}"
    for number, item in enumerate(items, 1):
        yield f"    {f'{number}.' if of.numbered else '-'} {item}"
