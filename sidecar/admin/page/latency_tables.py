"""The two latencies in separate tables, TTFT and time between tokens: each lane on its own, against its objective.

There is no number over all lanes, and none for both latencies: a global p99 hides the lane that is slow, and one
combined latency hides which half of it is broken. Draws the results of `anatomy.py` and `budget.py`; a quantile from
too few samples is replaced by words.
"""

from collections.abc import Iterable, Mapping
from html import escape

from sidecar.admin.page.anatomy import SAMPLES_FOR, Anatomy, Quantiles
from sidecar.admin.page.budget import Budget
from sidecar.admin.page.html import percent, plain, quiet, section, span, table
from sidecar.admin.page.picture import seconds
from sidecar.diagnosis.judging import MISSES_BEYOND_CHANCE
from sidecar.objectives.objective import Objective


_WITH_DELIVERY = (
    "Mean of each answer, from its first token to its last, with delivery: the objective is on this number. While a client"
    " does not read, its answer stands still."
)
_BEFORE_DELIVERY = (
    "Single gaps between output events, when they are read from the engine, before delivery. The objective `stall` is on the longest"
    " gap of each answer."
)


def two_numbers(anatomy: Anatomy) -> str:
    budgets = {(budget.lane, budget.objective): budget for budget in anatomy.budgets}
    ttft = _rows([(one.lane, one.ttft) for one in anatomy.ends], "request", budgets, Objective.TTFT)
    tpot = _rows([(one.lane, one.tpot) for one in anatomy.ends], "answer", budgets, Objective.TPOT)
    gaps = _rows([(one.lane, one.inter_token) for one in anatomy.ends], "gap", budgets, Objective.STALL)
    first = _table("Time to first token by lane", ttft, "missed") or plain("No streamed request got a token.")
    between = _table("Time between tokens by lane", tpot, "missed")
    between = f'{between}<p class="quiet">{_WITH_DELIVERY}</p>' if between else plain(_no_pace(gaps=bool(gaps)))
    if gaps:
        single = (
            f'{_table("Single gaps by lane", gaps, "answers that stood still")}<p class="quiet">{_BEFORE_DELIVERY}</p>'
        )
        between += f'<details id="single-gaps"><summary>single gaps, before delivery</summary>{single}</details>'
    body = (
        f'<div class="two"><div class="card"><h3>Time to first token</h3>{first}</div>'
        f'<div class="card"><h3>Time between tokens</h3>{between}</div></div>'
    )
    return section("two-numbers", "Latency", f"last {span(anatomy.window_seconds)}, streamed requests", body)


def _no_pace(*, gaps: bool) -> str:
    if gaps:
        return "No answer has ended whose tokens are counted, so the time between them is not known."
    return "No gap between tokens was seen."


def _rows(
    lanes: Iterable[tuple[str, Quantiles]],
    of: str,
    budgets: Mapping[tuple[str, Objective], Budget],
    objective: Objective,
) -> list[list[str]]:
    """One row per lane with samples. `of`: one sample, as a word; `objective`: the one on this number."""
    rows = []
    for lane, quantiles in lanes:
        if quantiles.count:
            count = f"{quantiles.count:,} {of}{'' if quantiles.count == 1 else 's'}"
            missed = kept(budgets.get((lane, objective)))
            rows.append([f"{escape(lane)} <small>{count}</small>", *quantile_cells(quantiles), missed])
    return rows


def _table(caption: str, rows: list[list[str]], missed: str) -> str:
    """The table; empty without rows. `missed`: head of the last column."""
    return table(caption, ["lane", *(f"p{q * 100:.0f}" for q in SAMPLES_FOR), missed], rows) if rows else ""


def kept(budget: Budget | None) -> str:
    """The state of an objective in the window, as HTML: the share of requests that missed it, and its target."""
    if budget is None:
        return quiet("no objective")
    said = f"<small>{objective_text(budget)}</small>"
    if budget.now.missed is None:
        return f"{quiet('no request decided')} {said}"
    missed = percent(budget.now.missed)
    if (budget.now.burn or 0.0) < 1.0:
        return f'<span class="state good">✓ {missed}</span> {said}'
    if budget.now.misses < MISSES_BEYOND_CHANCE:
        return f'<span class="state">{missed}</span> {said}'
    return f'<span class="state bad">✗ {missed}</span> {said}'


def objective_text(budget: Budget) -> str:
    """The objective as text, `95 % ≤ 1.50 s`; as a range if it depends on the prompt length."""
    shortest, most = budget.thresholds
    until = seconds(shortest) if shortest == most else f"{seconds(shortest)} to {seconds(most)}"
    strict, lax = max(budget.targets), min(budget.targets)
    share = _target(strict) if strict == lax else f"{_target(lax)} to {_target(strict)}"
    return f"{share} ≤ {until}"


def _target(ratio: float) -> str:
    return f"{ratio * 100:.4g}\u00a0%"


def _quantile(quantiles: Quantiles, q: float) -> str:
    value = quantiles.at.get(q)
    if value is None:
        return quiet("too few")
    return f"&gt;\u00a0{seconds(quantiles.last_edge)}" if value == float("inf") else seconds(value)


def quantile_cells(quantiles: Quantiles | None) -> list[str]:
    return [quiet("too few") if quantiles is None else _quantile(quantiles, q) for q in SAMPLES_FOR]
