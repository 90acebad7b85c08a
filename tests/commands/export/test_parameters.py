"""A wrong value of a flag is refused with the flag and what is allowed, all wrong ones at once."""

from dataclasses import replace

import pytest

from sidecar.cli import main
from sidecar.commands.export.parameters import Parameters, errors
from sidecar.commands.export.rules.severity import Severities


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("--receivers=slak", "'slak' is not known; allowed are slack, pagerduty, webhook, opsgenie, teams, with commas between; did you mean \"slack\"?"),
        ("--receivers=slack,e-mail", "'e-mail' is not known; allowed are slack, pagerduty, webhook, opsgenie, teams"),
        ("--receivers=webhook", "webhook needs --webhook-url=URL"),
        ("--webhook-url=https://x.example", "--webhook-url has no effect: name webhook in --receivers"),
        ("--slack-channel=#x", "--slack-channel has no effect: name slack in --receivers"),
        ("--severity.page=very bad", "--severity.page: 'very bad' is no severity: letters, digits, - _ and ."),
        ("--severity.ticket=none", "not 'none' (the Watchdog's)"),
        ("--severity.ticket=page", "are both 'page': then nothing tells a page from a ticket"),
        ("--namespace=LLM", "--namespace: 'LLM' is no namespace: a-z, 0-9 and -, at most 63 characters"),
        ("--release=a b", "--release: 'a b' is no value of a label"),
        ("--runbook-base=runbooks.example.com", "--runbook-base: 'runbooks.example.com' is no http:// or https:// address"),
        ('--grafana-base=https://x"', "is no http:// or https:// address"),
        ("--secrets=secrets", "--secrets: 'secrets' is no absolute path of a folder"),
        ('--datasource="', "is no uid of a data source"),
        ("--receivers=teams", "--receivers: teams needs Alertmanager 0.28 or newer: say yours, such as --alertmanager=0.28"),
        ("--alertmanager=new", "--alertmanager: 'new' is no version of Alertmanager: two numbers, such as 0.28"),
        ("--alertmanager=0.24", "--alertmanager: the routes need 0.25 or newer"),
        ("--ruler=azur", "'azur' is not known; allowed are prometheus, mimir, gmp, azure, amp; did you mean \"azure\"?"),
        ("--interval=soon", "--interval: 'soon' is no interval: a whole number of seconds or minutes, such as 30s or 1m"),
        ("--interval=5m", "--interval: '5m' is above 60s: the rules read windows of two minutes"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_what_is_allowed(
    flag: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "rules", "--out=never-written", flag]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())  # long lines are folded


@pytest.mark.parametrize(("ruler", "interval"), [("azure", "30s"), ("amp", "15s")])
def test_an_interval_that_the_ruler_refuses_is_an_error_that_names_the_one_to_give(ruler: str, interval: str) -> None:
    given = Parameters(ruler=ruler, interval=interval)
    least = given.evaluated_by.least_interval_seconds

    assert [error.partition("give ")[2] for error in errors(given)] == [f"--interval={least}s or leave it out"]
    assert errors(replace(given, interval=f"{least}s")) == []


def test_what_is_given_stands_above_what_the_ruler_would_have() -> None:
    given = Parameters(ruler="gmp")

    assert (given.interval_seconds, given.keeps_firing) == (30, False)
    assert replace(given, interval="1m").interval_seconds == 60
    assert [Parameters(ruler="amp", keep_firing=keep).keeps_firing for keep in (True, False)] == [True, False]


def test_all_errors_are_told_at_once() -> None:
    given = Parameters(namespace="N", release="-", receivers=("pager",), severities=Severities("", "x"))

    assert [line.split(":")[0] for line in errors(given)] == [
        "--namespace", "--release", "--receivers", "--severity.page",
    ]  # fmt: skip


def test_the_defaults_and_usual_values_are_right() -> None:
    given = Parameters(
        namespace="llm-prod",
        release="monitoring.prom_1",
        runbook_base="https://example.com/a/b",
        datasource="PBFA97CFB590B2093",
        receivers=("webhook", "slack"),
        slack_channel="#on-call",
        webhook_url="http://10.0.0.1:8080/x",
        severities=Severities("critical", "warning"),
    )

    assert errors(Parameters()) + errors(given) == []


@pytest.mark.parametrize("base", ["https://example.com/a?c=d", "https://example.com/a#top"])
def test_a_base_of_links_has_no_query(base: str) -> None:
    """The name of the runbook and the labels come behind it: `?c=d/LLMQueueBurn?lane=chat` opens no page."""
    given = Parameters(runbook_base=base, grafana_base=base)

    assert [error.partition(":")[0] for error in errors(given)] == ["--runbook-base", "--grafana-base"]


def test_the_runbooks_are_the_sidecars_own_in_their_namespace_unless_others_are_named() -> None:
    own = Parameters()
    bases = [own, replace(own, namespace="llm"), replace(own, namespace="llm", runbook_base="https://x.example/r/")]

    assert [given.runbooks for given in bases] == [
        "http://llm-phase-sidecar:9901/runbooks",
        "http://llm-phase-sidecar.llm.svc:9901/runbooks",
        "https://x.example/r",
    ]
