"""The flags of `sidecar export`, with their help.

It knows what each flag says and its default, and neither files nor what a right value is: `parameters.py` checks values.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from sidecar.commands.export.identity_labels import Identity
from sidecar.commands.export.parameters import RECEIVERS, SECRETS, Parameters
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.commands.export.rules.operator import RELEASE, SECRET
from sidecar.commands.export.rules.rulers import RULERS
from sidecar.commands.export.rules.severity import Severities
from sidecar.commands.shared_flags import gone
from sidecar.config.flag_parser import Parser
from sidecar.metrics.target_labels import CLUSTER


_ABOUT_EXPORT = """\
Write what a team takes from this project into a folder: rules for Prometheus,
routes for Alertmanager, dashboards for Grafana, manifests for Kubernetes. All
of it travels with the package. Without flags the files are those of the
project's repository, byte by byte.

  rules       recording rules and alerts, as files and as a PrometheusRule
  routes      Alertmanager's configuration, also as an AlertmanagerConfig
  dashboards  dashboards, provisioning, and the questions for canaries
  chart       a Helm chart of rules, routes, dashboards and what is scraped
  kubernetes  deploy/, alert_rules/ and grafana/dashboards/ for kubectl apply -k
  all         all of it, in the folders alert_rules/, grafana/ and deploy/
"""
_EXAMPLES_OF_EXPORT = """\
examples:
  sidecar export rules --out=llm
      The rules, for a Prometheus without an operator.
  sidecar export routes --out=llm --receivers=slack --slack-channel='#oncall'
      Routes for a team that has Slack alone: one file, which reads one secret.
  sidecar export rules --out=llm --ruler=azure
      Rules that a managed ruler takes; the command says what that costs.
  sidecar export all --out=llm --namespace=inference --release=prom \\
      --receivers=slack,pagerduty --severity.page=critical \\
      --severity.ticket=warning --runbook-base=https://llm.example.com/runbooks
      All of it, with a team's own names. Severities change in rules, routes,
      messages and dashboards alike: write them with one command.

exit codes: 0 written; 1 a file cannot be written; 2 a wrong flag, or a file
that is there with other content. More: docs/export.md
"""


def export_parser(things: Sequence[str]) -> argparse.ArgumentParser:
    """`things`: the words that say what to write."""
    parser = Parser(
        prog="sidecar export",
        gone=gone("export"),
        description=_ABOUT_EXPORT,
        epilog=_EXAMPLES_OF_EXPORT,
        usage=f"sidecar export {{{','.join(things)}}}\n                      --out=DIR [flags]",
    )
    parser.add_argument("what", choices=things, metavar="WHAT", help=f"one of {', '.join(things)}")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", required=True, help="the folder to write to; made if missing"
    )
    parser.add_argument("--force", action="store_true", help="overwrite files that are there with other content")
    default = Parameters()
    links = parser.add_argument_group("links in pages and dashboards")
    links.add_argument(
        "--runbook-base",
        default="",
        metavar="URL",
        help=f"runbooks (default {RUNBOOKS}, with `.NAMESPACE.svc` behind the host if --namespace is given)",
    )
    links.add_argument(
        "--grafana-base", default=default.grafana_base, metavar="URL", help="Grafana (default %(default)s)"
    )
    _alerting(parser)
    _identity(parser)
    grafana = parser.add_argument_group("dashboards")
    grafana.add_argument(
        "--datasource",
        default="",
        metavar="UID",
        help="the uid of the Prometheus that a dashboard opens with (default: Grafana's default Prometheus)",
    )
    cluster = parser.add_argument_group("Kubernetes")
    cluster.add_argument(
        "--namespace", default="", metavar="NAME", help="the namespace of all objects (default: that of kubectl)"
    )
    cluster.add_argument(
        "--release",
        default=RELEASE,
        metavar="NAME",
        help="the Helm release of Prometheus: it selects objects by this label (default %(default)s)",
    )
    return parser


def _alerting(parser: argparse.ArgumentParser) -> None:
    default = Parameters()
    group = parser.add_argument_group("rules and routes")
    group.add_argument(
        "--receivers",
        default="",
        metavar="KINDS",
        help=f"the kinds that the team has, of {', '.join(RECEIVERS)}, with commas between: one receiver for pages, one for"
        " tickets, messages inlined (default: a receiver for each phase and severity)",
    )
    group.add_argument(
        "--alertmanager",
        default=default.alertmanager,
        metavar="VERSION",
        help="the oldest Alertmanager that reads the routes (default %(default)s): teams needs 0.28, Slack's top-level text 0.31",
    )
    group.add_argument(
        "--slack-channel", default="", metavar="NAME", help="with slack: the channel (default #llm-alerts)"
    )
    group.add_argument("--webhook-url", default="", metavar="URL", help="with webhook: its address")
    group.add_argument(
        "--watchdog-url", default="", metavar="URL", help="the service that calls you when alerting falls silent"
    )
    group.add_argument(
        "--secrets",
        default=SECRETS,
        metavar="DIR",
        help=f"the folder of Alertmanager's files with secrets (default %(default)s); in Kubernetes they are keys of"
        f" the Secret {SECRET}",
    )
    for severity, name in (("page", default.severities.page), ("ticket", default.severities.ticket)):
        group.add_argument(
            f"--severity.{severity}",
            default=name,
            metavar="NAME",
            help=f"the severity of {severity}s (default %(default)s)",
        )
    group.add_argument(
        "--ruler",
        default=default.ruler,
        metavar="NAME",
        help=f"who evaluates the rules, of {', '.join(RULERS)}: intervals, fields and sizes that it takes (default %(default)s)",
    )
    group.add_argument(
        "--interval",
        default="",
        metavar="DURATION",
        help="evaluate no group more often, such as every 30s; at most 1m (default: the ruler's; pages come later)",
    )
    group.add_argument(
        "--no-keep-firing",
        action="store_true",
        help="leave keep_firing_for out of the alerts: an old vmalert, such as 1.79, refuses it",
    )
    group.add_argument(
        "--classic-histograms",
        action="store_true",
        help="rules and dashboards that read no native histogram: VictoriaMetrics refuses their functions",
    )


def _identity(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("labels that tell clusters apart, in rules, routes, messages and dashboards")
    group.add_argument(
        "--cluster-label",
        default=CLUSTER,
        metavar="NAME",
        help="the label of a cluster's name, on series or on alerts alone (default %(default)s; where it is absent, all is one cluster)",
    )
    group.add_argument(
        "--extra-labels", default="", metavar="NAMES", help="further ones, such as region, with commas between"
    )


def read_parameters(known: argparse.Namespace) -> Parameters:
    """The flags as parameters, which may be wrong."""
    flags = vars(known)
    return Parameters(
        namespace=known.namespace,
        release=known.release,
        runbook_base=known.runbook_base,
        grafana_base=known.grafana_base,
        datasource=known.datasource,
        receivers=tuple(dict.fromkeys(_words(known.receivers))),
        alertmanager=known.alertmanager,
        slack_channel=known.slack_channel,
        webhook_url=known.webhook_url,
        watchdog_url=known.watchdog_url,
        secrets=known.secrets.rstrip("/"),
        severities=Severities(flags["severity.page"], flags["severity.ticket"]),
        ruler=known.ruler,
        interval=known.interval,
        identity=Identity(known.cluster_label, _words(known.extra_labels)),
        keep_firing=not known.no_keep_firing,
        classic_histograms=known.classic_histograms,
    )


def _words(listed: str) -> tuple[str, ...]:
    """The words between the commas."""
    return tuple(word.strip() for word in listed.split(",") if word.strip())
