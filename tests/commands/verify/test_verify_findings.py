"""Planted lies and planted hops are pointed at by name; an honest engine is left alone."""

import pytest

from sidecar.commands.verify.verify_findings import Found, Interval, Probed, State, findings, median_interval
from sidecar.ledger.report import EngineReport
from tests.commands.verify import played
from tests.commands.verify.played import STREAMED, evidence, probed


HONEST = EngineReport(0.01, 0.17, None)
"""The report on a first token that the client saw after 0.2 s."""


def found(*engine: Probed, entry: list[Probed] | None = None) -> dict[str, Found]:
    return {one.name: one for one in findings(evidence(engine, entry or ()))}


def all_probed(**how: object) -> list[Probed]:
    return [probed(name, **how) for name in STREAMED]  # type: ignore[arg-type]


def with_decode(factor: float) -> list[Probed]:
    """An engine whose report is so many times the truth."""
    return [
        probed(
            name,
            report=EngineReport(0.01 * factor, 0.17 * factor, factor * 0.01 * (one.answer.marks.output_events - 1)),
        )
        for name in STREAMED
        for one in [probed(name)]
    ]


def test_an_honest_engine_gives_no_difference() -> None:
    seen = found(*[probed(name, report=HONEST) for name in STREAMED])

    assert {name: one.state for name, one in seen.items()} == dict.fromkeys(
        ("engine-answers", "report", "engine-streams"), State.OK
    )


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (3.0, "queue and prefill of 540 ms, and the client waited 200 ms"),
        (0.1, "it leaves out most of the wait in 11 of 11 probes"),
    ],
)
def test_a_report_in_another_unit_is_pointed_at(factor: float, words: str) -> None:
    seen = found(*with_decode(factor))

    assert seen["report"].state is State.DIFFERS
    assert words in seen["report"].said
    assert found(*with_decode(1.0))["report"].state is State.OK


def test_one_probe_with_a_long_way_to_the_engine_is_no_difference() -> None:
    """A report may leave something out: a front end, a tokenizer. Only most of the probes together are suspicious."""
    odd = probed("chat-last-64", report=EngineReport(0.0, 0.01, 0.6))

    assert found(*with_decode(1.0)[:-1], odd)["report"].state is State.OK


def test_a_hop_that_buffers_is_named() -> None:
    """The engine's own address gives tokens as they are made, the entry all at once, under another Server."""
    entry = all_probed(reads=1, fields=[("server", "planted-hop"), ("via", "1.1 planted")])
    seen = found(*all_probed(fields=[("server", "uvicorn")]), entry=entry)

    assert (seen["engine-streams"].state, seen["entry-streams"].state) == (State.OK, State.DIFFERS)
    assert "at once at the end, in 9 of 9 streams" in seen["entry-streams"].said
    assert "a hop between buffers (it names itself server: planted-hop, via: 1.1 planted)" in seen["entry-streams"].do


def test_where_the_engine_holds_output_back_no_hop_is_blamed() -> None:
    seen = found(*all_probed(reads=1), entry=all_probed(reads=1))

    assert "the engine itself" in seen["engine-streams"].do
    assert "the engine's own address shows no better" in seen["entry-streams"].do
    assert "give --engine.url too" in found(entry=all_probed(reads=1))["entry-streams"].do


@pytest.mark.parametrize(("coding", "state"), [("gzip", State.DIFFERS), ("", State.OK)])
def test_a_hop_that_holds_back_compressed_answers_alone_is_seen(coding: str, state: State) -> None:
    """One stream that came at once decides nothing, unless it was compressed and the others were not."""
    fields = [("content-encoding", coding)] if coding else []
    entry = [probed(name) for name in STREAMED if name != "chat-gzip-64"]
    seen = found(*all_probed(), entry=[*entry, probed("chat-gzip-64", reads=1, fields=fields)])["entry-streams"]

    assert (seen.state, bool(seen.do), "not so: chat-gzip-64" in seen.said) == (state, bool(coding), True)


def test_what_hops_add_has_an_interval_or_is_not_separable() -> None:
    """11 pairs, the warm-up left out: the interval is from the second smallest difference to the second largest."""
    noise = [0.001 * number for number in range(len(STREAMED))]
    slower = [probed(name, first=0.25 + extra) for name, extra in zip(STREAMED, noise, strict=True)]
    mixed = [probed(name, first=0.2 + extra - 0.006) for name, extra in zip(STREAMED, noise, strict=True)]

    assert (
        "the hops add 56 ms in the median, 95% interval 52 ms to 60 ms, 11 pairs"
        in found(*all_probed(), entry=slower)["added-ttft"].said
    )
    assert found(*all_probed(), entry=mixed)["added-ttft"].said.startswith(
        "not separable from 0: 95% interval -4 ms to 4 ms"
    )
    assert found(*all_probed()[:4], entry=slower[:4])["added-ttft"].state is State.UNKNOWN


def test_the_interval_of_a_median_is_that_of_the_tables() -> None:
    """Ranks of the sign test (Conover, Practical Nonparametric Statistics, table A3): 1 of 6, 2 of 9, 6 of 20."""
    values = [float(number) for number in range(1, 21)]

    assert median_interval(values[:5]) is None
    assert median_interval(values[:6]) == Interval(3.5, 1.0, 6.0, 6)
    assert median_interval(values[:9]) == Interval(5.0, 2.0, 8.0, 9)
    assert median_interval(values) == Interval(10.5, 6.0, 15.0, 20)


def test_an_engine_without_a_report_is_told_its_flag() -> None:
    seen = found(*all_probed())["report"]

    assert (seen.state, "--enable-per-request-metrics" in seen.do) == (State.UNTOLD, True)


def test_answers_that_failed_are_told_and_compared_with_nothing() -> None:
    probe = played.BY_NAME["chat-short-1"]
    bad = Probed(probe, played.answer(played.exchange([(played.SENT_AT + 1, b"no room")], status=429)))
    seen = found(*all_probed(), bad)

    assert seen["engine-answers"].state is State.DIFFERS
    assert (
        "12 of 13 probes have a whole, good answer; failed: chat-short-1; chat-short-1 answers 429: no room"
        in seen["engine-answers"].said
    )


def test_a_hop_that_collects_streams_into_documents_is_named() -> None:
    entry = [played.collected(name, ("server", "collecting-gateway/1")) for name in STREAMED[:3]]
    seen = found(*all_probed(), entry=entry)

    assert {name for name, one in seen.items() if one.state is State.DIFFERS} == {"entry-answers", "entry-streams"}
    assert "a stream was asked for, and one document came" in seen["entry-answers"].said
    assert "it names itself server: collecting-gateway/1" in seen["entry-streams"].do


def test_streams_that_are_cut_fail_and_are_not_called_short() -> None:
    entry = [played.cut_short(name) for name in STREAMED]
    seen = found(*all_probed(), entry=entry)

    assert f"0 of {len(entry)} probes have a whole, good answer" in seen["entry-answers"].said
    assert (seen["entry-streams"].state, seen["entry-streams"].said) == (
        State.UNKNOWN,
        f"only 0 streams show how they arrive; of the others {len(entry)} failed",
    )
