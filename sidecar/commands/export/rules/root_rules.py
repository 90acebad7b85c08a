"""The roots as the pods decided them: sums of roots, shares of a lane, and the pod that misses more than the others.

Each sidecar decides the root of each miss (`sidecar/pod/`); these rules add and divide. They refuse to weigh evidence.
"""

from sidecar.commands.export.rules.burn import (
    ALLOWED_MISSES,
    ENGINE_LABELS,
    JUDGED,
    POD_LABELS,
    SLOW,
    WHICH_POD,
    WHO,
    grown,
    without_odd_pods,
)
from sidecar.commands.export.rules.rule import Record
from sidecar.metrics.catalogue import ENGINE_RESTARTS_TOTAL, SLO_ROOT_CAUSE_MISSES_TOTAL, SLO_ROOT_MISSES_TOTAL
from sidecar.objectives.page_limits import BURNS_RATIO, BURNS_TIMES, FEWEST_DECIDED
from sidecar.pod.causes import PHASE_OF, Cause


ODD_TIMES = 3
_COMPARED = 20
"""Judged requests in the window, from which on a pod is compared."""
_FEWEST_POD_MISSES = 10
_FEWEST_BAD_TIMES = 5
_WARMING_SHARE = 0.8
"""Share of a lane's misses of the engine that are of pods that warm up, from which on the lane's page waits for them."""
_EACH_ROOT = f"{WHICH_POD}, objective"
FLEET = f"{ENGINE_LABELS}, model, objective"


_COUNTED = ("misses", JUDGED, ALLOWED_MISSES)


def _increase(what: str, window: str) -> str:
    return f"sum by ({_EACH_ROOT}) (increase(instance:llm_slo_{what}:sum[{window}]))"


POD_SUMS = Record(
    "pod:llm_slo:increase2m",
    "\nor\n".join(f'label_replace({_increase(what, "2m")}, "of", "{what}", "", "")' for what in _COUNTED),
    "Misses, judged requests and allowed misses of each pod, 2m: summed over its lanes once, because alerts read them often.",
)
LATER_POD_SUMS = Record(
    "pod:llm_slo:increase30m",
    f"sum_over_time({POD_SUMS.name}[30m:2m])",
    "The same, about 30m, as sums that are 2 minutes apart.",
)
_RECORDED = {
    "2m": f"{POD_SUMS.name}{{%s}}",
    "5m": f"sum_over_time({POD_SUMS.name}{{%s}}[5m:1m]) / 2",
    "30m": f"{LATER_POD_SUMS.name}{{%s}}",
}
"""Windows that are read from recorded sums: each miss stands in 2 of those that are a minute apart."""


def _of_pods(window: str) -> tuple[str, ...]:
    """Misses, judged requests and allowed misses of each pod over this window."""
    if window in _RECORDED:
        return tuple(f"sum by ({_EACH_ROOT}) (" + _RECORDED[window] % f'of="{what}"' + ")" for what in _COUNTED)
    return tuple(_increase(what, window) for what in _COUNTED)


def _times(of_pod: str) -> str:
    """How many times the pod's own number the whole fleet has."""
    return f"sum by ({FLEET}) ({of_pod}) / on ({FLEET}) group_right () {of_pod}"


def _three_times_the_others(misses: str, requests: str) -> str:
    return f"{_times(requests)} + {ODD_TIMES - 1} >= {ODD_TIMES} * ({_times(misses)})"


def _sticks_out(of_pods: tuple[str, ...], burning: str) -> str:
    """The pods that burn, and whose miss ratio is three times that of the others together, by objective.

    `burning`: a condition in which {misses}, {requests} and {allowed} are the pod's own. The comment on `ODD` explains the form.
    """
    misses, requests, allowed = of_pods
    own = burning.format(misses=misses, requests=requests, allowed=allowed)
    return f"""({own}) >= {_FEWEST_POD_MISSES}
      and {requests} >= {_COMPARED}
      and on ({FLEET}) count by ({FLEET}) ({requests} >= {_COMPARED}) >= 2
      and {_three_times_the_others(misses, requests)}"""


POD_ROOTS = Record(
    "pod:llm_slo_roots:increase2m",
    f"sum by ({WHICH_POD}, phase) (increase(llm_slo_root_cause_misses_total[2m]))",
    "Decided misses of each pod by the phase of their root, 2m.",
)


def pod_roots(matcher: str = "") -> str:
    """The pods' decided misses of 2 minutes. Where scrapes are a minute apart and one is lost, the number before counts."""
    return f"last_over_time({_selected(matcher)}[3m])"


def later_pod_roots(matcher: str = "") -> str:
    """The pods' decided misses of about half an hour. Most roots of most pods have none: they are not kept in memory."""
    return f"sum_over_time(({_selected(matcher)} > 0)[{SLOW.window}:2m])"


def _selected(matcher: str) -> str:
    return f"{POD_ROOTS.name}{{{matcher}}}" if matcher else POD_ROOTS.name


def pod_burns(window: str = "2m") -> str:
    """A pod that still burns: as of a lane's shortest verdict (`_BURNS`). The few misses of a healed pod are no fault."""
    misses, requests, allowed = _of_pods(window)
    return _still_burns(misses, requests, allowed)


def _still_burns(misses: str, requests: str, allowed: str) -> str:
    return f"({misses} >= {BURNS_RATIO:g} * {requests} or {misses} >= {BURNS_TIMES:g} * {allowed})"


def _restarts(window: str) -> str:
    return f"sum by ({POD_LABELS}) (increase({ENGINE_RESTARTS_TOTAL.name}[{window}]))"


_RESTART_SEEN = "150s"
"""How long a restart excuses the misses of its pod without further proof: a busy pod misses most of its requests for about a minute
after it, and windows of two minutes hold these misses for another one. 30 s more, because groups of rules are evaluated at instants of
their own."""
_OF_RESTART = f'sum by ({WHICH_POD}) (increase({SLO_ROOT_CAUSE_MISSES_TOTAL.name}{{cause="{Cause.RESTART}"}}[2m]))'
_STILL_COLD = f"{pod_burns('1m')} >= {_FEWEST_POD_MISSES // 2}"
WARMS_UP = Record(
    "pod:llm_engine:warms_up",
    f"""
    group by ({WHICH_POD}) (
      {_OF_RESTART} >= 0.5 * sum by ({WHICH_POD}) ({pod_roots(f'phase="{PHASE_OF[Cause.RESTART]}"')})
      and on ({POD_LABELS}) ({_restarts(_RESTART_SEEN)} > 0 or ({_restarts("8m")} > 0 unless on ({POD_LABELS}) {_STILL_COLD}))
      and on ({POD_LABELS}) {_restarts("15m")} < 1.5
    )
    """,
    """
    A new process of the engine that may still warm up. A planned restart of a busy pod can miss most of its requests for a
    minute, and stands in windows of two minutes for another one: it is no reason to wake a person. After 150 s it has to be
    over: the last minute no longer burns, or it has fewer misses than a pod that burns has in a minute. After eight minutes its
    misses have left the lanes' windows of five minutes. A second restart within 15 minutes is not planned.
    """,
)


# `ODD` does not read `POD_SUMS`: the lanes' tiers read `ODD`, and would be five rules deep.
ODD = Record(
    "pod:llm_slo:odd",
    f"""
    group by ({WHICH_POD}) (
      {_sticks_out(tuple(_increase(what, "2m") for what in _COUNTED), "{misses} >= 0.5 * {requests} or {misses} >= 10 * {allowed}")}
    )
    """,
    """
    Half of this pod's requests miss, or it burns ten times what the target allows, and its miss ratio is three times that of the
    others together: it has a page of its own. With the fleet's sums F and G, m / r >= 3 (F - m) / (G - r) is the same as
    G / r + 2 >= 3 F / m, which reads each number once.
    """,
)
IS_ODD = f"max_over_time({ODD.name}[5m]) == 1"
"""A lane leaves a pod out for as long: the pod must page for as long too."""


def _burns_slowly() -> str:
    misses, requests, allowed = _of_pods(SLOW.still_in)
    missed_then = f'({POD_SUMS.name}{{of="misses"}} > 0)[{SLOW.window}:2m]'
    return f"""group by ({_EACH_ROOT}) (
  {_sticks_out(_of_pods(SLOW.window), f"{{misses}} >= {SLOW.at_least} * {{allowed}}")}
  and sum by ({_EACH_ROOT}) (count_over_time({missed_then})) >= {_FEWEST_BAD_TIMES}
  and {misses} > {SLOW.still} * {allowed}
  and {_three_times_the_others(misses, requests)}
)"""


WORSE = Record(
    "pod:llm_slo:worse",
    _burns_slowly(),
    """
    This pod burns slowly, as a lane of the tier `slow` does, and three times as fast as the others: a ticket, unless a lane burns.
    One short fault is no slow burn: there must be misses in five of the 15 times of 2 minutes. In the last 5 minutes it must
    stand out too, or a pod that has just begun would be compared with good times that it has not seen.
    """,
)

ROOT_RECORDS = Record(
    "lane:llm_slo_roots:increase2m",
    f"sum by ({WHO}, phase) (\n  {without_odd_pods('increase(llm_slo_root_misses_total[2m])')}\n)",
    "Decided misses by the phase of their root, 2m.",
)
_ENGINE = f'phase="{PHASE_OF[Cause.RESTART]}"'
LANE_WARMS_UP = f"""(
          sum by ({WHO}) (
            increase({SLO_ROOT_MISSES_TOTAL.name}{{{_ENGINE}}}[{_RESTART_SEEN}])
            and on ({WHICH_POD}) {WARMS_UP.name}
            unless on ({WHICH_POD}) max_over_time(
              {ODD.name}[270s] offset 30s
            )
          ) >= on ({WHO}) {_WARMING_SHARE} * last_over_time({ROOT_RECORDS.name}{{{_ENGINE}}}[1m])
          and on ({FLEET}) count by ({FLEET}) ({POD_SUMS.name}{{of="requests"}} > 0) >= 2
        )"""
"""Lanes whose misses of the engine are nearly all of pods that warm up, while two pods or more serve the model: a rolling restart.
The pod that restarted first is odd, and left out of the lane for five minutes, so that the next one may be the whole lane; and of two
that restart within a minute none is odd in time. Each group records at instants of its own, so the sums of the lane, its tiers and the
odd pods are some seconds apart: a pod counts for 30 s after it is left out, the sum has a longer window than the lane's, and the last
value of a lane that ends counts. Else such a lane would page for one evaluation."""
_ROOTS_OVER = {
    "2m": ROOT_RECORDS.name,
    "5m": f"(sum_over_time({ROOT_RECORDS.name}[5m:30s]) / 4)",
    "30m": f"(sum_over_time({ROOT_RECORDS.name}[30m:1m]) / 2)",
}
"""Longer windows are sums of recorded 2-minute sums: each miss stands in 4 of those that are 30 s apart."""

_BURNS = {
    "2m": _still_burns(*(grown(what, "2m") for what in ("misses", JUDGED, ALLOWED_MISSES))),
    "5m": f"{grown('misses', '5m')} >= {grown(ALLOWED_MISSES, '5m')}",
    "30m": f"{grown('misses', '30m')} >= {grown(ALLOWED_MISSES, '30m')}",
}
"""Each window of a verdict, the shortest first, with the condition that it still burns."""


def _share(window: str) -> str:
    roots = _ROOTS_OVER[window]
    of_all = f"sum by ({WHO}) ({roots}) >= {FEWEST_DECIDED:g} and {_BURNS[window]}"
    return f"""label_replace({roots} / on ({WHO}) group_left () (
      {of_all}
    ), "window", "{window}", "", "")"""


SHARE = Record(
    "lane:llm_slo_root:share",
    f"\n    or on ({WHO})\n    ".join(_share(window) for window in _BURNS),
    """
    Share of each root in the decided misses of the shortest window that still burns and has 3 of them: the short window of the
    tier that fires. The label says which.
    """,
)

WAITED = Record(
    "lane:llm_slo_waited:increase5m",
    f"sum by ({WHO}, phase) (\n  "
    + without_odd_pods('increase(llm_slo_blamed_misses_total{phase!="unattributed"}[5m])')
    + "\n)",
    "Misses by the phase in which they waited, as far as their ledgers are closed, 5m.",
)
WAITED_IN = Record(
    "lane:llm_slo_waited_in:ratio",
    f"lane:llm_slo_waited:increase5m / on ({WHO}) group_left () (sum by ({WHO}) (lane:llm_slo_waited:increase5m) > 0)",
    "The same as shares.",
)
