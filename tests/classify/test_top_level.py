"""The members of a body by their places, up to the end of the bytes at hand, within a bounded time."""

import json

import pytest

from sidecar.classify.top_level import (
    COUNTED_AT_ONCE_BYTES,
    MAX_ELEMENT_TOKENS,
    MAX_SCANNED_MEMBERS,
    elements,
    elements_in_steps,
    members,
)


LONG = b"x" * COUNTED_AT_ONCE_BYTES


def read(body: bytes) -> dict[str, object]:
    return {member.name: json.loads(body[member.start : member.end]) for member in members(body)}


def counted_in_steps(array: bytes) -> tuple[int | None, int]:
    """The number of elements, and of steps before it was known."""
    steps, paused = elements_in_steps(array), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, paused
        paused += 1


def test_members_end_where_the_bytes_end() -> None:
    body = b' {"a" : "x" , "b":[1,{"c":"]"}],\n"d" :12'

    assert read(body) == {"a": "x", "b": [1, {"c": "]"}]}
    assert read(body + b",") == {"a": "x", "b": [1, {"c": "]"}], "d": 12}


def test_names_are_unescaped_and_duplicates_are_given() -> None:
    found = [member.name for member in members(b'{"\\u0061":1,"a":2,"\\ud800":3,"\xff":4}')]

    assert found == ["a", "a", "", ""]


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (b"[]", 0),
        (b' [ 1 , "]" , [2,3] ] ', 3),
        (b"[1,]", None),
        (b"[1", None),
        (b"{}", None),
        (b'["%b" , [2,3] ] ' % LONG, 2),
        (b'["%b",]' % LONG, None),
        (b'["%b"' % LONG, None),
        (b'{"%b":1}' % LONG, None),
    ],
)
def test_elements_of_a_complete_array_are_counted(array: bytes, found: int | None) -> None:
    """A short one by the library, a long one by its tokens, in steps."""
    assert elements(array) == found
    assert counted_in_steps(array)[0] == found


def test_a_batch_of_thousands_of_prompts_is_counted_in_many_steps() -> None:
    batch = json.dumps(["Where is the queue?"] * 5_000).encode()
    found, steps = counted_in_steps(batch)

    assert found == elements(batch) == 5_000
    assert steps > 15


def test_a_long_array_of_more_elements_than_any_batch_has_is_given_up() -> None:
    many = b"[" + b"1," * 2 * MAX_ELEMENT_TOKENS + b"1]"

    assert elements(many) == 2 * MAX_ELEMENT_TOKENS + 1
    assert counted_in_steps(many)[0] is None


def test_a_body_of_thousands_of_members_is_given_up() -> None:
    """Otherwise it would hold the event loop for tens of milliseconds."""
    many = json.dumps({f"key{number}": number for number in range(60_000)}).encode()

    assert len(list(members(many))) == MAX_SCANNED_MEMBERS


def test_a_conversation_of_a_hundred_messages_is_read_to_its_end() -> None:
    messages = [{"role": "user", "content": 'He said "yes" and went. ' * 8}] * 100

    assert [member.name for member in members(json.dumps({"messages": messages, "model": "m"}).encode())] == [
        "messages",
        "model",
    ]
