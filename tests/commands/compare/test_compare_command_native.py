"""`sidecar compare` gives means where histograms are native, by a real Prometheus that holds two versions."""

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.query_time import NATIVE_BUCKETS, histogram
from bench.remote_write import encoded, field, prometheus, sample, send
from sidecar.cli import main
from sidecar.commands.compare import compare_command


NOW = time.time()  # noqa: TID251  Prometheus keeps wall-clock time
SCRAPE_SECONDS, MINUTES = 15, 40


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


def test_the_mean_ttft_of_native_histograms_is_there(capsys: pytest.CaptureFixture[str], url: str) -> None:
    """Both versions' histograms state the same sum."""
    flags = ["compare", f"--prometheus.url={url}", "--old=app_version=v1", "--new=app_version=v2", "--window=30m"]

    code = main([*flags, "--output=json"])
    (lane,) = json.loads(capsys.readouterr().out)["lanes"]
    ttft = {row["name"]: row for row in lane["measures"]}["ttft"]

    assert code == 0
    assert (ttft["old"], ttft["new"]) == pytest.approx((2.0, 2.0))
    assert ttft["verdict"] == "no change seen"
