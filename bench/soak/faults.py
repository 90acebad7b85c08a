"""The faults of a network, drawn from a seed: one a second, of six kinds, on one of the two sides of the sidecar. Pure.

It also knows what a fault does to the bytes that pass: when each piece is due, and in which pieces; and at which places an engine
cuts what it writes, which is no fault. It refuses to know sockets; `chaos_relay.py` and `engine_side.py` have them.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any


class Side(StrEnum):
    CLIENT = "client"
    ENGINE = "engine"


class Kind(StrEnum):
    LATENCY = "latency"
    SLICING = "slicing"
    BANDWIDTH = "bandwidth"
    RESET = "reset"
    HALF_CLOSE = "half_close"
    STOP = "stop"


INJURES = frozenset({Kind.RESET, Kind.HALF_CLOSE})
"""They end a message in its middle; the others only delay it."""
MOST_SECONDS = 5.0
"""The longest fault: below every time limit of the sidecar that blames, so that a delay alone has no outcome."""
MOST_SLICES = 24
SLICE_GAP_SECONDS = 0.002
CUT_ONE_IN = 8
"""An engine cuts one of so many of its writes. Each piece goes out by itself, so that all of them would saturate two cores."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, of some of the connections that are open when it comes."""

    kind: Kind
    side: Side
    share: float
    """Part of the side's connections, 0 to 1."""
    seconds: float
    latency_seconds: float
    bytes_a_second: float
    draw: int
    """Seed of the choices that the relay makes: which connections, in which direction, in which slices."""

    def as_words(self) -> dict[str, Any]:
        """For the pipe between two processes."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_words(cls, words: dict[str, Any]) -> "Fault":
        return cls(**{**words, "kind": Kind(words["kind"]), "side": Side(words["side"])})


def drawn(seed: int) -> Iterator[Fault]:
    """The faults of one run, one for each second, the same for the same seed. Each kind comes as often, on each side."""
    draw = random.Random(seed)
    while True:
        turns = [(kind, side) for kind in Kind for side in Side]
        draw.shuffle(turns)
        for kind, side in turns:
            yield Fault(
                kind=kind,
                side=side,
                share=draw.uniform(0.001, 0.01) if kind in INJURES else draw.uniform(0.01, 0.3),
                seconds=draw.uniform(0.5, MOST_SECONDS),
                latency_seconds=draw.uniform(0.01, 0.5),
                bytes_a_second=draw.uniform(2_000, 50_000),
                draw=draw.getrandbits(32),
            )


def delivered(data: bytes, fault: Fault | None, now: float, until: float, free_at: float) -> list[tuple[float, bytes]]:
    """The pieces in which `data`, read at `now`, goes on, each with its instant; none is due before `free_at`.

    `until`: the fault's end. Bytes keep their order, and all of them go on.
    """
    at = max(now, free_at)
    if fault is None or now >= until:
        return [(at, data)]
    if fault.kind is Kind.LATENCY:
        return [(max(at, now + fault.latency_seconds), data)]
    if fault.kind is Kind.STOP:
        return [(max(at, until), data)]
    if fault.kind is Kind.BANDWIDTH:
        return [(at + len(data) / fault.bytes_a_second, data)]
    if fault.kind is Kind.SLICING:
        draw = random.Random(fault.draw + len(data))
        pieces: list[tuple[float, bytes]] = []
        while data:
            size = len(data) if len(pieces) == MOST_SLICES else draw.randint(1, 1 + len(data) // 4)
            pieces.append((at + len(pieces) * SLICE_GAP_SECONDS, data[:size]))
            data = data[size:]
        return pieces
    return [(at, data)]


def cut(data: bytes, draw: random.Random) -> list[bytes]:
    """The pieces in which an engine writes these bytes: whole most often, else cut behind a first line, beside its end, or anywhere.

    Python's http.server writes the size line of a chunk by itself; a server with a small buffer cuts anywhere.
    """
    if len(data) < 2 or draw.randrange(CUT_ONE_IN):
        return [data]
    line = data.find(b"\r\n") + 2
    drawn_places = [draw.randrange(1, len(data)) for _ in range(draw.choice((1, 3)))]
    wanted = draw.choice(([line], [line - 1], [line, line + 1], [line, len(data) - 2], drawn_places))
    places = sorted({place for place in wanted if 0 < place < len(data)})
    return [data[begin:end] for begin, end in pairwise([0, *places, len(data)])]
