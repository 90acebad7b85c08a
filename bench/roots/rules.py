"""The planned rules in Python: which pages would fire at each scrape, from the counters of all pods.

These are the tiers, the odd pod and the phase of a page as PromQL will have them, without promtool, so that a run is
judged in milliseconds. It knows windows and thresholds. It refuses to know the truth: `verdicts.py` grades.

A tier fires by a window of 2 or 5 minutes (or 1, if asked for). The phase of its page has `LEAST_CONFIDENCE` of the decided
roots of that window. Without such a phase the page is `unattributed`, and fires only after it lasted for a minute.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.incidents.grade import UNATTRIBUTED
from bench.roots.growth import NOTHING_GROWS, Growth, by, together
from bench.roots.passage import ALLOWED, MISSES, REQUESTS, ROOTS, Columns, Scraped
from sidecar.objectives.page_limits import FEWEST_DECIDED, LEAST_CONFIDENCE


MINUTE_SCRAPES = 4
SHORT_SCRAPES, FAST_SCRAPES = 2 * MINUTE_SCRAPES, 5 * MINUTE_SCRAPES
OUTAGE_SHARE, FAST_TIMES = 0.5, 10.0
STILL_SHARE, STILL_TIMES = 0.25, 2.0
"""A window of five minutes counts only while the last two minutes have so much."""
FEWEST_MISSES, FEWEST_MISSES_IN_A_MINUTE = 10, 20
ODD_FEWEST_REQUESTS, ODD_TIMES = 20, 3.0
"""A pod is odd if it and another one decided so many requests in two minutes, and its share of misses is so many times
that of all others together."""
PAGES_AFTER_SCRAPES = 4
"""A page `unattributed` waits for so many scrapes."""

LaneKey = tuple[str, str]
"""Lane and objective."""


class Subject(NamedTuple):
    """A page's subject: a lane and objective, or a pod."""

    lane: LaneKey | None
    pod: int | None


class Page(NamedTuple):
    """A page that fires at one scrape."""

    subject: Subject
    phase: str
    share: float
    """Share of the phase among the decided roots, 0 to 1; of the leading phase if the page is `unattributed`."""
    roots: Mapping[str, float]
    """Decided roots by phase, in the window by which the page fires."""
    seconds: float
    """Length of that window."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counters of one lane and objective: of a pod, or of several."""

    misses: Growth
    requests: Growth
    allowed: Growth
    roots: Mapping[str, Growth]
    """By phase."""

    def ratio(self, scrape: int, scrapes: int) -> float:
        return _divided(self.misses.over(scrape, scrapes), self.requests.over(scrape, scrapes))

    def burn(self, scrape: int, scrapes: int) -> float:
        return _divided(self.misses.over(scrape, scrapes), self.allowed.over(scrape, scrapes))


Pod = dict[LaneKey, _Counts]


class Rules:
    """The rules over one run."""

    def __init__(self, scrape: Scraped, *, votes: str = ROOTS, minute: bool = False) -> None:
        """`votes`: the metric whose label `phase` decides. `minute`: whether a tier of one minute exists."""
        self._scrapes = scrape.scrapes
        self._every_seconds = scrape.every_seconds
        self._minute = minute
        self._pods = [_pod(columns, votes) for columns in scrape.pods]
        self._models = [_models(columns) for columns in scrape.pods]
        self._every_model = sorted({model for each in self._models for model in each.values()})
        self._whole = _sum(self._pods)
        self._without: dict[tuple[tuple[int, str], ...], Pod] = {}

    def looks(self) -> Iterator[list[Page]]:
        """The pages that fire at each scrape, in order."""
        lasted: dict[Subject, int] = defaultdict(int)
        for scrape in range(self._scrapes):
            fires = []
            burning = list(self._burning(scrape))
            for subject, counts, window in burning:
                roots = {name: each.over(scrape, window) for name, each in counts.items()}
                phase, share = leading(roots)
                lasted[subject] = lasted[subject] + 1 if phase == UNATTRIBUTED else 0
                if phase != UNATTRIBUTED or lasted[subject] > PAGES_AFTER_SCRAPES:
                    fires.append(Page(subject, phase, share, roots, window * self._every_seconds))
            for gone in lasted.keys() - {subject for subject, _, _ in burning}:
                lasted[gone] = 0
            yield fires

    def odd(self, scrape: int) -> list[tuple[int, str]]:
        """Pods that have a page of their own, each with the model whose requests it misses."""
        return [
            (pod, model)
            for model in self._every_model
            for pod in self._standing_out(model, scrape)
            if self._lanes_that_burn(pod, model, scrape)
        ]

    def _burning(self, scrape: int) -> Iterator[tuple[Subject, Mapping[str, Growth], int]]:
        """Each subject that burns, with its roots by phase and the scrapes of the window by which it burns."""
        odd = self.odd(scrape) if len(self._pods) > 1 else []
        for pod, model in odd:
            burning = self._lanes_that_burn(pod, model, scrape)
            roots = together(self._pods[pod][key].roots for key in burning)
            yield Subject(None, pod), roots, min(burning.values())
        for key, counts in self._others_than(odd).items():
            window = self._window(counts, scrape)
            if window is not None:
                yield Subject(key, None), counts.roots, window

    def _others_than(self, odd: Sequence[tuple[int, str]]) -> Pod:
        """Counters by lane without those of odd pods."""
        if not odd:
            return self._whole
        left_out = tuple(odd)
        if left_out not in self._without:
            self._without[left_out] = _sum(
                {key: counts for key, counts in pod.items() if (number, self._models[number][key]) not in odd}
                for number, pod in enumerate(self._pods)
            )
        return self._without[left_out]

    def _lanes_that_burn(self, pod: int, model: str, scrape: int) -> dict[LaneKey, int]:
        windows = {
            key: self._window(counts, scrape)
            for key, counts in self._pods[pod].items()
            if self._models[pod][key] == model
        }
        return {key: window for key, window in windows.items() if window is not None}

    def _standing_out(self, model: str, scrape: int) -> list[int]:
        told = [self._of_model(pod, model, scrape) for pod in range(len(self._pods))]
        if sum(requests >= ODD_FEWEST_REQUESTS for _, requests in told) < 2:
            return []
        missed, decided = (sum(each) for each in zip(*told, strict=True))
        return [
            pod
            for pod, (misses, requests) in enumerate(told)
            if requests >= ODD_FEWEST_REQUESTS
            and misses >= FEWEST_MISSES
            and misses / requests >= ODD_TIMES * _divided(missed - misses, decided - requests)
        ]

    def _of_model(self, pod: int, model: str, scrape: int) -> tuple[float, float]:
        """Misses and requests of two minutes."""
        every = [each for key, each in self._pods[pod].items() if self._models[pod][key] == model]
        return (
            sum(each.misses.over(scrape, SHORT_SCRAPES) for each in every),
            sum(each.requests.over(scrape, SHORT_SCRAPES) for each in every),
        )

    def _window(self, counts: _Counts, scrape: int) -> int | None:
        """The scrapes of the window by which an outage or a fast burn fires; None if none does."""
        minute = counts.misses.over(scrape, MINUTE_SCRAPES)
        if (
            self._minute
            and minute >= FEWEST_MISSES_IN_A_MINUTE
            and counts.ratio(scrape, MINUTE_SCRAPES) >= OUTAGE_SHARE
        ):
            return MINUTE_SCRAPES
        now, burn = counts.ratio(scrape, SHORT_SCRAPES), counts.burn(scrape, SHORT_SCRAPES)
        if counts.misses.over(scrape, SHORT_SCRAPES) >= FEWEST_MISSES and (now >= OUTAGE_SHARE or burn >= FAST_TIMES):
            return SHORT_SCRAPES
        outage = counts.ratio(scrape, FAST_SCRAPES) >= OUTAGE_SHARE and now >= STILL_SHARE
        fast = counts.burn(scrape, FAST_SCRAPES) >= FAST_TIMES and burn >= STILL_TIMES
        if counts.misses.over(scrape, FAST_SCRAPES) >= FEWEST_MISSES and (outage or fast):
            return FAST_SCRAPES
        return None


def leading(roots: Mapping[str, float]) -> tuple[str, float]:
    """The phase that a page names, and its share of the decided roots, 0 to 1. `roots`: by phase."""
    decided = sum(roots.values())
    if decided <= 0:
        return UNATTRIBUTED, 0.0
    phase = max(roots, key=lambda each: roots[each])
    share = roots[phase] / decided
    # Sums of fractions are not exact.
    return (phase if share >= LEAST_CONFIDENCE - 1e-9 and decided >= FEWEST_DECIDED - 1e-9 else UNATTRIBUTED), share


def _pod(columns: Columns, votes: str) -> Pod:
    lane = ("lane", "objective")
    misses, requests, allowed = (by(columns, name, *lane) for name in (MISSES, REQUESTS, ALLOWED))
    roots: dict[tuple[str, ...], dict[str, Growth]] = defaultdict(dict)
    for (name, objective, phase), growth in by(columns, votes, *lane, "phase").items():
        roots[name, objective][phase] = growth
    return {
        (name, objective): _Counts(
            misses.get((name, objective), NOTHING_GROWS),
            requests[name, objective],
            allowed.get((name, objective), NOTHING_GROWS),
            roots[name, objective],
        )
        for name, objective in requests
    }


def _models(columns: Columns) -> dict[LaneKey, str]:
    """The model of each lane and objective. In the bench a lane asks for one model."""
    found = by(columns, REQUESTS, "lane", "objective", "model")
    return {(lane, objective): model for lane, objective, model in found}


def _sum(pods: Iterator[Pod] | Sequence[Pod]) -> Pod:
    parts: dict[LaneKey, list[_Counts]] = defaultdict(list)
    for pod in pods:
        for key, counts in pod.items():
            parts[key].append(counts)
    return {
        key: _Counts(
            _total([each.misses for each in found]),
            _total([each.requests for each in found]),
            _total([each.allowed for each in found]),
            together(each.roots for each in found),
        )
        for key, found in parts.items()
    }


def _total(parts: Sequence[Growth]) -> Growth:
    return Growth.sum(part for part in parts if part is not NOTHING_GROWS)


def _divided(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else 0.0
