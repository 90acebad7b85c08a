"""The landing page: plain words, nothing unescaped, nothing loaded, no number where none is known."""

from dataclasses import replace
from html.parser import HTMLParser

from sidecar.admin.anatomy import Anatomy, LaneAnatomy, LaneEnds, Quantiles
from sidecar.admin.pages import Facts, landing
from sidecar.metrics.in_flight import LaneInFlight


FACTS = Facts(version="0.1", engine="127.0.0.1:8000 (vllm)", uptime_seconds=90.0, config="/etc/sidecar.yaml")
YES = (True, "")
QUANTILES = Quantiles(50, {0.5: 0.25, 0.95: float("inf"), 0.99: None}, last_edge=300.0)
NONE = Quantiles(0, {0.5: None, 0.95: None, 0.99: None}, last_edge=10.0)


def anatomy(lane: str = "chat", *, ttft: Quantiles = QUANTILES, inter_token: Quantiles = NONE) -> Anatomy:
    bar = LaneAnatomy(
        lane=lane,
        streaming=True,
        requests=10,
        mean_seconds=2.0,
        phases={"queue": 0.5, "unattributed": 0.25, "decode": 1.25},
        sources={"queue": {"engine": 1.0}, "unattributed": {"wire": 1.0}, "decode": {"engine": 0.75, "wire": 0.25}},
    )
    ends = LaneEnds(
        lane, {"ok": 10, "engine_error": 2}, ttft, inter_token, {("engine", "in_band"): 9, ("none", "no_report"): 1}
    )
    return Anatomy(300.0, ever=True, bars=(bar,), ends=(ends,))


class Reader(HTMLParser):
    """Reads a page as a browser would: its words, its tags, and what it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "link", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


def read(of: Anatomy, facts: Facts = FACTS, ready: tuple[bool, str] = YES, **inside: LaneInFlight) -> Reader:
    reader = Reader(landing(facts, of, inside, ready, YES))
    assert reader.open == []
    return reader


def test_no_traffic_is_said_in_words() -> None:
    """Not as zeros, not as NaN, and not as a healthy latency."""
    page = read(Anatomy(12.0, ever=False, bars=(), ends=()))

    assert "No traffic yet" in page.text
    assert "Nobody has come in yet" in page.text
    assert "svg" not in page.tags
    assert not {"nan", "inf", "none"} & set(page.text.lower().split())


def test_quiet_is_said_otherwise_than_never() -> None:
    page = read(Anatomy(300.0, ever=True, bars=(), ends=()))

    assert "No inference request ended in the last 5 min" in page.text
    assert "No traffic yet" not in page.text


def test_phases_ttft_and_gaps_stand_apart() -> None:
    """The split in means with its sources, then TTFT, then what is between tokens, never one number for all."""
    page = read(anatomy())

    order = [page.text.index(title) for title in ("Where the time goes", "Time to first token", "Between tokens")]
    assert sorted(order) == order
    assert "500 ms e" in page.text
    assert "1.25 s e 75% w 25%" in page.text
    assert "2.00 s over 10 requests" in page.text
    assert "queue, prefill and first token are at least what stands here" in page.text


def test_a_quantile_beyond_the_last_edge_or_without_ground_is_no_number() -> None:
    page = read(anatomy())

    assert "250 ms > 5.0 min too few 50" in page.text
    assert "No gap between tokens was seen." in page.text


def test_how_requests_ended_and_how_many_were_split() -> None:
    page = read(anatomy())

    assert "12 10 engine error 2 90% of 10 (no report 1)" in page.text


def test_who_waits_is_said_first() -> None:
    page = read(anatomy(), chat=LaneInFlight(7, 2, 12.5), batch=LaneInFlight(0, 0, None))

    assert page.text.index("In flight") < page.text.index("Where the time goes")
    assert "batch 0 0 none chat 7 2 12.5 s" in page.text


def test_not_ready_says_why() -> None:
    page = read(anatomy(), ready=(False, "the engine has not answered yet"))

    assert "✗ not ready (the engine has not answered yet)" in page.text


def test_nothing_can_speak_html() -> None:
    """Lanes come from a config and names from an engine: both are text here."""
    evil = '</svg><script>alert("x")</script>&\udcff'
    facts = Facts(version=evil, engine=evil, uptime_seconds=1.0, config=evil, notes=(evil,))

    page = read(anatomy(evil), facts, (False, evil), **{evil: LaneInFlight(1, 1, 1.0)})

    assert "script" not in page.tags
    assert page.text.count('alert("x")') == 5 + 5  # five facts, and the lane in five places


def test_the_page_loads_nothing_and_needs_no_script() -> None:
    page = read(anatomy())

    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not {name for name, _ in page.attributes} & {"src", "onclick", "onload", "style"}
    assert {value for name, value in page.attributes if name == "href"} == {"/metrics", "/runbooks/", "/?refresh=off"}
    assert ("http-equiv", "refresh") in page.attributes


def test_the_page_can_hold_still() -> None:
    page = Reader(landing(FACTS, anatomy(), {}, YES, YES, refresh=False))

    assert ("http-equiv", "refresh") not in page.attributes


def test_a_person_is_told_by_which_way_the_engine_speaks_and_which_flag_would_make_it_say_more() -> None:
    """In words of ours, escaped like all others."""
    facts = replace(FACTS, source="not split 100%", hints=("none of <20> usages: --enable-prompt-tokens-details",))
    page = Reader(landing(facts, anatomy(), {}, YES, YES))

    assert "time before the first token is split: not split 100%" in page.text
    assert "To know more: none of <20> usages: --enable-prompt-tokens-details." in page.text
