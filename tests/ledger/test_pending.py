"""Joining the engine's reports with their requests: exactly once, in any order, and never with the wrong request."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ledger.account import Reason
from sidecar.ledger.pending import Lost, Pending, Whole, of_all_parts
from sidecar.ledger.report import EngineReport, RequestKey, response_key, span_key


def said(number: float) -> EngineReport:
    return EngineReport(number, number, number)


def of_two_or_of_the_last(_entry: str, reports: Sequence[EngineReport], _parts: int, last: bool) -> EngineReport | None:
    return reports[0] if len(reports) == 2 or last else None


class Table:
    """A table, the ledgers that it settled, and the losses that it counted."""

    def __init__(self, max_entries: int = 100, whole: Whole[str] = of_all_parts) -> None:
        self.settled: list[tuple[str, EngineReport | None, Reason]] = []
        self.lost: list[Lost] = []
        self.pending: Pending[str] = Pending(
            lambda entry, report, reason: self.settled.append((entry, report, reason)),
            self.lost.append,
            wait_seconds=10,
            whole=whole,
            max_entries=max_entries,
        )


@pytest.mark.parametrize("report_first", [False, True])
def test_a_report_finds_its_request_whichever_comes_first(report_first: bool) -> None:
    """A span may be exported before the client has its last byte, or five seconds after."""
    table = Table()
    if report_first:
        table.pending.reported([span_key("1")], said(1), at=0)
    table.pending.open([response_key("a"), span_key("1")], "first", at=1)
    if not report_first:
        table.pending.reported([span_key("1")], said(1), at=6)

    assert table.settled == [("first", said(1), Reason.LATE_REPORT)]
    assert table.lost == []


def test_an_unmatched_report_is_counted_once_it_can_no_longer_find_its_request() -> None:
    """It is not counted before: its request may still be streaming."""
    table = Table()
    table.pending.reported([response_key("a")], said(1), at=0)
    table.pending.expire(at=9)
    assert table.lost == []

    table.pending.expire(at=10)
    table.pending.open([response_key("a")], "late", at=11)

    assert table.lost == [Lost.UNMATCHED]
    assert table.settled == []


def test_a_report_that_comes_twice_is_used_once() -> None:
    """The second report is ignored, also under another of its keys, and also before its request has ended."""
    table = Table()
    table.pending.open([response_key("a"), span_key("1")], "first", at=0)
    table.pending.reported([response_key("a")], said(1), at=1)
    table.pending.reported([span_key("1")], said(2), at=2)
    table.pending.reported([response_key("b")], said(3), at=3)
    table.pending.reported([response_key("b")], said(3), at=4)

    assert table.settled == [("first", said(1), Reason.LATE_REPORT)]
    assert table.lost == [Lost.TWICE, Lost.TWICE]


@pytest.mark.parametrize("report_first", [False, True])
@pytest.mark.parametrize(
    ("ends", "lost"), [(Pending.settled_in_band, Lost.TWICE), (Pending.ended_badly, Lost.UNNEEDED)]
)
def test_a_report_that_its_request_does_not_need_is_no_unmatched_one(
    ends: Callable[[Pending[str], list[RequestKey], float], None], lost: Lost, report_first: bool
) -> None:
    """Its answer had one already, or it did not end well: nothing is missing, whichever comes first."""
    table = Table()
    table.pending.expect(span_key("1"))
    if report_first:
        table.pending.reported([span_key("1")], said(1), at=0)
    table.pending.ended([span_key("1")])
    ends(table.pending, [response_key("a"), span_key("1")], 1)
    if not report_first:
        table.pending.reported([span_key("1"), response_key("b")], said(1), at=6)
    table.pending.expire(at=60)

    assert table.lost == [lost]
    assert table.settled == []


def test_an_id_that_two_requests_have_leads_to_neither() -> None:
    """If a client uses a request id twice, its requests get no split; they never get another request's."""
    table = Table()
    table.pending.open([response_key("a")], "first", at=0)
    table.pending.open([response_key("a")], "second", at=1)
    table.pending.reported([response_key("a")], said(1), at=2)
    table.pending.expire(at=20)

    assert table.lost == [Lost.AMBIGUOUS]
    assert table.settled == [("first", None, Reason.NO_REPORT), ("second", None, Reason.NO_REPORT)]


def test_a_shared_id_does_not_hide_a_key_of_ones_own() -> None:
    """The minted span id still tells the two requests apart."""
    table = Table()
    table.pending.open([response_key("a"), span_key("1")], "first", at=0)
    table.pending.open([response_key("a"), span_key("2")], "second", at=0)

    table.pending.reported([span_key("2")], said(2), at=1)
    table.pending.reported([span_key("1")], said(1), at=1)

    assert table.settled == [("second", said(2), Reason.LATE_REPORT), ("first", said(1), Reason.LATE_REPORT)]


def test_a_trace_that_one_request_has_alone_is_a_key() -> None:
    """Dynamo's engine spans are children of Dynamo's own spans: the trace id is the only key that they share with the
    sidecar."""
    table = Table()
    table.pending.claim("trace", at=0)
    table.pending.open([span_key("1")], "first", at=1, trace="trace")

    table.pending.reported([span_key("of dynamo")], said(1), at=2, trace="trace")

    assert table.settled == [("first", said(1), Reason.LATE_REPORT)]


def test_a_trace_that_several_requests_had_is_none() -> None:
    """The trace is no key even if only one of its requests is still open: the report may be the other's, and late."""
    table = Table()
    table.pending.claim("trace", at=0)
    table.pending.open([span_key("1")], "first", at=0, trace="trace")
    table.pending.claim("trace", at=5)
    table.pending.expire(at=10)
    table.pending.open([span_key("2")], "second", at=11, trace="trace")

    table.pending.reported([span_key("of dynamo")], said(1), at=12, trace="trace")

    assert table.settled == [("first", None, Reason.NO_REPORT)]


@pytest.mark.parametrize("opened_after", [0, 1, 2])
def test_a_report_in_two_parts_waits_for_both(opened_after: int) -> None:
    """Both may come before the request has ended, after, or one each: the first to have a token gives queue and
    prefill."""
    table = Table()
    for number in range(3):
        if number == opened_after:
            table.pending.open([span_key("1")], "first", at=number, parts=2)
        if number < 2:
            table.pending.reported(
                [span_key("1"), response_key(f"{number}")], EngineReport(number, 1, 1), at=number, part=str(number)
            )

    assert table.settled == [("first", EngineReport(0, 1, None), Reason.LATE_REPORT)]
    assert table.lost == []


def test_more_reports_than_there_are_choices_are_no_report() -> None:
    """With three reports for two choices it is not known which two belong to the request."""
    table = Table()
    for number in range(3):
        table.pending.reported([span_key("1")], said(number), at=0, part=str(number))
    table.pending.open([span_key("1")], "first", at=1, parts=2)
    table.pending.expire(at=11)

    assert table.settled == [("first", None, Reason.NO_REPORT)]
    assert table.lost == [Lost.UNMATCHED] * 3


def test_a_report_is_kept_for_as_long_as_its_request_runs() -> None:
    """A report is kept while its request runs, and dropped if the request then ends without asking for it."""
    table = Table()
    table.pending.expect(span_key("1"))
    table.pending.reported([span_key("1")], said(1), at=0)
    table.pending.expire(at=15)
    assert table.lost == []

    table.pending.ended([span_key("1")])
    table.pending.expire(at=24)
    assert table.lost == []
    table.pending.expire(at=25)

    assert table.lost == [Lost.UNMATCHED]


def test_the_tables_are_bounded_and_their_losses_counted() -> None:
    """The oldest goes first, among requests and among reports."""
    table = Table(max_entries=2)
    for number in range(3):
        table.pending.open([response_key(f"{number}")], str(number), at=number)
        table.pending.reported([response_key(f"unmatched {number}")], said(1), at=number)

    assert table.settled == [("0", None, Reason.TABLE_FULL)]
    assert table.lost == [Lost.EVICTED]
    assert len(table.pending) == 2


def test_many_that_are_due_together_are_settled_a_few_at_a_time() -> None:
    """Otherwise each stream would pause while the ledgers of a whole second are written."""
    table = Table()
    for number in range(5):
        table.pending.open([response_key(f"{number}")], str(number), at=0)
        table.pending.reported([response_key(f"unmatched {number}")], said(1), at=0)

    told = [(table.pending.expire(10, most=2), len(table.settled), len(table.lost)) for _ in range(4)]

    assert told == [(True, 2, 2), (True, 4, 4), (False, 5, 5), (False, 5, 5)]


def test_at_the_end_everything_is_settled() -> None:
    """All open ledgers are settled before the last scrape."""
    table = Table()
    table.pending.open([response_key("a")], "first", at=0)
    table.pending.close_all(Reason.SHUTDOWN)

    assert table.settled == [("first", None, Reason.SHUTDOWN)]


def test_a_report_that_came_long_before_the_end_is_kept_for_the_one_that_comes_after_it() -> None:
    """The first of several workers may be done minutes before the answer is; it is not forgotten while its request waits."""
    table = Table(whole=of_two_or_of_the_last)
    table.pending.expect(span_key("1"))
    table.pending.reported([span_key("1")], said(1), at=0, part="first")
    for at in range(1, 25):
        table.pending.expire(at)
    table.pending.ended([span_key("1")])
    table.pending.open([span_key("1")], "long", at=25)
    for at in range(26, 34):
        table.pending.expire(at)

    table.pending.reported([span_key("1")], said(2), at=34, part="second")

    assert (table.settled, table.lost) == ([("long", said(1), Reason.LATE_REPORT)], [])


@pytest.mark.parametrize("ending", ["wait", "table", "process"])
def test_what_has_come_is_judged_when_no_more_is_waited_for(ending: str) -> None:
    """And it is used up: the same report never settles another request."""
    table = Table(max_entries=1, whole=of_two_or_of_the_last)
    table.pending.open([span_key("1")], "first", at=0)
    table.pending.reported([span_key("1")], said(1), at=1, part="first")
    if ending == "table":
        table.pending.open([span_key("2")], "second", at=2)
    elif ending == "process":
        table.pending.close_all(Reason.SHUTDOWN)
    table.pending.expire(at=30)
    table.pending.expire(at=60)

    assert table.settled[0] == ("first", said(1), Reason.LATE_REPORT)
    assert table.lost == []


def test_what_has_come_is_not_judged_where_two_requests_may_own_it() -> None:
    """Their clients used one id, and the report came before either was there: it is neither's, also once one of them is gone."""
    table = Table(whole=of_two_or_of_the_last)
    table.pending.reported([response_key("a")], said(1), at=9, part="first")
    table.pending.open([response_key("a")], "first", at=10)
    table.pending.open([response_key("a")], "second", at=12)
    for at in range(13, 60):
        table.pending.expire(at)

    assert [report for _, report, _ in table.settled] == [None, None]
    assert table.lost == [Lost.UNMATCHED]


steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "report", "expire"]),
        st.integers(0, 5),
        st.lists(st.integers(0, 9), max_size=3),
        st.none() | st.integers(0, 2),
        st.none() | st.integers(1, 3),
    ),
    max_size=60,
)


@given(steps)
def test_whatever_comes_in_whatever_order_each_request_is_settled_once(
    scenario: list[tuple[str, int, list[int], int | None, int | None]],
) -> None:
    """A report is used for at most one request, and only for one with which it shares a key or a trace."""
    table = Table(max_entries=8)
    opened: dict[str, tuple[set[int], int | None]] = {}
    reports: dict[float, tuple[set[int], int | None]] = {}
    at = 0.0
    for number, (what, seconds, keys, trace, part) in enumerate(scenario):
        at += seconds
        own = [response_key(str(key)) for key in keys]
        if what == "open":
            opened[str(number)] = (set(keys), trace)
            if trace is not None:
                table.pending.claim(str(trace), at)
            table.pending.open(own, str(number), at, None if trace is None else str(trace), parts=part or 1)
        elif what == "report":
            reports[float(number)] = (set(keys), trace)
            table.pending.reported(
                own, said(number), at, None if trace is None else str(trace), part=None if part is None else str(part)
            )
        else:
            table.pending.expire(at)
    table.pending.close_all(Reason.SHUTDOWN)

    assert sorted(entry for entry, _, _ in table.settled) == sorted(opened)
    used = [(entry, report.queue_seconds) for entry, report, _ in table.settled if report is not None]
    assert len({report for _, report in used}) == len(used)
    for entry, report in used:
        assert report is not None
        (keys_of, trace_of), (said_keys, said_trace) = opened[entry], reports[report]
        assert keys_of & said_keys or (trace_of is not None and trace_of == said_trace)
