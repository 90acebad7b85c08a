"""A `Server-Timing` list is a report where it states queue and prefill, and nothing where it does not."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.server_timing import LONGEST_LIST_CHARACTERS, report_in_timing


@pytest.mark.parametrize(
    ("stated", "report"),
    [
        ("server_queue;dur=1.250000, server_ttft;dur=8.500000, server_e2e;dur=24.5", (0.00125, 0.00725, 0.016)),
        ("server_queue;dur=0.000000, server_ttft;dur=8", (0.0, 0.008, None)),
        ("queue;dur=1,prefill;dur=8", (0.001, 0.008, None)),
        ("queue;dur=1,prefill;dur=8,e2e;dur=20", (0.001, 0.008, 0.011)),
        ("queue;dur=1,prefill;dur=8,decode;dur=7", (0.001, 0.008, 0.007)),
        ("queue;dur=1, prefill;dur=8, ttft;dur=12, e2e;dur=20", (0.001, 0.008, 0.008)),
        ('cache;desc="hit, server_queue;dur=9";dur=3 ,Server_Queue ; DUR = "1", db, prefill;dur=8;x=y', (0.001, 0.008, None)),
        ("server_queue;dur=1, server_ttft;dur=8, server_e2e;dur=3", (0.001, 0.007, None)),
        ('server_queue;desc="a;dur=900";dur=1;dur=7, server_ttft;dur=8', (0.001, 0.007, None)),
    ],
)  # fmt: skip
def test_queue_and_prefill_are_read_in_milliseconds(stated: str, report: tuple[float, float, float | None]) -> None:
    """The prefill is stated, or is the time to the first token without the queue; other servers' entries are passed over."""
    found = report_in_timing(stated)

    assert found is not None
    assert (found.queue_seconds, found.prefill_seconds, found.decode_seconds) == pytest.approx(report)


@pytest.mark.parametrize(
    "stated",
    [
        "",
        "server_queue;dur=1",  # the queue alone
        "server_ttft;dur=8, server_e2e;dur=24",  # the prefill alone is in it, and how much of it is not said
        "prefill;dur=8",
        "server_queue;dur=9, server_ttft;dur=8",  # it had its first token in the queue
        "server_queue;dur=1, server_ttft;dur=8, server_queue;dur=1, server_ttft;dur=8",  # two calls of the engine
        "queue;dur=1, server_queue;dur=1, prefill;dur=8",  # two servers
        "disagg_queue;dur=1, disagg_ttft;dur=8, ctx_queue;dur=1, gen_queue;dur=2",
        "queue, prefill;dur=8",
        "queue;dur=-1, prefill;dur=8",
        "queue;dur=1e3, prefill;dur=8",
        "queue;dur=nan, prefill;dur=8",
        "queue;dur=1.1234567890, prefill;dur=8",
        "queue;dur=" + "9" * 400 + ", prefill;dur=8",
        "queue;dur=\u0663, prefill;dur=8",
        "queue;dur=1 prefill;dur=8",
        'queue;dur=1, prefill;desc="dur=8',
        "queue;dur=1, prefill;dur=8" + ", db" * LONGEST_LIST_CHARACTERS,
        None,
        7,
        ["queue;dur=1, prefill;dur=8"],
    ],
)
def test_anything_else_is_no_report(stated: object) -> None:
    assert report_in_timing(stated) is None


@pytest.mark.parametrize("group", ["; x=", ';x=""', ";x= ", " ", ";", ";dur=1", ',"', "a,"])
@pytest.mark.parametrize("begin", ["db", 'db;desc="', "queue;dur=1, prefill;dur=8,"])
def test_the_longest_list_is_read_at_once(begin: str, group: str) -> None:
    """Any server may write it, and while it is read no stream moves. A pattern that tries all ways would take hours: the bound is far off both."""
    text = (begin + group * LONGEST_LIST_CHARACTERS)[: LONGEST_LIST_CHARACTERS - 1] + '"'
    began = time.process_time()

    assert report_in_timing(text) is None
    assert time.process_time() - began < 0.1


def test_a_worker_that_received_its_cache_states_no_queue_and_no_prefill() -> None:
    """Its first token is not the prompt's."""
    stated = "server_queue;dur=60, server_ttft;dur=90, server_e2e;dur=290, server_kv_transfer;dur=50"

    report = report_in_timing(stated)

    assert report is not None
    assert (report.queue_seconds, report.prefill_seconds) == (None, None)
    assert report.decode_seconds == pytest.approx(0.2)
    assert report.kv_transfer_seconds == pytest.approx(0.05)


@given(
    st.text(max_size=80)
    | st.lists(
        st.sampled_from(["server_queue", "queue", "ttft", "prefill", ";dur=", "1.5", ",", " ", '"', ";", "=", "e2e"]),
        max_size=30,
    ).map("".join)
)
def test_no_text_makes_it_raise_and_no_time_is_negative(stated: str) -> None:
    found = report_in_timing(stated)

    assert (
        found is None
        or min(filter(None, (0.0, found.queue_seconds, found.prefill_seconds, found.decode_seconds)), default=0.0)
        >= 0.0
    )
