"""The table of kinds: each states what it breaks, and the phases that are right follow from that."""

from random import Random

import pytest

from bench.incidents.engines import CHUNKS_2048, ENGINES
from bench.incidents.kinds import BY_NAME, KINDS, Kind
from bench.incidents.sampling import PAIRS
from bench.incidents.world import Topology
from sidecar.pod.causes import PHASE_OF, Cause


BREAKS = {
    Cause.LOAD: "burst overload noisy-tenant interference ramp burst-30s restart-then-overload",
    Cause.SLOTS: "few-slots",
    Cause.KV: "prompts-beyond-kv",
    Cause.PREEMPTION: "preemption",
    Cause.LONGER_OUTPUTS: "long-outputs",
    Cause.PREFILL_COST: "prefill-slow",
    Cause.UNCACHED: "cache-lost",
    Cause.PROMPT_MIX: "long-tail prompts-grow",
    Cause.FRONT_END: "tokeniser",
    Cause.DECODE_COST: "decode-slow",
    Cause.KV_TRANSFER: "kv-transfer",
    Cause.HOP: "hop",
    Cause.CLIENT: "slow-clients",
    Cause.DOWN: "crash",
    Cause.RESTART: "cold-start",
    Cause.SILENCE: "hang hang-unstreamed",
    Cause.ERRORS: "errors",
    Cause.SIDECAR_LATE: "throttled-sidecar",
}
WITHOUT_A_KIND = {
    Cause.REJECTED: "the answer itself says so, and no evidence is weighed",
    Cause.SIDECAR_BUDGET: "a limit of the sidecar drops observations; no request is late, so no lane must page",
}
MADE_OF_OTHERS = ("two-faults", "one-a-minute", "merged-reads", "restart-to-few-slots")
OF_ONE_CAUSE = [kind for kind in KINDS if kind.name not in MADE_OF_OTHERS]
LANES = ("interactive", "batch", "code")


def name_of(kind: Kind) -> str:
    return kind.name


def strict(name: str, objective: str, lane: str = "interactive", *, full: bool = False) -> str:
    return " ".join(sorted(BY_NAME[name].strict(lane, objective, kv_ran_full=full)))


def test_every_cause_is_the_cause_of_some_kind_except_those_with_a_reason() -> None:
    assert {cause for kind in KINDS for cause in kind.causes} | set(WITHOUT_A_KIND) == set(Cause)
    assert not {cause for kind in KINDS for cause in kind.causes} & set(WITHOUT_A_KIND)


def test_each_kind_breaks_what_the_table_says() -> None:
    assert {kind.name: kind.causes for kind in OF_ONE_CAUSE} == {
        name: (cause,) for cause, names in BREAKS.items() for name in names.split()
    }
    assert all(kind.phases == {PHASE_OF[cause] for cause in kind.causes} for kind in KINDS)


def test_kinds_made_of_others_have_no_cause_of_their_own() -> None:
    """Every incident that they sample names its kinds, and each of those has a cause."""
    for name in MADE_OF_OTHERS:
        kind = BY_NAME[name]
        assert not kind.causes
        assert not kind.phases | kind.strict("code", "tpot", kv_ran_full=True)
        for seed in range(30):
            incident = kind.sample(ENGINES[seed % 5], 0.8, 0.5, Random(seed))
            assert all(BY_NAME[part].causes for part in incident.made_of)
            assert len(incident.made_of) == (2 if name == "two-faults" else 1)


def test_every_pair_of_two_faults_is_drawn_sooner_or_later() -> None:
    drawn = {BY_NAME["two-faults"].sample(CHUNKS_2048, 0.8, 0.5, Random(seed)).made_of for seed in range(200)}

    assert len(drawn) == len(PAIRS) == 7
    assert ("crash", "overload") in drawn


@pytest.mark.parametrize("kind", OF_ONE_CAUSE, ids=name_of)
def test_the_phase_of_the_cause_is_right_for_ttft_in_both_sets(kind: Kind) -> None:
    """Long prompts are the exception: in lanes that they do not belong to, only the strict set has their phase too."""
    for lane in kind.own_lane or LANES:
        for full in (False, True):
            assert kind.phases <= kind.root(lane, "ttft", kv_ran_full=full)
            assert kind.phases <= kind.strict(lane, "ttft", kv_ran_full=full)


@pytest.mark.parametrize("kind", OF_ONE_CAUSE, ids=name_of)
def test_the_strict_set_is_the_phase_of_the_cause_and_little_more(kind: Kind) -> None:
    for lane in LANES:
        for objective in ("ttft", "tpot", "e2e"):
            more = kind.strict(lane, objective, kv_ran_full=False) - kind.phases
            long_elsewhere = {"queue"} if kind.name == "long-tail" and lane != "batch" else set[str]()
            assert more <= ({"decode"} if objective == "tpot" else set()) | long_elsewhere
            assert kind.root(lane, objective, kv_ran_full=False)


def test_a_missed_tpot_is_the_cause_or_decode_unless_tokens_come_late_after_the_engine() -> None:
    assert strict("overload", "tpot") == "decode queue"
    assert strict("crash", "tpot") == "decode engine"
    assert strict("hop", "tpot") == strict("slow-clients", "tpot") == "stream"
    assert strict("throttled-sidecar", "tpot") == "sidecar"


def test_a_kv_pool_that_ran_full_makes_queue_and_engine_right() -> None:
    assert strict("prompts-beyond-kv", "ttft") == "queue"
    assert strict("prompts-beyond-kv", "ttft", full=True) == strict("preemption", "e2e", full=True) == "engine queue"
    assert strict("crash", "ttft", full=True) == "engine"
    assert BY_NAME["preemption"].root("code", "tpot", kv_ran_full=True) == {"engine", "queue"}


def test_long_prompts_are_prefill_in_their_own_lane_and_queue_too_in_the_others() -> None:
    assert strict("long-tail", "ttft", "batch") == "prefill"
    assert strict("long-tail", "ttft", "code") == "prefill queue"


def test_an_overload_after_a_restart_is_never_the_engine() -> None:
    kind = BY_NAME["restart-then-overload"]
    sets = [
        judge(lane, objective, kv_ran_full=full)
        for judge in (kind.root, kind.strict)
        for lane in LANES
        for objective in ("ttft", "tpot", "e2e")
        for full in (False, True)
    ]

    assert not any("engine" in each for each in sets)


def test_only_a_transfer_of_kv_caches_is_bound_to_a_way_of_building_an_engine() -> None:
    assert {kind.name: kind.topologies for kind in KINDS if kind.topologies is not None} == {
        "kv-transfer": {Topology.DISAGGREGATED}
    }
    assert [kind.name for kind in KINDS if kind.slow] == ["one-a-minute"]


def test_new_kinds_come_after_the_old_ones() -> None:
    """The place of a kind in the table decides which engine a seed meets (`run.engine_for`)."""
    assert [kind.name for kind in KINDS].index("two-faults") == 18
