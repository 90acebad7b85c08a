"""Arrivals of one run, drawn from one seed: instant, lane, lengths and prefix of each request.

It knows rates, lengths and lanes. It refuses to know the engine. The usual arrivals are drawn separately from those
that an incident adds, so that a run and its pair without the incident have the same requests as far as possible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from random import Random

from bench.incidents.engines import PREFIXES, EngineConfig, LaneLoad
from bench.incidents.fault import NOTHING, Episode, Fault, Stranger
from bench.incidents.request import Run


@dataclass(frozen=True, slots=True)
class Asked:
    """One arriving request."""

    at: float
    lane: str
    prompt_tokens: int
    output_tokens: int
    streaming: bool
    prefix: str
    """Name of its shared prefix; empty for none."""
    shared_tokens: int
    luck: float
    """Random number of this request, 0 to 1: decides whether it gives up, has a slow client, or lacks the prefix."""


class Active:
    """Finds the episodes that are active at an instant of the run."""

    def __init__(self, episodes: Sequence[Episode], run: Run, setup: Fault = NOTHING) -> None:
        """`setup`: changes from the first instant to the last."""
        self.ends_at = run.ends_at
        self._spans = [(0.0, run.ends_at, Episode(setup))]
        for episode in episodes:
            ends = run.recovers_at if episode.ends is None else min(run.recovers_at, run.fault_at + episode.ends)
            self._spans.append((run.fault_at + episode.begins, ends, episode))

    def at(self, instant: float) -> list[Episode]:
        """Episodes that have begun and not ended."""
        return [episode for begins, ends, episode in self._spans if begins <= instant < ends]

    def edges(self) -> list[float]:
        """Every instant at which an episode begins or ends."""
        return sorted({edge for begins, ends, _ in self._spans[1:] for edge in (begins, ends)})

    def spans(self) -> list[tuple[float, float, Episode]]:
        return self._spans


def arrivals(
    engine: EngineConfig, factor: float, seed: int, active: Active, day: "Day | None" = None
) -> Iterator[Asked]:
    """All requests of a run in order. `factor`: multiplies every lane's rate."""
    streams = []
    for load in engine.lanes:
        streams.append(_usual(load, factor, Random(f"{seed}/{load.lane}"), active, day))
        streams.append(_more(load, factor, Random(f"{seed}/{load.lane}/more"), active))
    for number, (begins, ends, episode) in enumerate(active.spans()):
        for stranger in episode.fault.strangers:
            streams.append(_strangers(stranger, Random(f"{seed}/{number}/strangers"), begins, ends))  # noqa: PERF401
    return merge(*streams, key=lambda asked: asked.at)


class Day:
    """A daily curve: the factor of all rates at an instant, above 0 and at most 1."""

    def __init__(self, curve: Sequence[float], step_seconds: float) -> None:
        self._curve = curve
        self._step = step_seconds

    def at(self, instant: float) -> float:
        return self._curve[int(instant / self._step) % len(self._curve)]


def _usual(load: LaneLoad, factor: float, rng: Random, active: Active, day: "Day | None") -> Iterator[Asked]:
    at = rng.expovariate(load.per_second * factor)
    while at < active.ends_at:
        asked = _asked(load, at, rng, active)
        if day is None or rng.random() < day.at(at):
            yield asked
        at += rng.expovariate(load.per_second * factor)


def _more(load: LaneLoad, factor: float, rng: Random, active: Active) -> Iterator[Asked]:
    """Arrivals that an incident adds to a lane."""
    for begins, ends, episode in active.spans():
        more = episode.fault.load.get(load.lane, 1.0) - 1.0
        if more <= 0.0:
            continue
        at = begins + rng.expovariate(load.per_second * factor * more)
        while at < ends:
            yield _asked(load, at, rng, active)
            at += rng.expovariate(load.per_second * factor * more)


def _strangers(stranger: Stranger, rng: Random, begins: float, ends: float) -> Iterator[Asked]:
    at = begins + rng.expovariate(stranger.per_second)
    while at < ends:
        prompt = round(rng.uniform(*stranger.prompt_tokens))
        output = round(rng.uniform(*stranger.output_tokens))
        yield Asked(at, stranger.lane, prompt, output, True, "", 0, rng.random())
        at += rng.expovariate(stranger.per_second)


def _asked(load: LaneLoad, at: float, rng: Random, active: Active) -> Asked:
    """One request of this lane. Draws the same random numbers with and without an incident."""
    own = (load.prompt_tokens - load.shared_tokens) * rng.uniform(1 - load.spread, 1 + load.spread)
    output = load.output_tokens * rng.uniform(1 - load.spread, 1 + load.spread)
    tenant, streamed, luck = rng.randrange(PREFIXES), rng.random() >= load.unstreamed, rng.random()
    prefix, shared = (f"{load.lane}/{tenant}" if load.shared_tokens else ""), load.shared_tokens
    for episode in active.at(at):
        own *= episode.fault.prompts.get(load.lane, 1.0)
        output *= episode.fault.outputs.get(load.lane, 1.0)
        if (luck * 104_729) % 1.0 < episode.fault.uncached.get(load.lane, 0.0):
            prefix = ""
    return Asked(at, load.lane, max(16, round(shared + own)), max(2, round(output)), streamed, prefix, shared, luck)
