"""A link of which no answer tells is unknown: neither ok nor broken."""

import pytest

from sidecar.commands.asking import Reply
from sidecar.commands.doctor.gathered import Evidence
from sidecar.commands.doctor.links import Link, State
from sidecar.engines.probe.replies import Answer
from tests.commands.doctor.one_change import (
    NO_ANSWER,
    alertmanager,
    prometheus,
    said,
    states,
)
from tests.commands.doctor.sound_evidence import (
    NOW,
    PAGE,
    STARTED,
    TARGET,
    sound,
    told,
    vector,
    without_shipped_rules,
)


def test_without_any_source_every_link_is_unknown_but_the_sidecar_that_is_not_there() -> None:
    found = states(Evidence(page=NO_ANSWER, healthy=NO_ANSWER, ready=NO_ANSWER, diagnosis=NO_ANSWER))

    assert (found[State.OK], found[State.BROKEN], len(found[State.UNKNOWN])) == ([], ["sidecar"], len(Link) - 1)


def test_before_attaching_a_sidecar_that_is_not_there_is_no_fault() -> None:
    models = b'{"data": [{"id": "llama", "owned_by": "vllm"}]}'
    engine = {
        "/health": Answer(200),
        "/v1/models": Answer(200, models),
        "/metrics": Answer(200, b"vllm:num_requests_waiting 0"),
    }
    evidence = Evidence(page=NO_ANSWER, healthy=NO_ANSWER, ready=NO_ANSWER, engine=engine, engine_where="http://e")
    found = states(evidence)

    assert (found[State.OK], found[State.BROKEN]) == (["engine"], [])
    assert "--enable-per-request-metrics" in said(evidence, Link.REPORTS)


REFUSED = Reply("http://server/page", 503, b"overloaded")
SHOWN_BY = {
    **{name: [Link.SCRAPE] for name in ("sidecars", "targets", "kept", "scraped", "config")},
    "rules": [Link.SCRAPE, Link.RULES, Link.LABELS, Link.EVALUATION, Link.WATCHDOG, Link.RUNBOOKS, Link.DASHBOARDS],
    "alertmanagers": [Link.SENT],
    "alerts": [Link.SENT, Link.ROUTES],
    "silences": [Link.ROUTES],
    "metrics": [Link.DELIVERY],
    "ahead": [Link.CLOCK],
    **{name: [Link.LABELS] for name in ("scraped_at", "falling_starts")},
    # It shows something only if another link is not ok.
    "metrics of Prometheus": [],
}
"""A question to Prometheus or Alertmanager to the links that are not known without its answer. Those that say that the server is down
are among `BREAKS` of `breaks.py`."""


@pytest.mark.parametrize("name", SHOWN_BY)
def test_an_answer_503_shows_nothing(name: str) -> None:
    evidence = sound()
    change = alertmanager if name in evidence.alertmanager else prometheus
    change(name.partition(" ")[0], REFUSED)(evidence)
    found = states(evidence)

    assert found[State.BROKEN] == []
    assert {link.label for link in SHOWN_BY[name]} <= {*found[State.UNKNOWN]}
    assert (SHOWN_BY[name] == []) == (found[State.UNKNOWN] == [])


def test_each_question_has_its_links_above() -> None:
    evidence, server = sound(), {"now", "status"}

    assert {*evidence.prometheus, *evidence.alertmanager} - server == {*SHOWN_BY} - {"metrics of Prometheus"}


def test_a_package_without_rules_leaves_unknown_what_is_compared_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = sound()
    without_shipped_rules(monkeypatch)
    found = states(evidence)

    assert found[State.BROKEN] == []
    assert {"scrape", "rules", "evaluation", "routes", "runbooks"} <= {*found[State.UNKNOWN]}
    assert said(evidence, Link.RULES) == "no folder -> install the wheel of llm-phase-sidecar"


def test_a_pod_that_just_started_is_not_scraped_yet() -> None:
    evidence = sound()
    evidence.page = told(PAGE.replace(str(STARTED), str(NOW - 2)))
    found = states(evidence)

    assert (found[State.BROKEN], found[State.UNKNOWN]) == ([], ["scrape", "labels"])


OTHER = {**TARGET, "pod": "llama-1", "instance": "10.0.0.8:9901"}


def test_two_pods_that_began_at_the_same_instant_are_two_processes() -> None:
    """As after a node comes back. To drop one of them, as if it were scraped twice, would end the monitoring of an engine."""
    evidence = sound()
    prometheus("sidecars", vector((TARGET, STARTED), (OTHER, STARTED)))(evidence)

    assert states(evidence)[State.BROKEN] == states(evidence)[State.UNKNOWN] == []


def test_which_of_two_processes_answered_is_not_guessed() -> None:
    evidence = sound()
    evidence.sidecar_url = "http://llm-phase-sidecar:9901"
    prometheus("sidecars", vector((TARGET, STARTED), (OTHER, STARTED)))(evidence)

    assert states(evidence)[State.BROKEN] == []
    assert "2 processes began at the same instant (llama-0 at 10.0.0.7:9901, llama-1 at 10.0.0.8:9901)" in said(
        evidence, Link.SCRAPE
    )
    assert "--sidecar.url=http://ADDRESS:PORT" in said(evidence, Link.SCRAPE)
