"""`sidecar compare` against a real Prometheus that holds two pods of two versions, before and after a fix."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace

import pytest

from sidecar.cli import main
from sidecar.commands.compare import compare_command
from sidecar.commands.compare.compare_command import WrongFlagError, duration, side
from sidecar.commands.compare.compare_text import comparison_text
from sidecar.commands.compare.two_sides import BLOCK_SECONDS, Comparison, Part
from tests.support.backfilled import backfilled, sample_line


NOW = time.time()  # noqa: TID251  Prometheus keeps wall-clock time
SCRAPE_SECONDS = 30
HOURS = 3
FIXED_AT = NOW - 3600
"""Until then one request in five waits in queue for 2 s and misses its TTFT; on the new version it stays so."""


def counters() -> Iterator[tuple[str, dict[str, str], list[tuple[float, float]]]]:
    """Each series with its samples."""
    for pod, version, fixed_at in (("llm-a-0", "v1", FIXED_AT), ("llm-b-0", "v2", NOW)):
        rng = Random(pod)
        requests = late = 0
        counts: list[tuple[float, int, int]] = []
        for number in range(HOURS * 3600 // SCRAPE_SECONDS + 1):
            at = NOW - HOURS * 3600 + number * SCRAPE_SECONDS
            came = rng.randrange(20, 60)
            requests += came
            late += sum(rng.random() < (0.2 if at < fixed_at else 0.02) for _ in range(came))
            counts.append((at, requests, late))
        who = {"model": "llama", "lane": "chat", "prompt_bucket": "0-512", "pod": pod, "app_version": version}
        ttft = {**who, "objective": "ttft"}
        queue = {**who, "streaming": "true", "phase": "queue", "source": "engine"}
        streamed = {**who, "streaming": "true"}
        yield "llm_slo_requests_total", ttft, [(at, count) for at, count, _ in counts]
        yield "llm_slo_misses_total", ttft, [(at, late) for at, _, late in counts]
        engine = {"pod": pod, "app_version": version}
        accepted = 0.7 if version == "v1" else 0.4
        yield "llm_engine_draft_tokens_total", engine, [(at, 1000 * count) for at, count, _ in counts]
        yield (
            "llm_engine_accepted_draft_tokens_total",
            engine,
            [(at, 1000 * accepted * count) for at, count, _ in counts],
        )
        for finish, share in (("stop", 0.9), ("repetition", 0.1)):
            if (version, finish) != ("v1", "repetition"):
                answers = {**who, "finish_reason": finish}
                yield "llm_answers_total", answers, [(at, round(share * count)) for at, count, _ in counts]
        yield "llm_requests_total", {**who, "outcome": "ok"}, [(at, count) for at, count, _ in counts]
        yield "llm_requests_total", {**who, "outcome": "engine_error"}, [(at, 0) for at, _, _ in counts]
        yield "llm_request_phase_seconds_sum", queue, [(at, 0.05 * count + 2 * late) for at, count, late in counts]
        yield "llm_request_seconds_sum", streamed, [(at, 3.0 * count + 2 * late) for at, count, late in counts]
        yield "llm_request_seconds_count", streamed, [(at, count) for at, count, _ in counts]
        yield "llm_prompt_tokens_sum", who, [(at, 1500 * count) for at, count, _ in counts]
        yield "llm_prompt_tokens_count", who, [(at, count) for at, count, _ in counts]


def lines() -> Iterator[str]:
    last = ""
    for name, labels, samples in sorted(counters(), key=lambda one: one[0]):
        if name != last:
            yield f"# TYPE {name.removesuffix('_total')} {'counter' if name.endswith('_total') else 'gauge'}"
            last = name
        yield from (sample_line(name, labels, value, at) for at, value in samples)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with backfilled(tmp_path_factory.mktemp("prometheus"), lines()) as url:
        yield url


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's clock stands where the series end, however long after their making a test runs."""
    monkeypatch.setattr(compare_command, "time", SimpleNamespace(time=lambda: NOW))


Rows = dict[str, dict[str, object]]


def both(capsys: pytest.CaptureFixture[str], url: str, *flags: str) -> tuple[Rows, Rows]:
    """The rows of the only lane and those of the engine in JSON, by name."""
    code = main(["compare", f"--prometheus.url={url}", "--output=json", *flags])
    document = json.loads(capsys.readouterr().out)
    (lane,) = document["lanes"]
    assert (code, lane["lane"], lane["model"]) == (0, "chat", "llama")
    of_lane, of_engine = ({row["name"]: row for row in each["measures"]} for each in (lane, document["engine"]))
    return of_lane, of_engine


def rows(capsys: pytest.CaptureFixture[str], url: str, *flags: str) -> Rows:
    return both(capsys, url, *flags)[0]


def test_two_windows_say_what_a_fix_moved(capsys: pytest.CaptureFixture[str], url: str) -> None:
    """The half hour before the fix against the last one: fewer misses and less queue, as expected; errors stay none."""
    told = rows(capsys, url, "--old=70m", "--new=1m", "--lane=chat", "--expect=queue")
    queue, misses = told["queue"], told["ttft-misses"]

    assert (queue["verdict"], queue["expected"]) == ("better", True)
    assert (misses["verdict"], misses["expected"]) == ("better", False)
    assert queue["change"] == pytest.approx(-0.18, abs=0.03)
    assert told["errors"]["verdict"] == "no change seen"
    assert told["prompt-tokens"]["verdict"] == "no change seen"
    assert set(told) == {
        *(
            "ttft-misses",
            "errors",
            "cut-answers",
            "empty-answers",
            "repeated-answers",
            "request",
            "queue",
            "prompt-tokens",
        )
    }


@pytest.mark.parametrize("sides", [("app_version=v1", "app_version=v2"), ("pod=llm-a-0", "pod=~llm-b-.*")])
def test_two_sides_of_a_fleet_in_the_same_time(
    capsys: pytest.CaptureFixture[str], url: str, sides: tuple[str, str]
) -> None:
    """The version that has the fix against the one that has not."""
    told = rows(capsys, url, f"--old={sides[0]}", f"--new={sides[1]}", "--window=45m")

    assert (told["ttft-misses"]["verdict"], told["queue"]["verdict"]) == ("worse", "worse")
    assert told["ttft-misses"]["new"] == pytest.approx(0.2, abs=0.02)
    assert told["ttft-misses"]["old"] == pytest.approx(0.02, abs=0.01)


def test_a_version_that_is_faster_but_worse_is_told(capsys: pytest.CaptureFixture[str], url: str) -> None:
    """Its answers repeat themselves and its drafts are accepted less often. The engine counts drafts for all its lanes."""
    sides = ("--old=app_version=v1", "--new=app_version=v2", "--window=45m")
    of_lane, of_engine = both(capsys, url, *sides, "--lane=chat", "--model=llama", "--expect=draft-acceptance")
    repeated, drafts = of_lane["repeated-answers"], of_engine["draft-acceptance"]

    assert (repeated["old"], repeated["new"], repeated["verdict"]) == (0, pytest.approx(0.1, abs=0.01), "worse")
    assert (drafts["old"], drafts["new"]) == (pytest.approx(0.7), pytest.approx(0.4))
    assert (drafts["verdict"], drafts["expected"]) == ("worse", True)

    main(["compare", f"--prometheus.url={url}", *sides, "--expect=draft-acceptance,queue"])
    words = " ".join(capsys.readouterr().out.split())
    assert words.count("expected to move: draft-acceptance") == words.count("expected to move: queue") == 1
    assert "the engine, all lanes together old new change" in words
    assert "* expected to move: draft-acceptance; worse, by" in words


def test_what_the_engine_does_not_count_is_said_once_where_it_was_expected() -> None:
    side = Part((), (), NOW - 1800, NOW, "all pods")
    words = " ".join(comparison_text(Comparison([], ()), side, side, ["draft-acceptance"], 80).split())

    assert "the engine, all lanes together" in words
    assert "* expected to move: draft-acceptance; neither side has it." in words
    assert "the engine" not in comparison_text(Comparison([], ()), side, side, ["queue"], 80)


def test_repeated_answers_have_no_row_where_there_are_none(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert "repeated-answers" not in rows(capsys, url, "--old=app_version=v1", "--new=app_version=~v1")


def test_counts_are_those_of_the_window(capsys: pytest.CaptureFixture[str], url: str) -> None:
    """Blocks follow each other without a gap or an overlap: 30 minutes have the requests of 30 minutes."""
    told = rows(capsys, url, "--old=70m", "--new=1m", "--window=30m")
    ends = (NOW - 60) // BLOCK_SECONDS * BLOCK_SECONDS
    expected = 0.0
    for name, _, samples in counters():
        if name == "llm_slo_requests_total":
            inside = [value for at, value in samples if ends - 1800 - SCRAPE_SECONDS < at <= ends]
            expected += inside[-1] - inside[0]

    assert told["ttft-misses"]["new_of"] == pytest.approx(expected, rel=0.02)


def test_the_text_answers_what_was_expected(capsys: pytest.CaptureFixture[str], url: str) -> None:
    code = main(["compare", f"--prometheus.url={url}", "--old=70m", "--new=1m", "--expect=queue,tpot-misses,errors"])
    text = capsys.readouterr().out
    words = " ".join(text.split())

    assert code == 0
    assert max(map(len, text.splitlines())) <= 80
    assert "* expected to move: queue; better, by" in words
    assert "* expected to move: tpot-misses; neither side has it." in words
    assert "* expected to move: errors; no change seen" in words
    assert "Moved too: ttft-misses (better), request (better)." in words
    assert "the intervals are too narrow" in words


def test_sides_without_a_common_lane_are_refused(capsys: pytest.CaptureFixture[str], url: str) -> None:
    code = main(["compare", f"--prometheus.url={url}", "--old=app_version=v1", "--new=app_version=v9"])

    assert code == 2
    assert "no lane with requests in common" in capsys.readouterr().err


def test_no_answer_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["compare", "--prometheus.url=http://me:secret@127.0.0.1:1", "--old=2h", "--new=0m"])
    said = " ".join(capsys.readouterr().err.split())

    assert (code, "nothing listens there" in said, "secret" in said) == (1, True, False)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--old=2h"], "--new: is needed"),
        (["--old=yesterday", "--new=0m"], "'yesterday' is neither"),
        (["--old=2h", "--new=pod=a"], "not one of each"),
        (["--old=pod=a", "--new=pod=a"], "nothing to compare"),
        (["--old=2h", "--new=0m", "--window=5m"], "--window: at least 10m"),
        (["--old=2h", "--new=0m", "--window=long"], "is no duration"),
        (["--old=2026-11-24T14:00", "--new=0m"], "no time zone"),
        (["--old=2h", "--new=2999-01-01T00:00Z"], "has not come yet"),
        (["--old=2h", "--new=0m", "--expect=luck"], "'luck' is none of"),
        (["--old=2h", "--new=0m", "--output=xml"], "neither text nor json"),
        (["--old=2h", "--new=0m", "--lanes=chat"], "there is no such flag"),
    ],
)
def test_wrong_flags_are_all_named(capsys: pytest.CaptureFixture[str], flags: list[str], said: str) -> None:
    code = main(["compare", "--prometheus.url=http://127.0.0.1:1", *flags])

    assert (code, said in " ".join(capsys.readouterr().err.split())) == (2, True)


def test_a_side_is_a_time_or_a_label() -> None:
    at = datetime(2026, 11, 24, 14, tzinfo=UTC).timestamp()

    assert side("2h", NOW).ends_at == NOW - 7200
    assert side("2026-11-24T14:00Z", NOW + 1e6).ends_at == at
    assert side('pod=a"b', NOW).matcher == 'pod="a\\"b"'
    assert side("pod=~a|b", NOW).matcher == 'pod=~"a|b"'


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("1d", 86_400), ("1h30m", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


def test_a_duration_has_a_unit() -> None:
    with pytest.raises(WrongFlagError, match="write 500ms, 2s, 5m, 1h or 1m30s"):
        duration("30")


def test_what_is_longer_than_time_itself_is_refused() -> None:
    with pytest.raises(WrongFlagError, match="longer than any"):
        duration("9999999999999d")
    with pytest.raises(WrongFlagError, match="before 1970"):
        side("900000d", NOW)
