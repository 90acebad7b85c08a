"""A long JSON object, checked in pieces of 16 KiB, so that other work of the event loop runs between them. Pure.

msgspec checks a text of a megabyte in one call, which takes up to 5 ms. Here each piece is made a text of its own (the
brackets that are open before it, the piece, the brackets that are open behind it closed) and msgspec checks that. A piece
ends behind a comma, or inside a string that is longer than a piece. Refuses to know what the members mean; it gives up
texts that no encoder of prompts writes: brackets nested so deeply or densely that they cannot be paired at little cost, more
than MAX_MEMBERS at the top, or 16 KiB without a comma and without a string.
"""

import re
from collections.abc import Generator

import msgspec

from sidecar.classify.json_text import MAX_DEPTH, MAX_NAME_BYTES, JsonText, TooLongError, UnreadableError
from sidecar.classify.top_level import Member, unescaped
from sidecar.timeline.outline import BLANKS, BRACE, CLOSING_OF, FIRST_LOOK_BYTES, GROWTH


CHECKED_BYTES = 16_384
"""Bytes that are checked in one step: 20 to 300 us."""
MAX_MEMBERS = 256
_MEMBER_BYTES = 1024
"""A member counts as so many bytes more: a container of ten brackets in each other takes 40 us, however short it is."""
STEP_TOKENS = 128
"""Tokens (`json_text.py`) in one step: about 0.1 ms."""
_MAX_TOKENS = 1 << 20
_MAX_UNPAIRED = 2_048
"""Brackets of one piece that are looked at one by one: 0.2 ms."""
_PASSES = 8
_NOT_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_LAST_STRINGS = 3
_ESCAPE_BYTES = 11
"""An escape, or two that are one character (RFC 8259 7), lacks its end by at most so many bytes."""
_FIRST_HALF = re.compile(rb"\\u[dD][89abAB]")
_FIRST_HALF_BYTES = 6
_OBJECT_BEGINS = re.compile(rb"[ \t\n\r]{0,4096}+\{")
_CHECKER = msgspec.json.Decoder(msgspec.Raw)

Steps = Generator[None, None, None]


def checked_members(body: bytes | bytearray, piece_bytes: int = CHECKED_BYTES) -> Generator[None, None, list[Member]]:
    """The members of the object that is the whole text, in order, with duplicates. Each step takes about 0.2 ms.

    Raises UnreadableError for a text that is no JSON object, or that is given up.
    """
    if _OBJECT_BEGINS.match(body) is None:
        raise UnreadableError("no JSON object")
    text = JsonText(body, pause_tokens=STEP_TOKENS, max_tokens=_MAX_TOKENS)
    found: list[Member] = []
    worked = 0
    for name in text.members():
        if name is None:
            yield
            continue
        if len(found) == MAX_MEMBERS or len(name) == MAX_NAME_BYTES:
            raise TooLongError("more members, or a longer name, than any API has")
        _check(b'"%b"' % name)
        start = text.at
        if body[start : start + 1] in (b"{", b"["):
            yield from _container(text, piece_bytes)
        else:
            yield from _string_or_scalar(text, piece_bytes)
        found.append(Member(unescaped(name), start, text.at))
        worked += _MEMBER_BYTES + text.at - start
        if worked >= piece_bytes:
            worked = 0
            yield
    text.end()
    return found


def _check(text: bytes | bytearray) -> None:
    try:
        _CHECKER.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableError(str(error)) from None


def _string_or_scalar(text: JsonText, piece_bytes: int) -> Steps:
    body, at = text.body, text.at
    while not text.skip():
        yield
    if body[at : at + 1] != b'"' or text.at - at <= piece_bytes:
        _check(body[at : text.at])  # in order: the text has been stepped over from `at` on
        return
    at += 1
    while text.at - at > piece_bytes:
        cut = _cut_in_string(body[at : at + piece_bytes])
        if cut <= 0:
            raise TooLongError("an escape that is longer than a piece")
        _check(b'"' + body[at : at + cut] + b'"')
        yield
        at += cut
    _check(b'"' + body[at : text.at])  # in order: no cut goes beyond the piece, which ends before text.at


def _container(text: JsonText, piece_bytes: int) -> Steps:
    """Step over the array or object at `text.at`, checking it."""
    body, at = text.body, text.at + 1
    opened = bytes(body[text.at : text.at + 1])
    lead = b""  # what stands in the innermost container before the piece
    size = min(FIRST_LOOK_BYTES, piece_bytes)
    while True:
        piece = bytes(body[at : at + size])
        if not piece:
            raise UnreadableError("the JSON is incomplete")
        outside, inside = _parts(piece, in_string=lead.endswith(b'"'))
        closed, _ = _unpaired(b"".join(outside))
        if closed >= len(opened):
            end = _end(outside, inside, len(opened), in_string=lead.endswith(b'"'))
            _check(_opening(opened) + lead + piece[:end])
            text.at = at + end
            return
        if size < piece_bytes:
            size = min(GROWTH * size, piece_bytes)
            continue
        cut, new_lead, closed, new = _cut(piece, outside, inside, opened, lead)
        now_open = opened[: len(opened) - closed] + new
        if len(now_open) > MAX_DEPTH:
            raise TooLongError(f"JSON nested deeper than {MAX_DEPTH}")
        _check(_opening(opened) + lead + piece[:cut] + _ending(new_lead, now_open))
        at, opened, lead = at + cut, now_open, new_lead
        yield


def _parts(piece: bytes, *, in_string: bool) -> tuple[list[bytes], list[bytes]]:
    """Text outside and inside of strings, by turns; escapes are replaced by other bytes, as many."""
    if b"\\" in piece:
        piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    parts = piece.split(b'"')
    return parts[in_string::2], parts[not in_string :: 2]


def _unpaired(outside: bytes) -> tuple[int, bytes]:
    """How many containers the text closes that it has not opened, and the brackets that it leaves open."""
    brackets = outside.translate(None, _NOT_BRACKETS)
    for _ in range(_PASSES):
        fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    if len(brackets) > _MAX_UNPAIRED:
        raise TooLongError(f"JSON nested deeper than {MAX_DEPTH}")
    closed, opened = 0, bytearray()
    for bracket in brackets:
        if bracket in CLOSING_OF:
            opened.append(bracket)
        elif not opened:
            closed += 1
        elif CLOSING_OF[opened.pop()][0] != bracket:
            raise UnreadableError("a JSON bracket is closed by one of another kind")
    return closed, bytes(opened)


def _end(outside: list[bytes], inside: list[bytes], depth: int, *, in_string: bool) -> int:
    """Index behind the bracket that closes the last of `depth` containers; it is known to be there."""
    low, high = 0, len(outside)
    while high - low > 1:
        middle = (low + high) // 2
        closed, opened = _unpaired(b"".join(outside[low:middle]))  # in order: low < middle < high
        if closed >= depth:
            high = middle
        else:
            depth, low = depth - closed + len(opened), middle
    part, start, end = outside[low], 0, len(outside[low])
    while end - start > 1:
        middle = (start + end) // 2
        closed, opened = _unpaired(part[start:middle])  # in order: start < middle < end
        if closed >= depth:
            end = middle
        else:
            depth, start = depth - closed + len(opened), middle
    return _offset(outside[:low], inside[: low + in_string]) + end


def _cut(
    piece: bytes, outside: list[bytes], inside: list[bytes], opened: bytes, lead: bytes
) -> tuple[int, bytes, int, bytes]:
    """Index of the cut, the lead of the next piece, and the brackets that the part before the cut closes and leaves open."""
    index = next((index for index in range(len(outside) - 1, -1, -1) if b"," in outside[index]), None)
    if index is None:
        return _cut_without_comma(piece, outside, inside, opened, lead)
    comma = outside[index].rfind(b",")
    closed, new = _unpaired(b"".join(outside[:index]) + outside[index][:comma])
    in_object = (opened[: len(opened) - closed] + new)[-1] == BRACE
    cut = _offset(outside[:index], inside[: index + lead.endswith(b'"')]) + comma + 1
    return cut, b'"":0,' if in_object else b"0,", closed, new


def _offset(outside: list[bytes], inside: list[bytes]) -> int:
    """Bytes that these parts take in the piece, with the quote behind each."""
    return sum(map(len, outside)) + len(outside) + sum(map(len, inside)) + len(inside)


def _cut_without_comma(
    piece: bytes, outside: list[bytes], inside: list[bytes], opened: bytes, lead: bytes
) -> tuple[int, bytes, int, bytes]:
    in_string = lead.endswith(b'"')
    # In the last string, so that the piece is used up. It may hold nothing but the beginning of an escape: then in one before it.
    for index in [index for index, string in enumerate(inside) if string][: -_LAST_STRINGS - 1 : -1]:
        parts_before = outside[: index + (not in_string)]
        begin = _offset(parts_before, inside[:index])
        cut = _cut_in_string(piece[: begin + len(inside[index])])
        if cut > begin:
            break
    else:
        raise TooLongError(f"{len(piece)} bytes without a comma and without a string")
    if not parts_before:
        return cut, lead, 0, b""
    closed, new = _unpaired(b"".join(parts_before))
    in_object = (opened[: len(opened) - closed] + new)[-1] == BRACE
    is_value = not in_object or parts_before[-1].rstrip(BLANKS).endswith(b":")
    return cut, b'"":"' if in_object and is_value else b'"', closed, new


def _cut_in_string(piece: bytes | bytearray) -> int:
    """The last index at which the piece, which ends in a string, can be cut without parting an escape."""
    slash = piece.rfind(b"\\", max(0, len(piece) - _ESCAPE_BYTES))
    if slash < 0:
        return len(piece)
    run = slash + 1 - len(piece[: slash + 1].rstrip(b"\\"))
    if run % 2 == 0:
        return slash + 1
    half = slash - _FIRST_HALF_BYTES
    if half < 0 or _FIRST_HALF.match(piece, half) is None:
        return slash
    run = half + 1 - len(piece[: half + 1].rstrip(b"\\"))
    return half if run % 2 else slash


def _opening(opened: bytes) -> bytes:
    """The brackets, each the last thing in the one before it."""
    return opened.replace(b"{", b'{"":')[:-4] + b"{" if opened[-1] == BRACE else opened.replace(b"{", b'{"":')


def _ending(lead: bytes, opened: bytes) -> bytes:
    """The end that makes a text of a piece cut before `lead`, in these brackets."""
    in_object = opened[-1] == BRACE
    if not lead.endswith(b'"'):
        tail = b'"":0' if in_object else b"0"
    else:
        tail = b'":0' if in_object and lead == b'"' else b'"'
    return tail + b"".join(CLOSING_OF[bracket] for bracket in reversed(opened))
