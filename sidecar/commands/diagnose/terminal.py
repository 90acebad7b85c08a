"""A diagnosis as text for a terminal, most important line first, to be read in twenty seconds.

The text is written from the JSON document, so that the answer of another process can be shown too. It states nothing that
is not in the document.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from sidecar.config.folding import WIDTH, folded
from sidecar.diagnosis.slowest_text import beside, count, parts, window
from sidecar.diagnosis.wording import digits, instant, listed, percent, phase_name, seconds, times


MOST_STEPS = 4
"""Steps that are shown of the first phase; `--output=json` has all."""
MOST_STEPS_SECOND = 1
"""Steps that are shown of the second phase."""
MOST_NOT_TO_DO = 3
QUESTIONS = 3
_NUMBERS = {"time_to_first_token": "time to first token", "inter_token": "between tokens"}
_SAMPLES = {"time_to_first_token": "first tokens", "inter_token": "gaps"}
_BEGINNING = re.compile(r" *(?:- |[0-9]+[.] |[a-z ]+: +[A-Z]+ +)?")
"""The beginning of a line before its text: a mark, a number, or the name and the state of a latency."""
_OBJECTIVES = {
    "ttft": "time to first token",
    "tpot": "between tokens",
    "e2e": "whole answer, not streamed",
    "stall": "longest gap of an answer",
}


def text(document: Mapping[str, Any], columns: int = WIDTH) -> str:
    """Engines that are down, then all lanes, the worst first, then the slowest requests. Lines are folded at `columns`."""
    blocks = [_down(engine) for engine in document.get("engines_down", ())]
    blocks += [_lines(one) for one in sorted(document["diagnoses"], key=_rank)]
    if not document["diagnoses"]:
        untold = "." if document.get("engines_down") else ": there is nothing to diagnose."
        blocks.append([f"No lane had a request within the window{untold}"])
    if document.get("slowest") is not None and document["slowest"]["of"]:
        blocks.append(_slowest(document["slowest"]))
    return "\n".join("".join(f"{part}\n" for line in block for part in _fold(line, columns)) for block in blocks)


def _slowest(found: Mapping[str, Any]) -> Iterable[str]:
    yield f"SLOWEST 1 %  [{window(found)}]"
    for one in found["of"]:
        made_of = f": {parts(one)}" if one["slowest"] else ""
        facts = "".join(f" {fact}." for fact in beside(one))
        yield f"  {one['lane']}, {_OBJECTIVES[one['objective']]}: {count(one)}{made_of}.{facts}"


def _rank(d: Mapping[str, Any]) -> tuple[int, bool, bool, float]:
    """Sort key: broken lanes, the worst first; lanes without an answer; lanes that are well; lanes with too few samples."""
    if d["outcome"] == "verdict":
        return 0, d["phase"] != "engine", _first_number(d).get("misses") == 0, -float(_first_number(d).get("over") or 0)
    if d["outcome"] == "well":
        return 2, False, False, 0.0
    few = all(item.get("few_samples") for item in d["missing"])
    return (3 if few else 1), False, False, 0.0


def _first_number(d: Mapping[str, Any]) -> Mapping[str, Any]:
    """The latency to be repaired first; empty for a whole answer, which has no line of its own."""
    numbers: dict[str, Mapping[str, Any]] = {"ttft": d["time_to_first_token"], "tpot": d["inter_token"]}
    return numbers.get(d["first"], {})


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
    yield f"  Runbook: {engine['runbook']} (/runbooks/{engine['runbook']} on the sidecar's admin port)"


def _fold(line: str, columns: int) -> list[str]:
    beginning = _BEGINNING.match(line)
    return folded(line, columns, rest=" " * max(2, beginning.end() if beginning else 0))


def _lines(d: Mapping[str, Any]) -> Iterable[str]:
    yield _headline(d)
    for key, name in _NUMBERS.items():
        yield _number(name, d[key], _SAMPLES[key], delivered=key == "inter_token" and d["source"] != "hand")
        if key == "time_to_first_token" and (d["measured"]["rejected"] or 0.0) >= 1.0:
            yield f"  {'':<21}{digits(d['measured']['rejected'])} more were rejected, and have no first token"
    if d["outcome"] == "refused":
        yield from _section("What is missing", (f"{item['what']}: {item['how']}" for item in d["missing"]))
        yield from _section("State", d["evidence"])
        yield from _section("To know more", d["hints"])
        return
    if d["outcome"] == "well":
        yield from _section("State", d["evidence"])
        yield from _section("Now beside the usual", d["changes"])
        return
    yield from _section("Why", d["evidence"])
    yield from _section("What changed", d["changes"])
    sure = "not known" if d["confidence"] is None else percent(d["confidence"])
    yield from _section(f"Confidence: {sure}", d["because"])
    if d["second"] is not None:
        yield from _section("Second", [_second(d)])
    steps = [step for step in d["steps"] if step["phase"] in _first_phases(d)]
    when = {"spike": ", in this spike", "steady": ", as it is steady", None: ""}[d["regime"]]
    yield from _section(f"Do, in this order{when}", _steps(steps[:MOST_STEPS]), numbered=True)
    later = [step for step in d["steps"] if step["phase"] not in _first_phases(d)]
    if later:
        yield from _section("Then", _steps(later[:MOST_STEPS_SECOND]), numbered=True)
    yield from _section("Do not", (f"{item['do']}: {item['why']}" for item in d["not_to_do"][:MOST_NOT_TO_DO]))
    yield from _section(
        "Still to ask", (f"{one['ask']} {one['changes']} [{one['how']}]" for one in d["questions"][:QUESTIONS])
    )
    said = " ".join(d["because"])
    yield from _section("To know more", (hint for hint in d["hints"] if hint not in said))
    yield f"  Runbook: {d['runbook']} (/runbooks/{d['runbook']} on the sidecar's admin port)"


def _headline(d: Mapping[str, Any]) -> str:
    who = ", ".join(
        f"{name} {d[key]}"
        for key, name in (("lane", "lane"), ("model", "model"), ("namespace", "namespace"), ("job", "job"))
        if d[key]
    )
    window = "" if d["window_seconds"] is None else f", last {seconds(d['window_seconds'])}"
    subject = f"[{who or 'given by hand'}{window}]"
    if d["outcome"] == "refused":
        return f"NO VERDICT  {subject}"
    if d["outcome"] == "well":
        return f"WELL  {subject}"
    named = phase_name(d["phase"]).upper()
    if d["candidates"]:
        named += f", perhaps {listed([phase_name(one) for one in d['candidates']])}"
    about = [f"{_OBJECTIVES[d['first']]} first"]
    if d["cause"] is not None:
        size = "" if d["size"] is None else f" {times(d['size']['ratio'])} the usual"
        about.append(f"cause {d['cause']}{size}")
    if d["since_timestamp_seconds"] is not None:
        about.append(f"since {instant(d['since_timestamp_seconds'])}")
    return f"{named}  ({', '.join(about)})  {subject}"


def _number(name: str, number: Mapping[str, Any], samples_name: str, *, delivered: bool) -> str:
    """The line of one latency. `delivered`: its quantiles are taken before delivery, and its misses include it."""
    threshold = "no threshold"
    if number["threshold_seconds"] is not None:
        assumed = ", assumed" if number["threshold_assumed"] else ""
        threshold = f"threshold {seconds(number['threshold_seconds'])}{assumed}"
    over = ""
    if number["over"] not in (None, "+Inf"):
        allowed = f"the misses that are allowed{', with delivery' if delivered else ''}"
        of = "of the threshold" if number["burn"] is None else allowed
        over = f", {times(number['over'])} {of}"
    samples = "" if number["samples"] is None else f", {digits(number['samples'])} {samples_name}"
    p99 = inf if number["p99_seconds"] == "+Inf" else number["p99_seconds"]
    value = f"p99 {seconds(p99)}"
    if p99 is None and number["mean_seconds"] is not None:
        value = f"mean {seconds(number['mean_seconds'])} (too few samples for a p99)"
    before = " before delivery" if delivered and number["misses"] is not None else ""
    return f"  {name + ':':<21}{number['state'].upper():<8}{value}{before} ({threshold}{over}{samples})"


def _second(d: Mapping[str, Any]) -> str:
    second = d["second"]
    near = {"near": "is near its threshold", "broken": "is broken too"}[second["state"]]
    return f"{_OBJECTIVES[second['objective']]} {near}, in {phase_name(second['phase'])}"


def _first_phases(d: Mapping[str, Any]) -> set[str]:
    return {d["phase"], *d["candidates"]}


def _steps(steps: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    for step in steps:
        flag = f" {step['flag']}" if step["flag"] else ""
        after = "".join(f" After: {condition}." for condition in step["after"])
        effect = f" Expect: {step['effect']}." if step["effect"] else ""
        yield f"{step['do']}{flag} [{phase_name(step['phase'])}, {step['cost']}, {step['works_when']}].{effect}{after}"


def _section(title: str, items: Iterable[str], *, numbered: bool = False) -> Iterable[str]:
    said = list(items)
    if not said:
        return
    yield f"  {title}"
    for number, item in enumerate(said, 1):
        yield f"    {f'{number}.' if numbered else '-'} {item}"
