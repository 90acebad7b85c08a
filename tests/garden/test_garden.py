"""The garden of request sequences: its size, that a seed gives it again, and that each attack can be told from all others."""

from collections import Counter

import pytest

from tests.garden.garden import MIXED_SEQUENCES, SEED, request_sequences
from tests.garden.sequence import Family, Trick, has_mark, numbers_in, outside_marks, sequence_of
from tests.garden.strict_reader import read_requests


EVERY = list(request_sequences())


def test_the_garden_has_five_thousand_attacks_of_all_families() -> None:
    """More than 5,000 sequences, no two of them the same, and dozens of every family."""
    unnumbered = {(one.sent.replace(b"g%07d" % one.number, b""), tuple(map(len, one.pieces))) for one in EVERY}
    families = Counter(one.family for one in EVERY)

    assert len(EVERY) >= 5000
    assert len(unnumbered) == len(EVERY)
    assert set(families) == set(Family)
    assert min(families.values()) >= 80
    assert families[Family.MIXED] >= 0.9 * MIXED_SEQUENCES


def test_a_seed_gives_the_same_bytes_again() -> None:
    """The same seed gives the same garden; another seed changes only the random mixtures."""
    other = list(request_sequences(SEED + 1))
    written = [one for one in EVERY if one.family is not Family.MIXED]

    assert list(request_sequences()) == EVERY
    assert [one for one in other if one.family is not Family.MIXED] == written
    assert other != EVERY


def test_a_number_does_not_depend_on_the_chosen_families() -> None:
    some = list(request_sequences(SEED, (Family.HOSTS, Family.LONG)))

    assert some == [one for one in EVERY if one.family in (Family.HOSTS, Family.LONG)]


def test_every_request_bears_the_number_of_its_attack() -> None:
    """An origin can tell of each request that is well-formed from which attack it came."""
    strangers = []
    for one in EVERY:
        start = 0
        for message in read_requests(one.sent).messages:
            if numbers_in(one.sent[start : message.end]) != {one.number}:
                strangers.append(str(one))
            start = message.end

    assert strangers == []


def test_a_canary_stands_behind_every_attack() -> None:
    assert [str(one) for one in EVERY if not one.sent.endswith(b"/canary HTTP/1.1\r\nHost: garden\r\n\r\n")] == []


def test_an_attack_is_cut_where_its_trick_says() -> None:
    """Cuts become pauses between pieces, in order; those outside of the bytes are none."""
    sequence = sequence_of(Trick(Family.PAUSES, "cut", b"GARDENID.abc", (9, 3, 0, 9, 4000)), 7)

    assert [piece[:8] for piece in sequence.pieces] == [b"g00", b"00007.", b"abcGET /"]
    assert str(sequence) == "pauses 7: cut"


@pytest.mark.parametrize(("place", "moved"), [(0, 0), (2, 2), (3, 10), (9, 10), (10, 10), (11, 11)])
def test_a_place_within_a_mark_moves_behind_it(place: int, moved: int) -> None:
    assert outside_marks(b"abGARDENIDcd", place) == moved
    assert has_mark(b"abGARDENIDcd")
