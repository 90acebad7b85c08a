"""The engine's own faults outrank what requests say, pod by pod, and so does a full KV cache.

Every lane here misses and votes; what differs is what the engine shows (alert_rules/verdict.py).
"""

from alert_rules.verdict import FAULTY_SHARE, KV_FULL_RATIO, PREEMPTED
from tests.alert_rules.books.evidence import cause
from tests.alert_rules.books.votes import verdict
from tests.alert_rules.promtool import LANE, MODEL, Book, Story
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


BOOK = Book("faults")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def burn_pages(story: Story, minute: float, *names: str) -> None:
    """Exactly these pages about a lane's budget; pages about the engine itself stand in another book."""
    pages = (
        f'count by (alertname) (ALERTS{{namespace="{story.namespace}",alertstate="firing",severity="page",lane!=""}})'
    )
    story.yields(pages, minute, *(("", {"alertname": name}, 1) for name in names))


def fault(story: Story, minute: float, name: str) -> None:
    """A pod has exactly this fault, and all of the lane's misses stand on it."""
    story.records("pod:llm_engine_fault:cause", minute, ({"pod": "engine-0", "cause": name}, 1))
    story.records("lane:llm_slo_misses:faulty_ratio", minute, ({**WHO, "cause": name}, 1))


# --- faults ----------------------------------------------------------------------------------------------------------------


@BOOK.story(6, 6)
def an_engine_that_shows_no_fault(story: Story) -> None:
    """It outranks nothing."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.5,), waiting=(3,), running=(8,))

    verdict(story, 12, "queue")
    story.records("pod:llm_engine_fault:cause", 12)


@BOOK.story(6, 6)
def an_engine_that_is_down(story: Story) -> None:
    """Requests that waited for it voted queue; it is the engine's."""
    lane(story, WELL, broken("queue"))
    engine(story, up=(1, 0))

    verdict(story, 12, "engine")
    cause(story, 12, "down")
    fault(story, 12, "down")
    burn_pages(story, 12, "LLMEngineBurn")


@BOOK.story(6, 2, 8)
def an_engine_that_restarts(story: Story) -> None:
    """Its five minutes of cold caches are its own; what still waits later is the queue's again."""
    lane(story, WELL, broken("queue"), broken("queue"))
    engine(story, restarts=(0, 0.5, 0))

    verdict(story, 11, "engine")
    cause(story, 11, "down")
    verdict(story, 15, "queue")


@BOOK.story(6, 6)
def an_engine_that_is_silent(story: Story) -> None:
    """Nobody got a token for longer than the pending work explains."""
    lane(story, WELL, broken("queue"))
    engine(story, stalled=(0, 20))

    verdict(story, 12, "engine")
    cause(story, 12, "silence")
    fault(story, 12, "silence")


@BOOK.story(6, 4, 3)
def an_engine_that_falls_silent_in_an_outage(story: Story) -> None:
    """A fault waits for no verdict to be replaced."""
    lane(story, WELL, broken("queue"), broken("queue"))
    engine(story, stalled=(0, 0, 20))

    burn_pages(story, 10, "LLMQueueBurn")
    burn_pages(story, 10.75, "LLMEngineBurn")


@BOOK.story(6, 1, 3)
def an_engine_that_was_silent(story: Story) -> None:
    """What piled up meanwhile is its doing, for as long as that is among what missed."""
    lane(story, WELL, broken("queue"), broken("queue"))
    engine(story, stalled=(0, 20, 0))

    verdict(story, 10, "engine")
    cause(story, 10, "silence")


@BOOK.story(6, 6)
def an_engine_that_preempts(story: Story) -> None:
    """One request in twenty: their second wait hides in queue and prefill."""
    lane(story, WELL, broken("queue"))
    engine(story, preemptions=(0, HEALTHY_PER_MINUTE * PREEMPTED * 1.02))

    verdict(story, 11.5, "engine")
    cause(story, 11.5, "preemption")
    fault(story, 11.5, "preemption")


@BOOK.story(6, 6)
def an_engine_that_preempts_a_little(story: Story) -> None:
    """Fewer than one in twenty are no fault."""
    lane(story, WELL, broken("queue"))
    engine(story, preemptions=(0, HEALTHY_PER_MINUTE * PREEMPTED * 0.98))

    verdict(story, 12, "queue")


@BOOK.story(6, 6)
def an_engine_that_preempts_nothing_while_nothing_comes(story: Story) -> None:
    """None of none is not one in twenty."""
    lane(story, WELL, NOTHING)
    engine(story)

    story.records("pod:llm_engine_fault:cause", 12)


@BOOK.story(6, 6)
def several_faults_at_once(story: Story) -> None:
    """A hang, a restart and preemptions on one pod: one verdict, the engine's, and one cause."""
    lane(story, WELL, broken("queue"))
    engine(story, up=(1, 0), stalled=(0, 20), restarts=(0, 1), preemptions=(0, 30))

    verdict(story, 11, "engine")
    cause(story, 11, "down")
    story.yields(f'count(lane:llm_slo_verdict:cause{{namespace="{story.namespace}"}})', 11, ("", {}, 1))
    burn_pages(story, 11, "LLMEngineBurn")


@BOOK.story(6, 6)
def a_silence_while_it_preempts(story: Story) -> None:
    """The cause is the silence: whatever makes room is an aftermath."""
    lane(story, WELL, broken("queue"))
    engine(story, stalled=(0, 20), preemptions=(0, 30))

    verdict(story, 12, "engine")
    cause(story, 12, "silence")


@BOOK.story(6, 6)
def half_of_the_misses_are_on_a_faulty_pod(story: Story) -> None:
    """They make it the engine's page."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("queue", 0.8 * (1 - FAULTY_SHARE) / FAULTY_SHARE * 0.97), pod="engine-1")
    engine(story, stalled=(0, 20))
    engine(story, pod="engine-1")

    verdict(story, 12, "engine")


@BOOK.story(6, 6)
def less_than_half_of_the_misses_are_on_a_faulty_pod(story: Story) -> None:
    """They do not: the lane's trouble is elsewhere."""
    lane(story, WELL, broken("queue", 0.75))
    lane(story, WELL, broken("queue", 0.75 * (1 - FAULTY_SHARE) / FAULTY_SHARE * 1.03), pod="engine-1")
    engine(story, stalled=(0, 20))
    engine(story, pod="engine-1")

    verdict(story, 12, "queue")


@BOOK.story(6, 6)
def two_pods_with_two_faults(story: Story) -> None:
    """Half of the misses on each: one verdict, and one cause."""
    for pod in ("engine-0", "engine-1"):
        lane(story, WELL, broken("queue"), pod=pod)
    engine(story, stalled=(0, 20))
    engine(story, up=(1, 0), pod="engine-1")

    verdict(story, 12, "engine")
    story.yields(f'count(lane:llm_slo_verdict:cause{{namespace="{story.namespace}"}})', 12, ("", {}, 1))


@BOOK.story(6, 6)
def a_faulty_pod_that_serves_nobody(story: Story) -> None:
    """A fault where no request missed is no reason."""
    lane(story, WELL, broken("queue"))
    lane(story, NOTHING, NOTHING, pod="engine-1")
    engine(story)
    engine(story, up=(1, 0), pod="engine-1")

    verdict(story, 12, "queue")


@BOOK.story(6, 6)
def the_engine_of_another_model(story: Story) -> None:
    """Its fault is no reason for this lane's misses."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("queue"), model="large", pod="engine-1")
    engine(story)
    engine(story, stalled=(0, 20), pod="engine-1")

    verdict(story, 12, "queue", model=MODEL)
    verdict(story, 12, "engine", model="large")


@BOOK.story(6, 6)
def output_that_was_held_back(story: Story) -> None:
    """A hop that buffers makes a silence here and none in the engine, as the requests themselves say: the stream's."""
    lane(story, WELL, broken("stream", queue=1 - FAULTY_SHARE * 1.1))
    engine(story, stalled=(0, 20))

    verdict(story, 12, "stream")
    burn_pages(story, 12, "LLMStreamBurn")


@BOOK.story(6, 6)
def output_of_which_little_was_held_back(story: Story) -> None:
    """Less than half of them say so: the silence is the engine's."""
    lane(story, WELL, broken("stream", queue=1 - FAULTY_SHARE * 0.9))
    engine(story, stalled=(0, 20))

    verdict(story, 12, "engine")


@BOOK.story(6, 6)
def a_fault_and_slow_tokens(story: Story) -> None:
    """Tokens stop too when an engine hangs: both objectives' pages are the engine's."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("decode"), objective="tpot", received=False)
    engine(story, stalled=(0, 20))

    verdict(story, 12, "engine", objective="ttft")
    verdict(story, 12, "engine", objective="tpot")


@BOOK.story(6, 6)
def a_fault_while_prefill_is_dearer(story: Story) -> None:
    """The fault outranks the evidence, which a hang disturbs anyway."""
    lane(story, WELL, broken("queue"))
    prefill_costs(story, 1, 3)
    engine(story, stalled=(0, 20))

    verdict(story, 12, "engine")
    cause(story, 12, "silence")


@BOOK.story(6, 6)
def a_fault_before_any_ledger_has_closed(story: Story) -> None:
    """It needs no votes."""
    lane(story, WELL, voiceless())
    engine(story, up=(1, 0))

    verdict(story, 8, "engine")


# --- a full KV cache -------------------------------------------------------------------------------------------------------


@BOOK.story(6, 6)
def a_full_kv_cache_with_a_queue(story: Story) -> None:
    """Nothing else has grown: requests wait for its blocks, and the engine's limits are set wrongly."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.5, KV_FULL_RATIO + 0.01), waiting=(0, 5))

    verdict(story, 12, "engine")
    cause(story, 12, "kv")
    story.records("pod:llm_engine_kv:full", 12, ({"pod": "engine-0"}, 1))


@BOOK.story(6, 6)
def a_kv_cache_that_is_nearly_full(story: Story) -> None:
    """It still has room: the queue is for something else."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.5, KV_FULL_RATIO - 0.01), waiting=(0, 5))

    verdict(story, 12, "queue")
    cause(story, 12, "slots")


@BOOK.story(6, 6)
def a_full_kv_cache_without_a_queue(story: Story) -> None:
    """A cache is there to be full: nobody waits for it."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.5, 0.99), waiting=(0, 0))

    verdict(story, 12, "queue")


@BOOK.story(6, 6)
def a_full_kv_cache_with_one_that_waits_now_and_then(story: Story) -> None:
    """On average less than one: that is no queue."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.5, 0.99), waiting=(0, 0.9))

    verdict(story, 12, "queue")


@BOOK.story(6, 6)
def a_full_kv_cache_with_one_that_waits(story: Story) -> None:
    """On average one: they wait for blocks."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.5, 0.99), waiting=(0, 1.1))

    verdict(story, 12, "engine")


@BOOK.story(6, 6)
def a_full_kv_cache_of_which_no_queue_is_known(story: Story) -> None:
    """Without the engine's queue nobody can say that they wait for it."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.5, 0.99))

    verdict(story, 12, "queue")


@BOOK.story(8, 8)
def a_full_kv_cache_while_load_has_grown(story: Story) -> None:
    """The load filled it: the queue's, and not the engine's."""
    lane(story, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * 2))
    engine(story, kv=(0.5, 0.99), waiting=(0, 5))

    verdict(story, 15, "queue")
    cause(story, 15, "load")


@BOOK.story(6, 6)
def a_full_kv_cache_and_slow_tokens(story: Story) -> None:
    """Whoever has its blocks does not wait for them: time per token is not excused by them."""
    lane(story, WELL, broken("decode"), objective="tpot")
    engine(story, kv=(0.5, 0.99), waiting=(0, 5))

    verdict(story, 12, "decode", objective="tpot")


@BOOK.story(6, 6)
def half_of_the_misses_are_on_a_pod_with_a_full_cache(story: Story) -> None:
    """They make it the engine's."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("queue", 0.8 * (1 - FAULTY_SHARE) / FAULTY_SHARE * 0.97), pod="engine-1")
    engine(story, kv=(0.5, 0.99), waiting=(0, 5))
    engine(story, kv=(0.5,), waiting=(5,), pod="engine-1")

    verdict(story, 12, "engine")
    cause(story, 12, "kv")


@BOOK.story(6, 6)
def less_than_half_of_the_misses_are_on_a_pod_with_a_full_cache(story: Story) -> None:
    """They do not."""
    lane(story, WELL, broken("queue", 0.75))
    lane(story, WELL, broken("queue", 0.75 * (1 - FAULTY_SHARE) / FAULTY_SHARE * 1.03), pod="engine-1")
    engine(story, kv=(0.5, 0.99), waiting=(0, 5))
    engine(story, kv=(0.5,), waiting=(5,), pod="engine-1")

    verdict(story, 12, "queue")


@BOOK.story(6, 6)
def a_restart_with_a_full_cache(story: Story) -> None:
    """One verdict and one cause."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.99,), waiting=(5,), restarts=(0, 0.5))

    verdict(story, 12, "engine")
    cause(story, 12, "down")
