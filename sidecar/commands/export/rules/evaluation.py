"""How often the groups are evaluated, and how they are laid out where that is seldom.

The shipped groups take three steps from a scrape to a page: sums every 15 s, tiers and pages every 5 s. Each step reads what the step
before has recorded, and no ruler promises an order between groups, so each may be one interval late: 25 s in all. At an interval of 60 s
the same three steps would be three minutes, and two things would break besides: a growth over one minute would have one number in its
window, because it is taken of sums that are recorded once a minute; and pages of several groups would come further apart than
Alertmanager's `group_wait` of pages, 15 s, so that one incident would be several messages.

So above 15 s the same rules stand in other groups, in the order in which they need each other: sums and tiers in one, all pages in one.
That is two steps, and all pages of one evaluation are sent together. Growths are taken of the raw counters: the sum of the growth of one
process's counters is the growth of their sum, because they begin anew together.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sidecar.commands.export.rules.burn import INSTANCES, WHO
from sidecar.commands.export.rules.rule import Alert, Group, Record
from sidecar.commands.export.rules.rulers import Ruler


Groups = tuple[Group, ...]
AS_SHIPPED_SECONDS = 15
"""Up to this interval the groups stay as they are: it is the wait of Alertmanager for pages, and the interval of the shipped sums."""
_SHIPPED_STEPS_SECONDS = (15, 5, 5)
"""Sums, tiers, pages."""
_RECORDED_GROWTH = re.compile(r"increase\(instance:llm_slo_(?P<what>\w+):sum\[(?P<window>\w+)\]\)")
_PAGE = "page"


def in_seconds(interval: str) -> int:
    """Seconds of an interval such as `15s` or `1m`. Raises ValueError for any other form."""
    if (parts := re.fullmatch(r"([1-9]\d{0,3})(s|m)", interval)) is None:
        raise ValueError(f"{interval!r} is no interval: a whole number of seconds or minutes, such as 30s or 1m")
    return int(parts[1]) * (60 if parts[2] == "m" else 1)


def laid_out(recording: Groups, alerts: Groups, seconds: int) -> tuple[Groups, Groups]:
    """The groups of both files, none evaluated more often than every so many seconds; 0: as they are."""
    if seconds > AS_SHIPPED_SECONDS:
        recording, alerts = _in_two_steps(recording), _pages_together(alerts)
    return tuple(_slowed(group, seconds) for group in recording), tuple(_slowed(group, seconds) for group in alerts)


def _slowed(group: Group, seconds: int) -> Group:
    return replace(group, interval=f"{max(seconds, in_seconds(group.interval))}s")


def _in_two_steps(recording: Groups) -> Groups:
    """Sums and tiers in one group, of raw counters; the sums by process stay recorded, beside the other numbers."""
    sums, tiers, numbers = (_of_raw_counters(group) for group in recording)
    needed = tuple(rule for rule in sums.rules if rule not in INSTANCES)
    return (
        replace(
            sums, rules=needed + tiers.rules, why="Growth of the sidecars' counters, and the tiers that follow from it."
        ),
        replace(numbers, rules=(*INSTANCES, *numbers.rules)),
    )


def _of_raw_counters(group: Group) -> Group:
    def growth(match: re.Match[str]) -> str:
        return f"sum by ({WHO}, pod, instance) (increase(llm_slo_{match['what']}_total[{match['window']}]))"

    rules = tuple(
        replace(rule, expr=_RECORDED_GROWTH.sub(growth, rule.expr)) if isinstance(rule, Record) else rule
        for rule in group.rules
    )
    return replace(group, rules=rules)


def _pages_together(alerts: Groups) -> Groups:
    first, *others = alerts
    kept = [replace(group, rules=_where(lambda rule: not _is_page(rule), group.rules)) for group in others]
    facts = tuple(rule for rule in first.rules if isinstance(rule, Record))
    every = (*facts, *(rule for group in alerts for rule in group.rules if _is_page(rule)))
    return (
        replace(first, rules=every, why="All pages in one group: what belongs together is sent, or muted, together."),
        *(group for group in kept if group.rules),
    )


def _where(holds: Callable[[Record | Alert], bool], rules: Iterable[Record | Alert]) -> tuple[Record | Alert, ...]:
    return tuple(rule for rule in rules if holds(rule))


def _is_page(rule: Record | Alert) -> bool:
    return rule.labels.get("severity") == _PAGE


# --- texts that ask nothing ------------------------------------------------------------------------------------------------

_ACTION = re.compile(r"\{\{-? (?:(?P<word>with|if|range|else|end)\b)?(?P<rest>.*?) -?\}\}")
_QUERY_IN_WORDS = "| query"
_OPENS_A_BLOCK = frozenset({"with", "if", "range"})
_KEPT_TEXTS = ("summary", "description")
"""Texts that say something without their queries, as those do that have the alert's own value. Of the others nothing would be left, or a word that is not true."""


def without_questions(groups: Groups) -> Groups:
    """Alerts whose texts ask no query: their words where a query finds nothing, and the links. The rest of the annotations is left out."""
    return tuple(
        replace(group, rules=tuple(_plain(rule) if isinstance(rule, Alert) else rule for rule in group.rules))
        for group in groups
    )


def _plain(alert: Alert) -> Alert:
    texts = {
        name: _unasked(text)
        for name, text in alert.annotations.items()
        if name in _KEPT_TEXTS or name.endswith("_url") or _QUERY_IN_WORDS not in text or "$value" in text
    }
    return replace(alert, annotations=texts)


def _unasked(text: str) -> str:
    """A template without what stands inside `with ... | query` and `range ... | query`, with the words behind their `else`."""
    made: list[str] = []
    blocks: list[_Block] = []
    at = 0
    for action in _ACTION.finditer(text):
        word = action["word"]
        if word in _OPENS_A_BLOCK:
            asks = _QUERY_IN_WORDS in action["rest"]
            blocks.append(_Block(asks, shown=not asks))
        of_a_question = word is not None and blocks[-1].asks
        before = blocks[:-1] if word in _OPENS_A_BLOCK else blocks
        made.append(text[at : action.start()] if all(block.shown for block in before) else "")
        at = action.end()
        if word == "else" and blocks[-1].asks:
            blocks[-1].shown = True
        if not of_a_question and all(block.shown for block in blocks):
            made.append(action[0])
        if word == "end":
            blocks.pop()
    return "".join([*made, text[at:]])


@dataclass(slots=True)
class _Block:
    """An action that is open at some place of a template."""

    asks: bool
    shown: bool


# --- what it costs ---------------------------------------------------------------------------------------------------------


def latest_seconds(seconds: int) -> int:
    """Seconds from the scrape that shows a fault to its page, at most: a step may be one interval late."""
    if seconds > AS_SHIPPED_SECONDS:
        return 2 * seconds
    return sum(max(seconds, step) for step in _SHIPPED_STEPS_SECONDS)


def told(ruler: Ruler, seconds: int, *, keep_firing: bool) -> list[str]:
    """The cost of another ruler or interval for pages, and what is otherwise there; a sentence each, empty for what is shipped."""
    said: list[str] = []
    late, shipped = latest_seconds(seconds) + ruler.lag_seconds, latest_seconds(0)
    if late != shipped:
        said.append(
            f"{ruler.title}: a page comes at most {late} s after the scrape that shows the fault; with the shipped intervals in Prometheus {shipped} s."
        )
    if not keep_firing:
        said.append(
            "Without keep_firing_for a page ends with its condition, and may end and come again within one incident."
        )
    if ruler.most_text_characters:
        said.append(
            "Texts ask no queries: no cause, size, beginning or worst pod; the runbook's page and the dashboards have them."
        )
    return [*said, *ruler.to_know]
