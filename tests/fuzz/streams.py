"""The readers of streams: server-sent events, newline-delimited JSON, the dialects, and the two cuts: of the usage chunk, of a report's event.

A second reading of events is written here straight from the standard's text (WHATWG HTML 9.2.6), without states between
segments. Newline-delimited JSON is compared with Python's `json`. The cut must let every byte pass but those of one event.
"""

import json
import re
from contextlib import suppress

from sidecar.observe.report_cut import ReportCut
from sidecar.observe.usage_chunk import UsageCut
from sidecar.timeline.events import Dialect, StreamEvent, UnreadableEvent
from sidecar.timeline.ndjson import NdjsonParser
from sidecar.timeline.outline import Outline
from sidecar.timeline.reader import EventReader
from sidecar.timeline.sse import _LONGEST_NAME_LINE_BYTES, BOM, NO_ERROR, SseParser
from tests.fuzz.target import Target, cuts
from tests.support.apis import dialect_for


_SMALL_CAP = 48
_PATHS = (
    *(b"/v1/chat/completions", b"/v1/completions", b"/v1/responses", b"/v1/messages", b"/api/chat", b"/generate"),
    *(b"/generate_stream", b"/completion", b"/completions", b"/v2/models/m/generate_stream"),
)
_NAME_IS_CUT_FROM_BYTES = _LONGEST_NAME_LINE_BYTES - len(b"event: ")
"""A longer name of a long event may be cut, but not before this."""
_REPORT_LINE = b"event: trtllm.perf_metrics"
_OVERHEAD_BYTES = 2 * _LONGEST_NAME_LINE_BYTES
"""Bytes that may be held of a long event besides the cap: of its name, and of the line that is read now."""


# --- server-sent events --------------------------------------------------------------------------------------------------


def _events_by_the_standard(data: bytes) -> list[tuple[bytes, bytes]]:
    """The events of a whole stream, read line by line as the standard states it; ids and times to reconnect are left out.

    Engines add one field to it: `error:` names its event so, unless it states none, and an event of that name needs no data.
    """
    data = data.removeprefix(BOM)
    lines = re.split(rb"\r\n|\n|\r", data)
    events: list[tuple[bytes, bytes]] = []
    name, said = b"", b""
    found = False
    for line in lines[:-1]:  # the last one has no end
        if not line:
            if found or name == b"error":
                events.append((name, said[:-1]))
            name, said, found = b"", b"", False
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            said, found = said + value + b"\n", True
        elif field == b"event":
            name = value
        elif field.lower() == b"error" and value not in NO_ERROR:
            name = b"error"
    return events


def _sse(pieces: list[bytes], cap: int) -> tuple[list[tuple[bytes, bytes]], int, list[tuple[int, int]]]:
    parser = SseParser(cap)
    events: list[tuple[bytes, bytes]] = []
    spans: list[tuple[int, int]] = []
    for piece in pieces:
        events += parser.feed(piece)
        spans += parser.spans
        held = len(parser._line) + len(parser._event) + len(parser._data or b"")
        assert held <= cap + len(piece) + _OVERHEAD_BYTES, "more is held than the cap and one segment"
    return events, parser.oversized, spans


def check_sse(data: bytes) -> None:
    for cap in (_SMALL_CAP, 1 << 18):
        whole, oversized, spans = _sse([data], cap)
        for pieces in cuts(data):
            events, too_large, parts = _sse(pieces, cap)
            assert (events, too_large) == (whole, oversized), "the cuts change the events"
            assert [start for start, _ in parts] == [start for start, _ in spans]
        if not oversized:
            for (name, said), (read_name, read) in zip(whole, _events_by_the_standard(data), strict=True):
                small = cap == _SMALL_CAP
                cut = small and len(name) >= _NAME_IS_CUT_FROM_BYTES and read_name.startswith(name)
                assert cut or name == read_name, "the standard reads other events"
                assert said in (read, _outline(read)) if small else said == read, "the standard reads other data"


def _outline(data: bytes) -> bytes | None:
    outline = Outline()
    outline.feed(data)
    return outline.end()


# --- newline-delimited JSON ----------------------------------------------------------------------------------------------


def _ndjson(pieces: list[bytes], cap: int) -> tuple[list[bytes], int, list[tuple[int, int]]]:
    parser = NdjsonParser(cap)
    values: list[tuple[bytes, bytes]] = []
    spans: list[tuple[int, int]] = []
    for piece in pieces:
        values += parser.feed(piece)
        spans += parser.spans
        assert len(parser._line) + len(parser._value) <= 2 * cap + len(piece), (
            "more is held than two caps and one segment"
        )
    values += parser.finish()
    return [said for _, said in values], parser.oversized, spans + parser.spans


def check_ndjson(data: bytes) -> None:
    for cap in (_SMALL_CAP, 1 << 18):
        whole = _ndjson([data], cap)
        for pieces in cuts(data):
            values, *others = _ndjson(pieces, cap)
            assert len(values) == len(whole[0]), "the cuts change how many values there are"
            assert all(map(_same, values, whole[0])), "the cuts change the values"
            assert others == [*whole[1:]], "the cuts change where values are, or how many are too long"
        if cap > len(data):
            _as_json_reads_it(data, whole[0])


def _same(one: bytes, other: bytes) -> bool:
    """But for blanks where one of the two is no JSON: those of a damaged string, with line feeds in it, may be cut as a line's are."""
    if one == other:
        return True
    blanks = b" \t\r\n"
    return not (_is_json(one) and _is_json(other)) and one.translate(None, blanks) == other.translate(None, blanks)


def _is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True


def _as_json_reads_it(data: bytes, values: list[bytes]) -> None:
    """A stream of which each line is a JSON object gives exactly those lines."""
    lines = [line.strip(b" \t\r") for line in data.split(b"\n")]
    try:
        objects = [json.loads(line) for line in lines if line]
    except (ValueError, RecursionError):
        return
    if all(isinstance(one, dict) for one in objects):
        assert [json.loads(value) for value in values] == objects or b"NaN" in data


# --- events in their dialects --------------------------------------------------------------------------------------------


def _dialect(data: bytes) -> tuple[Dialect, bool, bytes]:
    """The first byte says which dialect reads, and in which framing."""
    number = data[0] if data else 0
    dialect = dialect_for(_PATHS[number % len(_PATHS)])
    assert dialect is not None
    return dialect, number >= 200, data[1:]


def check_dialects(data: bytes) -> None:
    dialect, lines, data = _dialect(data)

    def read(pieces: list[bytes], *, short_way: bool) -> tuple[list[StreamEvent], int, str | None]:
        reader = EventReader(dialect, lines=lines)
        if not short_way:
            reader._token = None
        events = [event for piece in pieces for event in reader.feed(piece)]
        events += reader.finish()
        return events, reader.unreadable, reader.response_id

    whole = read([data], short_way=False)
    for pieces in cuts(data):
        assert read(pieces, short_way=True) == whole, "the cuts, or the short way, change what the stream says"
    events = re.split(rb"(?<=\n\n)", data)
    assert read([piece for piece in events if piece], short_way=True) == whole, "the short way reads something else"
    with suppress(UnreadableEvent):
        dialect.read_body(data)


# --- the usage chunk -----------------------------------------------------------------------------------------------------


def _kept(pieces: list[bytes], dialect: Dialect, choices: int) -> tuple[bytes, UsageCut]:
    reader = EventReader(dialect)
    cut, out = UsageCut(reader, choices), b""
    for piece in pieces:
        out += cut.kept(piece, reader.feed(piece))
        reached = len(out) + len(cut._held)
        assert reached <= reader.parser.fed
        assert cut.cut or reached == reader.parser.fed, "bytes are lost on the way"
    return out + cut.finish(), cut


def check_usage_cut(data: bytes) -> None:
    """Both cuts, each alone."""
    dialect, _, data = _dialect(data)
    _check_report_cut(data, dialect)
    choices = 1 + data.count(b'"index":1')
    whole, cut = _kept([data], dialect, choices)
    if not cut.cut:
        assert whole == data, "bytes out are not the bytes in"
    else:
        assert _is_one_event_less(data, whole), "more than one event was cut"
    for pieces in cuts(data):
        assert _kept(pieces, dialect, choices)[0] == whole, "the cuts change the bytes that go out"


def _reported(pieces: list[bytes], dialect: Dialect) -> tuple[bytes, bool]:
    reader = EventReader(dialect)
    cut, out = ReportCut(reader, _REPORT_LINE), b""
    for piece in pieces:
        out += cut.kept(piece, reader.feed(piece))
        assert len(cut._held) <= len(_REPORT_LINE), "more is held than the beginning of a line"
    return out + cut.finish(), cut.cut


def _check_report_cut(data: bytes, dialect: Dialect) -> None:
    whole, was_cut = _reported([data], dialect)
    assert was_cut <= (_REPORT_LINE + b"\n" in data), "another event was cut"
    assert was_cut or whole == data, "bytes out are not the bytes in"
    for pieces in cuts(data):
        assert _reported(pieces, dialect)[0] == whole, "the cuts change the bytes that go out"


def _is_one_event_less(data: bytes, out: bytes) -> bool:
    """Whether `out` is `data` without one run of bytes that is one event, with comments around it at most."""
    gap = len(data) - len(out)
    for start in range(len(out) + 1):
        if data[:start] == out[:start] and data[start + gap :] == out[start:]:
            events = _events_by_the_standard(data[start : start + gap] + b"\n")
            if len(events) == 1 and b'"usage"' in events[0][1].replace(b"\\u", b'"usage"'):
                return True
    return False


_TOKEN = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
_FINISH = b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
_USAGE = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n'
_DONE = b"data: [DONE]\n\n"
_REPORT = _REPORT_LINE + b'\ndata: {"Server-Timing":"server_queue;dur=1.0, server_ttft;dur=8.5"}\n\n'
_CHAT = _TOKEN + _FINISH + _USAGE + _DONE
_ANTHROPIC = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
_OLLAMA = b'{"model":"m","message":{"content":"a"},"done":false}\n{"done":true,"done_reason":"stop","eval_count":2}\n'
_WORDS = (
    *(b"data: ", b"event: ", b"\n\n", b"\r\n\r\n", b"\r", b": x\n", b"[DONE]", BOM, b"id: 1\n", b"error"),
    *(b'"usage":{', b'"usage":null', b'"choices":[]', b'"finish_reason":"stop"', b'"index":1', b'"delta":{"content":"'),
    *(b'"text":"', b'"id":"', b"\\u0075", b"1e999", b'"done":true', b'"meta_info":{', b'"generated_text":', b"}\n{"),
)

STREAMS = (
    Target(
        "sse",
        check_sse,
        (_CHAT, _ANTHROPIC, b"data\ndata: a\n\n: c\r\n\r\ndata: b\revent: e\r\r", BOM + _TOKEN),
        _WORDS,
        256,
    ),
    Target(
        "ndjson", check_ndjson, (_OLLAMA, b'{\n "a": [1,\n 2]\n}\n{"b":"}{"}', b'{"a":"\\""}\r\n[]\n1\n'), _WORDS, 256
    ),
    Target(
        "dialects",
        check_dialects,
        (
            *(bytes([number]) + _CHAT for number in range(len(_PATHS))),
            *(
                b"\3" + _ANTHROPIC,
                b"\xcc" + _OLLAMA,
                b"\5" + b'data: {"text":"a","meta_info":{"id":"x","finish_reason":null}}\n\n',
            ),
            b'\6data: {"index":1,"token":{"id":1,"text":"a","special":false},"generated_text":null}\n\n',
            b'\2event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n',
            b'\x09data: {"model_name":"m","text_output":"a"}\n\n',
        ),
        _WORDS,
        512,
    ),
    Target(
        "usage_cut",
        check_usage_cut,
        (
            *(b"\0" + _CHAT, b"\0" + _CHAT.replace(b"\n", b"\r\n"), b"\0" + _CHAT.replace(b"\n", b"\r")),
            b"\0" + _CHAT + _REPORT + _DONE,
            b"\0" + _TOKEN + _USAGE + _FINISH + _DONE,
            b"\0" + _FINISH + b": comment\n" + _USAGE[:-1] + b": more\n\n" + _DONE,
            b"\1" + b'data: {"choices":[{"index":0,"text":"a","finish_reason":"length"}]}\n\n' + _USAGE + _DONE,
        ),
        _WORDS,
        512,
    ),
)
