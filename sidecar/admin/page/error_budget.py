"""The section of error budgets: how fast each objective burns, and what is left of its budget since the process began.

Draws the budgets of `budget.py`. Names the lanes that can never page, as they have no objective, and explains `other`.
"""

from collections.abc import Sequence
from html import escape

from sidecar.admin.page.anatomy import Anatomy
from sidecar.admin.page.budget import Budget, Tally
from sidecar.admin.page.html import percent, plain, quiet, section, span, table
from sidecar.admin.page.latency_tables import kept, objective_text
from sidecar.diagnosis.why import NAMES
from sidecar.diagnosis.wording import times
from sidecar.ledger.request_labels import OTHER


def error_budget(anatomy: Anatomy, lanes: Sequence[str], uptime_seconds: float) -> str:
    """The section. `lanes`: all lanes that can appear on the page, `other` included."""
    rows = [_row(budget) for budget in anatomy.budgets if budget.ever.requests]
    lived = span(uptime_seconds)
    heads = ["objective", f"missed, last {span(anatomy.window_seconds)}", "burn now", f"left of {lived}"]
    drawn = table("Error budget by lane and objective", heads, rows, "wordy") if rows else ""
    body = (
        f'{drawn}{_undecided(anatomy)}<p class="quiet">At a burn of 1 x the budget is spent as fast as it is earned. This process covers only its'
        f" own {lived} of life; ask Prometheus for the budget of a month.</p>{_never(anatomy, lanes)}"
    )
    return section("budget", "Error budget", "", body, folds=True)


def _row(budget: Budget) -> list[str]:
    named = f"{escape(budget.lane)}, {NAMES[budget.objective]}"
    missed = kept(budget).partition(" <small>")[0]
    burn = budget.now.burn
    return [
        f"{named} <small>{objective_text(budget)}</small>",
        missed,
        quiet("no request decided") if burn is None else times(burn).replace(" ", "\u00a0"),
        _left(budget.ever),
    ]


def _undecided(anatomy: Anatomy) -> str:
    """A list of the objectives on which no request was judged yet: for these, 100 % left would be misleading."""
    if not anatomy.budgets:
        return plain("No lane has an objective.")
    waiting = [f"{one.lane}, {NAMES[one.objective]}" for one in anatomy.budgets if not one.ever.requests]
    return f'<p class="quiet">No request decided yet: {escape("; ".join(waiting))}.</p>' if waiting else ""


def _left(ever: Tally) -> str:
    burn = ever.burn
    if burn is None:
        return quiet("unknown")
    if burn <= 1:
        return f"{percent(1 - burn)} <small>{ever.misses:,.0f} missed, {ever.allowed:,.1f} allowed</small>"
    spent = times(burn).replace(" ", "\u00a0")
    return f'<span class="bad">none: spent {spent}</span> <small>{ever.misses:,.0f} missed, {ever.allowed:,.1f} allowed</small>'


def _never(anatomy: Anatomy, lanes: Sequence[str]) -> str:
    with_objective = {budget.lane for budget in anatomy.budgets}
    without = [lane for lane in lanes if lane not in with_objective and lane != OTHER]
    said = []
    if without:
        which = "This lane has" if len(without) == 1 else "These lanes have"
        said.append(f"{which} no objective and never {'pages' if len(without) == 1 else 'page'}: {', '.join(without)}.")
    ended = sum(next((lane.outcomes for lane in anatomy.ends if lane.lane == OTHER), {}).values())
    came = f" {ended:,} such {'request' if ended == 1 else 'requests'} ended in this time." if ended else ""
    said.append(f"Lane other holds requests whose lane is not in the config; it never pages.{came}")
    return f'<p class="never">{escape(" ".join(said))}</p>'
