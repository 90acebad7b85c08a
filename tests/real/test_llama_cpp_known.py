"""A real llama.cpp is recognised by its answers, without any setting in the config, and its /metrics is not read.

A tap on its socket shows it: each read of /metrics resets gauges for all other readers.
"""

import time

import pytest

from sidecar.engines.probe.scrape import STATE_INTERVAL_SECONDS
from tests.real.server import RunningEngine
from tests.real.told import page_of
from tests.support.sidecar_process import running_sidecar
from tests.support.tap import tapping


PATIENCE_SECONDS = 10.0


def test_it_is_recognised_and_tells_its_model_and_quantisation_and_its_metrics_are_not_read(
    llama_cpp: RunningEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        tapping(llama_cpp.port) as tap,
        running_sidecar(f"http://127.0.0.1:{tap.port}", tmp_path_factory.mktemp("sidecar")) as sidecar,
    ):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (known := [line for line in sidecar.log_lines("engine") if line["quantization"]]):
            assert time.monotonic() < deadline, sidecar.log.read_text()
            time.sleep(0.05)
        time.sleep(STATE_INTERVAL_SECONDS + 1)
        asked = b"".join(bytes(exchange.to_engine) for exchange in tap.take(b""))
        page = page_of(sidecar)

    assert (known[-1]["kind"], known[-1]["models"], known[-1]["quantization"]) == ("llama_cpp", ["tiny"], "all F32")
    assert [labels["engine"] for labels, value in page["llm_engine_info"] if value == 1] == ["llama_cpp"]
    assert b"GET /props HTTP/1.1\r\n" in asked
    assert b"/metrics" not in asked
