"""Prefill cost of a prompt that does not queue: a rising function of its length, learned by medians. Pure.

It knows samples (length, seconds) of one model, in ring buffers by class of length, so that samples of one length never
push out those of another. It refuses to answer for lengths that it has not seen, before it has enough samples, and if
length does not explain the samples themselves. One that may answer early draws a straight line through its first samples, by medians too:
so few have no classes. A sample costs one comparison and one append. The function is computed
again when it is asked for after some new samples: to sort hundreds of them for each request would cost more than all else that is
measured of it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from math import log2
from statistics import median
from typing import Any, ClassVar, NamedTuple

from sidecar.pod.usual.learner import Amount, Learner, Many, Row, Table


READY_SAMPLES = 30
"""Samples before the function of the usual cost answers: three groups of ten."""
CLASSES_PER_OCTAVE = 2
"""Lengths within a factor of 1.4 share a ring buffer; other lengths cannot push its samples out."""
RING = 25
"""Samples kept per class: an odd number, recent enough to follow a slow drift, enough to outvote 10 % of misjudged
ones."""
GROUP_SAMPLES = 5
"""Neighbouring classes are joined until they have this many samples: the smallest number at which a median ignores two
outliers."""
MOST_CLASSES = 4
"""Classes that may be joined: a factor of 4 in length."""
REACH = 1.5
"""Factor below the shortest and above the longest learned length within which there is still an answer."""
LATE_SHARE, LATE_CLASS_SHARE = 8, 2
"""The function may be late by one of so many of all samples, and by one of so many of the samples of a class: traffic may be of one
length for hours. A sample that is shorter or longer than all others counts at once."""
YOUNG_SAMPLES = 2 * READY_SAMPLES
"""Up to so many, each sample counts at once."""
RECENT_ERRORS = 101
MOST_ERROR = 0.35
"""Median relative error on the idle arrivals themselves above which there is no answer. "queue > prefill?" is a
question of a factor of 2."""


class Refusal(StrEnum):
    """Why there is no estimate: a closed set, a counter's label."""

    NO_TOKEN = "no_token"  # noqa: S105  a stream without output
    """The request was not streamed, or had no output."""
    HELD_BACK = "held_back"
    """The first event is not known to have come with the first token: the answer came whole."""
    RESTARTED = "restarted"
    """The engine was restarted or replaced after this request came."""
    NO_LENGTH = "no_length"
    """The length of the prompt is unknown."""
    FEW_SAMPLES = "few_samples"
    """Not enough reports or idle arrivals of this model since the start, or since the engine's restart."""
    INCONSISTENT = "inconsistent"
    """Length does not explain the samples, although none of them queued."""
    OUTSIDE = "outside"
    """Shorter or longer than all learned lengths by more than the factor REACH."""
    WIDE = "wide"
    """The interval of the answer holds nearly all of the time to first token: it would say nothing."""


IN_TOKENS, IN_BYTES = "tokens", "bytes"
"""The measures of a length: tokens that are not cached, or bytes of text."""


class Length(NamedTuple):
    """Length of a prompt in the best measure available; lengths of different `measure` are never compared."""

    value: float
    measure: str


Lengths = Sequence[tuple[float, str]]
"""The lengths of one prompt, each a `Length`; the first one teaches."""


def lengths_of(
    prompt_tokens: int | None,
    cached_tokens: int | None,
    text_bytes: int | None,
    estimated_tokens: float | None = None,
) -> tuple[Length, ...]:
    """The length of what had to be computed, in each measure that is known; empty if there is none.

    The first one teaches: tokens of the usage less the cached ones, else bytes of the text. The other one only answers where the first
    cannot, so that it makes no difference to a prompt whether its usage is stated: bytes of a text of which nothing was cached, or
    its tokens by the learned scale (`estimated_tokens`). Tokens of a text teach nothing: how many of them were cached is not known.
    """
    text = Length(text_bytes, IN_BYTES) if text_bytes is not None and text_bytes > 0 else None
    if prompt_tokens is not None and prompt_tokens > 0:
        tokens = Length(max(1, prompt_tokens - (cached_tokens or 0)), IN_TOKENS)
        return (tokens,) if text is None or cached_tokens else (tokens, text)
    if text is None:
        return ()
    return (text,) if not estimated_tokens else (text, Length(max(1.0, estimated_tokens), IN_TOKENS))


class Curve(Learner):
    """Seconds as a rising function of length: medians of one model's samples."""

    KEPT: ClassVar = {
        "_rings": Table(Amount(whole=True), Many(Row(Amount(), Amount()))),
        "_errors": Many(Amount()),
        "_learned": Amount(whole=True),
    }

    def __init__(
        self,
        ring: int = RING,
        *,
        ready: int = READY_SAMPLES,
        most_error: float = MOST_ERROR,
        reach: float = REACH,
        noise_seconds: float = 0.0,
    ) -> None:
        """`ring`: samples kept per class of length. `ready`: samples before it answers; between GROUP_SAMPLES and READY_SAMPLES.
        `most_error`: median relative error of samples above which it does not. `reach`: factor beyond the learned lengths up to which it does.
        `noise_seconds`: an error up to this is none.
        """
        self._ring = ring
        self._ready = ready
        self._most_error = most_error
        self._reach = reach
        self._noise_seconds = noise_seconds
        self._rings: dict[int, deque[tuple[float, float]]] = {}
        self._errors: deque[float] = deque(maxlen=RECENT_ERRORS)
        self._lengths: list[float] = []
        self._seconds: list[float] = []
        self.shortest = self.longest = 0.0
        """The range of the learned lengths, as of the last `cost`."""
        self._most = 0.0
        self._reach_from = self._reach_to = 0.0
        self._stale = False
        self._since = 0
        """Samples since the function was computed."""
        self._since_of: dict[int, int] = {}
        """Those of each class."""
        self.samples = 0
        self._learned = 0
        self._refusal: Refusal | None = Refusal.FEW_SAMPLES

    def take(self, found: Mapping[str, Any]) -> None:
        super().take(found)
        self._rings = {number: deque(ring, maxlen=self._ring) for number, ring in self._rings.items()}
        self._errors = deque(self._errors, maxlen=RECENT_ERRORS)
        self.samples = sum(map(len, self._rings.values()))
        self._stale = True

    def slices(self) -> Iterator[dict[str, Any]]:
        self._stale = True  # a restored one computes the function anew: the same function answers here
        return super().slices()

    @property
    def refusal(self) -> Refusal | None:
        """Why there is no answer yet for any length; None when ready."""
        if self._stale:
            self._freshen()
        return self._refusal

    def learn(self, length: float, seconds: float) -> None:
        if self._learned >= GROUP_SAMPLES:
            if self._stale:
                self._freshen()
            if self._lengths and self.shortest <= length * REACH and length <= self.longest * REACH:
                expected = self._at(length)
                more = expected - seconds
                error = more / expected if more >= 0.0 else -more / seconds
                self._errors.append(error if abs(more) > self._noise_seconds else 0.0)
        number = int(CLASSES_PER_OCTAVE * log2(length)) if length > 1.0 else 0
        ring = self._rings.get(number)
        if ring is None:
            ring = self._rings[number] = deque(maxlen=self._ring)
        self._learned += 1
        self.samples += len(ring) < self._ring
        ring.append((length, seconds))
        self._since += 1
        self._since_of[number] = since = self._since_of.get(number, 0) + 1
        at_once = self._learned <= YOUNG_SAMPLES or not self.shortest <= length <= self.longest
        late = self._since > self.samples // LATE_SHARE or since > self._ring // LATE_CLASS_SHARE
        self._stale = self._stale or at_once or late

    def cost(self, length: float) -> "float | Refusal":
        """Prefill seconds of a prompt of this length that does not queue, or the reason why there is no answer."""
        if self._stale:
            self._freshen()
        if self._refusal is not None:
            return self._refusal
        if self._lengths and self._reach_from <= length <= self._reach_to:
            return self._at(length)
        return Refusal.OUTSIDE

    def beyond(self, length: float) -> float:
        """Factor by which a length lies beyond all learned ones; 1 for one between them. Asked after `cost`."""
        return max(1.0, self.shortest / length, length / self.longest) if self.longest else 1.0

    def most(self, length: float) -> float | None:
        """Seconds that such a prompt takes at most, by the slowest sample, whether length explains the samples or not; None
        before there are enough.
        """
        if self._stale:
            self._freshen()
        longer = length / max(1.0, self.longest)
        return self._most * max(1.0, longer) if self._learned >= READY_SAMPLES and self._most else None

    def _freshen(self) -> None:
        """Compute the function anew: sorts all samples."""
        self._stale, self._since = False, 0
        self._since_of.clear()
        groups = [tuple(map(sorted, zip(*group, strict=True))) for group in self._groups()]
        self._lengths, self._seconds = _rising([_node(lengths, seconds) for lengths, seconds in groups])
        if groups:
            self.shortest, self.longest = groups[0][0][0], groups[-1][0][-1]
            self._most = max([seconds[-1] for _, seconds in groups])
        if self._learned < READY_SAMPLES and self._ready < READY_SAMPLES and self.samples >= GROUP_SAMPLES:
            samples = [sample for ring in self._rings.values() for sample in ring]
            self._lengths, self._seconds = _line(samples)
            self.shortest, self.longest = self._lengths[0], self._lengths[-1]
        self._reach_from, self._reach_to = self.shortest / self._reach, self.longest * self._reach
        if (
            not self._lengths
            or self._learned < self._ready
            or len(self._errors) < min(self._ready // 2, self._ready - GROUP_SAMPLES)
        ):
            self._refusal = Refusal.FEW_SAMPLES
        else:
            self._refusal = Refusal.INCONSISTENT if median(self._errors) > self._most_error else None

    def _groups(self) -> list[list[tuple[float, float]]]:
        """The samples, short to long, in groups of neighbouring classes. Classes too sparse to group are left out."""
        groups: list[list[tuple[float, float]]] = []
        gathered: list[tuple[float, float]] = []
        began = 0
        for number in sorted(self._rings):
            if not gathered or number - began >= MOST_CLASSES:
                gathered, began = [], number
            gathered += self._rings[number]
            if len(gathered) >= GROUP_SAMPLES:
                groups.append(gathered)
                gathered = []
        return groups

    def _at(self, length: float) -> float:
        lengths, seconds = self._lengths, self._seconds
        last = len(lengths) - 1
        if not last:
            return seconds[0]
        # Beyond the first and the last node, the segment next to it is extended.
        right = min(bisect_right(lengths, length) or 1, last)
        before, from_seconds = lengths[right - 1], seconds[right - 1]
        share = (length - before) / (lengths[right] - before)
        return max(from_seconds + share * (seconds[right] - from_seconds), 0.5 * seconds[0])


def _node(lengths: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, int]:
    """The middle of a group, both sorted. The median of a rising function is the function of the median, so a wide group's node lies on the curve too.
    (Of an even number the lower one.)
    """
    middle = (len(lengths) - 1) // 2
    return lengths[middle], seconds[middle], len(lengths)


def _line(samples: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Two points, at the shortest and at the longest length, of a line through samples of one model (Theil and Sen): the median of the slopes of all
    pairs, none of them falling, and through it the median sample. One point if all are of about one length.
    """
    shortest, longest = min(samples)[0], max(samples)[0]
    if longest < REACH * shortest:
        return [median([length for length, _ in samples])], [median([seconds for _, seconds in samples])]
    slopes = [
        (more - seconds) / (longer - length)
        for (length, seconds), (longer, more) in combinations(sorted(samples), 2)
        if longer >= REACH * length
    ]
    slope = max(0.0, median(slopes))
    at_none = max(0.0, median([seconds - slope * length for length, seconds in samples]))
    return [shortest, longest], [at_none + slope * shortest, at_none + slope * longest]


def _rising(nodes: list[tuple[float, float, int]]) -> tuple[list[float], list[float]]:
    """Nodes (length, seconds, weight) made to rise: those that fall share a weighted mean (pool adjacent violators)."""
    pooled: list[list[float]] = []
    for length, seconds, weight in nodes:
        pooled.append([length * weight, seconds * weight, weight])
        while len(pooled) > 1 and pooled[-1][1] / pooled[-1][2] <= pooled[-2][1] / pooled[-2][2]:
            last = pooled.pop()
            pooled[-1] = [before + more for before, more in zip(pooled[-1], last, strict=True)]
    return [length / weight for length, _, weight in pooled], [seconds / weight for _, seconds, weight in pooled]
