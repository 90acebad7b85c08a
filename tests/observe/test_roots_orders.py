"""In any order of events, the misses on the page are those with a root and those without one yet, at every scrape."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.ledger.account import Account
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL, EVENT_LOOP_LAG_SECONDS
from sidecar.metrics.declaration import Counter
from sidecar.objectives.objective import Objectives
from sidecar.observe.request_record import RequestRecord
from sidecar.pod.open_misses import WAIT_SECONDS
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from tests.support.slo_harness import AIMS, LOOSE, Request, SloHarness


Key = tuple[str, ...]
"""Some label values of a metric, in the order of its labels."""
COUNTERS = (c.SLO_MISSES_TOTAL, c.SLO_ROOT_MISSES_TOTAL, c.SLO_ROOT_CAUSE_MISSES_TOTAL)
OBJECTIVES = Objectives({"chat": {"0-512": AIMS, "512+": LOOSE, "unknown": AIMS}, "batch": {"0-512": LOOSE}})
LONGEST_SECONDS = 10.0
"""The longest threshold."""
RELOADED = Objectives({"chat": {"0-512": LOOSE}})


class Pod:
    """Up to four requests at once on an engine with numbers of its own. It is scraped after every event.

    Before these, all was well for long enough that the usual values are known.
    """

    def __init__(self) -> None:
        self.harness = SloHarness(OBJECTIVES)
        self.inside: dict[int, Request] = {}
        self.open: list[tuple[Request, Account]] = []
        """Requests that ended well and have no ledger yet."""
        self.seen: dict[Key, float] = {}
        self.missed: list[tuple[float, dict[Key, float]]] = []
        for _ in range(50):
            request = self.harness.comes().speaks(after=0.5)
            request.settles(request.ends(tokens=1))
            self.harness.later(4.5)

    # --- events ---------------------------------------------------------------------------------------------------------

    def comes(self, number: int, lane: str, bucket: str, *, streaming: bool | None) -> None:
        if number not in self.inside:
            self.inside[number] = self.harness.comes(lane=lane, bucket=bucket, streaming=streaming)

    def answers(self, number: int, *, streaming: bool | None) -> None:
        if number in self.inside:
            self.harness.slo.answering(self.inside[number].key, self.harness.now, streaming=streaming)

    def speaks(self, number: int, after: float, events: int) -> None:
        if number in self.inside:
            self.inside[number].speaks(after=after, events=events)

    def pauses(self, number: int) -> None:
        if number in self.inside:
            request = self.inside[number]
            self.harness.slo.paused(request.key, self.harness.now)
            request.marks = replace(request.marks, paused_seconds=5.0)

    def ends(self, number: int, outcome: Outcome, tokens: int) -> None:
        request = self.inside.pop(number, None)
        if request is not None:
            account = request.ends(outcome, tokens=tokens)
            self.open += [(request, account)] * (outcome is Outcome.OK)

    def is_turned_away(self, outcome: Outcome) -> None:
        """A request ends before its body has come."""
        labels = RequestLabels("llama", "chat", "unknown")
        marks = Marks(accepted_at=self.harness.now)
        account = Account(labels, True, outcome, marks, None, key=RequestRecord())
        self.harness.slo.ended(account.key, account, self.harness.now)

    def settles(self, number: int, report: EngineReport | None) -> None:
        if self.open:
            request, account = self.open.pop(number % len(self.open))
            request.settles(account, report)

    def later(self, seconds: float) -> None:
        """Time passes in ticks of a second or less."""
        while seconds > 0.0:
            self.harness.later(min(seconds, 1.0))
            self.scraped()
            seconds -= 1.0

    def states(self, up: bool | None, kv_usage: float | None, waiting: float | None, late: float) -> None:
        """The engine's numbers, and the sidecar's lateness."""
        metrics = self.harness.metrics
        metrics.gauge(c.ENGINE_UP).child().set(up)
        metrics.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO).child().set(kv_usage)
        metrics.gauge(c.ENGINE_REQUESTS_WAITING).child().set(waiting)
        metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().observe(late)

    def restarts(self) -> None:
        self.harness.metrics.counter(c.ENGINE_RESTARTS_TOTAL).child().inc()
        self.harness.slo.engine_restarted()

    def reloads(self) -> None:
        self.harness.slo.replace(RELOADED if self.harness.slo.objectives is OBJECTIVES else OBJECTIVES)

    # --- the page --------------------------------------------------------------------------------------------------------

    def scraped(self) -> None:
        """Scrape, and compare the page with itself and with the scrapes before."""
        self.harness.page()
        misses = self.sums(c.SLO_MISSES_TOTAL, 0, 1, 3)
        roots = self.sums(c.SLO_ROOT_MISSES_TOTAL, 0, 1, 2)
        undecided = {
            key: child.value or 0.0
            for key, child in self.harness.metrics.gauge(c.SLO_UNDECIDED_MISSES).children.items()
        }
        for lane in {*misses, *roots, *undecided}:
            rest = undecided.get(lane, 0.0)
            assert rest >= 0.0
            assert abs(misses.get(lane, 0.0) - roots.get(lane, 0.0) - rest) < 1e-6
        assert _near(self.sums(c.SLO_ROOT_MISSES_TOTAL, 3), self.sums(c.SLO_ROOT_CAUSE_MISSES_TOTAL, 1))
        self._compare(misses, undecided)
        assert self.harness.count(DROPPED_TOTAL, "observer_error") == 0

    def _compare(self, misses: dict[Key, float], undecided: dict[Key, float]) -> None:
        """No counter fell, and no miss that a scrape of 15 s ago had is undecided."""
        now = {(counter.name, *key): value for counter in COUNTERS for key, value in self.values(counter)}
        assert all(now[key] >= value for key, value in self.seen.items())
        self.seen = now
        self.missed.append((self.harness.now, misses))
        old = [each for at, each in self.missed if at <= self.harness.now - WAIT_SECONDS]
        for lane, left in undecided.items():
            assert left <= misses.get(lane, 0.0) - (old[-1].get(lane, 0.0) if old else 0.0)

    def values(self, counter: Counter) -> Iterator[tuple[Key, float]]:
        return ((key, child.value) for key, child in self.harness.metrics.counter(counter).children.items())

    def sums(self, counter: Counter, *places: int) -> dict[Key, float]:
        """The sums of all children that agree in the labels at these places."""
        found: dict[Key, float] = {}
        for key, value in self.values(counter):
            shown = tuple(key[place] for place in places)
            found[shown] = found.get(shown, 0.0) + value
        return found


def _near(one: dict[Key, float], other: dict[Key, float]) -> bool:
    return all(abs(one.get(key, 0.0) - other.get(key, 0.0)) < 1e-6 for key in {*one, *other})


_number = st.integers(0, 3)
_streaming = st.sampled_from((True, True, False, None))
_events = st.one_of(
    st.builds(
        lambda *drawn: lambda pod: pod.comes(*drawn[:3], streaming=drawn[3]),
        _number,
        st.sampled_from(("chat", "batch")),
        st.sampled_from(("0-512", "512+", "unknown")),
        _streaming,
    ),
    st.builds(lambda number, kind: lambda pod: pod.answers(number, streaming=kind), _number, _streaming),
    st.builds(
        lambda *drawn: lambda pod: pod.speaks(*drawn), _number, st.sampled_from((0.0, 0.2, 3.0)), st.integers(1, 3)
    ),
    st.builds(lambda number: lambda pod: pod.pauses(number), _number),
    st.builds(lambda *drawn: lambda pod: pod.ends(*drawn), _number, st.sampled_from(Outcome), st.integers(0, 5)),
    st.builds(lambda outcome: lambda pod: pod.is_turned_away(outcome), st.sampled_from(Outcome)),
    st.builds(
        lambda *drawn: lambda pod: pod.settles(*drawn),
        _number,
        st.sampled_from((None, EngineReport(0.1, 0.5), EngineReport(5.0, 0.1, 0.2))),
    ),
    st.builds(lambda seconds: lambda pod: pod.later(seconds), st.sampled_from((0.3, 1.0, 2.5, 12.0, 40.0))),
    st.builds(
        lambda *drawn: lambda pod: pod.states(*drawn),
        st.sampled_from((None, True, False)),
        st.sampled_from((None, 0.2, 0.99)),
        st.sampled_from((None, 0.0, 7.0)),
        st.sampled_from((0.0, 3.0)),
    ),
    st.just(lambda pod: pod.restarts()),
    st.just(lambda pod: pod.reloads()),
)


@pytest.mark.long
@given(st.lists(_events, max_size=40))
def test_misses_are_those_with_a_root_and_those_without_at_every_scrape(
    events: Sequence[Callable[[Pod], None]],
) -> None:
    """No counter falls, no gauge is negative, and no miss is undecided for longer than 15 s: in the end all have a root."""
    pod = Pod()
    pod.scraped()
    for event in events:
        event(pod)
        pod.scraped()
    pod.later(LONGEST_SECONDS + WAIT_SECONDS + 1.0)

    misses, roots = (pod.harness.count(counter) for counter in COUNTERS[:2])
    assert roots == pytest.approx(misses)
