"""`stream_options.include_usage`: each state that a client may give it, and the place of its null."""

import json

import msgspec
import pytest

from sidecar.classify.found import Asked
from sidecar.classify.top_level import MAX_SCANNED_MEMBERS
from sidecar.classify.usage_option import MAX_BYTES, asked_in, place_of_null, place_of_null_in_steps


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (b"null", Asked.NULL),
        (b" null", Asked.NULL),
        (b"{}", Asked.LEFT_OUT),
        (b'{"continuous_usage_stats":true}', Asked.LEFT_OUT),
        (b'{"include_usage":true}', Asked.WANTED),
        (b'{ "include\\u005fusage" : false }', Asked.DECLINED),
        (b'{"include_usage":true,"include_usage":false}', Asked.DECLINED),
        (b'{"include_usage":null}', Asked.UNCLEAR),
        (b'{"include_usage":1}', Asked.UNCLEAR),
        (b'{"x":[1e999],"include_usage":true}', Asked.WANTED),
        (b"[]", Asked.UNCLEAR),
        (b'"include_usage"', Asked.UNCLEAR),
        (b"1e999", Asked.UNCLEAR),
        (b'{"include_usage":true,"x":"%b"}' % (b"a" * MAX_BYTES), Asked.UNCLEAR),
    ],
)
def test_the_state_is_what_the_client_said(value: bytes, state: Asked) -> None:
    assert asked_in(msgspec.Raw(value)) is state


def in_steps(body: bytes) -> tuple[int, int] | None:
    steps = place_of_null_in_steps(body)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: tuple[int, int] | None = end.value
            return found


@pytest.mark.parametrize(
    "body", [b'{"stream_options":null}', b'{"stream_options":1,"a":{"stream_options":2},"stream_options" : null }\n']
)
def test_the_null_that_counts_is_found(body: bytes) -> None:
    start, end = place_of_null(body) or (0, 0)

    assert (start, end) == (body.rindex(b"null"), body.rindex(b"null") + 4)
    assert in_steps(body) == (start, end)


def test_in_steps_it_is_found_behind_any_number_of_values() -> None:
    body = json.dumps({"messages": [[]] * 5_000, "stream_options": None, "x": 1}).encode()
    at = body.index(b"null")

    assert in_steps(body) == (at, at + 4)
    assert place_of_null(body) is None


def test_one_scan_looks_among_as_many_members_as_any_api_has() -> None:
    def behind(members: int) -> bytes:
        return json.dumps({**{f"a{number}": 0 for number in range(members)}, "stream_options": None}).encode()

    assert place_of_null(behind(MAX_SCANNED_MEMBERS - 1)) == in_steps(behind(MAX_SCANNED_MEMBERS - 1)) is not None
    assert place_of_null(behind(MAX_SCANNED_MEMBERS)) is None


def test_in_what_is_no_json_there_is_none() -> None:
    assert place_of_null(b'{"a":1') is None
    assert in_steps(b'{"a":1') is None
