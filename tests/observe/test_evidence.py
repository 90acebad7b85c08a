"""The evidence on the page: which prefills count, which are samples, and that silences end with their requests."""

import pytest

from sidecar.ledger.account import Account, Source
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.report import EngineReport
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.catalogue import DROPPED_TOTAL
from sidecar.metrics.registry import Metrics
from sidecar.objectives.whole_answers import REMEMBERED_ANSWERS
from sidecar.observe.evidence import Evidence
from sidecar.observe.request_record import RequestRecord
from sidecar.pod.costs.prefill_cost import READY_SAMPLES
from sidecar.pod.liveness.silence import UNKNOWN_ANSWER_SECONDS, UNKNOWN_SECONDS
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


TOKENS = 1000
PREFILL_SECONDS = 0.25


def report(seconds: float = PREFILL_SECONDS, *, source: Source = Source.ENGINE) -> EngineReport:
    """A report in which prefill is all that the request waited for."""
    return EngineReport(0.0, seconds, queue_source=source, prefill_source=source)


class EvidenceHarness:
    """A registry with its evidence, and a clock."""

    def __init__(self) -> None:
        self.metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"], models=["llama"])
        self.evidence = Evidence(self.metrics)
        self.now = 1000.0

    def comes(self, *, tokens: float | None = TOKENS, streaming: bool = True) -> RequestRecord:
        key = RequestRecord()
        self.evidence.received(key, RequestLabels("llama", "chat", "unknown"), tokens, self.now, streaming=streaming)
        return key

    def account(
        self,
        key: RequestRecord,
        *,
        ttft: float = PREFILL_SECONDS,
        outcome: Outcome = Outcome.OK,
        said: EngineReport | None = None,
        usage: Usage | None = None,
        streaming: bool = True,
    ) -> Account:
        """The account of a request that has its first token now."""
        marks = Marks(
            accepted_at=self.now - ttft,
            received_at=self.now - ttft,
            first_token_at=self.now,
            last_token_at=self.now,
            flushed_at=self.now,
            choices=1,
            usage=Usage(prompt_tokens=TOKENS) if usage is None else usage,
        )
        ledger = close_ledger(marks, streaming=streaming, report=said) if outcome is Outcome.OK else None
        return Account(RequestLabels("llama", "chat", "0-512"), streaming, outcome, marks, ledger, key=key)

    def alone(
        self,
        *,
        ttft: float = PREFILL_SECONDS,
        said: EngineReport | None = None,
        usage: Usage | None = None,
        learn: bool = False,
        outcome: Outcome = Outcome.OK,
        streaming: bool = True,
    ) -> tuple[float, float]:
        """One whole request that runs alone; returns the (own, expected) seconds by which the page has grown."""
        before = self.prefills()
        self.now += 60.0
        key = self.comes(streaming=streaming)
        self.now += ttft
        if streaming:
            self.evidence.output(key, self.now, 1)
        account = self.account(key, ttft=ttft, said=said, usage=usage, outcome=outcome, streaming=streaming)
        self.evidence.ended(key, account, self.now)
        self.evidence.settled(key, account, learn=learn)
        own, expected = self.prefills()
        return round(own - before[0], 6), round(expected - before[1], 6)

    def taught(self, *, reports: bool = True) -> "EvidenceHarness":
        for _ in range(2 * READY_SAMPLES):
            self.alone(said=report() if reports else None, learn=True)
        return self

    def prefills(self) -> tuple[float, float]:
        counter = self.metrics.counter
        own, expected = counter(c.PREFILL_OWN_SECONDS_TOTAL), counter(c.PREFILL_EXPECTED_SECONDS_TOTAL)
        return own.child("llama").value, expected.child("llama").value

    def silence(self) -> tuple[float | None, float | None]:
        """(seconds silent, expected seconds) on a page of now."""
        self.metrics.refresh(self.now)
        gauge = self.metrics.gauge
        return gauge(c.ENGINE_SILENCE_SECONDS).child().value, gauge(c.ENGINE_SILENCE_EXPECTED_SECONDS).child().value

    def stalled(self) -> float:
        self.metrics.refresh(self.now)
        return self.metrics.counter(c.ENGINE_STALLED_SECONDS_TOTAL).child().value


def test_all_evidence_stands_at_0_before_it_happens() -> None:
    """This holds for models that become known later, too."""
    harness = EvidenceHarness()
    harness.metrics.models.admit(["mixtral"])

    assert (harness.silence(), harness.stalled(), harness.prefills()) == ((0.0, 0.0), 0.0, (0.0, 0.0))
    for metric in (c.PREFILL_OWN_SECONDS_TOTAL, c.PREFILL_EXPECTED_SECONDS_TOTAL):
        assert {*harness.metrics.counter(metric).children} == {("llama",), ("mixtral",)}


# --- prefills ------------------------------------------------------------------------------------------------------------


def test_a_reported_prefill_counts_against_what_is_expected_of_it() -> None:
    """It took three times as long as before; the expectation stays: nothing is learned while objectives are missed."""
    harness = EvidenceHarness().taught()

    assert harness.alone(ttft=0.75, said=report(0.75)) == (0.75, 0.25)
    assert harness.alone(ttft=0.75, said=report(0.75)) == (0.75, 0.25)


def test_without_a_report_a_request_that_did_not_queue_counts_by_its_first_token() -> None:
    """It is compared with other requests counted by first tokens: reports are not used, as they leave out the front
    end.
    """
    assert EvidenceHarness().taught(reports=False).alone(ttft=0.5) == (0.5, 0.25)
    assert EvidenceHarness().taught(reports=True).alone(ttft=0.5) == (0.0, 0.0)


def test_an_estimated_prefill_is_no_evidence_of_what_prefills_cost() -> None:
    """Else the estimate would be compared with what it was made from, so the request counts by its first token."""
    harness = EvidenceHarness().taught(reports=False)

    assert harness.alone(ttft=0.5, said=report(0.125, source=Source.ESTIMATED)) == (0.5, 0.25)


def test_who_waited_behind_others_says_nothing_without_a_report() -> None:
    harness = EvidenceHarness().taught(reports=False)
    first, second = harness.comes(), harness.comes()
    harness.now += 0.5
    for key in (first, second):
        harness.evidence.output(key, harness.now, 1)
    before = harness.prefills()

    harness.evidence.settled(second, harness.account(second, ttft=0.5), learn=False)

    assert harness.prefills() == before


def test_cached_tokens_cost_nothing() -> None:
    """Expected seconds depend on the uncached length; for a length as short as the second one nothing is expected."""
    harness = EvidenceHarness().taught()
    cached = Usage(prompt_tokens=4000, cached_tokens=3000)
    all_cached = Usage(prompt_tokens=4000, cached_tokens=4000)

    assert harness.alone(said=report(), usage=cached) == (0.25, 0.25)
    assert harness.alone(said=report(), usage=all_cached) == (0.0, 0.0)


@pytest.mark.parametrize("reports", [True, False])
def test_an_answer_that_arrives_whole_is_no_evidence_of_what_prefills_cost(reports: bool) -> None:
    """Its 60 tokens came in one event: its TTFT holds their decode, and its prefill ended at some time before."""
    whole = Usage(prompt_tokens=TOKENS, completion_tokens=60)
    untaught, harness = EvidenceHarness(), EvidenceHarness().taught(reports=reports)
    said = report() if reports else None
    for _ in range(2 * READY_SAMPLES):
        untaught.alone(ttft=0.85, said=said, usage=whole, learn=True)

    assert harness.alone(ttft=0.85, said=said, usage=whole) == (0.0, 0.0)
    assert untaught.alone(said=said) == (0.0, 0.0)
    assert harness.alone(said=said) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("outcome", "streaming", "usage"),
    [
        (Outcome.CLIENT_CANCELLED, True, None),
        (Outcome.OK, False, None),
        (Outcome.OK, True, Usage()),
    ],
    ids=["cancelled", "not streamed", "no counts"],
)
def test_who_is_not_in_the_population_is_in_neither_sum(outcome: Outcome, streaming: bool, usage: Usage | None) -> None:
    harness = EvidenceHarness().taught()

    assert harness.alone(said=report(), outcome=outcome, streaming=streaming, usage=usage) == (0.0, 0.0)


def test_a_restarted_engine_is_expected_to_cost_what_it_did() -> None:
    harness = EvidenceHarness().taught()
    before = harness.alone(said=report())

    harness.evidence.forget()

    assert harness.alone(said=report()) == pytest.approx(before)


# --- silences ------------------------------------------------------------------------------------------------------------


def test_a_silence_shows_its_length_and_what_explains_it() -> None:
    """A known cost comes from reports, or else from first tokens. That of a far longer prompt is bounded by the slowest
    prompts, in proportion; an unknown one is assumed to be 20 s."""
    for harness in (EvidenceHarness().taught(), EvidenceHarness().taught(reports=False)):
        harness.comes()
        harness.now += 5.0
        assert harness.silence() == (5.0, PREFILL_SECONDS)
    longer = EvidenceHarness().taught()
    longer.comes(tokens=10 * TOKENS)
    longer.now += 5.0
    assert longer.silence()[1] == pytest.approx(10 * PREFILL_SECONDS)
    blind = EvidenceHarness()
    blind.comes(tokens=None)
    blind.now += 5.0
    assert blind.silence() == (5.0, UNKNOWN_SECONDS)


def test_a_stall_grows_on_the_page_and_is_over_with_the_next_token() -> None:
    harness = EvidenceHarness().taught()
    key = harness.comes()
    harness.now += 10.0
    assert harness.stalled() == 2.0
    harness.now += 10.0
    harness.evidence.output(key, harness.now, 1)

    assert (harness.stalled(), harness.silence()) == (12.0, (0.0, 0.0))


def test_a_stall_of_odd_fractions_never_falls_and_is_never_refused() -> None:
    """Sums of differences are off by the last bit."""
    harness = EvidenceHarness().taught()
    harness.comes()
    total = 0.0
    for number in range(2000):
        harness.now += 0.1 / (1 + number % 7)
        assert harness.stalled() >= total
        total = harness.stalled()

    assert total > 10
    assert harness.metrics.counter(DROPPED_TOTAL).child("not_a_duration").value == 0


@pytest.mark.reaches_in
def test_a_prompt_of_a_new_length_explains_as_much_as_its_tokens_cost_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request of such a length was alone yet. The steps know what a token costs: 2 s in all explain 6 s."""
    harness = EvidenceHarness()
    monkeypatch.setattr(harness.evidence.steps, "prefill_seconds", lambda tokens: tokens / 500.0)
    harness.comes(tokens=TOKENS)
    harness.now += 9.0

    assert harness.silence() == (9.0, 2.0)
    assert harness.stalled() == 1.0


def test_a_client_that_reads_its_last_bytes_slowly_makes_no_silence() -> None:
    """The engine's answer is complete; the rest of it waits between the sidecar and the client."""
    harness = EvidenceHarness()
    key = harness.comes()
    harness.evidence.output(key, harness.now, 1)
    harness.evidence.finished(key, harness.now)
    harness.now += 50.0

    assert harness.silence() == (0.0, 0.0)


def test_who_pauses_is_not_spoken_to() -> None:
    harness = EvidenceHarness()
    key = harness.comes()
    harness.evidence.output(key, harness.now, 1)
    harness.evidence.paused(key, harness.now)
    harness.now += 50.0
    assert harness.silence() == (0.0, 0.0)

    harness.evidence.resumed(key, harness.now)
    harness.now += 2.0
    assert harness.silence() == (2.0, 0.0)


def test_an_answer_that_is_not_seen_as_it_comes_explains_a_silence() -> None:
    """One request is not streamed, the other's head shows that its body cannot be read; each excuses a minute."""
    harness = EvidenceHarness()
    harness.comes()
    whole, compressed = harness.comes(streaming=False), harness.comes()
    harness.evidence.answering(compressed, harness.now, streaming=False)
    for key in (whole, compressed):
        harness.now += 50.0
        assert harness.silence() == (0.0, 0.0)
        harness.evidence.finished(key, harness.now)
    harness.now += 2.0

    assert harness.silence()[0] == 2.0


@pytest.mark.parametrize(("outcome", "silent"), [(Outcome.OK, 2.0), (Outcome.CLIENT_CANCELLED, 32.0)])
def test_only_an_answer_shows_that_the_engine_works(outcome: Outcome, silent: float) -> None:
    """A client that gives up during a hang is no sign of life of the engine."""
    harness = EvidenceHarness()
    harness.comes()
    whole = harness.comes(streaming=False)
    harness.now += 30.0
    harness.evidence.ended(whole, harness.account(whole, outcome=outcome, streaming=False), harness.now)
    harness.now += 2.0

    assert harness.silence()[0] == silent


def test_where_answers_arrive_whole_their_making_is_no_stall() -> None:
    """Each takes 30 s and comes in one event. That is unknown of the first ones; a hang shows a minute later still."""
    harness = EvidenceHarness().taught()
    whole = Usage(prompt_tokens=TOKENS, completion_tokens=3000)
    for _ in range(REMEMBERED_ANSWERS):
        harness.alone(ttft=30.0, usage=whole)
    before = harness.stalled()
    for _ in range(10):
        harness.alone(ttft=30.0, usage=whole)
    after = harness.stalled()
    harness.comes()
    harness.now += UNKNOWN_ANSWER_SECONDS + 5.0

    assert before > 0
    assert after == before
    assert harness.stalled() == before + 5.0


def test_a_hang_shows_while_an_unstreamed_request_is_in_flight() -> None:
    """It comes first, and its own answer explains a minute; the streams that come after it wait for an hour."""
    harness = EvidenceHarness().taught()
    harness.comes(streaming=False)
    for _ in range(100):
        harness.now += 0.01
        harness.comes()
    harness.now += UNKNOWN_ANSWER_SECONDS + 20.0
    soon = harness.stalled()
    harness.now += 3600.0

    assert soon == pytest.approx(20.0, abs=1.0)
    assert harness.stalled() == pytest.approx(soon + 3600.0)
