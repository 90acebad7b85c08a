"""The alerts that page the phase: one name per root, a page and a ticket each, and the page of one pod of many.

The phase of a lane's alert is static, so that a route can be read from the file; a pod's comes from its roots.
"""

from sidecar.commands.export.rules.annotations import SLOWLY, burn_annotations, pod_annotations
from sidecar.commands.export.rules.burn import PAGING, POD_LABELS, PROCESS_AGE, WHICH_POD, WHO
from sidecar.commands.export.rules.root_rules import (
    FLEET,
    IS_ODD,
    LANE_WARMS_UP,
    WARMS_UP,
    WORSE,
    later_pod_roots,
    pod_burns,
    pod_roots,
)
from sidecar.commands.export.rules.rule import Alert
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.page_limits import FEWEST_DECIDED, LEAST_CONFIDENCE


BURN_ALERTS = {
    Blame.QUEUE: "LLMQueueBurn",
    Blame.PREFILL: "LLMPrefillBurn",
    Blame.FIRST_TOKEN: "LLMFirstTokenBurn",
    Blame.UNATTRIBUTED: "LLMUnattributedBurn",
    Blame.DECODE: "LLMDecodeBurn",
    Blame.STREAM: "LLMStreamBurn",
    Blame.ENGINE: "LLMEngineBurn",
    SIDECAR: "LLMSidecarBurn",
}
PAGE_KEPT = "3m"
"""A page lasts so long after its condition: rates that touch a threshold must not end it and begin it again."""
_HOLD = {Blame.UNATTRIBUTED: "1m"}
"""Roots are decided within 15 s of a miss; a page that names none waits until that has lasted."""

_TICKET_HOLD = "2m"
_POD_HOLD = "3m"
"""A pod's page that names no root waits so long: an engine whose own numbers are not read may have been restarted as planned. It
misses for a minute then, and windows of two minutes hold that for longer."""


def _pod_leader(named: str, every: str) -> str:
    """The phase that leads on a pod. `named`: its decided misses with a root; `every`: all of them."""
    return f"""max by ({WHICH_POD}, phase) ({named}
    / on ({WHICH_POD}) group_left () (sum by ({WHICH_POD}) ({every}) >= {FEWEST_DECIDED:g})) >= {LEAST_CONFIDENCE:g}"""


_POD_LEADER, _LATER_POD_LEADER = (_pod_leader(of('phase!="unattributed"'), of()) for of in (pod_roots, later_pod_roots))


def pages(bases: tuple[str, str]) -> tuple[Alert, ...]:
    """The pages of lanes and of single pods. `bases`: of runbooks and dashboards."""
    return (*(_page(phase, name, bases) for phase, name in BURN_ALERTS.items()), *_pod_pages(bases))


def tickets(bases: tuple[str, str]) -> tuple[Alert, ...]:
    """The tickets of lanes and of single pods."""
    return (*(_ticket(phase, name, bases) for phase, name in BURN_ALERTS.items()), *_pod_tickets(bases))


def leading(phase: str, tiers: str) -> str:
    """The lanes that burn in one of these tiers with this root; the value is the root's share, or 1 if none leads."""
    burning = f'lane:llm_slo_burn:tier{{tier=~"{tiers}"}} == 1'
    if phase == Blame.UNATTRIBUTED:
        return f"""
        max by ({WHO}) ({burning})
        unless on ({WHO}) lane:llm_slo_root:share{{phase!="unattributed"}} >= {LEAST_CONFIDENCE:g}
        """
    return f"""
        max by ({WHO}) (lane:llm_slo_root:share{{phase="{phase}"}}) >= {LEAST_CONFIDENCE:g}
        and on ({WHO}) {burning}
        """


def _page(phase: str, name: str, bases: tuple[str, str]) -> Alert:
    expr, why = leading(phase, PAGING), f"The budget burns fast, and the root is {phase}."
    if phase == Blame.ENGINE:
        expr = f"{expr.rstrip()}\n        unless on ({WHO}) {LANE_WARMS_UP}"
        why += " Misses of engines that restarted must last for longer than these take to warm up."
    return Alert(
        name,
        expr,
        why,
        {"severity": "page", "phase": str(phase)},
        burn_annotations(name, phase, bases),
        _HOLD.get(Blame(phase), "") if phase != SIDECAR else "",
        PAGE_KEPT,
    )


def _ticket(phase: str, name: str, bases: tuple[str, str]) -> Alert:
    paged = f'unless on ({WHO}) max_over_time(lane:llm_slo_burn:tier{{tier=~"{PAGING}"}}[30m])'
    return Alert(
        name,
        f"{leading(phase, 'slow').rstrip()}\n        {paged}",
        f"The budget burns slowly, the root is {phase}, and no page has said so within half an hour.",
        {"severity": "ticket", "phase": str(phase)},
        burn_annotations(name, phase, bases),
        _TICKET_HOLD,
    )


_FIRST_MINUTES = f"({PROCESS_AGE} < 300)"
"""A process that has just begun decides little, and its engine may be cold: misses without a root tell no fault yet."""


_POD = "LLMPodBurn"
_WORSE = f"""group by ({WHICH_POD}) ({WORSE.name} unless on ({FLEET}) group by ({FLEET}) (lane:llm_slo_burn:tier))
  unless on ({WHICH_POD}) {IS_ODD}"""
"""No alert of a lane tells it, and it is not so bad that it may have a page."""
_POD_KEPT = "10m"
"""A pod that misses some requests in an hour has times of several minutes without a miss."""


def _pod_tickets(bases: tuple[str, str]) -> tuple[Alert, Alert]:
    unattributed = str(Blame.UNATTRIBUTED)
    named = Alert(
        _POD,
        f"""
  {_LATER_POD_LEADER}
  and on ({WHICH_POD}) ({_WORSE})
  """,
        "One pod of many burns slowly, with the root that leads on it, and no lane burns.",
        {"severity": "ticket"},
        pod_annotations(_POD, bases, window=SLOWLY),
        _TICKET_HOLD,
        _POD_KEPT,
    )
    unnamed = Alert(
        _POD,
        f"""
  {_WORSE}
  unless on ({WHICH_POD}) {_LATER_POD_LEADER}
  """,
        "The same, where no root leads.",
        {"severity": "ticket", "phase": unattributed},
        pod_annotations(_POD, bases, unattributed, window=SLOWLY),
        _TICKET_HOLD,
        _POD_KEPT,
    )
    return named, unnamed


def _pod_pages(bases: tuple[str, str]) -> tuple[Alert, Alert]:
    name = _POD
    annotations = pod_annotations(name, bases)
    named = Alert(
        name,
        f"""
  {_POD_LEADER}
  and on ({WHICH_POD}) {IS_ODD}
  and on ({WHICH_POD}) {pod_burns()}
  unless on ({WHICH_POD}) {WARMS_UP.name}
  """,
        "One pod of many burns, with the root that leads on this pod. A restart must burn for longer than it takes to warm up.",
        {"severity": "page"},
        annotations,
        "",
        PAGE_KEPT,
    )
    unnamed = Alert(
        name,
        f"""
  max by ({WHICH_POD}) ({IS_ODD})
  and on ({WHICH_POD}) {pod_burns()}
  unless on ({WHICH_POD}) {_POD_LEADER}
  unless on ({POD_LABELS}) {_FIRST_MINUTES}
  """,
        "The same, where no root leads, from the sixth minute of the sidecar's process on.",
        {"severity": "page", "phase": str(Blame.UNATTRIBUTED)},
        pod_annotations(name, bases, str(Blame.UNATTRIBUTED)),
        _POD_HOLD,
        PAGE_KEPT,
    )
    return named, unnamed
