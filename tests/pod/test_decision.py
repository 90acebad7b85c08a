"""An incident is told as one root with one size, for as long as it is open."""

from collections.abc import Mapping

import pytest

from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import WORTH_NAMING, Cause, Per, Root, Unknown, root_of, unknown
from sidecar.pod.decision import Decision
from sidecar.pod.factor import Factor
from sidecar.pod.life import Facts
from sidecar.pod.signs import Signs
from sidecar.pod.size import RootSize
from tests.pod.weighing import sharp


DECODE, PREFILL, LOAD = (root_of(each) for each in (Cause.DECODE_COST, Cause.PREFILL_COST, Cause.LOAD))
MISS = Facts(waited_in=Blame.QUEUE)


class Story:
    """A second is a look and a decided miss; the pod reports phases."""

    def __init__(self) -> None:
        self.decision = Decision()
        self.at = 0.0

    def second(
        self,
        ratios: Mapping[Cause, float | Factor],
        facts: Facts = MISS,
        *,
        burning: bool = True,
        queued_since: float | None = None,
    ) -> None:
        decision = self.decision
        decision.missed(self.at)
        decision.tick(self.at, burning=burning)
        grown = {cause: one if isinstance(one, Factor) else sharp(one) for cause, one in ratios.items()}
        decision.see(self.at, Signs(at=self.at, grown=grown, reports=True))
        decision.decided(decision.facts(facts, queued_since, self.at), self.at)
        self.at += 1.0

    def seconds(self, count: int, ratios: Mapping[Cause, float | Factor], **how: object) -> "Story":
        for _ in range(count):
            self.second(ratios, **how)  # type: ignore[arg-type]
        return self

    @property
    def over(self) -> bool:
        """Whether nothing is told of an incident."""
        return self.decision.incident.shown is None

    @property
    def told(self) -> tuple[Root | None, float | None]:
        """The root of the incident and its size."""
        incident = self.decision.incident
        return incident.root, None if incident.size is None else incident.size.ratio.value


def test_the_size_is_kept_while_the_backlog_drains_and_gone_with_the_incident() -> None:
    """Decode is three times as dear for two minutes; its backlog misses for five minutes more, while all ratios are 1."""
    story = Story().seconds(120, {Cause.DECODE_COST: 3.0})
    shown = story.decision.incident.shown
    assert shown is not None
    during = story.told
    after = []
    for _ in range(300):
        story.second({Cause.DECODE_COST: 1.0}, queued_since=60.0)
        after.append(story.told)

    assert during == (DECODE, 3.0)
    assert {*after} == {(DECODE, 3.0)}
    assert story.decision.incident.shown == shown, "no miss has shown it since"

    story.decision.tick(story.at, burning=False)
    assert story.told == (None, None)
    assert story.over
    assert Story().seconds(5, {}).told == (unknown(Unknown.UNCLEAR), None), "and the next one begins without it"


def test_the_size_grows_with_the_fault() -> None:
    story = Story().seconds(60, {Cause.PREFILL_COST: 2.0})
    small = story.told

    assert small == (PREFILL, 2.0)
    assert story.seconds(60, {Cause.PREFILL_COST: 5.0}).told == (PREFILL, 5.0)


@pytest.mark.parametrize("cause", WORTH_NAMING)
def test_a_cause_below_the_size_at_which_it_may_be_named_is_neither_named_nor_told(cause: Cause) -> None:
    """Its interval is wide, so that it may well be larger: that is told of no miss."""
    worth = WORTH_NAMING[cause]
    story = Story().seconds(60, {cause: Factor(worth, 0.5 * worth, 2.0 * worth)})

    assert story.told == (unknown(Unknown.UNCLEAR), None)
    assert story.decision.weighed(MISS).weights == {unknown(Unknown.UNCLEAR): pytest.approx(1.0)}


def test_a_prompt_that_is_long_by_itself_is_named_without_a_size() -> None:
    """The mean hardly grows by it: 1.05 is not its size."""
    story = Story().seconds(60, {Cause.PROMPT_MIX: 1.05}, facts=MISS._replace(behind_long_prompt=True))

    assert story.told == (root_of(Cause.PROMPT_MIX), None)


def test_of_two_causes_in_turn_each_has_its_own_size() -> None:
    """And its own confidence, which is that of its phase."""
    story = Story().seconds(90, {Cause.PREFILL_COST: 2.5})
    first = story.told
    story.seconds(200, {Cause.PREFILL_COST: 1.0, Cause.DECODE_COST: 4.0})

    assert (first, story.told) == ((PREFILL, 2.5), (DECODE, 4.0))
    shown = story.decision.incident.shown
    assert shown is not None
    assert shown.at == story.at - 1.0
    assert shown.confidence == pytest.approx(1.0, abs=0.15)
    assert story.decision.incident.size_of(PREFILL) == RootSize(sharp(2.5), Per.TOKEN)


def test_a_new_lead_counts_before_the_next_look() -> None:
    """Both costs have grown alike, and the lead decides. It changes between two looks."""
    decision, both = Decision(), {Cause.DECODE_COST: sharp(2.0), Cause.PREFILL_COST: sharp(2.0)}
    decision.see(0.0, Signs(grown=both, reports=True))
    led = []
    for at, lead in ((1.0, DECODE), (200.0, PREFILL)):
        for second in (at, at + 1.0):
            decision.incident.voted({lead: 1.0}, second, times=50)
            decision.tick(second, burning=True)
        weights = decision.weighed(MISS).weights
        led.append(max(weights, key=weights.__getitem__))

    assert led == [DECODE, PREFILL]
