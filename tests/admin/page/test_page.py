"""The status page: plain words, everything escaped, nothing loaded from elsewhere, and no number for an unknown
value."""

from dataclasses import replace
from itertools import pairwise

from sidecar.admin.page.anatomy import Anatomy, LaneAnatomy, LaneEnds, Quantiles
from sidecar.admin.page.budget import Budget, Tally
from sidecar.admin.page.first_facts import Around
from sidecar.admin.page.page import STATUS_HEADERS, Facts, Status, status_page
from sidecar.admin.page.script import SCRIPT
from sidecar.admin.page.style import STYLE
from sidecar.history.slices import run_now
from sidecar.ledger.request_labels import RequestLabels
from sidecar.objectives.objective import Objective
from sidecar.observe.in_flight import Inside, LaneInFlight
from sidecar.observe.request_record import Stage
from tests.support.page_reader import Reader


FACTS = Facts(version="0.1", engine="127.0.0.1:8000 (vllm)", uptime_seconds=90.0, config="/etc/sidecar.yaml")
CHAT = RequestLabels("llama", "chat", "")
YES = (True, "")
AROUND = Around(at_unix=1_795_171_000.0, uptime_seconds=7200.0)
QUANTILES = Quantiles(50, {0.5: 0.25, 0.95: float("inf"), 0.99: None}, last_edge=300.0)
NONE = Quantiles(0, {0.5: None, 0.95: None, 0.99: None}, last_edge=10.0)
NOTHING = Anatomy(12.0, ever=False, bars=(), ends=())


def anatomy(
    lane: str = "chat", *, ttft: Quantiles = QUANTILES, tpot: Quantiles = NONE, inter_token: Quantiles = NONE
) -> Anatomy:
    bar = LaneAnatomy(
        lane=lane,
        streaming=True,
        requests=10,
        mean_seconds=2.0,
        phases={"queue": 0.5, "unattributed": 0.25, "decode": 1.25},
        sources={"queue": {"engine": 1.0}, "unattributed": {"wire": 1.0}, "decode": {"engine": 0.75, "wire": 0.25}},
        spread={"queue": QUANTILES},
    )
    ends = LaneEnds(
        lane,
        {"ok": 10, "engine_error": 2},
        ttft,
        tpot,
        inter_token,
        {("engine", "in_band"): 9, ("none", "no_report"): 1},
    )
    return Anatomy(300.0, ever=True, bars=(bar,), ends=(ends,))


def status(of: Anatomy, facts: Facts = FACTS, ready: tuple[bool, str] = YES) -> Status:
    return Status(at=100.0, facts=facts, anatomy=of, ready=ready, healthy=YES, around=AROUND, lanes=("chat", "other"))


def read(of: Status, *, refresh: bool = True) -> Reader:
    reader = Reader(run_now(status_page(of, refresh=refresh)))
    assert reader.open == []
    return reader


def test_no_traffic_is_said_in_words() -> None:
    """Without traffic the page says so in words: no zeros, no NaN, no healthy latency."""
    page = read(status(NOTHING))

    assert "No traffic yet" in page.text
    assert "No request has come yet" in page.text
    assert "there is nothing to judge" in page.text
    assert "svg" not in page.tags
    assert not {"nan", "inf", "none"} & set(page.text.lower().split())


def test_quiet_is_said_otherwise_than_never() -> None:
    page = read(status(Anatomy(300.0, ever=True, bars=(), ends=())))

    assert "No inference request ended in the last 5 min" in page.text
    assert "No traffic yet" not in page.text


def test_a_person_reads_what_is_wrong_before_where_the_time_goes() -> None:
    """Sections are in this order: headline, the last half hour, latency, verdict, anatomy; the long table last."""
    page = run_now(status_page(status(anatomy())))

    names = (
        "headline",
        "half-hour",
        "two-numbers",
        "verdict",
        "anatomy",
        "budget",
        "in-flight",
        "engine",
        "ended",
        "table",
    )
    places = [page.index(f'<section id="{name}"') for name in names]
    assert sorted(places) == places


def test_a_quantile_beyond_the_last_edge_or_without_ground_is_no_number() -> None:
    page = read(status(anatomy()))

    assert "chat 50 requests 250 ms > 5.0 min too few no objective" in page.text
    assert "No gap between tokens was seen." in page.text


def test_between_tokens_stands_the_number_that_the_objective_is_on() -> None:
    """The pace of whole answers, with delivery, stands beside its misses; single gaps, before delivery, beside those of the longest."""
    slow = Quantiles(9, {0.5: 0.08, 0.95: None, 0.99: None}, last_edge=10.0)
    fast = Quantiles(700, {0.5: 0.011, 0.95: 0.013, 0.99: 0.019}, last_edge=10.0)
    budget = Budget("chat", Objective.TPOT, (0.05, 0.05), (0.9, 0.9), Tally(9, 8, 0.9), Tally(9, 8, 0.9))

    stall = Budget("chat", Objective.STALL, (2.0, 2.0), (0.99, 0.99), Tally(20, 3, 0.2), Tally(20, 3, 0.2))

    page = read(status(replace(anatomy(tpot=slow, inter_token=fast), budgets=(budget, stall))))

    between = page.text.partition("Time between tokens")[2].partition("Verdict")[0]
    promised, _, single = between.partition("single gaps, before delivery")
    assert "chat 9 answers 80.0 ms too few too few ✗ 89 % 90 % ≤ 50.0 ms" in promised
    assert "with delivery: the objective is on this number" in promised
    assert "chat 700 gaps 11.0 ms 13.0 ms 19.0 ms ✗ 15 % 99 % ≤ 2.00 s Single gaps" in single
    assert ("11.0 ms" in promised, "missed" in single) == (False, False)


def test_gaps_without_counted_tokens_are_no_pace_of_an_answer() -> None:
    page = read(status(anatomy(inter_token=QUANTILES)))

    assert "No answer has ended whose tokens are counted, so the time between them is not known." in page.text


def test_who_is_inside_stands_with_stage_and_age() -> None:
    of = replace(
        status(anatomy()),
        by_lane={"chat": LaneInFlight(7, 2, 12.5, held=1), "batch": LaneInFlight(0, 0, None)},
        oldest=(Inside(CHAT, Stage.HELD, 31.0), Inside(CHAT, Stage.WAITING, 12.5)),
    )

    page = read(of)

    assert "batch 0 0 0 none chat 7 2 1 12.5 s" in page.text
    assert "held back by its client: stream chat 31.0 s waiting: queue, prefill or first token chat 12.5 s" in page.text


def test_not_ready_says_why() -> None:
    page = read(status(anatomy(), ready=(False, "the engine has not answered yet")))

    assert "✗ not ready (the engine has not answered yet)" in page.text
    assert "Not ready the engine has not answered yet" in page.text


def test_nothing_can_speak_html() -> None:
    """Lane names from a config and model names from an engine are shown as text."""
    evil = '</svg><script>alert("x")</script>&\udcff'
    facts = Facts(evil, evil, 1.0, evil, source=evil, hints=(evil,), notes=(evil,), placement=evil)
    of = status(anatomy(evil), facts, (False, evil))

    page = read(
        replace(
            of,
            by_lane={evil: LaneInFlight(1, 1, 1.0)},
            lanes=(evil, "other"),
            oldest=(Inside(RequestLabels(evil, evil, ""), Stage.WAITING, 1.0),),
        )
    )

    assert page.scripts == [SCRIPT]
    assert page.text.count('alert("x")') >= 12


def test_the_page_loads_nothing_and_may_run_one_script() -> None:
    """The policy holds the hashes of the page's own style and script, so the browser runs no other."""
    page = read(status(anatomy()))

    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    assert not {name for name, _ in page.attributes} & {"src", "onclick", "onload", "style"}
    links = {value for name, value in page.attributes if name == "href"}
    assert links == {"/metrics", "/diagnosis", "/incident.json", "/workload.jsonl", "/runbooks/", "/?refresh=off"}
    assert (page.scripts, page.styles) == ([SCRIPT], [STYLE])
    policy = STATUS_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")


def test_without_javascript_the_page_loads_itself_again() -> None:
    page = run_now(status_page(status(anatomy())))

    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in page


def test_the_page_can_hold_still() -> None:
    page = read(status(anatomy()), refresh=False)

    assert ("http-equiv", "refresh") not in page.attributes
    assert page.scripts == []


def test_a_person_is_told_by_which_way_the_engine_speaks_and_which_flag_would_make_it_say_more() -> None:
    """The page says how the engine reports and which flag would make it report more, in escaped words of the
    sidecar."""
    facts = replace(FACTS, source="not split 100%", hints=("none of <20> usages: --enable-prompt-tokens-details",))
    page = read(status(anatomy(), facts))

    assert "Split of the time before the first token: not split 100%" in page.text
    assert "To know more: none of <20> usages: --enable-prompt-tokens-details." in page.text


def test_headings_go_down_one_step_at_a_time() -> None:
    """No heading level is skipped, because users of screen readers navigate by headings."""
    page = read(status(anatomy()))

    levels = [int(tag[1]) for tag in page.tags if tag in {"h1", "h2", "h3", "h4"}]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_table_says_what_it_holds_and_every_row_its_name() -> None:
    page = run_now(status_page(status(anatomy())))

    assert page.count("<table") == page.count("<caption>")
    assert page.count("<tr>") == page.count('<tr><th scope="')
    assert "<th>" not in page


def test_warnings_stand_below_the_headline_and_code_in_them_is_code() -> None:
    page = run_now(status_page(status(anatomy(), replace(FACTS, notes=("`sidecar doctor` says what is missing",)))))

    assert "<code>sidecar doctor</code> says what is missing" in page
    assert page.index('id="headline"') < page.index("⚠") < page.index('id="half-hour"')


def test_the_head_names_models_engine_and_version() -> None:
    named = [read(replace(status(NOTHING), models=names)).text for names in (("llama",), ("a", "b", "c", "d"))]

    assert "model llama · engine 127.0.0.1:8000 (vllm) · sidecar 0.1" in named[0]
    assert "models a, b and 2 more · engine" in named[1]


def test_the_head_says_which_pod_this_is_and_nothing_outside_kubernetes() -> None:
    """A page that is open beside others must say whose it is; a name that is not known leaves no gap."""
    placed = replace(FACTS, placement="pod llama-0 in prod on gpu-7")
    pages = [run_now(status_page(status(NOTHING, facts))) for facts in (placed, FACTS)]

    assert [page.partition('<p class="name">')[2].partition("</p>")[0] for page in pages] == [
        'llm-phase-sidecar <span class="quiet">pod llama-0 in prod on gpu-7</span>',
        "llm-phase-sidecar",
    ]
