"""Each miss is decided once and soon, by what broke on its pod; the page always adds up."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.ledger.account import Account
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL, EVENT_LOOP_LAG_SECONDS
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.objective import E2E, Objective
from sidecar.observe.evidence import Evidence
from sidecar.observe.request_record import RequestRecord
from sidecar.pod.causes import ROOT_PHASES, Cause, Root, root_of
from sidecar.pod.decision import Decision
from sidecar.pod.life import Facts
from sidecar.pod.open_misses import WAIT_SECONDS
from sidecar.pod.pod import Costs, Pod
from sidecar.pod.signs import Signs
from sidecar.pod.weigh import Weighed, weigh
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.observe.pod_story import (
    CACHED_TOKENS,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    PodStory,
    calm_pod,
    decodes_dearly,
    leader,
)
from tests.support.slo_harness import AIMS


TICK_SECONDS = 1.0
PROMISED = [of for of in Objective if AIMS.aim(of) is not None]
"""The objectives of the lane of `PodStory`."""


# --- with no ledger closed -----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("engine_waiting", [None, 5.0])
def test_a_hang_is_the_engines_silence_though_no_ledger_is_closed_for_ten_minutes(engine_waiting: float | None) -> None:
    """Requests in the engine's own queue are no clear evidence for a limit, in the seconds before the silence shows."""
    pod = calm_pod()
    pod.set(c.ENGINE_REQUESTS_WAITING, engine_waiting)
    pod.waits(60)
    soon = pod.roots("ttft")
    pod.waits(540)

    assert leader(soon) == Blame.ENGINE
    assert soon[Blame.ENGINE] >= 0.9 * sum(soon.values())
    assert pod.causes()["engine", "silence"] >= 0.95 * pod.misses("ttft") > 500
    assert pod.harness.votes() == {}


def test_a_hang_while_more_requests_come_than_usually_is_no_load() -> None:
    """More load is clear evidence where requests are answered. While none is, it waits for what the silence becomes."""
    pod = calm_pod()
    for _ in range(60):
        pod.harness.comes().speaks().ends(tokens=OUTPUT_TOKENS)
        pod.second()
    pod.waits(30, each_second=2)
    roots = pod.roots("ttft")

    assert leader(roots) == Blame.ENGINE
    assert roots[Blame.ENGINE] >= 0.8 * sum(roots.values())


def test_a_hang_behind_an_answer_that_is_not_seen_is_not_named_before_it_is_known() -> None:
    """More requests come as well, and the engine may be busy with that answer for a minute."""
    pod = calm_pod().alone()
    pod.set(c.ENGINE_REQUESTS_WAITING, 5.0)
    pod.harness.comes(lane="batch", streaming=False)
    pod.waits(int(WAIT_SECONDS), each_second=3)
    assert pod.undecided("ttft") == pod.misses("ttft") > 30

    soon = pod.waits(25, each_second=3).roots("ttft")
    assert soon[Blame.UNATTRIBUTED] > 0.45 * sum(soon.values())
    later = pod.waits(80, each_second=3).roots("ttft")
    assert later[Blame.ENGINE] - soon.get(Blame.ENGINE, 0.0) > 0.6 * (sum(later.values()) - sum(soon.values()))


@pytest.mark.reaches_in
def test_a_queue_that_nothing_explains_is_not_named_however_long_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells what steps cost, and the engine exports no numbers."""
    monkeypatch.setattr(Evidence, "costs", lambda _evidence, _at: Costs())
    pod = PodStory().calm().steps(60, decode=1.0)
    before = pod.roots("ttft")
    after = pod.steps(120, decode=1.0).roots("ttft")

    named = after.get(Blame.QUEUE, 0.0) - before.get(Blame.QUEUE, 0.0)
    assert named < 0.05 * (sum(after.values()) - sum(before.values()))


@pytest.mark.reaches_in
def test_a_lead_that_no_miss_has_shown_explains_no_other_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many misses gave prefill a little, and none gave it much."""
    monkeypatch.setattr(Evidence, "costs", lambda _evidence, _at: Costs())
    pod = PodStory().calm().steps(60, decode=1.0)
    incident = pod.harness.slo.roots.incident
    incident.voted({root_of(Cause.PREFILL_COST): 0.3}, pod.now, times=100)
    pod.steps(2, decode=1.0)
    assert incident.lead == root_of(Cause.PREFILL_COST)

    before = pod.roots("ttft").get(Blame.PREFILL, 0.0)
    assert pod.steps(30, decode=1.0).roots("ttft").get(Blame.PREFILL, 0.0) - before < 1.0


def test_a_young_process_waits_for_evidence_too() -> None:
    """That no usual value is known does not decide a miss before its 15 s are over."""
    pod = PodStory().waits(60)

    assert pod.roots()[Blame.ENGINE] >= 0.9 * pod.misses()


def test_a_decode_so_slow_that_nothing_ends_is_decided_as_decode() -> None:
    """Steps cost five times as much, no answer ends, and requests wait for a slot."""
    pod = calm_pod()
    pod.steps(120.0, decode=5.0)

    roots = pod.roots("ttft")

    assert leader(roots) == Blame.DECODE
    assert roots[Blame.DECODE] >= 0.8 * sum(roots.values())
    assert pod.misses("ttft") > 100
    assert pod.harness.votes() == {}


def test_no_miss_is_undecided_for_longer_than_fifteen_seconds_and_a_tick() -> None:
    pod = calm_pod()
    pod.steps(5.0, decode=1.0)
    missed = pod.misses()
    before = pod.undecided()
    for _ in range(int(WAIT_SECONDS + TICK_SECONDS)):
        pod.harness.later(1.0)

    assert 0 < before <= missed
    assert pod.undecided() <= pod.misses() - missed


# --- requests that were turned away or failed -----------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    ("outcome", "root"),
    [
        (Outcome.REJECTED, "queue"),
        (Outcome.ENGINE_ERROR, "engine"),
        (Outcome.ENGINE_TIMEOUT, "engine"),
        (Outcome.ENGINE_TRUNCATED, "engine"),
        (Outcome.ENGINE_UNREACHABLE, "engine"),
        (Outcome.SIDECAR_ERROR, "sidecar"),
    ],
)
def test_a_request_that_is_turned_away_or_failed_has_a_root(outcome: Outcome, root: str, *, streaming: bool) -> None:
    pod = calm_pod()
    pod.harness.comes(streaming=streaming).ends(outcome)

    assert leader(pod.roots()) == root
    assert sum(pod.roots().values()) == pytest.approx(1.0)
    assert pod.undecided() == 0.0


def test_a_request_that_was_turned_away_before_its_body_came_has_a_root() -> None:
    pod = calm_pod()
    labels = RequestLabels("llama", "chat", "unknown")
    account = Account(labels, True, Outcome.REJECTED, Marks(accepted_at=pod.now), None, key=RequestRecord())
    pod.harness.slo.ended(account.key, account, pod.now)

    assert leader(pod.roots()) == Blame.QUEUE
    assert sum(pod.roots().values()) == pytest.approx(1.0)


def test_a_client_that_did_not_read_is_the_root_of_its_own_slow_answer() -> None:
    pod = calm_pod()
    request = pod.harness.comes().speaks(after=0.5)
    pod.calm(10)
    request.speaks()
    request.marks = replace(request.marks, paused_seconds=9.0)
    request.ends(tokens=OUTPUT_TOKENS)

    assert leader(pod.roots("tpot")) == Blame.STREAM
    assert max(pod.causes(), key=pod.causes().__getitem__) == ("stream", "client")


# --- every root of every objective ----------------------------------------------------------------------------------------


def lacks_kv_blocks(pod: PodStory) -> None:
    pod.set(c.ENGINE_KV_CACHE_USAGE_RATIO, 0.97)
    pod.set(c.ENGINE_REQUESTS_WAITING, 5.0)
    pod.second()


def prefills_dearly(pod: PodStory) -> None:
    pod.second(prefill=3.0)


def waits_in_front(pod: PodStory) -> None:
    """Requests wait that the engine does not know, and it reports no phases."""
    pod.metrics.counter(c.PHASE_ATTRIBUTION_TOTAL).child("chat", "none", "no_report").inc(3)
    pod.set(c.ENGINE_REQUESTS_WAITING, 0.0)
    pod.set(c.ENGINE_REQUESTS_RUNNING, 1.0)
    pod.steps(1.0, decode=1.0)


def speaks_in_lumps(pod: PodStory) -> None:
    pod.second(events=6)


def is_down(pod: PodStory) -> None:
    pod.set(c.ENGINE_UP, 0.0)
    pod.waits(1)


def lacks_cpu(pod: PodStory) -> None:
    """The loop stands still for three seconds at once: long beside each objective."""
    pod.metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().observe(3.0)
    pod.second()


def is_well(pod: PodStory) -> None:
    pod.second()


BREAKS: dict[str, Callable[[PodStory], None]] = {
    Blame.QUEUE: lacks_kv_blocks,
    Blame.PREFILL: prefills_dearly,
    Blame.FIRST_TOKEN: waits_in_front,
    Blame.DECODE: decodes_dearly,
    Blame.STREAM: speaks_in_lumps,
    Blame.ENGINE: is_down,
    SIDECAR: lacks_cpu,
    Blame.UNATTRIBUTED: is_well,
}


def test_there_is_a_story_for_every_root() -> None:
    assert {*BREAKS} == {*ROOT_PHASES}


@pytest.mark.parametrize("phase", BREAKS)
def test_every_objective_can_have_every_root(phase: str) -> None:
    """A young process knows no usual values: its misses are `unattributed`."""
    pod = PodStory()
    if phase != Blame.UNATTRIBUTED:
        pod.calm()
    for _ in range(25):
        BREAKS[phase](pod)
    slow = pod.harness.comes().speaks(after=0.1)
    pod.harness.comes()
    pod.harness.comes(streaming=False)
    for _ in range(10):
        BREAKS[phase](pod)
    slow.speaks()
    slow.ends(tokens=OUTPUT_TOKENS)
    for _ in range(int(WAIT_SECONDS + TICK_SECONDS)):
        BREAKS[phase](pod)

    found = {objective: leader(pod.roots(objective)) for objective in PROMISED}
    if phase == Blame.STREAM:
        assert pod.roots(E2E).get(phase, 0.0) == 0.0, "an answer in one piece has no reads to merge"
        del found[E2E]
    assert found == dict.fromkeys(found, phase)


@pytest.mark.long
@pytest.mark.parametrize("breaks", [{"prefill": 8.0}, {"decode": 5.0}, {}], ids=["prompts", "decodes", "nothing"])
def test_reads_that_are_merged_for_a_moment_explain_no_miss(breaks: dict[str, Any]) -> None:
    """Two events of 0.2 s in each read, where a first token may take 1 s: on a busy machine they come together, whatever is
    slow. One request of eleven gets no output."""
    pod = PodStory().calm()
    for number in range(100):
        if number % 10 == 0:
            pod.harness.comes()
        pod.second(events=2, **breaks)
    roots = pod.roots("ttft")

    assert sum(roots.values()) > 5
    assert roots.get(Blame.STREAM, 0.0) < 0.01 * sum(roots.values())


# --- what a fault may claim -----------------------------------------------------------------------------------------------


def test_a_restart_that_is_over_claims_no_miss_of_an_overload() -> None:
    """The engine was restarted 80 s ago on purpose; now four times as many requests come as usually."""
    pod = calm_pod()
    pod.metrics.counter(c.ENGINE_RESTARTS_TOTAL).child().inc()
    pod.harness.slo.engine_restarted()
    pod.calm(80)
    for _ in range(60):
        for _ in range(4):
            pod.harness.comes()
        pod.second()

    roots = pod.roots()

    assert leader(roots) == Blame.QUEUE
    assert roots.get(Blame.ENGINE, 0.0) == 0.0


def test_a_restart_claims_the_misses_of_its_cold_minute() -> None:
    pod = calm_pod()
    pod.metrics.counter(c.ENGINE_RESTARTS_TOTAL).child().inc()
    pod.harness.slo.engine_restarted()
    for _ in range(40):
        pod.harness.comes()
        pod.second(prefill=3.0, decode=3.0)

    assert leader(pod.roots()) == Blame.ENGINE
    assert pod.causes()["engine", "restart"] >= 0.8 * sum(pod.causes().values())


@pytest.mark.long
def test_the_backlog_of_a_restart_that_lowered_the_batch_limit_is_no_restarts() -> None:
    """The new process is as fast as the old one and runs a third as many requests: those that come wait for a slot."""
    pod = PodStory()
    pod.set(c.ENGINE_REQUESTS_RUNNING, 12.0)
    pod.set(c.ENGINE_REQUESTS_WAITING, 0.0)
    pod.calm()
    pod.metrics.counter(c.ENGINE_RESTARTS_TOTAL).child().inc()
    pod.harness.slo.engine_restarted()
    pod.set(c.ENGINE_REQUESTS_RUNNING, 4.0)
    pod.set(c.ENGINE_REQUESTS_WAITING, 8.0)
    line = [pod.harness.comes() for _ in range(8)]
    for _ in range(75):
        line.append(pod.harness.comes())
        pod.second(answered=line.pop(0), queue_seconds=8.0)
    before = pod.causes()
    for _ in range(300):
        line.append(pod.harness.comes())
        pod.second(answered=line.pop(0), queue_seconds=8.0)
    growth = {root: votes - before.get(root, 0.0) for root, votes in pod.causes().items()}

    assert growth["queue", "slots"] > 0.8 * sum(growth.values()) > 200
    assert growth.get(("engine", "restart"), 0.0) == 0.0


@pytest.mark.long
def test_a_backlog_is_the_roots_of_the_fault_that_left_it_until_it_is_worked_off() -> None:
    """Prompts were dear for two minutes, and are as cheap as ever now: but those who waited for them still fill the
    engine, and new requests wait behind them.
    """
    pod = calm_pod()
    pod.set(c.ENGINE_REQUESTS_WAITING, 20.0)
    waiting = [pod.harness.comes() for _ in range(3)]
    for _ in range(40):
        waiting += [pod.harness.comes(), pod.harness.comes()]
        pod.second(prefill=12.0)
    before = pod.roots("ttft")
    for _ in range(90):
        waiting.append(pod.harness.comes())
        pod.second(answered=waiting.pop(0), queue_seconds=80.0)
    growth = {phase: votes - before.get(phase, 0.0) for phase, votes in pod.roots("ttft").items()}

    assert leader(before) == Blame.PREFILL
    assert growth[Blame.PREFILL] > 0.6 * sum(growth.values())


@pytest.mark.long
def test_a_miss_in_a_left_backlog_is_weighed_with_what_was_evicted() -> None:
    """Twice as many requests came for some minutes, and then those that waited left the cache: 100 tokens of each prompt
    are computed and no longer 60. Once that is over, the misses of what still waits know it.
    """
    weighed: list[Facts] = []

    def noted(facts: Facts, signs: Signs, lead: Root | None = None) -> Weighed:
        weighed.append(facts)
        return weigh(facts, signs, lead)

    pod = PodStory().calm()
    pod.harness.slo.roots.decision = Decision(noted)
    waiting = [pod.harness.comes() for _ in range(3)]
    for number in range(100):
        waiting += [pod.harness.comes(), pod.harness.comes()]
        pod.second(cached=0 if number > 40 else CACHED_TOKENS)
    assert {facts.evicted for facts in weighed} == {None}
    for _ in range(60):
        waiting.append(pod.harness.comes())
        pod.second(answered=waiting.pop(0), queue_seconds=80.0, cached=0)

    uncached = PROMPT_TOKENS / (PROMPT_TOKENS - CACHED_TOKENS)
    left = [facts for facts in weighed if facts.evicted is not None]
    assert {facts.left_behind for facts in left} == {True}
    assert [facts.evicted for facts in left] == pytest.approx([uncached] * len(left), rel=0.05)


def test_the_signs_of_a_pod_are_asked_with_the_beginning_of_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a queue that is worked off would look like longer answers."""
    asked: list[float | None] = []
    signs = Pod.signs

    def noted(pod: Pod, at: float, costs: Costs, *, queued_since: float | None, **told: Any) -> Signs:
        asked.append(queued_since)
        return signs(pod, at, costs, queued_since=queued_since, **told)

    monkeypatch.setattr(Pod, "signs", noted)
    pod = PodStory().calm()
    calm, began_at = asked[-1], pod.now
    pod.waits(30)
    soon = asked[-1]
    pod.waits(60)

    assert calm is None
    assert [soon, asked[-1]] == pytest.approx([began_at, began_at], abs=5.0)


# --- the page ------------------------------------------------------------------------------------------------------------


def test_all_roots_of_a_lane_are_on_the_page_at_zero_from_the_start() -> None:
    pod = PodStory()
    pod.harness.page()
    children = pod.metrics.counter(c.SLO_ROOT_MISSES_TOTAL).children
    found = {key: child.value for key, child in children.items() if key[:2] == ("llama", "chat")}

    assert found == {("llama", "chat", of, phase): 0.0 for of in PROMISED for phase in ROOT_PHASES}
    undecided = pod.metrics.gauge(c.SLO_UNDECIDED_MISSES).children
    assert [undecided["llama", "chat", of].value for of in PROMISED] == [0.0, 0.0, 0.0]


def test_the_ratios_of_causes_are_absent_until_they_are_known() -> None:
    pod = PodStory()
    pod.harness.page()
    ratios = pod.metrics.gauge(c.EVIDENCE_RATIO)
    young = [ratios.child(cause).value for cause in ("load", "prompt_mix", "decode_cost")]
    pod.calm()
    pod.harness.page()
    usual = [ratios.child(cause).value for cause in ("load", "prompt_mix", "decode_cost")]

    assert young == [None, None, None]
    assert usual == pytest.approx([1.0, 1.0, 1.0], abs=0.05)


@pytest.mark.reaches_in
def test_an_error_in_a_root_leaves_the_page_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = PodStory().calm(10)
    monkeypatch.setattr(pod.harness.slo.roots, "tick", None)
    pod.waits(3)
    pod.harness.page()

    assert pod.metrics.counter(DROPPED_TOTAL).child("observer_error").value > 0
    assert pod.misses("ttft") == 2
