"""The two latencies in separate tables, TTFT and time between tokens: each lane on its own, against its objective.

There is no number over all lanes, and none for both latencies: a global p99 hides the lane that is slow, and one
combined latency hides which half of it is broken. Draws the results of `anatomy.py` and `budget.py`; a quantile from
too few samples is replaced by words.
"""

from collections.abc import Iterable, Mapping
from html import escape

from sidecar.admin.page.anatomy import SAMPLES_FOR, Anatomy, LaneEnds, Quantiles
from sidecar.admin.page.budget import Budget
from sidecar.admin.page.html import percent, plain, quiet, section, span, table
from sidecar.admin.page.picture import seconds
from sidecar.diagnosis.judging import MISSES_BEYOND_CHANCE
from sidecar.slo.objective import Objective


_BEFORE_DELIVERY = (
    "Quantiles of single gaps, taken before delivery to the client. The objective is on the mean of a whole answer,"
    " with delivery: while a client does not read, its answer stands still."
)


def two_numbers(anatomy: Anatomy) -> str:
    budgets = {(budget.lane, budget.objective): budget for budget in anatomy.budgets}
    body = (
        '<div class="two"><div class="card"><h3>Time to first token</h3>'
        f"{_card(anatomy.ends, budgets, Objective.TTFT)}</div>"
        '<div class="card"><h3>Time between tokens</h3>'
        f"{_card(anatomy.ends, budgets, Objective.TPOT)}</div></div>"
    )
    return section("two-numbers", "Latency", f"last {span(anatomy.window_seconds)}, streamed requests", body)


def _card(ends: Iterable[LaneEnds], budgets: Mapping[tuple[str, Objective], Budget], objective: Objective) -> str:
    ttft = objective is Objective.TTFT
    rows = []
    for lane in ends:
        quantiles = lane.ttft if ttft else lane.inter_token
        if quantiles.count:
            of = "1 request" if quantiles.count == 1 else f"{quantiles.count:,} {'requests' if ttft else 'gaps'}"
            name = f"{escape(lane.lane)} <small>{of}</small>"
            rows.append(
                [name, *(_quantile(quantiles, q) for q in SAMPLES_FOR), kept(budgets.get((lane.lane, objective)))]
            )
    if not rows:
        return plain("No streamed request got a token." if ttft else "No gap between tokens was seen.")
    heads = ["lane", *(f"p{q * 100:.0f}" for q in SAMPLES_FOR), "missed" if ttft else "missed, with delivery"]
    note = "" if ttft else f'<p class="quiet">{_BEFORE_DELIVERY}</p>'
    return table("Time to first token by lane" if ttft else "Time between tokens by lane", heads, rows) + note


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
