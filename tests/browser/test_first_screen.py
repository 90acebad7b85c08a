"""In each of five incidents the first screen of the status page answers what is asked first, on a phone and on a desk."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.request import urlopen

import pytest

from tests.browser.chromium import Tab, chromium
from tests.browser.first_screen import NEAR_SECONDS, READ, Truth, lacks
from tests.browser.layout import COMPLAINTS, FAINT
from tests.browser.played import ENGINE, FAULTS, POD, VERSION, listening, played
from tests.support.background import Background, background
from tests.support.tools import need_tool


pytestmark = [pytest.mark.long, pytest.mark.timed]

WINDOWS = ((390, 844), (1440, 960))
OBJECTIVES = {"decode": "time between tokens", "stream": "time between tokens"}
"""Phase to the objective that its fault breaks first; it is the time to first token for all others."""
CAUSES = {"queue": "slots", "prefill": "prefill_cost", "decode": "decode_cost", "stream": "client", "engine": "down"}
GROWING = ("prefill_cost", "decode_cost")
"""Those causes that are ratios to usual values."""
MUTATIONS = (
    ("phase", "document.querySelector('#headline .chip').textContent = 'kv'"),
    ("lane", "NAMED('Lane').textContent = 'batch'"),
    ("objective", "NAMED('Objective').parentElement.remove()"),
    ("since", "NAMED('Since').textContent = NAMED('Since').textContent.replace(/:\\d\\d UTC/, ' UTC')"),
    ("ago", "NAMED('Since').textContent = NAMED('Since').textContent.replace(/,.*/, '')"),
    ("burn", "NAMED('Burn').textContent = 'high'"),
    ("root", "NAMED('Root').parentElement.style.marginTop = '2000px'"),
    ("root", "NAMED('Root').textContent = NAMED('Root').textContent.replace(/Cause \\w+/, 'Cause load')"),
    ("root", "NAMED('Root').textContent = NAMED('Root').textContent.replace(/, confidence[^)]*\\)/, '')"),
    ("grown", "NAMED('Root').textContent = NAMED('Root').textContent.replace(/, [\\d.]+ x the usual/, '')"),
    ("grown", "NAMED('Changed').textContent = 'Grown: load 2 x. ' + NAMED('Changed').textContent"),
    ("changed", "NAMED('Changed').textContent = ''"),
    ("fix", "NAMED('Do first').textContent = 'Wait'"),
    ("runbook", "NAMED('Runbook').textContent = 'LLMQueueBurn'"),
    ("pod", "document.querySelector('header .name').textContent = 'llm-phase-sidecar'"),
    ("model", "document.querySelector('header .name + p').textContent = ''"),
    (
        "engine",
        "document.querySelector('header .name + p').style.position = 'fixed', document.querySelector('header .name + p').style.top = '-90px'",
    ),
    ("version", "document.querySelector('header .name + p').textContent = 'sidecar'"),
)
"""Answers, and changes of the page that take them away, off the screen, or put a wrong one in their place."""
NAMED = """
const NAMED = (name) => [...document.querySelectorAll("#headline dt")].find((one) => one.textContent === name).nextSibling;
"""


@dataclass
class Screens:
    """A browser, and one sidecar's page per incident."""

    thread: Background
    tab: Tab
    urls: dict[str, str]
    truths: dict[str, Truth]

    def opens(self, phase: str, width: int, height: int, scheme: str = "light") -> None:
        self.thread.run(self.tab.looks(width, height, scheme=scheme))
        self.thread.run(self.tab.open(f"{self.urls[phase]}/?refresh=off"))

    def asks(self, script: str) -> Any:
        return self.thread.run(self.tab.ask(script))


@pytest.fixture(scope="module")
def screens() -> Iterator[Screens]:
    program = need_tool("chromium")
    incidents = {phase: played(phase) for phase in FAULTS}
    with ExitStack() as stack:
        thread = stack.enter_context(background())
        urls = {
            phase: stack.enter_context(thread.entered(partial(listening, each))) for phase, each in incidents.items()
        }
        truths = {
            phase: Truth(
                phase=phase,
                lane="interactive",
                objective=OBJECTIVES.get(phase, "time to first token"),
                pod=POD,
                model=each.model,
                engine=ENGINE,
                version=VERSION,
                began_at_unix=each.fault_at_unix,
                cause=CAUSES[phase],
                grown=CAUSES[phase] in GROWING,
            )
            for phase, each in incidents.items()
        }
        browser = stack.enter_context(thread.entered(lambda: chromium(program)))
        yield Screens(thread, thread.run(browser.tab()), urls, truths)


@pytest.mark.parametrize(("width", "height"), WINDOWS)
@pytest.mark.parametrize("phase", FAULTS)
def test_the_first_screen_answers(screens: Screens, phase: str, width: int, height: int) -> None:
    """Phase, lane, objective, since when, burn, root with its cause, what has grown, changes, the first step, runbook, pod, model, engine and version."""
    screens.opens(phase, width, height)

    assert lacks(screens.asks(READ), screens.truths[phase]) == []
    assert screens.asks(COMPLAINTS) == []


@pytest.mark.parametrize("phase", FAULTS)
def test_the_runbook_of_the_first_screen_answers(screens: Screens, phase: str) -> None:
    """It is the runbook of the phase, and it opens."""
    screens.opens(phase, *WINDOWS[0])
    path = screens.asks(READ)["runbook"]

    with urlopen(screens.urls[phase] + path, timeout=20) as answer:
        assert answer.status == 200
    assert path.startswith("/runbooks/LLMEngineDown" if phase == "engine" else f"/runbooks/LLM{phase.title()}Burn")


@pytest.mark.parametrize(("answer", "change"), MUTATIONS)
def test_an_answer_that_is_taken_away_is_missed(screens: Screens, answer: str, change: str) -> None:
    """Otherwise the test above would prove nothing."""
    screens.opens("prefill", *WINDOWS[0])
    screens.asks(f"{NAMED} {change}; 0")

    assert answer in lacks(screens.asks(READ), screens.truths["prefill"])


def test_a_beginning_beside_the_fault_is_missed(screens: Screens) -> None:
    truth = screens.truths["queue"]
    screens.opens("queue", *WINDOWS[1])
    early = Truth(
        **{name: getattr(truth, name) for name in truth.__slots__} | {"began_at_unix": truth.began_at_unix - 60}
    )

    assert NEAR_SECONDS < 60
    assert lacks(screens.asks(READ), early) == ["since"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_the_first_screen_can_be_read(screens: Screens, scheme: str) -> None:
    screens.opens("decode", *WINDOWS[0], scheme)

    assert screens.asks(FAINT) == []


@pytest.mark.parametrize("phase", ["queue", "prefill", "decode"])
def test_the_curve_of_the_phase_at_fault_rises(screens: Screens, phase: str) -> None:
    """The curves know nothing of the verdict. Each has words for those who do not see it, and a line where the incident began."""
    screens.opens(phase, *WINDOWS[1])
    labels = screens.asks(
        "[...document.querySelectorAll('#half-hour > .sparks svg')].map((one) => one.getAttribute('aria-label'))"
    )
    told = [
        re.fullmatch(r"interactive, ([\w ]+), over the last 6 min: at first (.+), latest .+, highest (.+)", label)
        for label in (label.replace("\u00a0", " ") for label in labels)
    ]
    rises = {one[1]: in_seconds(one[3]) / in_seconds(one[2]) for one in told if one is not None}

    assert len(rises) == len(labels)
    assert rises[phase] >= 3.0
    assert screens.asks("document.querySelectorAll('#half-hour > .sparks .since').length") == len(labels)
    assert "all that this process has seen" in screens.asks("document.querySelector('#half-hour h2').innerText")


def in_seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}[unit]
