"""The engine's own faults outrank what requests say, pod by pod, and so does a full KV cache.

Every lane here misses and votes; what differs is what the engine shows (alert_rules/verdict.py).
"""

from alert_rules.verdict import FAULTY_SHARE, KV_FULL_RATIO, PREEMPTED
from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.suites.evidence import cause
from tests.alert_rules.suites.votes import verdict
from tests.alert_rules.world import (
    HEALTHY_PER_MINUTE,
    NOTHING,
    WELL,
    broken,
    engine,
    lane,
    prefill_costs,
    voiceless,
)


SUITE = Suite("faults")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def burn_pages(scenario: Scenario, minute: float, *names: str) -> None:
    """Exactly these pages about a lane's budget; pages about the engine itself stand in another suite."""
    pages = f'count by (alertname) (ALERTS{{namespace="{scenario.namespace}",alertstate="firing",severity="page",lane!=""}})'
    scenario.yields(pages, minute, *(("", {"alertname": name}, 1) for name in names))


def fault(scenario: Scenario, minute: float, name: str) -> None:
    """A pod has exactly this fault, and all of the lane's misses stand on it."""
    scenario.records("pod:llm_engine_fault:cause", minute, ({"pod": "engine-0", "cause": name}, 1))
    scenario.records("lane:llm_slo_misses:faulty_ratio", minute, ({**WHO, "cause": name}, 1))


# --- faults ----------------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def an_engine_that_shows_no_fault(scenario: Scenario) -> None:
    """It outranks nothing."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.5,), waiting=(3,), running=(8,))

    verdict(scenario, 12, "queue")
    scenario.records("pod:llm_engine_fault:cause", 12)


@SUITE.scenario(6, 6)
def an_engine_that_is_down(scenario: Scenario) -> None:
    """Requests that waited for it voted queue; it is the engine's."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, up=(1, 0))

    verdict(scenario, 12, "engine")
    cause(scenario, 12, "down")
    fault(scenario, 12, "down")
    burn_pages(scenario, 12, "LLMEngineBurn")


@SUITE.scenario(6, 2, 8)
def an_engine_that_restarts(scenario: Scenario) -> None:
    """Its five minutes of cold caches are its own; what still waits later is the queue's again."""
    lane(scenario, WELL, broken("queue"), broken("queue"))
    engine(scenario, restarts=(0, 0.5, 0))

    verdict(scenario, 11, "engine")
    cause(scenario, 11, "down")
    verdict(scenario, 15, "queue")


@SUITE.scenario(6, 6)
def an_engine_that_is_silent(scenario: Scenario) -> None:
    """Nobody got a token for longer than the pending work explains."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, stalled=(0, 20))

    verdict(scenario, 12, "engine")
    cause(scenario, 12, "silence")
    fault(scenario, 12, "silence")


@SUITE.scenario(6, 4, 3)
def an_engine_that_falls_silent_in_an_outage(scenario: Scenario) -> None:
    """A fault waits for no verdict to be replaced."""
    lane(scenario, WELL, broken("queue"), broken("queue"))
    engine(scenario, stalled=(0, 0, 20))

    burn_pages(scenario, 10, "LLMQueueBurn")
    burn_pages(scenario, 10.75, "LLMEngineBurn")


@SUITE.scenario(6, 1, 3)
def an_engine_that_was_silent(scenario: Scenario) -> None:
    """What piled up meanwhile is its doing, for as long as that is among what missed."""
    lane(scenario, WELL, broken("queue"), broken("queue"))
    engine(scenario, stalled=(0, 20, 0))

    verdict(scenario, 10, "engine")
    cause(scenario, 10, "silence")


@SUITE.scenario(6, 6)
def an_engine_that_preempts(scenario: Scenario) -> None:
    """One request in twenty: their second wait hides in queue and prefill."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, preemptions=(0, HEALTHY_PER_MINUTE * PREEMPTED * 1.02))

    verdict(scenario, 11.5, "engine")
    cause(scenario, 11.5, "preemption")
    fault(scenario, 11.5, "preemption")


@SUITE.scenario(6, 6)
def an_engine_that_preempts_a_little(scenario: Scenario) -> None:
    """Fewer than one in twenty are no fault."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, preemptions=(0, HEALTHY_PER_MINUTE * PREEMPTED * 0.98))

    verdict(scenario, 12, "queue")


@SUITE.scenario(6, 6)
def an_engine_that_preempts_nothing_while_nothing_comes(scenario: Scenario) -> None:
    """None of none is not one in twenty."""
    lane(scenario, WELL, NOTHING)
    engine(scenario)

    scenario.records("pod:llm_engine_fault:cause", 12)


@SUITE.scenario(6, 6)
def several_faults_at_once(scenario: Scenario) -> None:
    """A hang, a restart and preemptions on one pod: one verdict, the engine's, and one cause."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, up=(1, 0), stalled=(0, 20), restarts=(0, 1), preemptions=(0, 30))

    verdict(scenario, 11, "engine")
    cause(scenario, 11, "down")
    scenario.yields(f'count(lane:llm_slo_verdict:cause{{namespace="{scenario.namespace}"}})', 11, ("", {}, 1))
    burn_pages(scenario, 11, "LLMEngineBurn")


@SUITE.scenario(6, 6)
def a_silence_while_it_preempts(scenario: Scenario) -> None:
    """The cause is the silence: whatever makes room is an aftermath."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, stalled=(0, 20), preemptions=(0, 30))

    verdict(scenario, 12, "engine")
    cause(scenario, 12, "silence")


@SUITE.scenario(6, 6)
def half_of_the_misses_are_on_a_faulty_pod(scenario: Scenario) -> None:
    """They make it the engine's page."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("queue", 0.8 * (1 - FAULTY_SHARE) / FAULTY_SHARE * 0.97), pod="engine-1")
    engine(scenario, stalled=(0, 20))
    engine(scenario, pod="engine-1")

    verdict(scenario, 12, "engine")


@SUITE.scenario(6, 6)
def less_than_half_of_the_misses_are_on_a_faulty_pod(scenario: Scenario) -> None:
    """They do not: the lane's trouble is elsewhere."""
    lane(scenario, WELL, broken("queue", 0.75))
    lane(scenario, WELL, broken("queue", 0.75 * (1 - FAULTY_SHARE) / FAULTY_SHARE * 1.03), pod="engine-1")
    engine(scenario, stalled=(0, 20))
    engine(scenario, pod="engine-1")

    verdict(scenario, 12, "queue")


@SUITE.scenario(6, 6)
def two_pods_with_two_faults(scenario: Scenario) -> None:
    """Half of the misses on each: one verdict, and one cause."""
    for pod in ("engine-0", "engine-1"):
        lane(scenario, WELL, broken("queue"), pod=pod)
    engine(scenario, stalled=(0, 20))
    engine(scenario, up=(1, 0), pod="engine-1")

    verdict(scenario, 12, "engine")
    scenario.yields(f'count(lane:llm_slo_verdict:cause{{namespace="{scenario.namespace}"}})', 12, ("", {}, 1))


@SUITE.scenario(6, 6)
def a_faulty_pod_that_serves_nobody(scenario: Scenario) -> None:
    """A fault where no request missed is no reason."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, NOTHING, NOTHING, pod="engine-1")
    engine(scenario)
    engine(scenario, up=(1, 0), pod="engine-1")

    verdict(scenario, 12, "queue")


@SUITE.scenario(6, 6)
def the_engine_of_another_model(scenario: Scenario) -> None:
    """Its fault is no reason for this lane's misses."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("queue"), model="large", pod="engine-1")
    engine(scenario)
    engine(scenario, stalled=(0, 20), pod="engine-1")

    verdict(scenario, 12, "queue", model=MODEL)
    verdict(scenario, 12, "engine", model="large")


@SUITE.scenario(6, 6)
def output_that_was_held_back(scenario: Scenario) -> None:
    """A hop that buffers makes a silence here and none in the engine, as the requests themselves say: the stream's."""
    lane(scenario, WELL, broken("stream", queue=1 - FAULTY_SHARE * 1.1))
    engine(scenario, stalled=(0, 20))

    verdict(scenario, 12, "stream")
    burn_pages(scenario, 12, "LLMStreamBurn")


@SUITE.scenario(6, 6)
def output_of_which_little_was_held_back(scenario: Scenario) -> None:
    """Less than half of them say so: the silence is the engine's."""
    lane(scenario, WELL, broken("stream", queue=1 - FAULTY_SHARE * 0.9))
    engine(scenario, stalled=(0, 20))

    verdict(scenario, 12, "engine")


@SUITE.scenario(6, 6)
def a_fault_and_slow_tokens(scenario: Scenario) -> None:
    """Tokens stop too when an engine hangs: both objectives' pages are the engine's."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("decode"), objective="tpot", received=False)
    engine(scenario, stalled=(0, 20))

    verdict(scenario, 12, "engine", objective="ttft")
    verdict(scenario, 12, "engine", objective="tpot")


@SUITE.scenario(6, 6)
def a_fault_while_prefill_is_dearer(scenario: Scenario) -> None:
    """The fault outranks the evidence, which a hang disturbs anyway."""
    lane(scenario, WELL, broken("queue"))
    prefill_costs(scenario, 1, 3)
    engine(scenario, stalled=(0, 20))

    verdict(scenario, 12, "engine")
    cause(scenario, 12, "silence")


@SUITE.scenario(6, 6)
def a_fault_before_any_ledger_has_closed(scenario: Scenario) -> None:
    """It needs no votes."""
    lane(scenario, WELL, voiceless())
    engine(scenario, up=(1, 0))

    verdict(scenario, 8, "engine")


# --- a full KV cache -------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def a_full_kv_cache_with_a_queue(scenario: Scenario) -> None:
    """Nothing else has grown: requests wait for its blocks, and the engine's limits are set wrongly."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.5, KV_FULL_RATIO + 0.01), waiting=(0, 5))

    verdict(scenario, 12, "engine")
    cause(scenario, 12, "kv")
    scenario.records("pod:llm_engine_kv:full", 12, ({"pod": "engine-0"}, 1))


@SUITE.scenario(6, 6)
def a_kv_cache_that_is_nearly_full(scenario: Scenario) -> None:
    """It still has room: the queue is for something else."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.5, KV_FULL_RATIO - 0.01), waiting=(0, 5))

    verdict(scenario, 12, "queue")
    cause(scenario, 12, "slots")


@SUITE.scenario(6, 6)
def a_full_kv_cache_without_a_queue(scenario: Scenario) -> None:
    """A cache is there to be full: nobody waits for it."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.5, 0.99), waiting=(0, 0))

    verdict(scenario, 12, "queue")


@SUITE.scenario(6, 6)
def a_full_kv_cache_with_one_that_waits_now_and_then(scenario: Scenario) -> None:
    """On average less than one: that is no queue."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.5, 0.99), waiting=(0, 0.9))

    verdict(scenario, 12, "queue")


@SUITE.scenario(6, 6)
def a_full_kv_cache_with_one_that_waits(scenario: Scenario) -> None:
    """On average one: they wait for blocks."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.5, 0.99), waiting=(0, 1.1))

    verdict(scenario, 12, "engine")


@SUITE.scenario(6, 6)
def a_full_kv_cache_of_which_no_queue_is_known(scenario: Scenario) -> None:
    """Without the engine's queue nobody can say that they wait for it."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.5, 0.99))

    verdict(scenario, 12, "queue")


@SUITE.scenario(8, 8)
def a_full_kv_cache_while_load_has_grown(scenario: Scenario) -> None:
    """The load filled it: the queue's, and not the engine's."""
    lane(scenario, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * 2))
    engine(scenario, kv=(0.5, 0.99), waiting=(0, 5))

    verdict(scenario, 15, "queue")
    cause(scenario, 15, "load")


@SUITE.scenario(6, 6)
def a_full_kv_cache_and_slow_tokens(scenario: Scenario) -> None:
    """Whoever has its blocks does not wait for them: time per token is not excused by them."""
    lane(scenario, WELL, broken("decode"), objective="tpot")
    engine(scenario, kv=(0.5, 0.99), waiting=(0, 5))

    verdict(scenario, 12, "decode", objective="tpot")


@SUITE.scenario(6, 6)
def half_of_the_misses_are_on_a_pod_with_a_full_cache(scenario: Scenario) -> None:
    """They make it the engine's."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("queue", 0.8 * (1 - FAULTY_SHARE) / FAULTY_SHARE * 0.97), pod="engine-1")
    engine(scenario, kv=(0.5, 0.99), waiting=(0, 5))
    engine(scenario, kv=(0.5,), waiting=(5,), pod="engine-1")

    verdict(scenario, 12, "engine")
    cause(scenario, 12, "kv")


@SUITE.scenario(6, 6)
def less_than_half_of_the_misses_are_on_a_pod_with_a_full_cache(scenario: Scenario) -> None:
    """They do not."""
    lane(scenario, WELL, broken("queue", 0.75))
    lane(scenario, WELL, broken("queue", 0.75 * (1 - FAULTY_SHARE) / FAULTY_SHARE * 1.03), pod="engine-1")
    engine(scenario, kv=(0.5, 0.99), waiting=(0, 5))
    engine(scenario, kv=(0.5,), waiting=(5,), pod="engine-1")

    verdict(scenario, 12, "queue")


@SUITE.scenario(6, 6)
def a_restart_with_a_full_cache(scenario: Scenario) -> None:
    """One verdict and one cause."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.99,), waiting=(5,), restarts=(0, 0.5))

    verdict(scenario, 12, "engine")
    cause(scenario, 12, "down")
