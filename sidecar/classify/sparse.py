"""Whether some bytes stand in a long text at all, found out at little cost where the first of them is rare.

CPython 3.11's `find` of a few bytes takes 0.3 to 0.6 ns for each byte of the text, and its `find` of one byte a tenth of that.
"""

_TRIED = 64
"""Most first bytes that are found one by one to be compared: each takes 150 ns."""


def holds(text: bytes | bytearray, sought: bytes, begin: int, end: int) -> bool:
    """Whether these bytes stand in the text between the two offsets."""
    first, size, at = sought[:1], len(sought), begin
    for _ in range(_TRIED):
        at = text.find(first, at, end)
        if at < 0:
            return False
        if text[at : at + size] == sought:
            return at + size <= end
        at += 1
    return text.find(sought, at, end) >= 0
