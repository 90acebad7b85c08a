"""The outline of a JSON text of any length that comes in pieces: the same members in the same order, without its bulk. Pure.

Answers and requests are long because of a few things in them: a text, an image, the log-probabilities of every token, a list of numbers.
What is read of them stands beside: a model, a finish reason, counts. The outline keeps every bracket, name and short value near the top,
writes a placeholder for a long string, and leaves out what is deep, and what stands far behind in a list. A decoder then reads the outline
as it would read the text.

It follows brackets and strings from the first byte to the last, so that a text that contains `"usage":{...}` is a string here too. It
refuses to search. It refuses to validate as well: what it keeps is validated by the decoder, and what it leaves out is only checked
for brackets that close. Memory is bounded by what is kept, whatever the length. Time is linear in the bytes, however they are split.
"""

import re
from typing import NamedTuple


OUTLINED_AT_ONCE_BYTES = 65_536
"""Bytes that are looked at with one budget of tokens: at most 2 ms, whatever stands in them (`make bounds`)."""
DEEPEST = 6
"""Containers in each other that are kept; `choices[0].message.content[0].image_url` has six. A deeper one is kept empty."""
LONGEST_STRINGS = (1024, 1024, 1024, 64)
"""Most bytes of a string that is kept, by the number of containers around it; the last one holds for all deeper ones."""
MOST_ELEMENTS = (128, 128, 32, 8, 2)
"""Elements that are kept of an array, by the number of containers around it, itself included; the last one holds for all deeper ones."""
MOST_MEMBERS = 256
"""Members that are kept of an object; a text with more of them at its top has no outline."""
MOST_KEPT_BYTES = 1 << 16
"""A text whose outline is longer at the end of a slice has none."""
MOST_TOKENS = 256
"""Brackets, colons and commas of one slice that are kept; then the rest of a list is left out. With a value beside it one takes 0.5 to 1.5 us."""
MOST_CUTS = 2
"""Lists of one slice whose rest is left out for that; a text that needs more has no outline."""
_PLACEHOLDER = b'"-"'
_SQUARE = b"["
BRACE = 0x7B
CLOSING_OF = {0x7B: b"}", 0x5B: b"]"}
_NOT_MARKS = bytes(set(range(256)) - set(b'"{}[]'))
_ALIKE = bytes.maketrans(b"{}", b"[]")
FIRST_LOOK_BYTES = 256
"""Bytes of a deep container that are looked at first: most are short."""
GROWTH = 8
_TOKENS_A_SKIP = 40
"""A deep container that is left out counts as so many tokens: 10 us where it is flat, 50 us where it nests."""
_MOST_PASSES = 32
_MOST_UNPAIRED = 8_192
"""Brackets that are left to pair one by one: 0.4 ms. What has more of them nests deeper than anything that an engine or an SDK writes."""
BLANKS = b" \t\r\n"
_TOKEN = re.compile(rb'[ \t\r\n]*+(?:("[^"]{0,64}+")|([-+.0-9A-Za-z]++)|(:)|(,)|([{\[])|([}\]])|("))', re.DOTALL)
_IS_STRING, _IS_SCALAR, _IS_COLON, _IS_COMMA, _OPENS, _CLOSES, _BEGINS_STRING = range(1, 8)
_VALUES = (_IS_STRING, _IS_SCALAR, _BEGINS_STRING)


class Size(NamedTuple):
    """How long one member of the object at the top is."""

    name: bytes
    """As it is written, without its quotes."""
    size: int
    """Bytes of its value, and of the blanks around it."""


class Outline:
    """Feed it the pieces of one JSON text; `end` returns the outline. Never raises, whatever the bytes."""

    __slots__ = (
        "_after_value",
        "_at",
        "_brackets",
        "_carry",
        "_counts",
        "_cuts",
        "_fed",
        "_given_up",
        "_in_string",
        "_is_other",
        "_kept",
        "_name",
        "_over",
        "_safe",
        "_scalar_goes_on",
        "_skipped",
        "_string",
        "_string_at",
        "_tokens",
        "_value_at",
        "cut",
        "cut_answers",
        "ends",
        "sizes",
    )

    def __init__(self) -> None:
        self.sizes: list[Size] = []
        """The members of the object at the top that have ended, in order, with duplicates."""
        self.ends: list[int] = []
        """Bytes of the text up to the end of each."""
        self.cut = False
        """Elements or members were left out, and not only parts of a string or of a deep value."""
        self.cut_answers = False
        """Some of these were whole answers: elements of a list at the top, or of `choices`."""
        self._kept = bytearray()
        self._brackets = bytearray()  # those that are kept and open
        self._counts: list[int] = []  # of each, how many elements have ended
        self._safe: list[int] = []  # of each, where in `_kept` the last of them has ended
        self._skipped = 0  # brackets that are open and must close before anything is kept again; 0: all is kept
        self._in_string = False
        self._string = bytearray()  # the beginning of a string that has not ended; empty while it is left out
        self._string_at = 0  # where in `_kept` the last string begins
        self._scalar_goes_on = False  # the last piece ended with it
        self._carry = b""  # a backslash whose escaped byte is yet to come
        self._after_value = False  # the last token was a string, another value, or a closing bracket
        self._fed = 0
        self._at = 0  # bytes of the text before those that are looked at
        self._tokens = self._cuts = 0  # of this slice
        self._name: bytes | None = None
        self._value_at = 0
        self._over = self._given_up = self._is_other = False

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take in the next piece."""
        view, at = memoryview(data), 0
        while at < len(view) and not self._given_up:
            room = OUTLINED_AT_ONCE_BYTES - self._fed % OUTLINED_AT_ONCE_BYTES
            self._slice(bytes(view[at : at + room]))  # slices begin at the same places of the text, however it is cut
            at += room

    @property
    def over(self) -> bool:
        """The text has come whole."""
        return self._over and not self._given_up

    @property
    def given_up(self) -> bool:
        """It has no outline, whatever follows."""
        return self._given_up

    @property
    def breaks_off(self) -> bool:
        """A text that is over is no JSON container, or half of one. One that merely has no outline is neither."""
        return self._is_other if self._given_up else not self._over

    def answer(self) -> bytes | None:
        """The outline of an answer, once it has come whole; None too if it would tell of fewer answers than there are."""
        return None if self.cut_answers else self.end()

    def end(self) -> bytes | None:
        """The outline, once the text has come whole; None if it was none, or has none."""
        return bytes(self._kept) if self.over and not self._carry else None

    def _give_up(self) -> None:
        self._given_up, self._is_other = True, not self._kept
        for held in (self._kept, self._brackets, self._string):
            held.clear()
        self._counts.clear()
        self._safe.clear()

    def _slice(self, data: bytes) -> None:
        self._fed += len(data)
        if self._carry:
            data, self._carry = self._carry + data, b""
        masked = data
        if b"\\" in data:
            if data[-1:] == b"\\" and (len(data) - len(data.rstrip(b"\\"))) % 2:
                data, self._carry = data[:-1], b"\\"
            # In what follows a quote is the end of a string. The replacements are as long as what they stand for.
            masked = data.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        at = 0
        while at < len(data) and not self._given_up:
            if self._skipped:
                at = self._skip(masked, at)
            elif self._in_string:
                at = self._rest_of_string(data, masked, at)
            elif self._tokens < MOST_TOKENS:
                at = self._keep(data, masked, at)
            else:
                self._tokens = 0
                self._cuts += 1
                self._leave_out_rest()
        self._at += len(data)
        if self._fed % OUTLINED_AT_ONCE_BYTES == 0:
            self._tokens = self._cuts = 0
            if len(self._kept) > MOST_KEPT_BYTES:
                self._give_up()

    # --- what is kept --------------------------------------------------------------------------------------------------

    def _keep(self, data: bytes, masked: bytes, at: int) -> int:
        """Take in tokens up to the end of the slice, or until something is to be left out. Returns where."""
        while self._tokens < MOST_TOKENS:
            found = _TOKEN.match(masked, at)
            if found is None:
                if masked[at:].strip(BLANKS):
                    self._give_up()
                self._scalar_goes_on = self._scalar_goes_on and at == len(masked)
                return len(masked)
            kind = found.lastindex or 0
            begin, end = found.span(kind)
            goes_on, self._scalar_goes_on = self._scalar_goes_on and at == begin == 0, False
            at = end
            if kind not in _VALUES:
                self._tokens += 1
                if not self._mark(kind, data[begin:end], self._at + begin):
                    break
            elif not self._brackets or (self._after_value and not (goes_on and kind == _IS_SCALAR)):
                self._give_up()  # it is no container, something stands behind it, or a comma is missing
                break
            else:
                self._after_value = True
                if kind == _BEGINS_STRING:
                    self._string_at, self._in_string = len(self._kept), True
                    self._string += data[begin:end]
                    break
                if kind == _IS_STRING:
                    self._string_at = len(self._kept)
                else:
                    self._scalar_goes_on = end == len(masked)
                self._kept += data[begin:end]
        return at

    def _mark(self, kind: int, mark: bytes, at: int) -> bool:
        """Take in a bracket, a colon or a comma, which stands at this offset. False: something follows that is to be left out."""
        kept, brackets = self._kept, self._brackets
        self._after_value = kind == _CLOSES
        if kind == _OPENS and not self._over:
            kept += mark
            brackets += mark
            self._counts.append(0)
            self._safe.append(len(kept))
            if len(brackets) > DEEPEST:
                self._skipped = 1
                self._tokens += _TOKENS_A_SKIP
                return False
        elif not brackets or (kind == _CLOSES and CLOSING_OF[brackets[-1]] != mark):
            self._give_up()
            return False
        elif kind == _CLOSES:
            self._ended(at)
            self._close()
        elif kind == _IS_COLON:
            kept += mark
            if len(brackets) == 1 and brackets[0] == BRACE and self._name is None:
                self._name, self._value_at = bytes(kept[self._string_at + 1 : -2]), at + 1
        else:
            self._ended(at)
            self._counts[-1] += 1
            self._safe[-1] = len(kept)
            if self._counts[-1] == self._most():
                self._leave_out()
                return False
            kept += mark
        return True

    def _close(self) -> None:
        """The innermost container that is kept ends."""
        self._kept += CLOSING_OF[self._brackets.pop()]
        self._counts.pop()
        self._safe.pop()
        self._over = not self._brackets

    def _ended(self, at: int) -> None:
        """A value ends before this offset: of a member at the top, its size is known now."""
        if len(self._brackets) == 1 and self._name is not None:
            self.sizes.append(Size(self._name, at - self._value_at))
            self.ends.append(at)
            self._name = None

    def _rest_of_string(self, data: bytes, masked: bytes, at: int) -> int:
        end = masked.find(b'"', at)
        longest = LONGEST_STRINGS[min(len(self._brackets), len(LONGEST_STRINGS) - 1)]
        stop = len(data) if end < 0 else end + 1
        if self._string:
            if len(self._string) + stop - at <= longest + 2:
                self._string += data[at:stop]
            else:
                self._string.clear()
        if end >= 0:
            self._kept += self._string or _PLACEHOLDER
            self._string.clear()
            self._in_string = False
        return stop

    # --- what is left out ----------------------------------------------------------------------------------------------

    def _most(self) -> int:
        """Most elements that are kept of the innermost container."""
        if self._brackets[-1] == BRACE:
            return MOST_MEMBERS
        return MOST_ELEMENTS[min(len(self._brackets), len(MOST_ELEMENTS)) - 1]

    def _cuts_list(self, index: int) -> None:
        """The rest of this container is left out."""
        self.cut = True
        answers = index == 1 and self._brackets[1] != BRACE and self._name == b"choices"
        self.cut_answers = self.cut_answers or answers or index == 0

    def _leave_out(self) -> None:
        """The rest of the innermost container, which is behind a comma."""
        if len(self._brackets) == 1 and self._brackets[0] == BRACE:
            self._give_up()
            return
        self._cuts_list(len(self._brackets) - 1)
        self._after_value = True
        self._skipped = 1

    def _leave_out_rest(self) -> None:
        """The rest of the innermost list of which something is kept, in the end of the outermost; else of the innermost container."""
        brackets = self._brackets
        lists = [index for index in range(len(brackets)) if brackets[index] != BRACE]
        begun = [index for index in lists if self._counts[index]]
        index = begun[0 if self._cuts == MOST_CUTS else -1] if begun else lists[-1] if lists else len(brackets) - 1
        if self._cuts > MOST_CUTS or index < 0:
            self._give_up()
            return
        if index == 0 and brackets[0] == BRACE:
            return
        self._cuts_list(index)
        del self._kept[self._safe[index] :]
        self._skipped = len(brackets) - index
        del brackets[index + 1 :], self._counts[index + 1 :], self._safe[index + 1 :]
        self._scalar_goes_on = False
        self._after_value = True

    def _skip(self, masked: bytes, at: int) -> int:
        """Step over the brackets that are left out, up to behind the last of them, or to the end of the slice."""
        low, size, ends_before = at, FIRST_LOOK_BYTES, 0
        while low < len(masked):
            high = min(low + size, ends_before or len(masked))
            closed, opened, inside = _unpaired(masked[low:high], self._in_string)
            if closed < 0:
                self._give_up()
                return len(masked)
            if closed < self._skipped:
                self._skipped += opened - closed
                self._in_string = inside
                low, size = high, (size if ends_before else GROWTH * size)
            elif high - low > 1:
                ends_before, size = high, (high - low) // 2
            else:
                self._skipped, self._in_string, self._after_value = 0, False, True
                self._ended(self._at + low)
                self._close()
                return high
        return low


def _unpaired(masked: bytes, inside: bool) -> tuple[int, int, bool]:
    """How many brackets of this text close one before it, how many stay open, and whether it ends in a string. -1: too many to pair."""
    parts = masked.translate(None, _NOT_MARKS).split(b'"')
    brackets = b"".join(parts[inside::2]).translate(_ALIKE)
    for _ in range(_MOST_PASSES):
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    ends_inside = inside ^ (len(parts) % 2 == 0)
    closed = brackets.count(b"]", 0, brackets.find(b"[") if _SQUARE in brackets else len(brackets))
    if b"[]" not in brackets:
        return closed, len(brackets) - closed, ends_inside
    if len(brackets) > _MOST_UNPAIRED:
        return -1, 0, ends_inside
    closed = opened = 0
    for bracket in brackets:
        if bracket == _SQUARE[0]:
            opened += 1
        elif opened:
            opened -= 1
        else:
            closed += 1
    return closed, opened, ends_inside
