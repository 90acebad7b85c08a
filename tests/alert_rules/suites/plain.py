"""A Prometheus that adds neither namespace nor pod, only job and instance: the same rules page the same phases."""

from tests.alert_rules.promtool import LANE, MODEL, Book, Story
from tests.alert_rules.world import WELL, broken, engine, in_flight, lane, prefill_costs, voiceless


BOOK = Book("plain", plain=True, apart=True)
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


@BOOK.story(6, 6)
def one_engine_on_one_machine(story: Story) -> None:
    """Votes for the queue page the queue."""
    lane(story, WELL, broken("queue"))
    engine(story, kv=(0.5,), waiting=(3,), running=(8,))

    story.alerts(12, "LLMQueueBurn page", "LLMQueueBurn ticket")


@BOOK.story(8, 8)
def one_engine_whose_prefill_is_dearer(story: Story) -> None:
    """Evidence is joined all the same."""
    lane(story, WELL, broken("queue"))
    prefill_costs(story, 1, 2)

    story.alerts(15, "LLMPrefillBurn page", "LLMPrefillBurn ticket")


@BOOK.story(6, 6)
def one_engine_that_hangs(story: Story) -> None:
    """And so are faults: two targets are one pod here."""
    lane(story, WELL, voiceless())
    lane(story, WELL, voiceless(), pod="engine-1")
    engine(story, stalled=(0, 40))
    engine(story, pod="engine-1")

    story.records("lane:llm_slo_verdict:phase", 12, ({**WHO, "phase": "engine"}, 1))
    story.pages(12, "LLMEngineBurn", "LLMNothingComesBack")


@BOOK.story(6, 6)
def one_engine_whose_requests_wait(story: Story) -> None:
    """Its state decides while no ledger has closed."""
    lane(story, WELL, voiceless())
    in_flight(story, waiting=(1, 20), streaming=(8,))
    engine(story, waiting=(0, 15), running=(8, 8))

    story.pages(12, "LLMQueueBurn")


@BOOK.story(6, 6)
def slow_tokens_on_one_engine(story: Story) -> None:
    """Decode is not a phase that state is asked for."""
    lane(story, WELL, broken("decode"), objective="tpot")

    story.alerts(12, "LLMDecodeBurn page", "LLMDecodeBurn ticket", objective="tpot")


@BOOK.story(5, 5)
def one_sidecar_that_cannot_be_scraped(story: Story) -> None:
    """It is missed by its address."""
    story.shows("up", 1, 0)
    story.shows("llm_sidecar_build_info", 1, None, version="1")

    story.alerts(9, "LLMSidecarDown page")
