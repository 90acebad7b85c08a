"""A lane's own prompts that grow, and tokens that come together: evidence that speaks for some votes only (alert_rules/verdict.py)."""

from tests.alert_rules.books.evidence import FLAT, GROWN, cause, now, ratio
from tests.alert_rules.books.votes import verdict
from tests.alert_rules.promtool import LANE, MODEL, Book, Story
from tests.alert_rules.world import HEALTHY_PER_MINUTE, WELL, broken, engine, gaps, lane, prompt_lengths


BOOK = Book("lengths")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


# --- longer prompts --------------------------------------------------------------------------------------------------------


@BOOK.story(8, 8)
def prompts_of_a_lane_have_become_longer(story: Story) -> None:
    """In their own lane that is prefill's; whoever waits behind them waits in the queue."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("queue"), lane="batch")
    prompt_lengths(story, 800, 800)
    prompt_lengths(story, 800, 800 * GROWN * 1.5, lane="batch")

    now(story, 7, "prompts", 800)
    moved = ({"model": MODEL, "lane": "batch", "objective": "ttft", "evidence": "prompts"}, 1)
    story.records("lane:llm_slo_verdict:moved", 15, moved)
    verdict(story, 15, "queue", lane=LANE)
    verdict(story, 15, "prefill", lane="batch")
    cause(story, 15, "prompts", lane=LANE)
    cause(story, 15, "prompts", lane="batch")


@BOOK.story(8, 8)
def prompts_of_a_lane_are_a_little_longer(story: Story) -> None:
    """Less than a quarter: not worth naming."""
    lane(story, WELL, broken("queue"))
    prompt_lengths(story, 800, 800 * FLAT)

    verdict(story, 15, "queue")
    cause(story, 15, "slots")


@BOOK.story(8, 8)
def prompts_of_a_lane_are_a_third_longer(story: Story) -> None:
    """That is."""
    lane(story, WELL, broken("queue"))
    prompt_lengths(story, 800, 800 * GROWN)

    ratio(story, 15, "prompts", GROWN)
    verdict(story, 15, "prefill")


@BOOK.story(8, 8)
def prompts_are_longer_and_far_more_come(story: Story) -> None:
    """Load has grown more: the queue's."""
    lane(story, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * 2))
    prompt_lengths(story, 800, 800 * 1.5)

    verdict(story, 15, "queue")
    cause(story, 15, "load")


@BOOK.story(8, 8)
def longer_prompts_wait_for_blocks(story: Story) -> None:
    """The KV cache is full on half of the pods: it is not their computing that takes long."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("queue"), pod="engine-1")
    prompt_lengths(story, 800, 800 * 1.5)
    engine(story, kv=(0.5, 0.99), waiting=(0, 5))
    engine(story, kv=(0.5,), waiting=(5,), pod="engine-1")

    story.records("model:llm_engine_kv:full_ratio", 15, ({"model": MODEL}, 0.5))
    verdict(story, 15, "queue")


@BOOK.story(8, 8)
def longer_prompts_with_room_for_them_on_most_pods(story: Story) -> None:
    """The KV cache is full on one of three."""
    for pod in ("engine-0", "engine-1", "engine-2"):
        lane(story, WELL, broken("queue"), pod=pod)
        engine(story, kv=(0.5, 0.99 if pod == "engine-0" else 0.5), waiting=(0, 5), pod=pod)
    prompt_lengths(story, 800, 800 * 1.5)

    verdict(story, 15, "prefill")


# --- tokens that come together ---------------------------------------------------------------------------------------------


@BOOK.story(8, 8)
def quiet_gaps_that_have_all_but_vanished(story: Story) -> None:
    """Tokens are collected somewhere and come together: who waits for the first waits for the stream, whatever was reported."""
    lane(story, WELL, broken("queue", prefill=0.3, first_token=0.2))
    gaps(story, {0.02: 1}, {0.005: 0.14, 0.15: 0.86})

    ratio(story, 15, "decode", 0.23)
    story.records("lane:llm_slo_verdict:bursts", 15, (WHO, 1))
    held = [({**WHO, "phase": "stream"}, 1), ({**WHO, "phase": "engine"}, 0)]
    story.records("lane:llm_slo_verdict:waited_in", 15, *held)
    verdict(story, 15, "stream")
    story.pages(15, "LLMStreamBurn")


@BOOK.story(8, 8)
def quiet_gaps_that_are_shorter(story: Story) -> None:
    """An engine with less to do decodes faster, but not four times."""
    lane(story, WELL, broken("queue", prefill=0.3, first_token=0.2))
    gaps(story, {0.02: 1}, {0.005: 0.12, 0.15: 0.88})

    ratio(story, 15, "decode", 0.269)
    verdict(story, 15, "queue")


@BOOK.story(8, 8)
def slow_tokens_that_come_together(story: Story) -> None:
    """What is said of a time per token is not about who held the first."""
    lane(story, WELL, broken("decode"), objective="tpot")
    gaps(story, {0.02: 1}, {0.005: 0.5, 0.15: 0.5})

    verdict(story, 15, "decode", objective="tpot")


@BOOK.story(8, 8)
def engine_errors_while_tokens_come_together(story: Story) -> None:
    """What the engine failed is still its own."""
    lane(story, WELL, broken("engine", queue=0.2))
    gaps(story, {0.02: 1}, {0.005: 0.5, 0.15: 0.5})

    verdict(story, 15, "engine")
