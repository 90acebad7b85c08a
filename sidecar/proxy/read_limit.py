"""One connection gets at most 64 KiB and about 200 us of parsing in a turn of the event loop; then the others have theirs.

Knows the bytes that were read and are not parsed yet, the order of the connections that have such bytes, and when a
transport must stop. It does not know what the bytes mean, nor why a connection wants to stop reading. uvloop reads up to
256,000 bytes at once, and libuv repeats a read that filled this buffer up to 32 times in the same turn: 8 MB of one
connection, during which no other one is read. While more than SMALL_BYTES of a connection wait here, its transport does not
read: so at most one such read (READ_BYTES) and SMALL_BYTES are held for each connection.
"""

import asyncio
from collections import deque
from collections.abc import Callable


SMALL_BYTES = 2048
"""Up to this a read from the engine is parsed as it comes, with no bookkeeping: one token is some 230 bytes, and a whole answer of
one token with its usage and times some 1,500. It did not fill uvloop's buffer either, so libuv does not read this connection
again in this turn. If it has to wait, it is not cut: a short answer in two pieces costs a second write, 30 us in all, and a
token that is cut costs its client two chunks."""
READ_BYTES = 256_000
"""The most that uvloop reads at once: the bound of the bytes that wait for one connection."""
TURN_BYTES = 65536
"""Bytes of one connection that are parsed in one turn of the loop."""
PARSE_SECONDS = 0.0002
"""Time in which one connection is parsed in one turn of the loop; checked between two pieces."""
LOOP_SECONDS = 0.001
"""Time in which all connections of one side (clients, engine) are parsed in one turn of the loop: then the sockets are
polled again, and a token that has come in the meantime goes out. A request and an answer take some 0.2 ms each:
with half of this time, eight busy clients needed 1.6 times the polls, and 2 % more CPU for a request."""
MOST_FED_BYTES = 16384
"""The most that a parser is fed at once; see `_fit` for less."""
FIRST_FED_BYTES = 1024
"""The first piece of a connection: its bytes have not been timed yet."""
LEAST_FED_BYTES = 512
MOST_HEADS = 8
"""Empty lines in one piece, about: bytes that were cheap so far may go on as heads of 26 bytes, the dearest of all."""
_EMPTY_LINE = b"\n\r\n"
_NEWLINE = b"\n"

Soon = Callable[[Callable[[], None]], object]


class Turns:
    """Gives the connections of one side, clients or engine, their turns, one after the other.

    A connection is parsed at once if this turn of the loop has time left and it had no turn in it yet. Else it waits behind
    the others that wait; those come first in the next turn of the loop. Connections with SMALL_BYTES or less and those
    with more take turns one by one, so that the head of an answer or a request does not wait for all floods. A token event
    never waits here: whatever the others send, it waits for at most LOOP_SECONDS and one piece of each side.
    """

    def __init__(self, clock: Callable[[], float], soon: Soon | None = None) -> None:
        """`soon` calls its argument in the next turn of the loop, before its sockets are polled. Default: the running loop's."""
        self.clock = clock
        self.busy = False
        """This turn of the loop has no time left: nothing may be parsed at once."""
        self.soon = soon or self._first
        self._small: deque[ReadLimit] = deque()
        self._large: deque[ReadLimit] = deque()
        self._next, self._after = self._small, self._large
        self.number = 0
        """The number of this turn of the loop."""
        self._spent_seconds = 0.0
        self._planned = False

    def wait(self, connection: "ReadLimit") -> None:
        """Let the connection parse in a later turn of the loop, behind those that wait already."""
        if not connection.waits_for_turn:
            connection.waits_for_turn = True
            (self._large if connection.unread_bytes > SMALL_BYTES or connection.long_work else self._small).append(
                connection
            )
        if not self._planned:
            self._planned = True
            self.soon(self._next_turn)

    def spend(self, began_at: float) -> None:
        """Work that began at `began_at` has ended now: it counts for this turn of the loop.

        The next turn is scheduled even after a little work, so that this work does not count for later turns: a call that
        is scheduled while sockets are read costs less than 1 us, and no further poll (uvloop 0.23: libuv calls it before the next poll).
        """
        self._spent_seconds += self.clock() - began_at
        if self._spent_seconds >= LOOP_SECONDS:
            self.busy = True
        if not self._planned:
            self._planned = True
            self.soon(self._next_turn)

    def _first(self, work: Callable[[], None]) -> None:
        self.soon = (
            asyncio.get_running_loop().call_soon
        )  # which loop runs is asked once: CPython 3.11 asks the kernel each time
        self.soon(work)

    def _next_turn(self) -> None:
        self._planned = self.busy = False
        self.number += 1
        self._spent_seconds = 0.0
        if self._small or self._large:
            self._give_turns()

    def _give_turns(self) -> None:
        try:
            for _ in range(len(self._small) + len(self._large)):
                connection = (self._next or self._after).popleft()
                self._next, self._after = self._after, self._next
                connection.waits_for_turn = False
                self.give(connection)
                if self._spent_seconds >= LOOP_SECONDS:
                    break
        finally:  # an error of one connection must not stop the others
            if (self._small or self._large) and not self._planned:
                self._planned = True
                self.soon(self._next_turn)

    def give(self, connection: "ReadLimit") -> None:
        """Let the connection parse now."""
        connection.had_turn = self.number
        began_at = self.clock()
        try:
            more = connection.have_turn(began_at)
        finally:
            self.spend(began_at)
        if more:
            self.wait(connection)


class ReadLimit(asyncio.Protocol):
    """Base of both kinds of connection. Their `data_received` hands a read to `take_in_turn`, unless it is `slicing`:
    then it is called for a piece of an earlier read.
    """

    def __init__(self, turns: Turns) -> None:
        self.transport: asyncio.Transport | None = None
        self.reading_paused = False
        """Whether `pause_reading` is in force; unread bytes, which also stop the transport, do not count."""
        self.slicing = False
        """`data_received` is called for a piece."""
        self.had_turn = -1
        self.waits_for_turn = False
        self.cheap_bytes = 0
        """So many of the next bytes cost no parsing: they are the rest of a body that is kept, and whose length is known."""
        self.long_work = False
        """It has work for many turns that is not the parsing of its bytes."""
        self.lost_unread = False
        """Bytes were thrown away that had not been parsed."""
        self._turns = turns
        self._unread = b""
        self._read_to = 0
        self._piece_bytes = FIRST_FED_BYTES
        self._at_end: Callable[[], None] | None = None
        self._stopped = False
        self._error: BaseException | None = None
        """An error of the sidecar itself, in a turn of this connection: it closes the connection."""

    def break_off(self, error: BaseException) -> None:
        """Close now, because of an error of the sidecar itself; unread and unsent bytes are lost."""
        self._error = error
        self.drop_unread()
        if self.transport is not None:
            self.transport.abort()

    def is_our_error(self, exc: Exception | None) -> bool:
        """Whether the connection is lost, with `exc`, by an error of the sidecar itself: its peer is not to blame.

        asyncio and uvloop close a connection whose `data_received` raises, and hand the error to `connection_lost`.
        """
        return self._error is not None or not isinstance(exc, OSError | None)

    @property
    def unread_bytes(self) -> int:
        """Bytes that were read from the socket and not parsed; at most SMALL_BYTES more than READ_BYTES."""
        return len(self._unread) - self._read_to

    @property
    def unwanted(self) -> bool:
        """Whether what was read and not parsed may be thrown away."""
        return self.transport is None or self.transport.is_closing()

    def take_in_turn(self, data: bytes) -> None:
        """Parse `data` in pieces, through `data_received`: as much as is fair now, the rest in later turns."""
        self._unread = self._unread[self._read_to :] + data
        self._read_to = 0
        turns = self._turns
        if turns.busy or self.had_turn == turns.number:
            turns.wait(self)
        else:
            turns.give(self)
        if self._unread:
            self._steer()

    def has_long_work(self) -> None:
        """There is work for many turns that is not the parsing of bytes: `have_turn` is to do it."""
        self.long_work = True
        self._turns.wait(self)

    def put_back(self, rest: bytes) -> None:
        """Bytes that were given and not parsed: they come again, before all others. Of a piece, its end."""
        if self.slicing:
            self._read_to -= len(rest)
            return
        if not rest:
            return
        self._unread = rest + self._unread[self._read_to :]
        self._read_to = 0
        self._turns.wait(self)
        self._steer()

    def after_unread(self, end: Callable[[], None]) -> None:
        """Call `end` once everything that was read is parsed. The first call counts."""
        if not self._unread:
            end()
        elif self._at_end is None:
            self._at_end = end
            self._turns.wait(self)

    def drop_unread(self) -> None:
        """The connection is over: throw away what was not parsed."""
        self.lost_unread = self.lost_unread or self.unread_bytes > 0
        self._unread, self._read_to = b"", 0
        end, self._at_end = self._at_end, None
        if end is not None:
            end()

    def pause_reading(self) -> None:
        """Take nothing more until `resume_reading`: the other side does not keep up, or too much waits here."""
        self.reading_paused = True
        self._steer()

    def resume_reading(self) -> None:
        """Read on: the rest of an earlier read first, in a later turn."""
        self.reading_paused = False
        if self._unread and not self.slicing:
            self._turns.wait(self)
        self._steer()

    def have_turn(self, began_at: float) -> bool:
        """Parse until the turn is over. Returns whether the connection wants another one."""
        if not self._may_parse():
            return False
        left, at = TURN_BYTES, began_at
        small = len(self._unread) <= SMALL_BYTES
        self.slicing = True
        try:
            while True:
                if small:
                    piece = self._next_piece(SMALL_BYTES)
                else:
                    piece = self._next_piece(min(max(self._piece_bytes, self.cheap_bytes), left))
                left -= len(piece)
                self._read_to += len(piece)
                self.data_received(piece)
                more = self._may_parse()
                if not more and small:
                    break
                now = self._turns.clock()
                self._fit(len(piece), now - at)
                if not more or left <= 0 or now - began_at >= PARSE_SECONDS:
                    break
                at = now
        except BaseException as error:
            self.break_off(error)
            raise
        finally:
            self.slicing = False
        self._steer()
        return more

    def _next_piece(self, size: int) -> bytes:
        at = self._read_to
        piece = self._unread[at : at + size] if at or size < len(self._unread) else self._unread
        if self.cheap_bytes >= len(piece) or _has_few_lines(piece):
            return piece
        lines = piece.split(_EMPTY_LINE, MOST_HEADS)
        return piece if len(lines) <= MOST_HEADS else piece[: len(piece) - len(lines[-1])]

    def _fit(self, size: int, took_seconds: float) -> None:
        """Make the next piece about so large that it takes one turn.

        By steps, and never below LEAST_FED_BYTES: a part of the time is the same for any size (a write, a machine
        that is busy elsewhere), and smaller pieces would only multiply it.
        """
        if took_seconds > PARSE_SECONDS:
            self._piece_bytes = max(LEAST_FED_BYTES, size // 2)
        elif size >= self._piece_bytes:
            more = 2 * size if took_seconds < PARSE_SECONDS / 2 else size + size // 8
            self._piece_bytes = min(MOST_FED_BYTES, more)

    def _may_parse(self) -> bool:
        """Whether there are bytes that may be parsed; those that may never be parsed are dropped."""
        if self._read_to < len(self._unread) and (self._at_end is not None or not self.unwanted):
            return not self.reading_paused
        if self._unread or self._at_end is not None:
            self.drop_unread()
        return False

    def _steer(self) -> None:
        """Pause or resume the transport, if the reasons to stop reading have changed."""
        # A transport that stops and goes on costs several us: too much for the head of a short answer that waits for its turn.
        stop = self.reading_paused or len(self._unread) - self._read_to > SMALL_BYTES
        if stop == self._stopped or self.slicing or self.transport is None or self.transport.is_closing():
            return
        self._stopped = stop
        if stop:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


def _has_few_lines(piece: bytes) -> bool:
    """Whether the piece has too few lines for more than MOST_HEADS empty ones. Compact JSON has none, and to look for single bytes that
    are rare is many times as quick as a search for three.
    """
    at = 0
    for _ in range(MOST_HEADS * _EMPTY_LINE.count(_NEWLINE)):
        at = piece.find(_NEWLINE, at) + 1
        if at == 0:
            return True
    return False
