"""Silences of the engine from the wire to the metrics page: what is a silence, and what explains one."""

from dataclasses import replace

import pytest

from sidecar.objectives.objective import Aim
from tests.support.slo_walk import AIMS, TOKEN, answer, ask, event, promising, stream, tick


def test_an_engine_that_hangs_falls_silent_on_the_page() -> None:
    walk = promising()
    ask(walk, stream=True)
    stream(walk)
    walk.engine.send(event(TOKEN))
    tick(walk, 20.0)

    assert walk.value("llm_engine_silence_seconds") == 20
    assert walk.value("llm_engine_stalled_seconds_total") == 12


def test_an_answer_in_flight_that_is_not_streamed_is_no_silence() -> None:
    """A request without `stream` is non-streamed by the APIs' default, so its wait is no silence."""
    walk = promising()
    ask(walk)
    tick(walk, 200.0)

    assert walk.value("llm_engine_silence_seconds") == 0
    assert walk.value("llm_engine_stalled_seconds_total") == 0


def test_an_answer_that_is_not_streamed_explains_the_silence_for_as_long_as_it_is_promised_to_take() -> None:
    """Whole answers may take 20 s here: until then a stream's wait beside one is no silence; later it is, and may
    become a stall."""
    walk = promising(replace(AIMS, e2e=Aim(20.0, 0.9)))
    ask(walk)
    ask(walk, stream=True)
    tick(walk, 20.0)
    assert walk.value("llm_engine_silence_seconds") == 0
    tick(walk, 40.0)

    assert walk.value("llm_engine_silence_seconds") == 60
    assert walk.value("llm_engine_stalled_seconds_total") == 0
    tick(walk, 60.0)
    assert walk.value("llm_engine_stalled_seconds_total") == 60


@pytest.mark.parametrize("status", [b"429 Too Many Requests", b"400 Bad Request"])
def test_a_refusal_at_the_door_is_no_sign_that_the_engine_works(status: bytes) -> None:
    """A stream waits. The engine's server refuses the next, non-streamed request, and the silence goes on."""
    walk = promising(replace(AIMS, e2e=Aim(2.0, 0.9)))
    ask(walk, stream=True)
    ask(walk)
    tick(walk, 130.0)
    answer(walk, b"{}", status)
    tick(walk, 1.0)

    assert walk.value("llm_engine_silence_seconds") == 131


@pytest.mark.parametrize("complete", [False, True])
def test_a_client_that_reads_slowly_is_no_silence(complete: bool) -> None:
    """The client's socket is full: reading has stopped, or the engine is done and the last bytes wait in the
    sidecar."""
    walk = promising()
    client = ask(walk, stream=True)
    client.room = 0
    stream(walk)
    walk.engine.send(b"".join([event(TOKEN)] * 40) + (event(b"[DONE]") + b"0\r\n\r\n" if complete else b""))
    tick(walk, 40.0)

    assert walk.accounts == []
    assert walk.value("llm_engine_silence_seconds") == 0
    assert walk.value("llm_engine_stalled_seconds_total") == 0


def test_a_client_that_has_caught_up_is_spoken_to_again() -> None:
    """Once the client has caught up, the time without output counts as silence."""
    walk = promising()
    client = ask(walk, stream=True)
    client.room = 0
    stream(walk)
    walk.engine.send(b"".join([event(TOKEN)] * 40))
    tick(walk, 40.0)
    client.take(None)
    tick(walk, 2.0)

    assert walk.value("llm_engine_silence_seconds") == 2


def test_a_sidecar_that_stood_still_does_not_blame_its_engine() -> None:
    """It was stopped for a minute, and its first turn comes before it reads what the engine has sent meanwhile."""
    walk = promising()
    ask(walk, stream=True)
    stream(walk)
    walk.engine.send(event(TOKEN))
    walk.slo.flow(walk.clock())
    tick(walk, 60.0)

    assert walk.value("llm_engine_silence_seconds") == 0
    assert walk.value("llm_engine_stalled_seconds_total") == 0
