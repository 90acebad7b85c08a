"""`python -m alert_rules`: write the rule files and the Kubernetes objects that stand beside this file.

Knows which group goes into which file. A test runs it and finds the committed files unchanged.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import yaml

from alert_rules.burn import BURN_TIERS, INSTANCES, NUMBERS, SUMS
from alert_rules.operator import alertmanager_config, as_yaml, prometheus_rule
from alert_rules.pages import pages, tickets
from alert_rules.roots import LATER_POD_SUMS, ODD, POD_ROOTS, POD_SUMS, ROOTS, SHARE, WAITED, WAITED_IN, WORSE
from alert_rules.rule import Group, written
from alert_rules.state import engine_alerts, sidecar_alerts, traffic_alerts
from alert_rules.wording import DASHBOARDS, RUNBOOKS


HERE = Path(__file__).parent
_HEADER = "Written by `python -m alert_rules`; change the code beside it, not this file. Works alike on Prometheus 2.42 and 3.x."


def files(bases: tuple[str, str] = (RUNBOOKS, DASHBOARDS)) -> Mapping[str, str]:
    """Path below alert_rules/ to text. `bases`: where runbooks and dashboards are found."""
    recording = (
        Group(
            "llm-phase-sums",
            (*INSTANCES, POD_ROOTS, POD_SUMS, ODD, *SUMS, ROOTS),
            why="Growth of the sidecars' counters, by pod and by lane.",
        ),
        Group(
            "llm-phase-tiers",
            (*BURN_TIERS, SHARE),
            interval="5s",
            why="Cheap, and evaluated often, so that a page waits for no group.",
        ),
        Group(
            "llm-phase-numbers",
            (*NUMBERS, LATER_POD_SUMS, WORSE, WAITED, WAITED_IN),
            why="For messages, dashboards, diagnosis and the tickets of pods.",
        ),
    )
    alerts = (
        Group("llm-phase-pages", pages(bases), interval="5s"),
        Group("llm-phase-tickets", tickets(bases), interval="30s"),
        Group("llm-phase-engine", engine_alerts(bases), interval="30s"),
        Group("llm-phase-traffic", traffic_alerts(bases), interval="30s"),
        Group("llm-phase-sidecar", sidecar_alerts(bases), interval="30s"),
    )
    texts = {
        "llm-recording.yml": written(
            recording,
            f"{_HEADER}\nRecording rules: burn rates, tiers, and the share of each root per lane and objective.",
        ),
        "llm-alerts.yml": written(
            alerts, f"{_HEADER}\nAlerts: the phase that burns, the engine's state, the traffic, the sidecar itself."
        ),
    }
    rules = prometheus_rule([yaml.safe_load(text) for text in texts.values()])
    routes = alertmanager_config(yaml.safe_load((HERE / "alertmanager.yml").read_text()))
    texts["kubernetes/prometheus-rule.yaml"] = as_yaml(rules, source="the rule files")
    texts["kubernetes/alertmanager-config.yaml"] = as_yaml(routes, source="alert_rules/alertmanager.yml")
    return texts


def _not_kept(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "keep_firing_for:" not in line)


def main() -> None:
    """Write them all."""
    parser = argparse.ArgumentParser(
        prog="python -m alert_rules", description="Write the rule files and Kubernetes objects in alert_rules/."
    )
    parser.add_argument(
        "--runbook-base",
        default=RUNBOOKS,
        metavar="URL",
        help="what links to runbooks begin with (default %(default)s)",
    )
    parser.add_argument(
        "--dashboard-base",
        default=DASHBOARDS,
        metavar="URL",
        help="what links to dashboards begin with (default %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, default=HERE, metavar="DIR", help="where to write (default: beside the code)"
    )
    parser.add_argument(
        "--no-keep-firing",
        action="store_true",
        help="leave keep_firing_for out of the alerts: an old vmalert, such as 1.79, refuses it",
    )
    given = parser.parse_args()
    written_files = files((given.runbook_base.rstrip("/"), given.dashboard_base.rstrip("/")))
    for name, text in written_files.items():
        path = given.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_not_kept(text) if given.no_keep_firing else text)
        print(path)  # noqa: T201  a command's output


if __name__ == "__main__":
    main()
