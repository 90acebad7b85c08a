"""Cases with the answer of a staff engineer, written before the code: each with its reasons, held against the steps that are printed.

A case fails if the printed steps differ from the answer. A reason stands beside each expectation; change the answer only with a better one.
"""

from collections.abc import Mapping

import pytest

from sidecar.commands.diagnose import by_hand
from sidecar.commands.diagnose.terminal import MOST_NOT_TO_DO, MOST_STEPS, MOST_STEPS_SECOND, text
from sidecar.diagnosis.document import document
from sidecar.diagnosis.findings import Diagnosis, Outcome, State
from sidecar.diagnosis.interventions import CHAPTERS, chapters, ranked
from sidecar.diagnosis.levers import Cost, Lever, LoadLevel
from sidecar.diagnosis.measured import CostRatio, Latency, Measured, PodShare, Regime
from sidecar.diagnosis.tree import diagnose, load_level
from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause
from tests.support.measured import BROKEN, WELL, live, verdict


FEWER_BITS = {Lever.FP8_WEIGHTS, Lever.FP8_ACTIVATIONS, Lever.QUANTISATION}
CORDONS = {"cordon-the-slow-node", "cordon-the-throttled-node"}
SLOW_TOKENS = Latency(p99_seconds=0.2, samples=5000, threshold_seconds=0.08, misses=40.0, burn=3.0)


def told(**flags: str) -> Diagnosis:
    measured, errors = by_hand.read({name.replace("_", "-"): value for name, value in flags.items()})
    assert errors == []
    return diagnose(measured)


def first(found: Diagnosis) -> list[str]:
    """Names of the printed steps against the first phase, or its candidates."""
    phases = {found.phase, *found.candidates}
    return [step.what.name for step in found.steps if step.phase in phases][:MOST_STEPS]


def then(found: Diagnosis) -> list[str]:
    """Names of the printed steps against the second phase."""
    phases = {found.phase, *found.candidates}
    return [step.what.name for step in found.steps if step.phase not in phases][:MOST_STEPS_SECOND]


def levers(found: Diagnosis) -> list[Lever | None]:
    by_name = {step.what.name: step.what.lever for step in found.steps}
    return [by_name[name] for name in (*first(found), *then(found))]


def costs(found: Diagnosis) -> set[Cost]:
    by_name = {step.what.name: step.what.cost for step in found.steps}
    return {by_name[name] for name in first(found)}


def refused(found: Diagnosis) -> list[str]:
    """The non-fixes that are printed."""
    return [item.do for item in found.not_to_do[:MOST_NOT_TO_DO]]


def printed(found: Diagnosis) -> str:
    return " ".join(text(document([found]), columns=10_000).split())


# --- the 13B drill ---------------------------------------------------------------------------------------------------------

DRILL = {
    "ttft_p99": "3.2s",
    "tpot_p99": "80ms",
    "rate": "60",
    "prompt_mean": "2200",
    "output_mean": "180",
    "model_size": "13b",
    "gpus": "2xA100",
}


def test_the_13b_drill() -> None:
    """60 prompts a second of 2,200 tokens are 5.5 times the arithmetic of two A100 at their peak. Either the rate goes over several
    replicas, or most prompts are cached, or no setting can help: so this is asked before anything is changed.

    1. Demand against the ceiling, with the number, the replicas and the cached share at which it would fit.
    2. Admission: the queue grows for as long as more comes than is computed; it takes minutes.
    3. Chunked prefill: both numbers are bad, and long prompts stand between the tokens of others. It is on by default: bound its chunks.
    4. Prefix caching: whatever is shared need not be computed, which is the only lever on the demand itself but more GPUs.
    Then, for the tokens: speculative decoding, once TTFT is within its threshold and the batch is small; now it would cost steps.
    Quantisation is no step of the first hour. The queue wait is unknown, and would split the time: it is asked for first.
    """
    found = told(**DRILL)

    assert first(found) == [
        "hold-demand-against-the-ceiling",
        "hold-back-a-lane",
        "no-prompt-takes-whole-steps",
        "prefix-cache-on",
    ]
    assert then(found) == ["speculative-decoding"]
    assert (found.cause, found.first, found.inter_token.state) == (Cause.LOAD, Objective.TTFT, State.BROKEN)
    conditions = next(step.after for step in found.steps if step.what.name == "speculative-decoding")
    assert "the batch is small" in " ".join(conditions)
    assert found.questions[0].how.startswith("--queue-p99")
    assert not FEWER_BITS & {*levers(found)}
    said = printed(found)
    assert "5.5 x what these GPUs can compute" in said
    assert "6 such replicas" in said
    assert "82 %" in said
    assert "Quantise the model" in refused(found)


def test_the_drill_on_enough_gpus_has_no_ceiling_to_check() -> None:
    """Without an overload, nothing is said of one."""
    found = told(**DRILL | {"gpus": "32xH100"})

    assert "hold-demand-against-the-ceiling" not in [step.what.name for step in found.steps]


def test_80_milliseconds_of_a_13b_are_elevated() -> None:
    """26 GB of weights at 2 x 2.04 TB/s are 6.4 ms a step; a cache that fills the memory adds 29 ms. 80 ms is above both, so bytes are not
    what takes the time. A 13B is small: its threshold is 50 ms, and 80 ms breaks it. An answer of WELL was wrong."""
    found = told(ttft_p99="200ms", tpot_p99="80ms", model_size="13b", gpus="2xA100")

    assert (found.outcome, found.phase) == (Outcome.VERDICT, Blame.DECODE)
    assert (found.inter_token.latency.threshold_seconds, found.inter_token.latency.threshold_assumed) == (0.05, True)
    assert "26 GB of weights in 6.38 ms" in printed(found)
    assert "80 ms is elevated" in printed(found)


def test_a_70b_has_the_threshold_of_its_size() -> None:
    """80 ms of a 70B on four H100 keep the preset's threshold; the floor, 10.4 ms, says how far from it that is."""
    found = told(ttft_p99="200ms", tpot_p99="80ms", model_size="70b", gpus="4xH100")

    assert found.inter_token.latency.threshold_seconds == 0.08
    assert "140 GB of weights in 10.4 ms" in printed(found)


# --- the post-mortem -------------------------------------------------------------------------------------------------------

POST_MORTEM = {
    "ttft_p99": "5s",
    "queue_p99": "4.8s",
    "tpot_p99": "40ms",
    "running": "96",
    "slots": "96",
    "prompt_mean": "2400",
    "prompt_mean_before": "800",
}


@pytest.mark.parametrize("kv", [{"kv_usage": "97%"}, {"kv_usage": "97%", "preemptions": "2/s"}, {}])
def test_the_post_mortem(kv: Mapping[str, str]) -> None:
    """The batch limit of 96 was set for prompts of 800 tokens; they have 2,400 now. So each request holds three times the cache, and the
    limit is what has to be set anew: cache over mean context. It is a flag and a restart. The step is quick (40 ms), so fewer bits
    make nothing better: quantisation is refused by name.
    """
    found = told(**POST_MORTEM, **kv)

    assert found.phase is Blame.QUEUE
    assert first(found)[0] == "batch-that-fits-the-cache"
    assert not FEWER_BITS & {*levers(found)}
    assert "Quantise the model" in refused(found)


def test_slots_that_are_full_beside_an_empty_cache_are_raised() -> None:
    """96 of 96 run and the cache has room: then the limit is too low, and not too high."""
    found = told(ttft_p99="5s", queue_p99="4.8s", tpot_p99="40ms", running="96", slots="96", kv_usage="55%")

    assert (found.cause, first(found)[0]) == (Cause.SLOTS, "more-slots")


def test_slots_that_are_free_are_not_what_requests_wait_for() -> None:
    found = told(ttft_p99="5s", queue_p99="4.8s", tpot_p99="40ms", running="40", slots="96", kv_usage="55%")

    assert found.cause is not Cause.SLOTS
    assert "more-slots" not in first(found)


def test_preemptions_are_met_by_fewer_requests_at_once() -> None:
    """A preempted request is computed twice, and more slots make more of them."""
    found = told(ttft_p99="5s", queue_p99="4s", tpot_p99="60ms", kv_usage="99%", preemptions="3/s")

    assert found.cause is Cause.PREEMPTION
    assert "batch-that-fits-the-cache" in first(found)
    assert "more-slots" not in first(found)
    assert "Add slots while the KV cache is full" in refused(found)


# --- two numbers, and nothing else -----------------------------------------------------------------------------------------


def test_7_seconds_and_then_50_milliseconds() -> None:
    """Seven of eight seconds come before the first token: queue or prefill. Ask for the queue wait, it splits them. Until then do what helps
    in most of the cases and costs minutes; nothing that assumes a changed template or a slow GPU; tokens are in time, so nothing for them.
    """
    found = told(e2e_p99="8s", ttft_p99="7s", tpot_p99="50ms")

    assert found.candidates == (Blame.QUEUE, Blame.PREFILL)
    assert found.questions[0].how.startswith("--queue-p99")
    assert first(found)[0] == "hold-back-a-lane"
    assert costs(found) <= {Cost.MINUTES, Cost.RESTART}
    assert not {*first(found)} & {*CORDONS, "undo-the-template-change", "roll-back-the-engine"}
    assert not {*FEWER_BITS, Lever.SPECULATIVE_DECODING} & {*levers(found)}
    assert then(found) == []


def test_200_milliseconds_and_then_250() -> None:
    """Prompts are quick and nothing waits; each token is slow. There is room in TTFT to spend: shorter chunks and fewer requests at once
    lengthen it, and shorten each step. Drafts help while the batch is small. A slow GPU would also have slow prompts: no cordon."""
    found = told(e2e_p99="8s", ttft_p99="200ms", tpot_p99="250ms")

    assert found.phase is Blame.DECODE
    assert "speculative-decoding" in first(found)
    assert not {*first(found)} & CORDONS
    assert not {*levers(found)} & FEWER_BITS
    assert [one.how for one in found.questions if "10th percentile" in one.how] != []


def test_250_milliseconds_of_a_full_batch() -> None:
    """64 run and the cache is full: the step is wide. Spread or shrink the batch; drafts would take steps that are missing."""
    found = told(ttft_p99="200ms", tpot_p99="250ms", running="64", kv_usage="96%")

    assert {"smaller-batch", "route-by-running-requests"} <= {*first(found)}
    assert "speculative-decoding" not in first(found)
    assert not {*first(found)} & CORDONS


# --- both bad --------------------------------------------------------------------------------------------------------------


def test_both_bad_with_a_full_cache() -> None:
    """A cache at 98 % beside two bad numbers: memory. Was the engine killed for it, or has it restarted? That is asked first: after a restart
    all else is a symptom. Then less in the cache: long contexts and the batch limit. Slots and drafts need cache, so neither."""
    found = told(ttft_p99="4s", tpot_p99="200ms", kv_usage="98%")

    assert load_level(found.measured) is LoadLevel.HIGH
    assert "OOM" in found.questions[0].ask
    assert "restarted" in found.questions[0].ask
    assert found.first is Objective.TTFT
    assert {"hold-back-long-contexts", "batch-that-fits-the-cache"} <= {*first(found)}
    assert not {*first(found), *then(found)} & {*CORDONS, "more-slots", "speculative-decoding"}


@pytest.mark.parametrize(("usage", "level"), [("94%", None), ("95%", LoadLevel.HIGH), ("100%", LoadLevel.HIGH)])
def test_a_cache_that_is_full_is_a_full_batch(usage: str, level: LoadLevel | None) -> None:
    measured, _ = by_hand.read({"ttft-p99": "4s", "tpot-p99": "200ms", "kv-usage": usage})

    assert load_level(measured) is level


# --- burst and steady ------------------------------------------------------------------------------------------------------

QUEUED = {"ttft_p99": "5s", "queue_p99": "4.8s", "tpot_p99": "40ms"}


def test_a_burst_is_shed_and_a_steady_overload_gets_replicas() -> None:
    """A replica loads its weights for minutes: after a burst. A bound that refuses is no state to live in for hours."""
    burst, steady = (told(**QUEUED, regime=regime) for regime in ("spike", "steady"))

    assert not {Cost.REPLICAS, Cost.PROJECT} & costs(burst)
    assert Lever.ADMISSION in levers(burst)
    order = [step.what.name for step in steady.steps]
    assert order.index("more-replicas-for-the-queue") < order.index("shed-at-the-sidecar")
    assert "shed-at-the-sidecar" not in first(steady)
    assert [found.steps[0].what.works_when for found in (burst, steady)] == ["both", "both"]


# --- each leaf of the tree -------------------------------------------------------------------------------------------------

LEAVES = [
    # More work than usual: find whose it is, and hold that back. Fewer bits and drafts do not make room.
    (Blame.QUEUE, Cause.LOAD, "hold-back-a-lane", {"more-slots"}),
    # All slots taken beside a cache that is half empty: the limit. Where the cache is not known, see the page's first step below.
    (Blame.QUEUE, Cause.SLOTS, "more-slots", set()),
    # No room in the cache: the longest contexts first, as they hold most of it.
    (Blame.QUEUE, Cause.KV, "hold-back-long-contexts", {"more-slots"}),
    (Blame.QUEUE, Cause.PREEMPTION, "hold-back-long-contexts", {"more-slots"}),
    (Blame.QUEUE, Cause.LONGER_OUTPUTS, "cap-answers", set()),
    # Requests are refused: the limit that refuses them, and retries.
    (Blame.QUEUE, Cause.REJECTED, "clients-back-off", {"shed-at-the-sidecar"}),
    # Prompts are dearer than they were: look at clocks and at what changed; cordon nothing without an odd pod.
    (Blame.PREFILL, Cause.PREFILL_COST, "look-for-a-slow-gpu", {"undo-the-template-change", *CORDONS}),
    # Less is cached: what changed at the head of the prompts.
    (Blame.PREFILL, Cause.UNCACHED, "undo-the-template-change", CORDONS),
    (Blame.PREFILL, Cause.PROMPT_MIX, "move-long-prompts-away", {"undo-the-template-change", *CORDONS}),
    (Blame.PREFILL, None, "move-long-prompts-away", {"undo-the-template-change", "roll-back-the-engine", *CORDONS}),
    (Blame.FIRST_TOKEN, Cause.FRONT_END, "look-at-the-api-process", set()),
    (Blame.DECODE, Cause.DECODE_COST, "look-for-a-slow-gpu", CORDONS),
    (Blame.DECODE, Cause.LOAD, "route-by-running-requests", CORDONS),
    (Blame.DECODE, Cause.KV_TRANSFER, "repair-the-transfer-link", {"speculative-decoding", *CORDONS}),
    (Blame.DECODE, None, "move-long-prompts-off-decode", CORDONS),
    (Blame.STREAM, Cause.HOP, "buffering-off", set()),
    (Blame.STREAM, Cause.CLIENT, "limit-the-slow-reader", {"buffering-off"}),
    (Blame.ENGINE, Cause.DOWN, "pod-out-of-the-service", set()),
    (Blame.ENGINE, Cause.RESTART, "traffic-after-the-warm-up", set()),
    (Blame.ENGINE, Cause.SILENCE, "pod-out-of-the-service", set()),
    (Blame.ENGINE, Cause.ERRORS, "pod-out-of-the-service", set()),
    (SIDECAR, Cause.SIDECAR_LATE, "move-the-neighbour", set()),
    (SIDECAR, Cause.SIDECAR_BUDGET, "raise-the-limit-that-the-log-names", set()),
]
"""Phase, cause, the first step, and steps that are not among the printed ones; of a lane of which nothing else is known."""


def leaf(phase: str, cause: Cause | None, **more: object) -> Measured:
    one = verdict(phase, cause)
    if phase in (Blame.DECODE, Blame.STREAM):
        slow = {"ttft": WELL, "inter_token": SLOW_TOKENS, "verdicts": {Objective.TPOT: one}}
        return live(one, **{"engine": None, **slow, **more})
    return live(one, **{"engine": None, **more})


@pytest.mark.parametrize(
    ("phase", "cause", "name", "never"), LEAVES, ids=lambda value: "" if isinstance(value, set) else str(value)
)
def test_each_leaf_of_the_tree(phase: str, cause: Cause | None, name: str, never: set[str]) -> None:
    found = diagnose(leaf(phase, cause))

    assert first(found)[0] == name
    assert not {*first(found)} & never
    assert not {*levers(found)} & FEWER_BITS


AT_ONCE = {
    **{(phase, cause): name for phase, cause, name, _ in LEAVES},
    # Nothing says that the cache has room for more, and a restart is no first step of a page. The slots of a calm day do not run out by
    # themselves: a limit that a restart lowered is the first thing to look for.
    (Blame.QUEUE, Cause.SLOTS): "restore-the-batch-limit",
}
"""Phase and cause to the first step of its page, where nothing else is known."""


@pytest.mark.parametrize(("root", "name"), AT_ONCE.items(), ids=str)
def test_the_first_step_of_a_page_can_be_done_at_once_and_assumes_nothing(
    root: tuple[str, Cause | None], name: str
) -> None:
    phase, cause = root
    fixes = chapters()[CHAPTERS[phase]].fixes

    step = ranked(fixes, phase, [cause] if cause else [], regime=None, load=None, engine=None)[0]

    assert step.name == name
    assert step.cost is Cost.MINUTES or cause is Cause.SIDECAR_BUDGET  # that limit stands in a file of the pod


def test_a_miss_that_nothing_can_split_asks_for_a_report_first() -> None:
    """The TTFT is bad and no source splits it: no guess; the step is what would tell."""
    found = diagnose(leaf(Blame.UNATTRIBUTED, None))

    assert found.candidates == (Blame.QUEUE, Blame.PREFILL)
    assert not {*first(found)} & {*CORDONS, "undo-the-template-change", "roll-back-the-engine"}


def test_interference_is_chunks_and_not_drafts() -> None:
    """Long prompts stand between the tokens of others: move or divide them. Drafts shorten steps that are not what is long."""
    found = diagnose(leaf(Blame.DECODE, Cause.PROMPT_MIX))

    assert first(found)[:2] == ["move-long-prompts-off-decode", "smaller-chunks"]
    assert "speculative-decoding" not in first(found)


# --- rejections, one odd pod, a throttled GPU ------------------------------------------------------------------------------


def test_rejections_are_told_and_met_before_the_queue() -> None:
    """A refused request does not wait. Raising the bound makes a queue of it, so only where TTFT is far from its threshold."""
    found = told(**QUEUED, rejected="37")

    assert "37 requests were rejected" in found.evidence[0]
    assert "clients-back-off" in first(found)
    assert "raise-the-sidecar-s-bound" not in first(found)


def test_rejections_beside_two_good_numbers_are_not_passed_over() -> None:
    found = told(ttft_p99="300ms", tpot_p99="20ms", rejected="37")

    assert "37 requests were rejected" in printed(found)


EIGHT = tuple(PodShare(f"llm-{n}", 52.0 if n == 3 else 1.0, 0.88 if n == 3 else 0.017, 0.125, n == 3) for n in range(8))


@pytest.mark.parametrize(
    ("phase", "cause", "name"),
    [
        (Blame.DECODE, Cause.DECODE_COST, "cordon-the-slow-node"),
        (Blame.PREFILL, Cause.PREFILL_COST, "cordon-the-throttled-node"),
    ],
)
def test_one_odd_pod_of_eight_is_taken_out(phase: Blame, cause: Cause, name: str) -> None:
    """One pod has 88 % of the misses and an eighth of the requests, and its work got dearer: its node. Seven carry its share."""
    objective = Objective.TPOT if phase is Blame.DECODE else Objective.TTFT
    odd = diagnose(
        leaf(phase, cause, source="prometheus", pods={objective: tuple(sorted(EIGHT, key=lambda pod: -pod.misses))})
    )
    even = diagnose(
        leaf(phase, cause, source="prometheus", pods={objective: tuple(pod._replace(odd=False) for pod in EIGHT)})
    )

    assert first(odd)[0] == name
    assert name not in first(even)


def test_a_throttled_gpu_makes_both_kinds_of_work_dearer() -> None:
    """Prompts and tokens cost 1.8 times as much at once, neither longer: the clock. That is a sign of its own, without a sibling."""
    costs_now = {"decode": CostRatio(1.8, 1.6, 2.0), "prefill": CostRatio(1.84, 1.7, 2.0)}
    throttled = diagnose(leaf(Blame.PREFILL, Cause.PREFILL_COST, ttft=BROKEN, costs=costs_now))
    one_of_both = diagnose(leaf(Blame.PREFILL, Cause.PREFILL_COST, costs={"prefill": CostRatio(1.84, 1.7, 2.0)}))

    assert first(throttled)[:2] == ["cordon-the-throttled-node", "look-for-a-slow-gpu"]
    assert first(one_of_both)[0] == "look-for-a-slow-gpu"


# --- size, GPU, what the steps say of each other ---------------------------------------------------------------------------


def test_8_bit_arithmetic_is_not_advised_on_gpus_without_it() -> None:
    """An A100 has no units for it: weights become smaller there, and prefill no faster."""
    slow = {"ttft_p99": "5s", "queue_p99": "100ms", "tpot_p99": "40ms", "model_size": "13b"}
    names = {gpu: [step.what.name for step in told(**slow, gpus=gpu).steps] for gpu in ("2xA100", "2xH100")}

    assert "weights-in-8-bits" not in names["2xA100"]
    assert "weights-in-8-bits" in names["2xH100"]


@pytest.mark.parametrize("regime", [*Regime, None])
def test_what_lacks_evidence_is_never_among_the_first(regime: Regime | None) -> None:
    for flags in (DRILL, QUEUED, {"ttft_p99": "5s", "queue_p99": "10ms", "tpot_p99": "40ms"}):
        found = told(**flags, **({} if regime is None else {"regime": str(regime)}))

        assert not {*first(found), *then(found)} & {*CORDONS, "undo-the-template-change", "roll-back-the-engine"}
