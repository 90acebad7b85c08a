"""The table of the last slow or failed requests: lane, missed objectives with blamed phases, and the ledger as a bar.

Draws the requests that `recent_failures.py` keeps, in slices. Every value is a number or a word of a closed set; all
are escaped nevertheless.
"""

from collections.abc import Sequence
from html import escape

from sidecar.admin.page.anatomy import LaneAnatomy
from sidecar.admin.page.html import plain, section, table
from sidecar.admin.page.picture import bar_title, seconds, stacked
from sidecar.admin.page.recent_failures import KEPT, RecentFailure
from sidecar.diagnosis.why import NAMES
from sidecar.diagnosis.wording import phase_name
from sidecar.history.slices import Sliced
from sidecar.timeline.outcome import Outcome


HEADS = ("request", "result", "where its time went")
ROWS_SHOWN = 20
"""Rows shown at once; older ones are folded."""
A_TURN = 12
"""Rows drawn per slice; each takes some 50 us."""


def recent_failures_section(latest: Sequence[RecentFailure], at: float, *, models: bool) -> Sliced[str]:
    """The section. `latest`: newest first; `at`: now, on the same clock; `models`: there are several, so show them."""
    if not latest:
        body = plain("Since this process began no request missed an objective or failed.")
        return section("table", "Slow or failed requests", "", body, folds=True)
    longest = max((sum(one.phases.values()) for one in latest), default=0.0) or 1.0
    rows = []
    for number, one in enumerate(latest, 1):
        if number % A_TURN == 0:
            yield
        rows.append([_who(one, at, models=models), _what(one), _ledger(one, longest)])
    drawn = table("The last slow or failed requests, latest first", HEADS, rows[:ROWS_SHOWN], "ledgers")
    if len(rows) > ROWS_SHOWN:
        older = table("Earlier slow or failed requests", HEADS, rows[ROWS_SHOWN:], "ledgers")
        drawn += f'<details id="older-troubles"><summary>{len(rows) - ROWS_SHOWN} earlier requests</summary>{older}</details>'
    note = (
        f'<p class="quiet">The last {KEPT} requests that missed an objective or failed on the server side. Only timings are'
        " kept; prompts and answers are not.</p>"
    )
    return section("table", "Slow or failed requests", f"last {len(latest)}", drawn + note, folds=True)


def _who(one: RecentFailure, at: float, *, models: bool) -> str:
    labels = one.labels
    length = LaneAnatomy(labels.lane, one.streaming, 1, 0.0, {}, {}, prompt_bucket=labels.prompt_bucket)
    about = [bar_title(length)] + ([] if one.streaming else ["not streamed"]) + ([labels.model] if models else [])
    ago = seconds(max(0.0, round(at - one.ended_at, 1)))
    return f"{escape(labels.lane)} <small>{escape(', '.join(about))}; {ago} ago</small>"


def _what(one: RecentFailure) -> str:
    said = []
    for objective, phase in one.missed.items():
        said.append(f'<i class="p-{phase}"></i>{NAMES[objective]} missed: {phase_name(phase)}')
    if one.outcome is not Outcome.OK:
        ended = one.outcome.value.replace("_", " ")
        stage = f" while {one.cancelled_in}" if one.cancelled_in is not None else ""
        why = "".join(f", {word.replace('_', ' ')}" for word in (one.error, one.status) if word)
        said.append(escape(f"{ended}{stage}{why}"))
    return "<br>".join(said)


def _ledger(one: RecentFailure, longest: float) -> str:
    told = []
    if one.whole_seconds is not None:
        told.append(f"whole {seconds(one.whole_seconds)}")
    if one.ttft_seconds is not None:
        told.append(f"first token {seconds(one.ttft_seconds)}")
    pace = _pace(one)
    if pace:
        told.append(pace)
    if not one.phases:
        return " · ".join(told) or "unknown"
    phases = {phase.value: part for phase, part in one.phases.items()}
    parts = " · ".join(f"{phase_name(phase)} {seconds(max(part, 0.0))}" for phase, part in phases.items())
    estimated = ", estimated" if one.estimated else ""
    bar = stacked(phases, longest, f"Ledger of a request of {one.labels.lane}", whole=sum(phases.values()), kind="thin")
    return f"{bar}{' · '.join(told)} <small>{parts}{estimated}</small>"


def _pace(one: RecentFailure) -> str:
    if one.ttft_seconds is None or one.whole_seconds is None or not one.completion_tokens:
        return ""
    return f"{one.completion_tokens:,} tokens"
