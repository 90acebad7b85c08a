"""Reads the first screen of the status page, as a person does without scrolling, and says which answers are missing.

It knows the lines by their names, and counts only what lies in the window as a whole. It refuses to know how a sidecar got
there: the truth comes from the test.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sidecar.diagnosis.interventions import CHAPTERS, chapters


NEAR_SECONDS = 15.0
"""A beginning on the page may be so far from the instant of the fault."""
READ = """
(() => {
  const inside = (element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return element.getClientRects().length > 0 && top >= 0 && bottom <= innerHeight && left >= 0 && right <= innerWidth;
  };
  const text = (selector) => [...document.querySelectorAll(selector)].filter(inside).map((one) => one.innerText.replace(/\\u00a0/g, " ")).join(" ");
  const lines = {};
  for (const row of document.querySelectorAll("#headline dl > div")) {
    if (inside(row)) lines[row.querySelector("dt").innerText] = row.querySelector("dd").innerText.replace(/\\u00a0/g, " ");
  }
  const link = [...document.querySelectorAll("#headline dl a")].filter(inside).map((one) => one.getAttribute("href"));
  return { phase: text("#headline .chip"), headline: text("#headline h1"), head: text("header p"), lines, runbook: link[0] ?? "" };
})()
"""
"""The expression: texts of the head, the headline and the lines, as far as they lie in the window."""


@dataclass(frozen=True, slots=True)
class Truth:
    phase: str
    lane: str
    objective: str
    pod: str
    model: str
    engine: str
    version: str
    began_at_unix: float
    cause: str
    grown: bool
    """Whether the cause is a number that grows: the line `Root` says by how much, and the line `Changed` that nothing else has grown."""


def lacks(screen: Mapping[str, Any], truth: Truth) -> list[str]:
    """Names of the answers that the screen does not give, or gives wrongly."""
    lines = screen["lines"]
    found = {
        "phase": screen["phase"] == truth.phase,
        "lane": re.match(rf"{truth.lane}\b", lines.get("Lane", "")),
        "objective": lines.get("Objective", "").startswith(truth.objective),
        "since": any(abs(at - truth.began_at_unix) <= NEAR_SECONDS for at in _instants(lines.get("Since", ""))),
        "ago": re.search(r"\d (s|min) ago", lines.get("Since", "")),
        "burn": re.match(r"[\d.,]+ x the allowed misses: \d+ of \d+ requests, \d+ %", lines.get("Burn", "")),
        "root": re.match(rf"Cause {truth.cause}\b.*, confidence \d+ % \((of )?\d+ misses", lines.get("Root", "")),
        "grown": bool(re.search(r", [\d.]+ x the usual,", lines.get("Root", ""))) is truth.grown
        and _grown(lines.get("Changed", "")) == [],
        "changed": re.search(r"This sidecar began \d+ (s|min) ago\.$", lines.get("Changed", "")),
        "fix": any(lines.get("Do first", "").startswith(fix) for fix in _fixes(truth.phase)),
        "runbook": screen["runbook"].startswith("/runbooks/LLM"),
        "pod": truth.pod in screen["head"],
        "model": truth.model in screen["head"],
        "engine": truth.engine in screen["head"],
        "version": f"sidecar {truth.version}" in screen["head"],
    }
    return [name for name, told in found.items() if not told]


def _grown(text: str) -> list[str]:
    """Names of the numbers that have grown."""
    return [name for told in re.findall(r"Grown: (.*? x)\.", text) for name in re.findall(r"(\w+) [\d.]+ x", told)]


def _instants(text: str) -> Iterable[float]:
    for found in re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text):
        yield datetime.strptime(found, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC).timestamp()


def _fixes(phase: str) -> Iterable[str]:
    """The fixes of a phase's chapter, as a browser shows them."""
    return (fix.fix.replace("`", "") for fix in chapters()[CHAPTERS[phase]].fixes)
