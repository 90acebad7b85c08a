"""One round of the garden: a recording origin, a sidecar process in front of it, one chain, and all that came of it."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.garden.chains import hop_of
from tests.garden.foreign_readers import answers_by_h11, by_h11, by_the_standard_library
from tests.garden.garden_rounds import Finding, Hop, send_answers, send_garden
from tests.garden.hostile_answers import HostileAnswer, hostile_answers
from tests.garden.judgement import Exchanged, final_answers
from tests.garden.recording_origin import RecordingOrigin
from tests.garden.sequence import AttackSequence
from tests.garden.strict_reader import INCOMPLETE, read_answers, read_requests
from tests.support.sidecar_process import running_sidecar


@dataclass(slots=True)
class Round:
    """All that came of one round.

    `requests`: number that the origin read. `disagreeing`: connections of which readers say different things, or answers
    that h11 reads differently. `garbage`: connections and answers with bytes that are no HTTP.
    """

    attacks: int
    findings: list[Finding] = field(default_factory=list)
    requests: int = 0
    disagreeing: list[str] = field(default_factory=list)
    garbage: list[str] = field(default_factory=list)


def garden_round(chain: str, sequences: Sequence[AttackSequence], folder: Path) -> Round:
    """Send the sequences through the chain, and read again with foreign parsers what the origin got."""

    async def play(hop: Hop, origin: RecordingOrigin) -> Round:
        findings = await send_garden(hop, sequences, origin)
        played = Round(len(sequences), findings, len(origin.requests))
        for connection in origin.connections:
            data = bytes(connection.data)
            ours = [message.words for message in read_requests(data).messages]
            for reader in (by_h11, by_the_standard_library):
                theirs = reader(data)
                if ours != theirs:
                    first = next(
                        (place for place, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), len(theirs)
                    )
                    said = f"{reader.__name__} at {first}: {theirs[first : first + 1]}, not {ours[first : first + 1]}"
                    played.disagreeing.append(said[:600])
            if connection.problem is not None:
                played.garbage.append(connection.problem)
        return played

    return asyncio.run(_round(chain, folder, RecordingOrigin(), play))


def answers_round(chain: str, folder: Path, *, without: Sequence[str] = ()) -> Round:
    """Fetch every hostile answer through the chain, and read again with h11 what the client got."""
    answers = [answer for answer in hostile_answers() if answer.family not in without]
    played = Round(2 * len(answers))

    def keep(answer: HostileAnswer, method: bytes, got: Exchanged) -> None:
        reading = read_answers(got.received, [method, b"GET"], ended=got.ended)
        ours = [(message.status, message.body) for message in final_answers(reading)]
        theirs, garbage = answers_by_h11(got.received, [method, b"GET"], ended=got.ended)
        if ours != theirs:
            played.disagreeing.append(f"{answer.family} {answer.name}: {ours} {theirs}"[:600])
        if garbage or reading.problem not in (None, INCOMPLETE):
            played.garbage.append(f"{answer.family} {answer.name}: {got.received[:300]!r}")

    async def play(hop: Hop, origin: RecordingOrigin) -> Round:
        played.findings = await send_answers(hop, origin, keep)
        played.requests = len(origin.requests)
        return played

    return asyncio.run(_round(chain, folder, RecordingOrigin(answers), play))


Play = Callable[[Hop, RecordingOrigin], Awaitable[Round]]


async def _round(chain: str, folder: Path, origin: RecordingOrigin, play: Play) -> Round:
    # A round keeps some million objects: a collection that walks them is a silence of client and origin, and the hop gets the blame.
    gc.disable()
    try:
        return await _played(chain, folder, origin, play)
    finally:
        gc.enable()


async def _played(chain: str, folder: Path, origin: RecordingOrigin, play: Play) -> Round:
    async with origin.listening():
        running = running_sidecar(f"http://127.0.0.1:{origin.port}", folder, flags=["--log.level=error"])
        sidecar = await asyncio.to_thread(running.__enter__)
        try:
            front = hop_of(chain, sidecar.port, folder)
            hop = await asyncio.to_thread(front.__enter__)
            try:
                return await play(hop, origin)
            finally:
                await asyncio.to_thread(front.__exit__, None, None, None)
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)
