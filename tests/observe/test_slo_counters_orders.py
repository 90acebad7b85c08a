"""For several requests, in any order of events, the SLO counters add up and no request is left in memory."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Account
from sidecar.ledger.report import EngineReport
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL, LABEL_OVERFLOW_TOTAL
from sidecar.metrics.declaration import Counter
from sidecar.timeline.outcome import Outcome
from tests.support.slo_harness import Request, SloHarness


VERBS = ("comes", "speaks", "answering", "finished", "paused", "resumed", "ticks", "is_scraped", "ends", "settles")


class Traffic:
    """Up to four requests at once. Verbs take a request's number, a streaming flag, an outcome; unknown ones are
    skipped.
    """

    def __init__(self) -> None:
        self.harness = SloHarness()
        self.received = 0
        self.inside: dict[int, Request] = {}
        self.ended: list[tuple[Request, Account]] = []

    def comes(self, who: int, streaming: bool | None, _outcome: Outcome) -> None:
        if who not in self.inside:
            self.inside[who] = self.harness.comes(streaming=streaming, bucket="0-512" if who else "unknown")
            self.received += 1

    def speaks(self, who: int, _streaming: bool | None, _outcome: Outcome) -> None:
        if who in self.inside:
            self.inside[who].speaks(events=1 + who)

    def answering(self, who: int, streaming: bool | None, _outcome: Outcome) -> None:
        if who in self.inside:
            self.harness.slo.answering(self.inside[who].key, self.harness.now, streaming=streaming)

    def finished(self, who: int, _streaming: bool | None, _outcome: Outcome) -> None:
        if who in self.inside:
            self.harness.slo.finished(self.inside[who].key, self.harness.now)

    def paused(self, who: int, _streaming: bool | None, _outcome: Outcome) -> None:
        if who in self.inside:
            self.harness.slo.paused(self.inside[who].key, self.harness.now)

    def resumed(self, who: int, _streaming: bool | None, _outcome: Outcome) -> None:
        if who in self.inside:
            self.harness.slo.resumed(self.inside[who].key, self.harness.now)

    def ticks(self, _who: int, _streaming: bool | None, _outcome: Outcome) -> None:
        self.harness.later(0.0)

    def is_scraped(self, _who: int, _streaming: bool | None, _outcome: Outcome) -> None:
        self.harness.page()

    def ends(self, who: int, _streaming: bool | None, outcome: Outcome) -> None:
        request = self.inside.pop(who, None)
        if request is not None:
            account = request.ends(outcome, tokens=who)
            self.ended += [(request, account)] * (outcome is Outcome.OK)

    def settles(self, who: int, streaming: bool | None, _outcome: Outcome) -> None:
        """The ledger of one request that ended well is closed, with a report or without."""
        if self.ended:
            request, account = self.ended.pop(who % len(self.ended))
            request.settles(account, EngineReport(0.1, 0.5) if streaming else None)

    def is_over(self) -> None:
        """Every request in flight ends, every ledger is closed, and an hour passes."""
        for who in range(4):
            self.ends(who, None, Outcome.CLIENT_CANCELLED)
        while self.ended:
            self.settles(0, None, Outcome.OK)
        self.harness.later(3600.0)

    def counted(self) -> dict[tuple[str, ...], float]:
        """Every counter's children, by name and labels."""
        return {
            (family.metric.name, *key): child.value
            for family in (
                self.harness.metrics.counter(each.metric)
                for each in self.harness.metrics.families
                if isinstance(each.metric, Counter)
            )
            for key, child in family.children.items()
        }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(VERBS),
            st.floats(0, 6),
            st.integers(0, 3),
            st.sampled_from([True, False, None]),
            st.sampled_from(list(Outcome)),
        ),
        max_size=60,
    )
)
def test_every_request_counts_once_whatever_the_order(
    told: list[tuple[str, float, int, bool | None, Outcome]],
) -> None:
    """Misses are at most requests, votes at most misses; no counter falls or refuses a value. Once all ledgers are
    closed, votes equal misses.
    """
    traffic = Traffic()
    harness, before = traffic.harness, traffic.counted()

    for verb, later, who, streaming, outcome in told:
        harness.now += later
        getattr(traffic, verb)(who, streaming, outcome)
        for objective in ("ttft", "tpot", "e2e"):
            requests, misses, _ = harness.burn(objective)
            assert harness.count(c.SLO_BLAMED_MISSES_TOTAL, objective) <= misses <= requests <= traffic.received
        now = traffic.counted()
        assert all(now[key] >= value for key, value in before.items())
        before = now
    traffic.is_over()

    assert harness.count(c.SLO_BLAMED_MISSES_TOTAL) == harness.burn()[1]
    assert harness.count(c.REQUESTS_RECEIVED_TOTAL) == traffic.received
    assert harness.count(DROPPED_TOTAL) == harness.count(LABEL_OVERFLOW_TOTAL) == 0
    assert harness.remembered() == {}
