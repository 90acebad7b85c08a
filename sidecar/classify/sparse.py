"""Whether something is rare in a long text, or not there at all, found out at little cost where that is so.

CPython 3.11's `count` of a single byte takes 0.6 ns for each byte of the text, its `find` of a few bytes 0.3 to 0.6 ns, and its `find`
of one byte a thirtieth of the first. So single bytes are found, and only where there are many is the text counted or searched.
"""

_FOUND = 256
"""Most that are found one by one to be counted: each takes 70 ns."""
_TRIED = 64
"""Most first bytes that are found one by one to be compared: each takes 150 ns."""


def has_at_most(most: int, byte: bytes, text: bytes | bytearray) -> bool:
    """Whether this single byte stands in the text at most so many times. Takes up to 0.6 ms for a MiB."""
    at = 0
    for _ in range(min(most + 1, _FOUND)):
        at = text.find(byte, at) + 1
        if at == 0:
            return True
    return most >= _FOUND and text.count(byte, at) <= most - _FOUND


def holds(text: bytes | bytearray, sought: bytes, begin: int, end: int) -> bool:
    """Whether these bytes stand in the text between the two offsets. Quick where the first of them is rare."""
    first, size, at = sought[:1], len(sought), begin
    for _ in range(_TRIED):
        at = text.find(first, at, end)
        if at < 0:
            return False
        if text[at : at + size] == sought:
            return at + size <= end
        at += 1
    return text.find(sought, at, end) >= 0
