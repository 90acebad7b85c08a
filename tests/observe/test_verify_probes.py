"""Probes of `sidecar verify` pass unchanged and change no number of a lane; a client that sends too many of them hides nothing."""

from dataclasses import replace

import pytest

from sidecar.engines.reports.lone_requests import Ending
from sidecar.metrics import catalogue as c
from sidecar.observe.settlement import EXCUSED_SECONDS
from sidecar.observe.verify_probes import MOST_PROBES_AT_ONCE, PROBE_EVERY_SECONDS, VERIFY_HEADER, ProbeBucket
from tests.support.spans import fixture
from tests.support.vllm_stream import STREAM, chunk, play, post
from tests.support.vllm_stream import TOKEN as A_TOKEN
from tests.support.walk import Walk


PROBE = post({"stream": True}, f"{VERIFY_HEADER.decode().title()}: 1")


def of_lanes(walk: Walk) -> list[str]:
    """The page's samples that have a lane."""
    return [line for line in walk.page().splitlines() if 'lane="' in line]


def test_a_probe_passes_unchanged_and_moves_no_number_of_a_lane() -> None:
    walk = Walk()
    before = of_lanes(walk)
    client = walk.client()
    client.send(PROBE)
    play(walk)

    assert b"include_usage" not in walk.engine.taken
    assert VERIFY_HEADER in walk.engine.taken.lower()
    assert client.taken.count(b"data: ") == 5
    assert of_lanes(walk) == before
    assert walk.accounts == []
    assert walk.value("llm_sidecar_verify_probes_total", result="apart") == 1


def test_a_probe_is_in_flight_and_has_ended_where_the_engine_is_compared() -> None:
    """The engine works on it and counts it: a page read beside it must not look as if others passed the sidecar by."""
    walk = Walk()
    ended: list[Ending] = []
    done: list[bool] = []
    walk.settlement.on_ended, walk.settlement.on_probe_done = ended.append, lambda: done.append(True)
    client = walk.client()
    client.send(PROBE)
    walk.engine.send(STREAM + chunk(A_TOKEN))
    inside = len(walk.instruments.in_flight)
    client.protocol.connection_lost(None)

    assert (inside, len(walk.instruments.in_flight)) == (1, 0)
    assert [(each.keys, each.waits) for each in ended] == [((), False)]
    assert done == []  # its client left: the engine does not count it as a good one

    client = walk.client()
    client.send(PROBE)
    play(walk)

    assert done == [True]


def span_of_its_own(walk: Walk, number: int) -> None:
    """The engine's span on a request without a trace: it begins one itself."""
    for span in fixture("vllm-chat").under("", f"{number + 1:032x}"):
        attributes = {**span.attributes, "gen_ai.request.id": f"chatcmpl-own-{number}"}
        walk.settlement.span(replace(span, attributes=attributes))


def passed(walk: Walk, seconds: float) -> None:
    walk.clock.now += seconds
    while walk.settlement.expire(walk.clock.now):
        pass


def test_the_engines_reports_on_probes_are_no_loss_and_others_are() -> None:
    """One for each probe that passed; reports on what passed the sidecar by are still counted."""
    walk = Walk(mints=True)
    for number in range(5):
        walk.client().send(PROBE)
        play(walk)
        span_of_its_own(walk, number)
    passed(walk, 60.0)
    of_probes = walk.value("llm_sidecar_dropped_total", reason="report_unmatched")
    for number in range(5, 8):
        span_of_its_own(walk, number)
    passed(walk, 60.0)

    assert (of_probes, walk.value("llm_sidecar_dropped_total", reason="report_unmatched")) == (0, 3)


def test_a_probe_on_which_no_report_came_excuses_none_for_ever() -> None:
    walk = Walk(mints=True)
    walk.client().send(PROBE)
    play(walk)
    passed(walk, EXCUSED_SECONDS + 1)
    span_of_its_own(walk, 0)
    passed(walk, 60.0)

    assert walk.value("llm_sidecar_dropped_total", reason="report_unmatched") == 1


def test_of_probes_on_which_no_report_comes_few_are_kept() -> None:
    """An engine that reports nothing, and a client that sends one probe in each minute, as many as are believed."""
    walk = Walk()
    for _ in range(60):
        walk.client().send(PROBE)
        play(walk)
        passed(walk, PROBE_EVERY_SECONDS)

    assert walk.value("llm_sidecar_verify_probes_total", result="apart") == 60
    assert len(walk.settlement._probes_over) <= EXCUSED_SECONDS / PROBE_EVERY_SECONDS + 1


def test_a_probe_beside_a_stream_is_none_that_passed_the_sidecar_by() -> None:
    """The engine's page counts both: a share of one half would stop the step model from learning."""
    walk = Walk()
    walk.metrics.gauge(c.ENGINE_REQUESTS_RUNNING).child().set(2.0)
    for request in (post({"stream": True}), PROBE):
        walk.client().send(request)
        walk.engine.send(STREAM + chunk(A_TOKEN))
    for _ in range(120):
        passed(walk, 1.0)

    assert walk.instruments.slo._evidence.steps.seen.value == pytest.approx(1.0)


def test_a_client_that_sends_too_many_probes_is_counted_as_usual() -> None:
    """Sixty in 42 seconds: 48 are believed. A pod with the lean profile tells it too."""
    walk = Walk()
    for _ in range(60):
        walk.client().send(PROBE)
        play(walk)

    counted = {result: walk.value("llm_sidecar_verify_probes_total", result=result) for result in ("apart", "as_usual")}
    assert (counted, walk.value("llm_requests_total", lane="interactive")) == ({"apart": 48, "as_usual": 12}, 12)


def test_the_bucket_fills_again_one_by_one() -> None:
    bucket = ProbeBucket()
    first = [bucket.take(100.0) for _ in range(MOST_PROBES_AT_ONCE + 1)]
    later = [bucket.take(100.0 + PROBE_EVERY_SECONDS) for _ in range(2)]
    long_after = [bucket.take(1e6) for _ in range(MOST_PROBES_AT_ONCE + 1)]

    assert (first.count(True), later, long_after.count(True)) == (
        MOST_PROBES_AT_ONCE,
        [True, False],
        MOST_PROBES_AT_ONCE,
    )


@pytest.mark.parametrize("path", [b"/v1/models", b"/tokenize"])
def test_the_header_changes_nothing_of_what_is_no_inference(path: bytes) -> None:
    walk = Walk()
    walk.client().send(b"GET %b HTTP/1.1\r\nHost: pod\r\n%b: 1\r\n\r\n" % (path, VERIFY_HEADER))
    walk.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    assert walk.value("llm_passthrough_requests_total") == 1
    assert "llm_sidecar_verify_probes_total{" not in walk.page()
