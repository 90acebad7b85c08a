"""When the present may become the usual, and where the usual values came from."""

import pytest

from sidecar.pod.usual.comparison import CALM_AFTER_SECONDS
from sidecar.pod.usual.learning import BURNED_SECONDS, FIRST_SECONDS, OWN_SECONDS, Came, Learning


class Life:
    """One process that ticks once a second, and decides so many requests in each."""

    def __init__(self) -> None:
        self.learning = Learning()
        self.now = 1000.0
        self.known = False
        self.drops = 0
        self.taught: list[float] = []

    def lives(self, seconds: float, *, missed: float = 0.0, per_second: int = 1, allowed: float = 0.05) -> "Life":
        """`missed`: share of the requests."""
        owed = 0.0
        for _ in range(round(seconds)):
            self.now += 1.0
            for _ in range(per_second):
                owed += missed
                self.learning.decided(self.now, "chat/ttft", missed=owed >= 1.0, allowed=allowed)
                owed -= owed >= 1.0
            self.drops += self.learning.tick(self.now, known=self.known)
            if self.learning.teaches(self.now):
                self.taught.append(self.now)
        return self

    @property
    def teaches(self) -> bool:
        return self.learning.teaches(self.now)


def test_a_calm_process_learns_from_its_first_second() -> None:
    assert len(Life().lives(60).taught) == 60


def test_two_early_misses_stop_the_learning_although_nothing_burns() -> None:
    """They are more than twice the budget of the few requests so far; later, so few would be taken for chance."""
    early, late = Life().lives(5), Life().lives(FIRST_SECONDS + 5)
    for life in (early, late):
        life.lives(2, missed=1.0)

    assert (early.learning.burns(early.now), early.teaches) == (False, False)
    assert (late.learning.burns(late.now), late.teaches) == (False, True)
    assert early.lives(60).teaches


def test_one_early_miss_is_chance() -> None:
    assert Life().lives(1, missed=1.0).teaches


def test_a_process_that_starts_in_a_fault_learns_nothing_from_it() -> None:
    life = Life().lives(BURNED_SECONDS - 60, missed=0.5)

    assert [at for at in life.taught if at > life.taught[0] + 5] == []
    assert life.learning.came(known=False) is Came.NONE


def test_after_an_hour_of_burning_the_calmest_tenth_teaches_and_is_provisional() -> None:
    """The misses rise and fall every twenty minutes; only the valleys teach."""
    life = Life()
    for _ in range(6):
        life.lives(600, missed=0.9).lives(600, missed=0.3)
    taught = [at for at in life.taught if at > 1000.0 + BURNED_SECONDS]

    assert life.learning.provisional
    assert 0.03 * 3600 < len(taught) < 0.3 * 3600
    assert all((at - 1000.0) % 1200.0 > 600.0 or (at - 1000.0) % 1200.0 < 60.0 for at in taught)


def test_a_burn_beside_usual_values_teaches_nothing_however_long_it_lasts() -> None:
    life = Life().lives(600)
    life.known = True
    at = life.now + 60
    life.lives(3 * BURNED_SECONDS, missed=0.5)

    assert [each for each in life.taught if each > at] == []
    assert not life.learning.provisional


def test_a_break_begins_the_hour_anew() -> None:
    life = Life().lives(0.9 * BURNED_SECONDS, missed=0.5).lives(900)
    assert not life.learning.burns(life.now)
    at = life.now + 60

    life.lives(0.9 * BURNED_SECONDS, missed=0.5)

    assert [each for each in life.taught if each > at] == []


def test_calm_drops_what_a_burn_taught() -> None:
    """Once, after two minutes: the truth can be learned now."""
    life = Life().lives(2 * BURNED_SECONDS, missed=0.5)
    life.known = True
    assert life.learning.provisional
    while life.learning.burns(life.now):
        life.lives(1)
    life.lives(CALM_AFTER_SECONDS - 2)
    assert life.drops == 0

    life.lives(2)
    life.learning.dropped()
    life.lives(60)

    assert (life.drops, life.learning.provisional) == (1, False)


def test_what_burned_when_it_was_saved_is_taken_to_burn_on_for_two_minutes() -> None:
    """The first misses of this process come only with the first requests."""
    life = Life()
    life.learning.restored(Came.STATE, life.now, burned=True, provisional=False)

    life.lives(CALM_AFTER_SECONDS - 1)
    assert life.taught == []
    assert life.lives(5).teaches


@pytest.mark.parametrize("came", [Came.STATE, Came.FILE])
def test_restored_values_become_those_of_this_process_as_it_learns(came: Came) -> None:
    life = Life()
    life.learning.restored(came, life.now, burned=False, provisional=False)
    assert life.lives(OWN_SECONDS - 10).learning.came(known=True) is came

    assert life.lives(20).learning.came(known=True) is Came.PROCESS


def test_without_any_value_there_is_no_source() -> None:
    assert Learning().came(known=False) is Came.NONE
    assert Learning().came(known=True) is Came.PROCESS
