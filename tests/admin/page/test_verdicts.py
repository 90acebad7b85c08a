"""The headline and the verdicts: the phase of the diagnosis, the worst lane first, and every measurement can be
drawn."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.admin.page.anatomy import Anatomy
from sidecar.admin.page.first_facts import Around
from sidecar.admin.page.headline import headline, in_short
from sidecar.admin.page.verdicts import STEPS, verdicts
from sidecar.commands.diagnose.by_hand import BY_HAND_FLAGS
from sidecar.diagnosis.findings import Diagnosis
from sidecar.diagnosis.measured import EngineDown, Latency, Measured
from sidecar.diagnosis.order import worst_first
from sidecar.diagnosis.tree import diagnose
from sidecar.diagnosis.verdict import Verdict
from sidecar.objectives.attribution import SIDECAR, VOTES, Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause, Per
from sidecar.pod.factor import Factor
from sidecar.pod.size import RootSize
from tests.support.measured import anything
from tests.support.page_reader import Reader


BUSY = Anatomy(300.0, ever=True, bars=(), ends=())
AROUND = Around(at_unix=1_795_171_000.0, uptime_seconds=7200.0)


def lane(
    name: str,
    phase: Blame | str = Blame.QUEUE,
    *,
    misses: float = 20.0,
    burn: float = 4.0,
    cause: Cause | None = None,
    waited_in: Mapping[Blame, float] | None = None,
    ratios: Mapping[Cause, float] | None = None,
    model: str = "llama",
) -> Diagnosis:
    verdict = Verdict(
        roots={phase: misses},
        seconds=120.0,
        misses=misses,
        causes={} if cause is None else {phase: cause},
        waited_in=waited_in or {Blame.QUEUE: 1.0},
    )
    return diagnose(
        Measured(
            source="sidecar",
            lane=name,
            model=model,
            window_seconds=300.0,
            ttft=Latency(p99_seconds=9.0, samples=200, threshold_seconds=1.0, misses=misses, burn=burn),
            inter_token=Latency(p99_seconds=0.02, samples=900, threshold_seconds=0.1, misses=0.0, burn=0.0),
            verdicts={Objective.TTFT: verdict},
            ratios=ratios or {},
        )
    )


def well(name: str) -> Diagnosis:
    number = Latency(p99_seconds=0.5, samples=200, threshold_seconds=1.0, misses=0.0, burn=0.0)
    return diagnose(Measured(source="sidecar", lane=name, model="llama", ttft=number, inter_token=number))


def said(*diagnoses: Diagnosis, ready: tuple[bool, str] = (True, "")) -> Reader:
    ordered = worst_first(diagnoses)
    return Reader(headline(ordered, BUSY, ready, AROUND) + verdicts(ordered))


def test_the_headline_names_the_phase_and_the_lane_that_is_worst() -> None:
    page = said(lane("batch", Blame.DECODE, burn=2.0), lane("chat", Blame.QUEUE, burn=9.0), well("code"))

    assert page.text.startswith("queue chat misses its time to first token and 1 more lane is broken")
    assert next(one for one in page.attributes if one[0] == "data-phase") == ("data-phase", "queue")
    assert "Nothing is broken in code." in page.text
    assert in_short(worst_first([lane("chat")])) == "queue, chat · "


def test_a_lane_of_five_requests_does_not_outshout_the_one_that_is_known() -> None:
    """The lane with few requests burns fastest, but its diagnosis is the least certain."""
    few = lane("rag", Blame.PREFILL, misses=3.0, burn=9.0)
    unknown = lane("batch", Blame.UNATTRIBUTED, misses=50.0, burn=9.0)

    assert said(few, unknown, lane("chat", Blame.QUEUE, burn=3.0)).text.startswith("queue chat misses")


def test_an_engine_that_fails_stands_before_whatever_it_does_to_others() -> None:
    assert said(lane("chat", burn=9.0), lane("batch", Blame.ENGINE, burn=2.0)).text.startswith("engine batch misses")


def test_where_it_broke_and_where_it_shows_are_both_said() -> None:
    """Requests waited in queue because prefill costs more: the headline names prefill, and the page says both."""
    broken = lane(
        "chat",
        Blame.PREFILL,
        cause=Cause.PREFILL_COST,
        waited_in={Blame.QUEUE: 0.78, Blame.PREFILL: 0.22},
        ratios={Cause.PREFILL_COST: 1.09, Cause.LOAD: 1.0},
    )
    size = RootSize(Factor(2.2, 2.0, 2.4), Per.TOKEN)
    verdict = replace(
        broken.measured.verdicts[Objective.TTFT],
        began={Blame.PREFILL: 1_795_170_900.0},
        sizes={Cause.PREFILL_COST: size},
    )

    page = said(diagnose(replace(broken.measured, verdicts={Objective.TTFT: verdict})))

    head = page.text.partition("Verdict")[0]
    assert head.startswith("prefill chat misses")
    assert (
        "Root Cause prefill_cost, 2.2 x the usual, confidence 100 % (of 20 misses of the last 2 min). Waited in queue."
        in head
    )
    assert "queue 78 %" in page.text
    assert ("href", "/runbooks/LLMPrefillBurn?lane=chat&model=llama") in page.attributes


def test_where_no_root_is_named_the_headline_says_how_the_misses_are_divided() -> None:
    verdict = Verdict(roots={Blame.QUEUE: 11.0, Blame.DECODE: 9.0}, seconds=300.0)

    page = said(diagnose(replace(lane("chat").measured, verdicts={Objective.TTFT: verdict})))

    assert page.text.startswith("unattributed, perhaps queue or decode chat misses its time to first token")
    assert "No known root has 60 % of the 20 decided misses of the last 5 min: queue 55 %, decode 45 %." in page.text


def test_a_sidecar_that_ran_late_is_a_root_of_its_own() -> None:
    page = said(lane("chat", SIDECAR, cause=Cause.SIDECAR_LATE))

    assert page.text.startswith("sidecar chat misses its time to first token")
    assert ("href", "/runbooks/LLMSidecarBurn?lane=chat&model=llama") in page.attributes


def test_a_model_is_named_where_there_are_several() -> None:
    assert "chat (mixtral)" in said(lane("chat", burn=9.0, model="mixtral"), lane("chat", model="llama")).text
    assert "mixtral" not in said(lane("chat", model="mixtral")).text


def test_where_nothing_is_broken_the_headline_says_what_that_stands_on() -> None:
    without_objective = diagnose(Measured(source="sidecar", lane="night", ttft=Latency(p99_seconds=0.5, samples=200)))

    assert said(well("chat")).text.startswith("Every objective is met")
    assert said(without_objective).text.startswith("No objectives")
    assert said().text.startswith("Quiet")
    assert said(well("chat"), ready=(False, "draining")).text.startswith("Not ready draining")


def test_a_healthy_system_is_greeted_as_healthy() -> None:
    """A lane with too few samples is named after the good news, and no flag of the command line stands on the page."""
    few = Latency(p99_seconds=None, samples=14, threshold_seconds=1.0, misses=0.0, burn=0.0)
    batch = diagnose(Measured(source="sidecar", lane="batch", model="llama", ttft=few, inter_token=few))

    page = said(batch, well("chat"))

    assert page.text.startswith("Every objective is met Too few samples to judge batch.")
    good, little = "Nothing is broken in chat.", "batch: Only 14 first tokens within the window; 20 are the least: wait"
    assert 0 < page.text.index(good) < page.text.index(little)
    assert [d.measured.lane for d in worst_first([batch, well("chat")])] == ["chat", "batch"]
    assert "--" not in page.text
    assert said(batch).text.startswith("Too few samples Too few samples to judge batch.")


def test_a_refusal_with_another_reason_than_few_samples_comes_before_the_good_news() -> None:
    bypassed = diagnose(replace(well("batch").measured, traffic_seen=0.2))

    assert said(bypassed, well("chat")).text.startswith("No verdict on batch")


def test_a_lane_without_requests_asks_in_whole_sentences_and_shows_code_as_code() -> None:
    silent = diagnose(Measured(source="sidecar", lane="night", model="llama"))
    (missing,) = silent.missing
    page = Reader(verdicts([silent]))

    assert missing.how.endswith("the sidecar's port?")
    assert page.text.endswith("the sidecar's port?")
    assert "`" not in page.text


def test_an_engine_that_is_down_is_the_headline_with_and_without_traffic() -> None:
    down = EngineDown(seconds=185.0)
    quiet = Reader(headline([], BUSY, (False, "draining"), AROUND, down))
    busy = Reader(headline(worst_first([lane("chat"), well("code")]), BUSY, (True, ""), AROUND, down))

    assert quiet.text.startswith("engine The engine is down, for 3 min")
    assert busy.text.startswith("engine The engine is down, for 3 min")
    assert "1 lane is broken." in busy.text
    assert [("href", "/runbooks/LLMEngineDown") in page.attributes for page in (quiet, busy)] == [True, True]
    assert in_short([], down) == "engine down · "
    assert Reader(headline([], BUSY, (True, ""), AROUND, EngineDown())).text.startswith("engine The engine is down It")
    assert Reader(headline([], BUSY, (True, ""), AROUND, EngineDown(seconds=0.2))).text.startswith(
        "engine The engine is down It"
    )


def test_an_engine_that_is_stalled_is_the_headline_with_the_reason() -> None:
    stalled = EngineDown(seconds=185.0, stalled=True)
    page = Reader(headline([], BUSY, (False, "the engine has stopped: no output for 190 s"), AROUND, stalled))

    assert page.text.startswith(
        "engine The engine is stalled, for 3 min Not ready: the engine has stopped: no output for 190 s. Lane"
    )
    assert page.text.endswith("Runbook LLMEngineDown")
    assert in_short([], stalled) == "engine stalled · "


def test_an_engine_that_has_not_come_up_yet_is_no_fault() -> None:
    starting = EngineDown(seconds=185.0, coming_up=True)
    page = headline([], BUSY, (False, "no engine yet"), AROUND, starting)

    assert Reader(page).text == "The engine has not come up yet, for 3 min"
    assert ('class="bad"' in page, in_short([], starting)) == (False, "")
    assert Reader(headline([lane("chat")], BUSY, (True, ""), AROUND, starting)).text.startswith("queue chat misses")


def test_an_objective_that_healed_is_met_and_the_page_says_until_when_it_was_missed() -> None:
    healed = Latency(
        p99_seconds=0.484,
        samples=1664,
        threshold_seconds=1.5,
        misses=0.0,
        burn=0.0,
        misses_long=2375.0,
        burn_long=4.24,
        missed_until_seconds=420.0,
    )
    rag = diagnose(replace(lane("rag", misses=2375.0).measured, ttft=healed))

    page = said(rag, lane("chat", burn=2.0))

    assert page.text.startswith("queue chat misses its time to first token")
    assert "Nothing is broken in rag." in page.text
    assert "rag: The time to first token is met now; it was missed until 7 min ago (2,375 misses" in page.text


def test_votes_on_the_page_never_exceed_the_misses_of_their_window() -> None:
    """A request that missed just before the window may be decided within it."""
    broken = lane("chat", misses=20.0)

    page = said(
        diagnose(
            replace(
                broken.measured,
                verdicts={Objective.TTFT: Verdict(roots={Blame.QUEUE: 23.0}, seconds=300.0, misses=20.0)},
            )
        )
    )

    assert "What broke is decided for 20 of 20 misses of the last 5 min: queue 100 %." in page.text
    assert "23" not in page.text


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt_llm", "tgi"])
@pytest.mark.parametrize("phase", VOTES[Objective.TTFT])
def test_what_is_to_be_typed_stands_as_code_and_no_backtick_is_shown(phase: Blame, engine: str) -> None:
    """Flags of every engine, in the steps of every phase, are shown as code."""
    broken = diagnose(replace(lane("chat", phase).measured, engine=engine))

    page = Reader(verdicts([broken]))
    flags = [step.flag for step in broken.steps[:STEPS] if step.flag]

    assert ("`" in page.text, page.open) == (False, [])
    codes = [code for flag in flags for code in re.findall(r"`([^`]+)`", flag)]
    assert [code for code in codes if code not in page.text] == []
    assert page.tags.count("code") >= len(flags)


@pytest.mark.long
@given(st.lists(anything, max_size=4))
def test_the_page_advises_no_flag_of_the_command_line(measured: list[Measured]) -> None:
    """Its reader looks at a running sidecar; only flags of the engine help there."""
    here = [replace(one, source="sidecar") for one in measured]
    ordered = worst_first([diagnose(one) for one in here])

    shown = Reader(headline(ordered, BUSY, (True, ""), AROUND) + verdicts(ordered)).text

    flags = ["--window", *(f"--{flag.name}" for flag in BY_HAND_FLAGS)]
    assert [flag for flag in flags if re.search(rf"{flag}(?![a-z-])", shown)] == []


@pytest.mark.long
@given(st.lists(anything, max_size=4))
def test_whatever_was_measured_can_be_drawn(measured: list[Measured]) -> None:
    """Every tag is closed, there is one headline, and its phase is that of the first diagnosis."""
    ordered = worst_first([diagnose(one) for one in measured])
    page = Reader(headline(ordered, BUSY, (True, ""), AROUND) + verdicts(ordered))

    assert page.open == []
    assert page.tags.count("h1") == 1
    phases = [value for name, value in page.attributes if name == "data-phase"]
    first = ordered[0].phase if ordered else None
    assert (phases[0] if phases else None) == first
