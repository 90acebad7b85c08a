"""Parts and rest add up to their phase, and a part that contradicts its phase is not told."""

from collections.abc import Sequence
from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Phase, Share, Source
from sidecar.ledger.phase_parts import PARTED, PHASE_OF_PART, REST, Part, StatedPart, parts_of


def shares(**seconds: float) -> tuple[Share, ...]:
    return tuple(Share(Phase(name), each, Source.ENGINE) for name, each in seconds.items())


def told(found: Sequence[Share], *stated: tuple[Part, float]) -> dict[str, float]:
    parts = parts_of(found, [StatedPart(*each) for each in stated])
    return {f"{part.phase}.{part.part}": round(part.seconds, 12) for part in parts}


def test_a_part_stands_beside_the_rest_of_its_phase() -> None:
    whole = shares(queue=0.3, prefill=0.2, first_token=0.5, decode=1.0)

    assert told(whole) == {}
    assert told(whole, (Part.ROUTER, 0.1)) == {"queue.router": 0.1, "queue.rest": 0.2}
    assert told(whole, (Part.ROUTER, 0.1), (Part.PREFILL_QUEUE, 0.2), (Part.KV_TRANSFER, 0.4)) == {
        "queue.router": 0.1,
        "queue.prefill_queue": 0.2,
        "queue.rest": 0.0,
        "first_token.kv_transfer": 0.4,
        "first_token.rest": 0.1,
    }


def test_a_part_of_a_phase_that_is_not_known_is_not_told() -> None:
    assert told(shares(unattributed=1.0, decode=1.0), (Part.ROUTER, 0.1)) == {}


def test_parts_that_are_longer_than_their_phase_are_cut_by_a_rounding_and_refused_by_more() -> None:
    """Two clocks: so far a report may exceed the wire too. What is refused in one phase says nothing of another."""
    whole = shares(queue=0.3, first_token=0.5)

    assert told(whole, (Part.ROUTER, 0.3029)) == {"queue.router": 0.3, "queue.rest": 0.0}
    assert told(whole, (Part.ROUTER, 0.304), (Part.KV_TRANSFER, 0.1)) == {
        "first_token.kv_transfer": 0.1,
        "first_token.rest": 0.4,
    }


SECONDS = st.floats(0.0, 1e6)


@given(
    st.fixed_dictionaries({phase.value: SECONDS for phase in PARTED}), st.dictionaries(st.sampled_from(Part), SECONDS)
)
def test_parts_and_rest_add_up_to_their_phase(seconds: dict[str, float], stated: dict[Part, float]) -> None:
    found = parts_of(shares(**seconds), [StatedPart(*each) for each in stated.items()])

    for phase in {part.phase for part in found}:
        own = [part for part in found if part.phase is phase]
        assert fsum(part.seconds for part in own) == pytest.approx(seconds[phase.value])
        assert min(part.seconds for part in own) >= 0.0
        assert own[-1].part == REST


def test_each_part_has_its_phase() -> None:
    assert (set(PHASE_OF_PART), set(PHASE_OF_PART.values()), REST in {part.value for part in Part}) == (
        set(Part),
        set(PARTED),
        False,
    )
