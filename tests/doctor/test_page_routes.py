"""The outcome of a TEST page: what it shows of the delivery and of the templates, and what it leaves open."""

import pytest

from sidecar.doctor.examination import examine
from sidecar.doctor.gathered import Evidence
from sidecar.doctor.links import Link, State
from tests.doctor.one_change import alertmanager, drilled, said, states
from tests.doctor.sound_evidence import COUNTED, sound, status


ACCEPTED = COUNTED.replace("} 3", "} 4")


def after_a_test_page(grown: str, *receivers: dict[str, object]) -> Evidence:
    """A TEST page of the phase queue went to the first of these receivers; template files are not shown."""
    evidence = sound()
    queue = {"matchers": ["phase=queue"], "receiver": receivers[0]["name"]}
    config = {
        "route": {"receiver": receivers[-1]["name"], "routes": [queue]},
        "receivers": [*receivers],
        "templates": ["t/*.tmpl"],
    }
    alertmanager("status", status(config))(evidence)
    evidence.template_texts = None
    drilled(grown)(evidence)
    return evidence


def sends(name: str, template: str) -> dict[str, object]:
    return {"name": name, "slack_configs": [{"title": '{{ template "%s" . }}' % template}]}


@pytest.mark.parametrize(
    ("template", "state", "words"),
    [
        ("llm.title", State.OK, "with all 1 templates"),
        ("llm.other", State.UNKNOWN, "with 1 of them"),
    ],
)
def test_a_test_page_proves_the_templates_of_its_own_receivers(template: str, state: State, words: str) -> None:
    evidence = after_a_test_page(ACCEPTED, sends("queue", "llm.title"), sends("rest", template))
    (found,) = [one for one in examine(evidence) if one.link is Link.TEMPLATES]

    assert (found.state, words in found.said) == (state, True)


def test_a_test_page_that_no_receiver_sends_proves_nothing() -> None:
    evidence = after_a_test_page(COUNTED, {"name": "queue"}, sends("rest", "llm.title"))

    assert {"templates", "delivery"} <= {*states(evidence)[State.UNKNOWN]}
    assert states(evidence)[State.BROKEN] == ["routes"]
    assert said(evidence, Link.TEMPLATES).startswith("receivers name 1 templates")
