"""The examination: every link judged in the order of the chain, from the evidence. Pure.

A link behind a broken one is unknown, so that one fault has one name. A server may answer in a form that no judge knows; that makes
its link unknown, and never an error of the command.
"""

from collections.abc import Callable, Mapping

from sidecar.commands.doctor import (
    attached_pods,
    clock,
    loaded_rules,
    own_side,
    page_links,
    page_routes,
    scraped_targets,
)
from sidecar.commands.doctor.gathered import UNKNOWN_FORM, Evidence, Read
from sidecar.commands.doctor.links import Chain, Finding, Link, unknown
from sidecar.commands.export.shipped_files import NothingShippedError


JUDGES: Mapping[Link, Callable[[Read, Chain], Finding]] = {
    Link.CONFIG: own_side.config,
    Link.ENGINE: own_side.engine,
    Link.REPORTS: own_side.reports,
    Link.SIDECAR: own_side.sidecar,
    Link.READY: own_side.ready,
    Link.TRAFFIC: own_side.traffic,
    Link.ATTACHED: attached_pods.attached,
    Link.CLIENTS: own_side.clients,
    Link.COUNTED: own_side.counted,
    Link.LIMITS: own_side.limits,
    Link.PROMETHEUS: scraped_targets.prometheus,
    Link.SCRAPE: scraped_targets.scrape,
    Link.RULES: loaded_rules.rules,
    Link.LABELS: scraped_targets.labels,
    Link.EVALUATION: loaded_rules.evaluation,
    Link.WATCHDOG: loaded_rules.watchdog,
    Link.ALERTMANAGER: page_routes.alertmanager,
    Link.SENT: loaded_rules.sent,
    Link.ROUTES: page_routes.routes,
    Link.TEMPLATES: page_routes.templates,
    Link.DELIVERY: page_routes.delivery,
    Link.RUNBOOKS: page_links.runbooks,
    Link.DASHBOARDS: page_links.dashboards,
    Link.CLOCK: clock.clocks,
}


def examine(evidence: Evidence) -> list[Finding]:
    """One finding for each link, in the order of `Link`."""
    read, chain = Read(evidence), Chain()
    for link, judge in JUDGES.items():
        try:
            chain.add(judge(read, chain))
        except NothingShippedError as error:
            chain.add(unknown(link, str(error), "install the wheel of llm-phase-sidecar"))
        except UNKNOWN_FORM as error:
            what = f"{type(error).__name__}: {error}"[:120]
            chain.add(
                unknown(
                    link,
                    f"an answer has a form that the doctor does not know ({what})",
                    "check the address that was asked",
                )
            )
    return list(chain)
