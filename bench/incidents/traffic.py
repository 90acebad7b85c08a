"""Arrivals of one run, drawn from one seed: instant, lane, lengths and prefix of each request.

It knows rates, lengths and lanes. It refuses to know how the engine serves them. The usual arrivals are drawn separately from those
that an incident adds, so that a run and its pair without the incident have the same requests as far as possible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from math import exp, prod
from random import Random
from statistics import NormalDist

from bench.incidents.engines import MODEL, PREFIXES, EngineConfig, LaneLoad
from bench.incidents.fault import NOTHING, Episode, Fault, Stranger
from bench.incidents.request import Run
from bench.incidents.world import HERD_SECONDS


_NORMAL = NormalDist()
_LUCK_OF_CACHE, _LUCK_OF_STAYING = 104_729, 1_299_709
"""Primes by which a request's luck is multiplied, so that each decision reads other digits of it."""


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
    """Random number of this request, 0 to 1: decides whether it is left out, gives up, has a slow client, or lacks the
    prefix."""
    model: str = MODEL
    """Model that it asks."""


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


class _Lengths:
    """Draws prompts' own parts and outputs: uniformly, or lognormally with the same mean.

    Either draw takes one random number, so that instants and luck of all requests do not depend on the distribution.
    """

    def __init__(self, engine: EngineConfig, sigma: float | None) -> None:
        """`sigma`: standard deviation of the logarithm of lengths; None for uniform ones."""
        self._sigma = sigma
        self._longest = engine.limits.max_model_len

    def factor(self, spread: float, rng: Random) -> float:
        """Length of one request as a multiple of its lane's mean."""
        if self._sigma is None:
            return rng.uniform(1 - spread, 1 + spread)
        share = min(max(rng.random(), 1e-9), 1 - 1e-9)
        return exp(self._sigma * _NORMAL.inv_cdf(share) - self._sigma**2 / 2)

    def whole(self, prompt: float, output: float) -> tuple[int, int]:
        """Tokens of prompt and output. Lognormal ones are cut to what the engine takes: the output to half of it."""
        prompt, output = max(16, round(prompt)), max(2, round(output))
        if self._sigma is None:
            return prompt, output
        output = min(output, self._longest // 2)
        return min(prompt, self._longest - output), output


def arrivals(
    engine: EngineConfig,
    factor: float,
    seed: int | str,
    active: Active,
    day: "Day | None" = None,
    *,
    length_sigma: float | None = None,
    herd: int = 1,
) -> Iterator[Asked]:
    """All requests of a run in order.

    `factor`: multiplies every lane's rate. `length_sigma`: standard deviation of the logarithm of lengths, which keep
    their mean; None: lengths are uniform in the lane's spread. `herd`: usual requests of a lane that come together.
    """
    lengths = _Lengths(engine, length_sigma)
    streams = []
    for load in engine.lanes:
        streams.append(_usual(load, factor, Random(f"{seed}/{load.lane}"), active, lengths, day=day, herd=herd))
        streams.append(_more(load, factor, Random(f"{seed}/{load.lane}/more"), active, lengths))
    for number, (begins, ends, episode) in enumerate(active.spans()):
        for stranger in episode.fault.strangers:
            model = engine.lane(stranger.lane).model
            streams.append(_strangers(stranger, model, Random(f"{seed}/{number}/strangers"), begins, ends))
    return merge(*streams, key=lambda asked: asked.at)


class Day:
    """A daily curve: the factor of all rates at an instant, above 0 and at most 1."""

    def __init__(self, curve: Sequence[float], step_seconds: float) -> None:
        self._curve = curve
        self._step = step_seconds

    def at(self, instant: float) -> float:
        return self._curve[int(instant / self._step) % len(self._curve)]


def _usual(
    load: LaneLoad, factor: float, rng: Random, active: Active, lengths: _Lengths, *, day: "Day | None", herd: int
) -> Iterator[Asked]:
    for at in _herds(load.per_second * factor, rng, active.ends_at, herd):
        episodes = active.at(at)
        asked = _asked(load, at, rng, episodes, lengths)
        if (day is None or rng.random() < day.at(at)) and _stays(asked, episodes):
            yield asked


def _herds(per_second: float, rng: Random, ends_at: float, herd: int) -> Iterator[float]:
    """Instants in order, so many a second in the mean. `herd`: number of those that come within `HERD_SECONDS`."""
    at = rng.expovariate(per_second / herd)
    while at < ends_at:
        last = at
        for each in sorted(at + rng.uniform(0.0, HERD_SECONDS) for _ in range(herd)) if herd > 1 else (at,):
            if each < ends_at:
                yield each
            last = each
        at = last + rng.expovariate(per_second / herd)


def _more(load: LaneLoad, factor: float, rng: Random, active: Active, lengths: _Lengths) -> Iterator[Asked]:
    """Arrivals that an incident adds to a lane."""
    for begins, ends, episode in active.spans():
        more = episode.fault.load.get(load.lane, 1.0) - 1.0
        if more <= 0.0:
            continue
        at = begins + rng.expovariate(load.per_second * factor * more)
        while at < ends:
            episodes = active.at(at)
            asked = _asked(load, at, rng, episodes, lengths)
            if _stays(asked, episodes):
                yield asked
            at += rng.expovariate(load.per_second * factor * more)


def _stays(asked: Asked, episodes: Sequence[Episode]) -> bool:
    """False for a request that is left out because the lane has less traffic than usual."""
    share = prod(min(1.0, episode.fault.load.get(asked.lane, 1.0)) for episode in episodes)
    return share >= 1.0 or (asked.luck * _LUCK_OF_STAYING) % 1.0 < share


def _strangers(stranger: Stranger, model: str, rng: Random, begins: float, ends: float) -> Iterator[Asked]:
    at = begins if stranger.first_at_once else begins + rng.expovariate(stranger.per_second)
    while at < ends:
        prompt = round(rng.uniform(*stranger.prompt_tokens))
        output = round(rng.uniform(*stranger.output_tokens))
        yield Asked(at, stranger.lane, prompt, output, stranger.streaming, "", 0, rng.random(), model)
        at += rng.expovariate(stranger.per_second)


def _asked(load: LaneLoad, at: float, rng: Random, episodes: Sequence[Episode], lengths: _Lengths) -> Asked:
    """One request of this lane. Draws the same random numbers with and without an incident."""
    own = (load.prompt_tokens - load.shared_tokens) * lengths.factor(load.spread, rng)
    output = load.output_tokens * lengths.factor(load.spread, rng)
    tenant, streamed, luck = rng.randrange(PREFIXES), rng.random() >= load.unstreamed, rng.random()
    prefix, shared = (f"{load.lane}/{tenant}" if load.shared_tokens else ""), load.shared_tokens
    for episode in episodes:
        own *= episode.fault.prompts.get(load.lane, 1.0)
        output *= episode.fault.outputs.get(load.lane, 1.0)
        if (luck * _LUCK_OF_CACHE) % 1.0 < episode.fault.uncached.get(load.lane, 0.0):
            prefix = ""
    prompt, tokens = lengths.whole(shared + own, output)
    return Asked(at, load.lane, prompt, tokens, streamed, prefix, shared, luck, load.model)
