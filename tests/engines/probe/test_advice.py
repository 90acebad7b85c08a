"""Advice to an operator: the exact flag, on the evidence of what answers carry, and nothing once the flag is set."""

import pytest
from msgspec.structs import replace

from sidecar.engines.engine import Engine
from sidecar.engines.probe.advice import ENOUGH, WINDOW, Advisor
from sidecar.engines.probe.replies import Identity
from sidecar.ledger.account import Account, Ledger, Phase, Reason, Share, Source
from sidecar.ledger.request_labels import RequestLabels
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome


SPLIT = (Share(Phase.QUEUE, 0.5, Source.ENGINE), Share(Phase.PREFILL, 0.5, Source.ENGINE))
UNSPLIT = (Share(Phase.UNATTRIBUTED, 1.0, Source.WIRE),)
ESTIMATED = (Share(Phase.QUEUE, 0.5, Source.ESTIMATED), Share(Phase.PREFILL, 0.5, Source.ESTIMATED))


def request(
    shares: tuple[Share, ...] = SPLIT, reason: Reason = Reason.IN_BAND, *, usage: Usage | None = None
) -> Account:
    return Account(
        labels=RequestLabels("m", "chat", "0-512"),
        streaming=True,
        outcome=Outcome.OK,
        marks=Marks(0.0, usage=usage),
        ledger=Ledger(shares, 1.0, 1.0, 0.0, reason),
    )


USAGE = Usage(prompt_tokens=9, cached_tokens=0)
UNTOLD = request(UNSPLIT, Reason.NO_REPORT, usage=USAGE)


def advisor(
    kind: str = "vllm", version: str | None = "0.33.0", accounts: tuple[tuple[Account, int], ...] = ()
) -> Advisor:
    engine = Engine(kind)
    engine.says(Identity(version))
    advisor = Advisor(engine)
    for account, times in accounts:
        engine.pool.served(0.0)
        for _ in range(times):
            advisor.closed(account)
    return advisor


def test_a_vllm_that_states_no_times_is_to_be_started_with_the_flag_for_them() -> None:
    (hint,) = advisor(accounts=((UNTOLD, ENOUGH),)).hints(page_missing=False)

    assert hint.startswith(
        "20 of the last 20 answers came without the engine's own times: --enable-per-request-metrics "
    )
    assert "--otlp-traces-endpoint" in hint


def test_an_estimate_does_not_hide_that_the_engine_says_nothing() -> None:
    found = advisor(accounts=((request(ESTIMATED, Reason.ESTIMATED, usage=USAGE), ENOUGH),))

    assert "--enable-per-request-metrics" in found.hints(page_missing=False)[0]
    assert found.source() == "by estimate 100%"


@pytest.mark.parametrize("version", ["0.33.0", "main", None])
def test_a_flag_that_is_set_is_not_advised(version: str | None) -> None:
    """Some answers state their times: the others are of an API that has none. Or none states usage, beside which the times would stand."""
    some = advisor(version=version, accounts=((request(usage=USAGE), 1), (UNTOLD, WINDOW)))
    bare = advisor(version=version, accounts=((request(UNSPLIT, Reason.NO_REPORT), ENOUGH),))

    for found, named in ((some, "--otlp-traces-endpoint"), (bare, "they state no usage")):
        (hint,) = found.hints(page_missing=False)
        assert ("--enable-per-request-metrics" in hint, named in hint) == (False, True)


@pytest.mark.parametrize(
    ("version", "flag"), [("0.24.1", False), ("0.25.0", True), ("1.0", True), ("main", True), (None, True)]
)
def test_a_flag_that_this_version_does_not_have_is_not_advised(version: str | None, flag: bool) -> None:
    (hint,) = advisor(version=version, accounts=((UNTOLD, ENOUGH),)).hints(page_missing=False)

    assert ("--enable-per-request-metrics" in hint, "--otlp-traces-endpoint" in hint) == (flag, True)


@pytest.mark.parametrize(
    "accounts",
    [
        ((UNTOLD, ENOUGH - 1),),
        ((UNTOLD, 40), (request(), 60)),
        ((request(UNSPLIT, Reason.REPORT_EXCEEDS_WIRE), 50),),
        ((request(UNSPLIT, Reason.NO_TOKEN), 50),),
        ((request(UNSPLIT, Reason.SHUTDOWN), 50),),
        ((UNTOLD, WINDOW), (request(), WINDOW)),
    ],
    ids=["too few", "the smaller part", "disbelieved", "no token", "shutdown", "the flag is set by now"],
)
def test_where_no_flag_would_help_or_is_known_none_is_named(accounts: tuple[tuple[Account, int], ...]) -> None:
    assert advisor(accounts=accounts).hints(page_missing=False) == ()


def test_usage_without_cached_tokens_names_the_flag_that_adds_them() -> None:
    """One usage that states cached tokens, even 0, shows that the flag is set."""
    plain, detailed = (request(usage=Usage(prompt_tokens=9, cached_tokens=cached)) for cached in (None, 0))

    (hint,) = advisor(accounts=((plain, ENOUGH),)).hints(page_missing=False)
    assert hint == (
        "none of the last 20 usages states cached prompt tokens: --enable-prompt-tokens-details makes vLLM state cached prompt tokens"
    )
    assert advisor(accounts=((plain, ENOUGH), (detailed, 1))).hints(page_missing=False) == ()
    assert advisor("llama_cpp", accounts=((plain, ENOUGH),)).hints(page_missing=False) == ()


def test_a_page_of_metrics_that_is_not_there_names_the_flag_that_puts_it_there() -> None:
    assert advisor("sglang").hints(page_missing=True) == (
        "--enable-metrics makes SGLang expose its queue and its cache",
    )
    assert advisor("tgi").hints(page_missing=True) == ()


def test_answers_that_arrive_whole_are_shown_with_their_share() -> None:
    """Those that are no streams have no part in it; a few odd ones are not worth a word."""
    usage = Usage(prompt_tokens=9, cached_tokens=0, completion_tokens=60)
    held = request(usage=usage)
    held = replace(held, marks=replace(held.marks, first_token_at=1.0, last_token_at=1.0, output_events=1))
    whole = replace(held, streaming=False)

    (hint,) = advisor("dynamo", accounts=((held, 10), (request(), 30), (whole, 50))).hints(page_missing=False)
    assert hint.startswith(
        "10 of the last 40 streamed answers arrive whole, 25%, so nothing tells their time per token"
    )
    assert "a parser of tool calls" in hint
    for few in (((held, 4), (request(), 90)), ((held, 10), (whole, 90))):
        assert advisor(accounts=few).hints(page_missing=False) == ()


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_for_an_unknown_engine_there_is_no_advice(kind: str) -> None:
    found = advisor(kind, None, ((UNTOLD, WINDOW),))

    assert found.hints(page_missing=True) == ()
    assert found.source() == "not split 100%"


def test_a_server_that_is_no_engine_is_told_until_an_answer_ends_well() -> None:
    """A wrong port where another server answers 404: up, and no engine."""
    engine = Engine("auto")
    engine.says(Identity(None))
    stranger = Advisor(engine)
    (hint,) = stranger.hints(page_missing=False)
    engine.pool.served(1.0)

    assert hint.endswith("is engine.url right?")
    assert stranger.hints(page_missing=False) == ()


def test_the_way_in_which_it_speaks_is_said_before_and_after_the_first_request() -> None:
    """Before the first request the expected source, after it the one seen."""
    found = advisor()
    assert found.source().startswith("expected from usage chunk `metrics`")

    for account in (request(), request(), request(), request(SPLIT, Reason.LATE_REPORT)):
        found.closed(account)
    assert found.source() == "in the answer itself 75%, in reports that come after it (spans, files, polls) 25%"


def test_what_was_seen_of_another_engine_says_nothing_about_this_one() -> None:
    engine = Engine("auto")
    engine.is_kind("vllm")
    found = Advisor(engine)
    for _ in range(ENOUGH):
        found.closed(UNTOLD)

    engine.is_kind("sglang")

    assert found.hints(page_missing=False) == ()
    assert found.source().endswith("no request has ended yet")


def test_requests_that_are_known_from_spans_alone_lack_nothing_that_a_flag_could_add() -> None:
    """No span of vLLM states cached tokens, and no gap between tokens is known."""
    accounts = ((request(reason=Reason.SPAN_ALONE, usage=Usage(prompt_tokens=600, completion_tokens=60)), ENOUGH),)
    found = advisor(accounts=accounts)

    assert found.hints(page_missing=False) == ()
    assert found.source() == "in spans, from which the requests themselves are counted 100%"
