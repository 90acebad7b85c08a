"""The alerts that page the phase: one name per verdict, a page and a ticket each. `phase` is static, and exclusive in PromQL."""

from alert_rules.burn import WHO
from alert_rules.evidence import MODEL
from alert_rules.rule import Alert
from alert_rules.wording import burn_annotations
from sidecar.slo.attribution import Blame


NAMES = {
    Blame.QUEUE: "LLMQueueBurn",
    Blame.PREFILL: "LLMPrefillBurn",
    Blame.FIRST_TOKEN: "LLMFirstTokenBurn",
    Blame.UNATTRIBUTED: "LLMUnattributedBurn",
    Blame.DECODE: "LLMDecodeBurn",
    Blame.STREAM: "LLMStreamBurn",
    Blame.ENGINE: "LLMEngineBurn",
}
_HOLD = {Blame.UNATTRIBUTED: "1m"}
"""While ledgers close, nobody knows; a page that says so waits until that has lasted."""


def burn_alerts(bases: tuple[str, str]) -> tuple[Alert, ...]:
    """All of them. `bases`: of runbooks and dashboards."""
    return tuple(
        alert for blame, name in NAMES.items() for alert in (_page(blame, name, bases), _ticket(blame, name, bases))
    )


def _page(blame: Blame, name: str, bases: tuple[str, str]) -> Alert:
    return Alert(
        name,
        f"""
        max by ({WHO}) (lane:llm_slo_burn:ratio_rate2m >= 0 or lane:llm_slo_burn:ratio_rate5m)
        and on ({WHO}) lane:llm_slo_burn:tier{{tier=~"outage|fast"}} == 1
        and on ({MODEL}) model:llm_slo:disturbed offset 30s
        and on ({WHO}) lane:llm_slo_verdict:phase{{phase="{blame}"}} == 1
        """,
        f"The budget burns fast, something has been burning for half a minute (so there is evidence), and the verdict is {blame}.",
        {"severity": "page", "phase": blame.value},
        burn_annotations(
            name,
            blame,
            "at least half of the requests, or ten times what the target allows, within five minutes",
            bases,
        ),
        _HOLD.get(blame, ""),
    )


def _ticket(blame: Blame, name: str, bases: tuple[str, str]) -> Alert:
    return Alert(
        name,
        f"""
        max by ({WHO}) (lane:llm_slo_burn:ratio_rate30m)
        and on ({WHO}) lane:llm_slo_burn:tier{{tier="slow"}} == 1
        and on ({WHO}) lane:llm_slo_verdict:phase{{phase="{blame}"}} == 1
        """,
        f"The budget burns slowly, and the verdict is {blame}.",
        {"severity": "ticket", "phase": blame.value},
        burn_annotations(
            name, blame, "twice what the target allows for half an hour, or all of it for six hours", bases
        ),
        "2m",
    )
