"""The report's event is cut out of a stream wherever it is cut into reads; every other byte passes, and no token waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.tensorrt_llm import TensorRTLLM
from sidecar.observe.report_cut import ReportCut
from sidecar.timeline.reader import ONE_TOKEN, EventReader
from tests.support.streams import STREAMS, dialect_of


FIRST_LINE = TensorRTLLM.asked_report.event
FILES = sorted(STREAMS.glob("composed-trtllm-*-perf-metrics.sse"))
DONE = b"data: [DONE]\n\n"
EVENT = FIRST_LINE + b'\ndata: {"Server-Timing":"server_queue;dur=1.0"}\n\n'


def passed(pieces: list[bytes], stream: object = FILES[0]) -> list[bytes]:
    """The bytes that go out after each of the reads, and at the end, as `observe/response.py` asks for them."""
    reader = EventReader(dialect_of(stream))  # type: ignore[arg-type]
    cut, out = ReportCut(reader, FIRST_LINE), []
    for piece in pieces:
        events = reader.feed(piece)
        out.append(piece if events is ONE_TOKEN and cut.passing else cut.kept(piece, events))
    return [*out, cut.finish()]


def at_every_split(whole: bytes) -> list[list[bytes]]:
    """Whole, byte by byte, and in two reads at every place."""
    splits = [[whole[:at], whole[at:]] for at in range(1, len(whole))]
    return [[whole], [whole[at : at + 1] for at in range(len(whole))], *splits]


@pytest.mark.parametrize("stream", FILES, ids=lambda file: file.stem)
def test_the_client_gets_the_stream_without_the_event(stream: object) -> None:
    """Chat, `/v1/responses` and `/v1/messages`: whole, byte by byte and at every split."""
    whole = stream.read_bytes()  # type: ignore[attr-defined]
    before, _, _ = whole.partition(FIRST_LINE)

    assert len(before) < len(whole)
    assert {b"".join(passed(pieces, stream)) for pieces in at_every_split(whole)} == {before}


@pytest.mark.parametrize(
    "behind",
    [
        b"",
        b"\n\n",
        b": bye\n\n",
        b"data: [DONE]\n\n",
        b"event: trtllm.perf_metrics_of_another\ndata: {}\n\n",
        b"event: trtllm.perf_metricsx",
        b"event: trtllm",
        b"data: a\n\n" + EVENT[:-1].replace(b"\n", b"\r\n"),
        b"data: " + EVENT,
        b"x" * 5000 + EVENT[len(FIRST_LINE) :],
    ],
)
def test_what_is_not_that_event_passes_behind_the_end_mark_too(behind: bytes) -> None:
    whole = b"data: {}\n\n" + DONE + behind

    assert {b"".join(passed(pieces)) for pieces in at_every_split(whole)} == {whole}


@pytest.mark.parametrize("behind", [b"", b"data: x\n\n", b": bye\n\n" + EVENT, b"\r\ndata: x", EVENT + b"z"])
def test_what_stands_behind_the_event_passes(behind: bytes) -> None:
    before = b"data: {}\n\n" + DONE + b": hm\n\n"

    whole = before + EVENT + behind

    assert {b"".join(passed(pieces)) for pieces in at_every_split(whole)} == {before + behind.replace(EVENT, b"")}


def test_the_same_bytes_before_the_end_mark_are_the_clients() -> None:
    """A stream that has not ended is not touched, whatever stands in it."""
    whole = b"data: {}\n\n" + EVENT + b"data: {}\n\n"

    assert {b"".join(passed(pieces)) for pieces in at_every_split(whole)} == {whole}


def test_an_event_that_breaks_off_is_not_given_out() -> None:
    """All of it was caused by the sidecar: the engine ended within it."""
    for end in range(len(FIRST_LINE) + 1, len(EVENT)):
        assert b"".join(passed([DONE, EVENT[:end]])) == DONE


@given(data=st.data())
def test_nothing_is_held_but_the_beginning_of_one_line(data: st.DataObject) -> None:
    """After each read all has gone out but what may be that line; and the order of all is kept."""
    parts = st.sampled_from([DONE, EVENT, FIRST_LINE, b"data: {}\n\n", b"\n", b"\r", b"x", b"event: trt", b": c\n\n"])
    whole = b"".join(data.draw(st.lists(parts, max_size=8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True) if end > start]

    out = passed(pieces)

    assert b"".join(out) == b"".join(passed([whole] if whole else []))
    assert len(out[-1]) <= len(FIRST_LINE)
    assert (FIRST_LINE + b"\n").startswith(out[-1])
    if DONE not in whole:
        assert b"".join(out) == whole


@given(whole=st.binary(max_size=120), at=st.integers(0, 120))
def test_no_bytes_make_it_raise(whole: bytes, at: int) -> None:
    tail = DONE + whole

    assert b"".join(passed([tail[:at], tail[at:]])) == b"".join(passed([tail]))
