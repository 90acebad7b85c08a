"""Very long prompts hold up the requests that come while they are computed."""

from sidecar.pod.long_prompts import FEWEST_PROMPTS, KEPT_PROMPTS, LongPrompts
from sidecar.pod.usual.comparison import CALM_AFTER_SECONDS


USUAL_TOKENS = 500.0


class Lane:
    """One prompt a second of 500 tokens; each is computed at once."""

    def __init__(self, seconds: int = 600) -> None:
        self.prompts = LongPrompts()
        self.at = 0.0
        self.usual(seconds)

    def usual(self, seconds: int, *, calm: bool = True) -> "Lane":
        for _ in range(seconds):
            self.arrives(USUAL_TOKENS, calm=calm)
        return self

    def arrives(self, tokens: float, *, lane: str = "chat", computed: bool = True, calm: bool = True) -> object:
        """A prompt comes, and a second passes."""
        key = object()
        self.prompts.received(key, lane, tokens, self.at)
        if computed:
            self.prompts.computed(key, self.at + 0.1)
        self.at += 1.0
        self.prompts.tick(self.at, calm=calm)
        return key


def test_requests_that_wait_behind_a_very_long_prompt_were_held_up() -> None:
    lane = Lane()
    long = lane.arrives(60_000.0, computed=False)
    came_at = lane.at
    lane.usual(5)

    assert lane.prompts.hold_up(came_at, lane.at, None)
    lane.prompts.computed(long, lane.at)
    assert lane.prompts.hold_up(came_at, lane.at + 60.0, None)
    assert not lane.prompts.hold_up(lane.at + 1.0, lane.at + 60.0, None)
    assert not lane.prompts.hold_up(came_at - 100.0, came_at - 50.0, None)


def test_a_long_prompt_is_in_the_engine_from_its_arrival_until_it_is_computed() -> None:
    lane = Lane()
    assert not lane.prompts.any_since(0.0)
    long = lane.arrives(60_000.0, computed=False)
    assert lane.prompts.any_since(lane.at)
    lane.prompts.computed(long, lane.at)

    assert lane.prompts.any_since(lane.at)
    assert not lane.prompts.any_since(lane.at + 1.0)


def test_usual_prompts_hold_up_no_other() -> None:
    lane = Lane()
    lane.arrives(USUAL_TOKENS, computed=False)

    assert not lane.prompts.hold_up(lane.at - 2.0, lane.at, None)


def test_a_long_prompt_that_is_a_small_part_of_all_tokens_holds_up_no_other() -> None:
    """Twice the usual length, among ten times as many tokens of usual prompts."""
    lane = Lane()
    lane.arrives(2 * USUAL_TOKENS, computed=False)
    lane.usual(30)

    assert not lane.prompts.hold_up(lane.at - 30.0, lane.at, None)


def test_nothing_is_long_before_a_hundred_prompts_stayed_calm_for_two_minutes() -> None:
    young = Lane(int(FEWEST_PROMPTS + CALM_AFTER_SECONDS) - 20)
    young.arrives(60_000.0, computed=False)

    assert not young.prompts.hold_up(young.at - 1.0, young.at, None)


def test_long_prompts_teach_nothing_in_the_two_minutes_before_an_objective_burns() -> None:
    lane = Lane()
    for _ in range(60):
        lane.arrives(60_000.0)
    lane.usual(1, calm=False)
    lane.usual(300)
    lane.arrives(60_000.0, computed=False)

    assert lane.prompts.hold_up(lane.at - 1.0, lane.at, None)


def test_each_lane_has_its_own_length() -> None:
    lane = Lane()
    for _ in range(600):
        lane.arrives(20_000.0, lane="documents")
    lane.arrives(20_000.0, lane="documents", computed=False)
    usual = lane.prompts.hold_up(lane.at - 1.0, lane.at, None)
    lane.arrives(20_000.0, lane="chat", computed=False)

    assert not usual
    assert lane.prompts.hold_up(lane.at - 1.0, lane.at, None)


def test_a_limited_number_of_long_prompts_is_kept() -> None:
    """Prompts that are never computed cannot fill the memory."""
    lane = Lane()
    for _ in range(2 * KEPT_PROMPTS):
        lane.arrives(60_000.0, computed=False, calm=False)

    assert len(lane.prompts.open) == KEPT_PROMPTS


def test_where_the_cost_is_known_half_a_threshold_of_long_prompts_holds_up_the_others() -> None:
    """A prompt of 10,000 tokens takes 2 s, so it is half of a threshold of 4 s, and less than half of one of 5 s."""
    prompts = LongPrompts(lambda tokens: tokens / 5000.0)
    for second in range(400):
        prompts.received(second, "chat", 500.0, float(second))
        prompts.tick(float(second), calm=True)
    prompts.received("long", "chat", 10_000.0, 400.0)
    prompts.computed("long", 403.0)

    assert prompts.hold_up(401.0, 405.0, 4.0)
    assert not prompts.hold_up(401.0, 405.0, 5.0)
    assert not prompts.hold_up(404.0, 405.0, 4.0)
