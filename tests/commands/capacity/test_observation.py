"""Readings of metrics pages: rates and waits from two pages of a sidecar, the cache from an engine's; nothing is
guessed."""

from dataclasses import replace

import pytest

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.observation import Cache, Reading, observation_of, read_cache, read_sidecar, since_start
from sidecar.commands.capacity.service import Exposure


LABELS = 'model="m",lane="chat",prompt_bucket="0-512",streaming="true"'


def page(requests: int) -> str:
    """Each request on the page waited 0.2 s and was prefilled for 0.04 s, half of it shared; one in ten failed."""
    return f"""# HELP llm_requests_received_total Requests.
# TYPE llm_requests_received_total counter
llm_requests_received_total{{model="m",lane="chat"}} {requests}
llm_requests_received_total{{model="m",lane="batch"}} 0
# TYPE llm_requests_total counter
llm_requests_total{{model="m",lane="chat",prompt_bucket="0-512",outcome="ok"}} {requests * 0.9}
llm_requests_total{{model="m",lane="chat",prompt_bucket="0-512",outcome="engine_error"}} {requests * 0.1}
# TYPE llm_requests_in_flight gauge
llm_requests_in_flight{{model="m",lane="chat",state="waiting"}} 2
llm_requests_in_flight{{model="m",lane="chat",state="streaming"}} 3
# TYPE llm_request_phase_seconds histogram
llm_request_phase_seconds_bucket{{{LABELS},phase="prefill",source="engine",le="0.025"}} 0
llm_request_phase_seconds_bucket{{{LABELS},phase="prefill",source="engine",le="0.05"}} {requests}
llm_request_phase_seconds_bucket{{{LABELS},phase="prefill",source="engine",le="+Inf"}} {requests}
llm_request_phase_seconds_sum{{{LABELS},phase="prefill",source="engine"}} {requests * 0.04}
llm_request_phase_seconds_count{{{LABELS},phase="prefill",source="engine"}} {requests}
llm_request_phase_seconds_sum{{{LABELS},phase="queue",source="engine"}} {requests * 0.15}
llm_request_phase_seconds_count{{{LABELS},phase="queue",source="engine"}} {requests * 0.75}
llm_request_phase_seconds_sum{{{LABELS},phase="queue",source="estimated"}} {requests * 0.05}
llm_request_phase_seconds_count{{{LABELS},phase="queue",source="estimated"}} {requests * 0.25}
llm_request_phase_seconds_sum{{{LABELS},phase="decode",source="engine"}} 999
# TYPE llm_prefill_own_seconds_total counter
llm_prefill_own_seconds_total{{model="m"}} {requests * 0.02}
# TYPE llm_engine_requests_running gauge
llm_engine_requests_running 4
process_start_time_seconds 1000
"""


def test_two_pages_are_a_window() -> None:
    seen = observation_of([read_sidecar(page(1000), 10.0), read_sidecar(page(1200), 50.0)])

    assert [seen.received, seen.rate, seen.queue_count] == pytest.approx([200, 5.0, 200])
    assert (seen.queue_seconds, seen.estimated_share) == pytest.approx((0.2, 0.25))
    assert seen.exposures == (Exposure(5.0, 40.0, 200),)
    assert (seen.last.running, seen.last.waiting, seen.last.kv_usage) == (4.0, None, None)


def test_own_prefill_is_what_one_prompt_keeps_from_another() -> None:
    """Half of the 40 ms reported was shared: 20 ms are the prompt's own. The mean rest of a running prefill is half, by
    the middle of the bucket."""
    seen = observation_of([read_sidecar(page(0), 0.0), read_sidecar(page(200), 40.0)])

    assert seen.own_known is True
    assert seen.prefill_seconds == pytest.approx(0.02)
    assert seen.residual_seconds == pytest.approx(0.0375 / 2 * 0.02 / 0.04)


def test_where_own_prefill_was_not_counted_the_reported_one_is_taken_and_said() -> None:
    """While the cost of prompts is still being learned, the own-prefill counter stands still although prefills pass."""
    first, last = read_sidecar(page(0), 0.0), replace(read_sidecar(page(200), 40.0), own_prefill_seconds=0.1)
    seen = observation_of([first, last])

    assert seen.own_known is False
    assert [seen.prefill_seconds, seen.residual_seconds] == pytest.approx([0.04, 0.0375 / 2])


def test_prefill_without_a_report_is_unknown() -> None:
    silent = {"prefill_seconds": 0.0, "prefill_count": 0.0, "own_prefill_seconds": 0.0, "prefill_buckets": {}}
    first, last = (replace(read_sidecar(page(n), at), **silent) for n, at in ((0, 0.0), (200, 40.0)))  # type: ignore[arg-type]

    assert observation_of([first, last]).prefill_seconds is None


def test_a_process_life_is_a_window_from_zero() -> None:
    seen = observation_of(since_start(read_sidecar(page(600), 7.0), 60.0))

    assert (seen.seconds, seen.rate, seen.queue_seconds) == pytest.approx((60.0, 10.0, 0.2))


def broken(reading: Reading, **fields: float) -> Reading:
    return replace(reading, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (read_sidecar(page(1020), 50.0), "saw 20 requests"),
        (broken(read_sidecar(page(1200), 50.0), queue_count=1000.0), "no source reports queue times here"),
        (read_sidecar(page(10), 50.0), "was restarted"),
        (broken(read_sidecar(page(1200), 50.0), ok=950.0), "75% of the requests that ended were not answered"),
    ],
    ids=["too few", "no queue times", "restarted", "failing"],
)
def test_a_window_that_carries_nothing_is_refused(last: Reading, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        observation_of([read_sidecar(page(1000), 10.0), last])


@pytest.mark.parametrize("text", ["", "<html>", "llm_requests_received_total{", "vllm:num_requests_running 1\n"])
def test_a_page_of_another_program_is_no_sidecars(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_sidecar(text, 0.0)


@pytest.mark.parametrize(
    ("labels", "cache"),
    [
        ('block_size="16",num_gpu_blocks="45000",cache_dtype="auto"', Cache(45_000, 16, None)),
        ('block_size="32",num_gpu_blocks="100",cache_dtype="fp8_e4m3"', Cache(100, 32, 8)),
        ('block_size="16",num_gpu_blocks="None"', None),
        ('block_size="0",num_gpu_blocks="7"', None),
    ],
)
def test_a_vllm_says_what_its_cache_is(labels: str, cache: Cache | None) -> None:
    """Labels of vllm:cache_config_info. Before the cache is allocated, num_gpu_blocks is the text "None"."""
    assert read_cache(f'vllm:cache_config_info{{engine="0",{labels}}} 1.0\n') == cache


def test_ranks_add_up() -> None:
    pages = "".join(
        f'vllm:cache_config_info{{engine="{rank}",block_size="16",num_gpu_blocks="100"}} 1.0\n' for rank in range(2)
    )

    assert read_cache(pages) == Cache(200, 16, None)
