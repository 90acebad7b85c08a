"""A mistake in the objectives' code is counted and reaches no client."""

import pytest

from sidecar.observe.slo_counters import Slo
from tests.support.slo_walk import (
    GENEROUS,
    LAST,
    REPORT,
    ROLE,
    TOKEN,
    ask,
    event,
    play,
    promising,
    stream,
    tick,
    verdicts,
)


@pytest.mark.reaches_in
@pytest.mark.parametrize("hook", ["received", "answering", "output", "finished", "ended", "settled", "tick"])
def test_a_mistake_in_the_objectives_is_counted_and_reaches_no_client(
    hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets every token (also the usage chunk, if the cut stopped with the rest). The tokens are not seen,
    and no miss is counted."""

    def broken(*_told: object, **_named: object) -> None:
        raise RuntimeError("the mistake under test")

    walk = promising(GENEROUS)
    if hook == "tick":
        monkeypatch.setattr(walk.slo._judge, "tick", broken)
    elif hook == "settled":
        monkeypatch.setattr(walk.slo._evidence, "settled", broken)
    else:
        monkeypatch.setattr(Slo, {"ended": "_ended"}.get(hook, hook), broken)
    client = ask(walk, stream=True)
    play(walk)
    tick(walk, 60.0)

    tokens = event(ROLE) + event(TOKEN) + event(LAST)
    assert (
        client.taken.partition(b"\r\n\r\n")[2].replace(event(REPORT), b"") == tokens + event(b"[DONE]") + b"0\r\n\r\n"
    )
    assert walk.value("llm_sidecar_dropped_total", reason="observer_error") + len(walk.dropped) >= 1
    assert walk.value("llm_slo_misses_total") == 0
    assert walk.value("llm_requests_total", outcome="ok") == 1
    assert walk.value("llm_engine_silence_seconds") == 0


@pytest.mark.reaches_in
def test_who_is_not_observed_any_more_is_not_held_to_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The observer fails at the head, so the tokens pass unseen: no miss, no overdue request, no engine silence."""
    walk = promising()

    def broken(*_told: object) -> None:
        raise RuntimeError("the mistake under test")

    monkeypatch.setattr("sidecar.observe.request.EventReader", broken)
    client = ask(walk, stream=True)
    stream(walk)
    tick(walk, 0.1)
    walk.engine.send(event(TOKEN))
    tick(walk, 60.0)

    assert client.taken.endswith(event(TOKEN))
    assert walk.dropped == ["observer_error"]
    assert (verdicts(walk, "ttft"), walk.value("llm_requests_overdue")) == ((0, 0), 0)
    assert walk.value("llm_engine_silence_seconds") == 0
