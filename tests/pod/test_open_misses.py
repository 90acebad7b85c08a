"""A miss is decided at the end of its request, by clear evidence, or after 15 s: once."""

from collections import defaultdict

from sidecar.ledger.request_labels import RequestLabels
from sidecar.objectives.objective import Objective
from sidecar.pod.open_misses import DECIDED_AT_ONCE, WAIT_SECONDS, Miss, OpenMisses


class Story:
    """Decides when it may, and writes down what it decided."""

    def __init__(self, *, clear: bool = False) -> None:
        self.clear = clear
        self.decided: list[tuple[float, Miss]] = []
        self.open = OpenMisses(self._decide)
        self.of: defaultdict[str, list[Miss]] = defaultdict(list)

    def _decide(self, miss: Miss, at: float) -> bool:
        if not (self.clear or miss.over or at >= miss.missed_at + WAIT_SECONDS):
            return False
        self.decided.append((at, miss))
        return True

    def missed(self, key: str, at: float, objective: Objective = Objective.TTFT) -> Miss:
        miss = Miss(RequestLabels("m", "chat", "0-512"), objective, at - 1.0, at, at - 1.0)
        self.open.missed(miss)
        self.of[key].append(miss)
        return miss

    def ended(self, key: str) -> None:
        """Its request is over."""
        for miss in self.of[key]:
            self.open.ended(miss)


def test_a_miss_waits_for_fifteen_seconds_and_no_longer() -> None:
    story = Story()
    miss = story.missed("a", 100.0)
    story.open.tick(114.9)
    assert story.decided == []
    story.open.tick(115.0)
    assert story.decided == [(115.0, miss)]
    assert len(story.open) == 0


def test_the_end_of_its_request_decides_it_at_the_next_tick() -> None:
    story = Story()
    ttft = story.missed("a", 100.0)
    tpot = story.missed("a", 101.0, Objective.TPOT)
    other = story.missed("b", 100.5)
    story.ended("a")
    story.open.tick(101.5)
    assert [miss for _, miss in story.decided] == [ttft, tpot]
    assert list(story.open) == [other]


def test_clear_evidence_decides_at_once() -> None:
    story = Story(clear=True)
    story.missed("a", 100.0)
    story.open.tick(100.1)
    assert len(story.decided) == 1


def test_a_thousand_misses_are_decided_in_several_turns_and_each_once() -> None:
    story = Story()
    for number in range(1000):
        story.missed(str(number), 100.0)
    for number in range(0, 1000, 2):
        story.ended(str(number))
    turns = 0
    while len(story.open):
        before = len(story.decided)
        more = story.open.tick(120.0)
        assert len(story.decided) - before <= DECIDED_AT_ONCE
        assert more or not len(story.open)
        turns += 1
    assert turns == 8
    assert len({id(miss) for _, miss in story.decided}) == len(story.decided) == 1000


def test_none_waits_for_longer_however_many_come() -> None:
    """A thousand requests are rejected each second for a minute, and twenty others a second hang."""
    story = Story()
    for second in range(60):
        for number in range(1000):
            key = f"rejected {second} {number}"
            story.missed(key, float(second))
            story.ended(key)
        for number in range(20):
            story.missed(f"hangs {second} {number}", float(second))
        while story.open.tick(second + 0.5):
            pass
        waits = [second + 0.5 - miss.missed_at for miss in story.open._in_order]
        assert max(waits, default=0.0) <= WAIT_SECONDS + 1.0
