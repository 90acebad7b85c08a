"""The slowest one percent of each lane on the status page: each latency by itself, as a bar of its phases with its numbers.

Draws the answer of `sidecar/accounts/slowest.py`. It refuses to compare lanes: each bar has the width of its own latency.
"""

from dataclasses import asdict
from html import escape

from sidecar.accounts.slowest import Slowest, SlowestRequests
from sidecar.admin.page.html import quiet, section, table
from sidecar.admin.page.picture import stacked
from sidecar.diagnosis.slowest_text import beside, count, parts, window
from sidecar.diagnosis.why import NAMES


HEADING = "The slowest 1 %"


def slowest_section(found: SlowestRequests) -> str:
    """The section; nothing before the first request has ended well."""
    if not found.of:
        return ""
    body = table("The slowest one percent of each lane", ("lane", "slowest", "made of"), map(_row, found.of), "ledgers")
    note = '<p class="quiet">Requests with outcome ok; each of the slowest is taken apart exactly. All requests: <a href="/workload.jsonl">/workload.jsonl</a></p>'
    return section("slowest", HEADING, window(asdict(found)), body + note, folds=True)


def _row(one: Slowest) -> list[str]:
    told = asdict(one)
    who = f"{escape(one.lane)} <small>{escape(NAMES[one.objective])}</small>"
    if one.phases is None:
        return [who, quiet(count(told)), ""]
    phases = {phase.value: part for phase, part in one.phases.items()}
    described = f"Slowest requests of {one.lane}, {NAMES[one.objective]}"
    bar = stacked(phases, one.mean_seconds, described, whole=one.mean_seconds, kind="thin")
    facts = ". ".join(beside(told))
    return [who, f"{escape(count(told))}<small>{escape(facts)}</small>", f"{bar}{escape(parts(told))}"]
