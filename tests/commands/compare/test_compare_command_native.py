"""`sidecar compare` gives a p99 with its interval where histograms are native, by a real Prometheus that holds two versions."""

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.query_time import NATIVE_BUCKETS, histogram
from bench.rules_cost import encoded, field, prometheus, sample, send
from sidecar.cli import main
from sidecar.commands.compare import compare_command


NOW = time.time()  # noqa: TID251  Prometheus keeps wall-clock time
SCRAPE_SECONDS, MINUTES = 15, 40
EIGHT_BUCKETS = 2 ** (8 / 32) - 1
"""By how much the second version is slower: its buckets begin eight further up."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, prometheus(Path(folder), ()) as url:
        began_ms = round((NOW - 60 * MINUTES) * 1000)
        for version, first in (("v1", 0), ("v2", 8)):
            who = {"model": "llama", "lane": "chat", "prompt_bucket": "0-512", "app_version": version}
            steps = [
                (2 * step, began_ms + step * SCRAPE_SECONDS * 1000) for step in range(60 * MINUTES // SCRAPE_SECONDS)
            ]
            ttft = encoded({**who, "__name__": "llm_time_to_first_token_seconds"})
            send(url, field(1, ttft + b"".join(histogram(many, at_ms, first) for many, at_ms in steps)))
            requests = encoded({**who, "__name__": "llm_requests_total", "outcome": "ok"})
            counted = b"".join(sample(many * NATIVE_BUCKETS, at_ms) for many, at_ms in steps)
            send(url, field(1, requests + counted))
        yield url


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's clock stands where the series end."""
    monkeypatch.setattr(compare_command, "time", SimpleNamespace(time=lambda: NOW))


def test_a_p99_that_is_nineteen_percent_longer_is_said_with_its_interval(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    """The mean TTFT of native histograms is there too."""
    flags = ["compare", f"--prometheus.url={url}", "--old=app_version=v1", "--new=app_version=v2", "--window=30m"]

    code = main([*flags, "--output=json"])
    (lane,) = json.loads(capsys.readouterr().out)["lanes"]
    rows = {row["name"]: row for row in lane["measures"]}

    assert code == 0
    p99 = rows["ttft-p99"]
    assert p99["change_ratio"] == pytest.approx(EIGHT_BUCKETS, rel=0.01)
    assert p99["low_ratio"] < EIGHT_BUCKETS < p99["high_ratio"] < 0.25
    assert (p99["verdict"], p99["low"] > 0) == ("worse", True)
    assert 0 < p99["requests_needed_for_a_tenth"] < p99["old_of"]
    assert rows["ttft"]["new"] > 0
    assert "tpot-p99" not in rows

    main([*flags, "--expect=ttft-p99,tpot-p99"])
    words = " ".join(capsys.readouterr().out.split())
    assert "p99 TTFT: +18.9 % of old, 95% interval +" in words
    assert "p99 TTFT: a change of 10 % would be seen in four of five comparisons with about" in words
    assert f"by estimate. The smaller side has {p99['old_of']:,.0f}." in words
    assert "* expected to move: ttft-p99; worse, by" in words
    assert "* expected to move: tpot-p99; it needs native histograms and 500 requests on each side." in words
