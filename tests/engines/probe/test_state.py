"""Gauges and counters on an engine's page of metrics, and the growth of its counters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.state import (
    MAX_SAMPLES,
    STARTED,
    STEP_BYTES,
    EngineState,
    Growth,
    GrowthReader,
    PageScan,
)
from sidecar.engines.probe.state_names import Count, Name, StateNames
from sidecar.engines.vllm import VLLM


NAMES: dict[str, StateNames] = {name: kind.state for name, kind in KINDS.items() if kind.state is not None}
PAGE = b"""\
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.76360001025e+09
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 4.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 8.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 700.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.021484375
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 91720.0
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.7636000124e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 512.0
vllm:num_preemptions_total{engine="0",model_name="tiny"} 0.0
vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",model_name="tiny"} 12.0
"""
PREEMPTIONS = Count.PREEMPTIONS
RANK_0 = b'{engine="0",model_name="tiny"}'


def read(page: bytes, step: int = STEP_BYTES, kind: str = "vllm") -> EngineState | None:
    scan = PageScan(NAMES[kind])
    for at in range(0, len(page), step):
        scan.feed(page[at : at + step])
    return scan.finish()


def known(page: bytes, kind: str = "vllm") -> EngineState:
    state = read(page, kind=kind)
    assert state is not None
    return state


# --- one page ------------------------------------------------------------------------------------------------------------


def test_a_page_of_vllm_says_who_waits_who_runs_and_how_full_the_cache_is() -> None:
    """Names that only begin the same are not taken for it."""
    expected = EngineState(
        requests_waiting=8.0,
        requests_running=4.0,
        kv_cache_usage_ratio=0.021484375,
        counters={
            Count.PREFIX_CACHE_QUERIES: {RANK_0: 91720.0},
            Count.PREFIX_CACHE_HITS: {RANK_0: 512.0},
            PREEMPTIONS: {RANK_0: 0.0},
        },
        started_at_unix=1763600010.25,
    )

    assert expected == read(PAGE)


@pytest.mark.parametrize("step", [1, 2, 7, 100, 1000])
def test_a_page_reads_the_same_in_whatever_pieces_it_comes(step: int) -> None:
    assert read(PAGE) == read(PAGE, step)


def test_ranks_are_summed_and_the_fullest_one_speaks_for_the_cache() -> None:
    """A cache that is full on one rank preempts there, whatever the mean is."""
    state = known(
        b'vllm:num_requests_waiting{engine="0"} 3\n'
        b'vllm:num_requests_waiting{engine="1"} 4\n'
        b'vllm:num_requests_running{engine="1"} 2\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        b'vllm:kv_cache_usage_perc{engine="1"} 0.75\n'
    )

    assert (state.requests_waiting, state.requests_running, state.kv_cache_usage_ratio) == (7.0, 2.0, 0.75)


def test_what_the_page_does_not_say_is_unknown_and_not_zero() -> None:
    assert EngineState(requests_waiting=0.0) == read(b"vllm:num_requests_waiting 0\n")


@pytest.mark.parametrize("value", [b"NaN", b"+Inf", b"-1", b"1_0", b"", b"0x10", b"9" * 100, b"1e999", b'{engine="1'])
def test_a_rank_that_cannot_be_read_leaves_the_whole_sum_unknown(value: bytes) -> None:
    """A sum without one of its ranks would be too small and look right."""
    page = b'vllm:num_requests_waiting{engine="0"} 3\nvllm:num_requests_waiting{engine="1"} ' + value + b"\n"

    assert EngineState(requests_running=1.0) == read(page + b"vllm:num_requests_running 1\n")


def test_a_ratio_above_one_is_not_believed() -> None:
    assert EngineState(requests_running=1.0) == read(b"vllm:kv_cache_usage_perc 7\nvllm:num_requests_running 1\n")


def test_names_of_models_may_hold_anything() -> None:
    """Braces, quotes and blanks in a label's value do not shift the number."""
    label = rb'{engine="0",model_name="a} 9 \" {b\\"}'

    assert known(b"vllm:num_requests_running" + label + b" 5.0 1700000000000\r\n").requests_running == 5.0


def test_a_series_that_stands_twice_counts_once() -> None:
    assert known(b"vllm:num_requests_running 4\nvllm:num_requests_running 5\n").requests_running == 5.0


def test_a_page_that_breaks_off_is_not_believed() -> None:
    """Its last number may lack digits, and the ranks after it are missing."""
    cut = PAGE[: PAGE.index(b"running{") + len(b'running{engine="0",model_name="tiny"} 4')]

    assert read(cut) is None


@pytest.mark.parametrize(
    "page", [b"", b"\n", b"<html></html>\n", b"llamacpp:requests_processing 1\n", STARTED.encode()]
)
def test_a_page_of_something_else_says_nothing(page: bytes) -> None:
    assert read(page) is None


def test_a_line_without_end_is_passed_over() -> None:
    """The lines after it are read."""
    scan = PageScan(VLLM.state)
    for _ in range(100):
        scan.feed(b"x" * STEP_BYTES)
    scan.feed(b"\nvllm:num_requests_running 2\n")

    assert EngineState(requests_running=2.0) == scan.finish()


def test_a_page_with_more_series_than_any_engine_has_ranks_is_not_believed() -> None:
    page = b"".join(b'vllm:num_requests_running{engine="%d"} 1\n' % rank for rank in range(MAX_SAMPLES + 1))

    assert read(page) is None


# --- every engine's page -------------------------------------------------------------------------------------------------

SGLANG = b"""\
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="0"} 5.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="1",pp_rank="0",dp_rank="0"} 5.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="1"} 2.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="0",priority=""} 9.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="0",priority="1"} 4.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="0",priority="7"} 5.0
sglang:token_usage{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="0"} 0.25
sglang:token_usage{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="1"} 0.75
sglang:num_retracted_reqs{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="0"} 1.0
sglang:num_retracted_requests_total{engine_type="unified",model_name="m",tp_rank="0",pp_rank="0",dp_rank="0"} 3.0
sglang:num_retracted_requests_total{engine_type="unified",model_name="m",tp_rank="1",pp_rank="0",dp_rank="0"} 3.0
sglang:prompt_tokens_total{engine_type="unified",model_name="m"} 1000.0
sglang:cached_tokens_total{engine_type="unified",model_name="m",cache_source="device"} 100.0
sglang:cached_tokens_total{engine_type="unified",model_name="m",cache_source="host"} 50.0
"""
TENSORRT_LLM = b"""\
trtllm_num_requests_running{engine_type="undefined",model_name="m"} 3.0
trtllm_num_requests_waiting{engine_type="undefined",model_name="m"} 6.0
trtllm_kv_cache_utilization{engine_type="undefined",model_name="m"} 0.5
trtllm_num_paused_requests{engine_type="undefined",model_name="m"} 2.0
trtllm_kv_cache_reused_blocks_total{engine_type="undefined",model_name="m"} 30.0
trtllm_kv_cache_missed_blocks_total{engine_type="undefined",model_name="m"} 70.0
trtllm_request_success_total{engine_type="undefined",finished_reason="stop",model_name="m"} 8.0
trtllm_request_success_total{engine_type="undefined",finished_reason="cancelled",model_name="m"} 5.0
"""
TRITON = b"""\
nv_inference_pending_request_count{model="tensorrt_llm",version="1"} 99
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 4
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 2
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.5
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 900
"""
TGI = b"""\
tgi_queue_size 7
tgi_batch_current_size 4
tgi_request_success{method="chat"} 10
tgi_request_queue_duration_sum 1.5
"""
DYNAMO = b"""\
dynamo_frontend_queued_requests{model="m"} 9
dynamo_frontend_requests_total{endpoint="chat_completions",model="m",request_type="stream",status="success"} 12
dynamo_frontend_requests_total{endpoint="chat_completions",model="m",request_type="stream",status="error"} 2
"""
LLAMA_CPP = b"""\
llamacpp:prompt_tokens_total 60
llamacpp:prompt_tokens_cached_total 40
llamacpp:requests_processing 4
llamacpp:requests_deferred 8
"""
LMDEPLOY = b"""\
lmdeploy:num_requests_running{engine="0",model_name="m"} 1
lmdeploy:num_requests_waiting{engine="0",model_name="m"} 2
lmdeploy:gpu_cache_usage_perc{engine="0",model_name="m"} 0.25
"""


@pytest.mark.parametrize(
    ("kind", "page", "gauges", "counts"),
    [
        (
            "sglang",
            SGLANG,
            (9.0, 7.0, 0.75),
            {"prefix_cache_queries": 1000.0, "prefix_cache_hits": 150.0, "preemptions": 3.0},
        ),
        (
            "tensorrt_llm",
            TENSORRT_LLM,
            (6.0, 3.0, 0.5),
            {"prefix_cache_queries": 100.0, "prefix_cache_hits": 30.0, "requests": 8.0},
        ),
        ("triton", TRITON, (4.0, 2.0, 0.5), {}),
        ("tgi", TGI, (7.0, 4.0, None), {"requests": 10.0, "queue": 1.5}),
        ("dynamo", DYNAMO, (None, None, None), {"requests": 12.0}),
        ("llama_cpp", LLAMA_CPP, (8.0, 4.0, None), {"prefix_cache_queries": 100.0, "prefix_cache_hits": 40.0}),
        ("lmdeploy", LMDEPLOY, (2.0, 1.0, 0.25), {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_engines_page_says_the_same_things_in_our_words(
    kind: str, page: bytes, gauges: tuple[float | None, ...], counts: dict[str, float]
) -> None:
    """Ranks of one batch count once, replicas add up, a breakdown beside its total is skipped, and nothing is invented."""
    state = known(page, kind)

    assert (state.requests_waiting, state.requests_running, state.kv_cache_usage_ratio) == gauges
    assert {count.value: sum(series.values()) for count, series in state.counters.items()} == counts


def test_a_part_of_a_sum_is_no_sum() -> None:
    """Without the missed blocks the number of blocks asked for is unknown; the reused ones are stated."""
    state = known(b"trtllm_kv_cache_reused_blocks_total 30\ntrtllm_num_requests_running 1\n", "tensorrt_llm")

    assert set(state.counters) == {Count.PREFIX_CACHE_HITS}


def test_a_models_name_cannot_pretend_to_be_a_label() -> None:
    page = rb'nv_trt_llm_request_metrics{model="x request_type=\"waiting\"",request_type="max"} 64' + b"\n"

    assert read(page, kind="triton") is None


@pytest.mark.parametrize("kind", NAMES)
def test_no_engine_is_read_by_anothers_names(kind: str) -> None:
    pages = {"vllm": PAGE, "sglang": SGLANG, "tensorrt_llm": TENSORRT_LLM, "triton": TRITON, "tgi": TGI}
    pages |= {"dynamo": DYNAMO, "llama_cpp": LLAMA_CPP, "lmdeploy": LMDEPLOY}

    assert {other for other, page in pages.items() if read(page, kind=kind) is not None} == {kind}


FRAGMENTS = [
    *(name.encode() for name in (*VLLM.state.names()[:6], STARTED)),
    *(b'{engine="0"}', b'{engine="', b'"', b"\\", b"}", b" ", b"\n", b"\r\n", b"1.5", b"NaN", b"# ", b"\x00\xff"),
]


@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=5)), max_size=40), st.integers(1, 20))
def test_no_page_makes_the_scan_raise_and_no_cut_changes_what_it_says(fragments: list[bytes], step: int) -> None:
    page = b"".join(fragments)

    assert read(page) == read(page, step)


# --- from one page to the next --------------------------------------------------------------------------------------------


def state_of(count: float, started_at: float | None = 1000.0, rank: int = 0) -> EngineState:
    return EngineState(counters={PREEMPTIONS: {b"%d" % rank: count}}, started_at_unix=started_at)


def growths(*states: EngineState) -> list[tuple[float | None, bool]]:
    reader = GrowthReader()
    readings = [reader.read(state) for state in states]
    return [(reading.counters.get(PREEMPTIONS), reading.restarted) for reading in readings]


def test_what_the_engine_counted_before_we_came_is_not_growth() -> None:
    assert growths(state_of(5000), state_of(5003), state_of(5003)) == [(0.0, False), (3.0, False), (0.0, False)]


def test_a_counter_that_fell_is_a_restart_and_its_new_count_is_growth() -> None:
    """This is also detected without a start time, as with several API servers."""
    assert growths(state_of(5000, None), state_of(2, None), state_of(3, None)) == [
        (0.0, False),
        (2.0, True),
        (1.0, False),
    ]


def test_another_start_time_is_a_restart_even_where_no_counter_fell() -> None:
    """The new process may have counted further than the old one."""
    assert growths(state_of(5, 1000.0), state_of(9, 1060.0), state_of(9, 1060.4)) == [
        (0.0, False),
        (9.0, True),
        (0.0, False),
    ]


def test_a_restart_is_counted_once_though_a_counter_comes_back_later() -> None:
    """A page without the counter says nothing about it; once it is back, all of it is growth of the new process."""
    silent = EngineState(requests_running=0.0, started_at_unix=1060.0)

    assert growths(state_of(5), silent, state_of(9, 1060.0)) == [(0.0, False), (None, True), (9.0, False)]


def test_a_rank_that_joins_begins_at_what_it_says() -> None:
    """It is not known how much of its count is from before."""
    both = EngineState(counters={PREEMPTIONS: {b"0": 6.0, b"1": 40.0}}, started_at_unix=1000.0)
    later = EngineState(counters={PREEMPTIONS: {b"0": 6.0, b"1": 42.0}}, started_at_unix=1000.0)

    assert growths(state_of(5), both, later) == [(0.0, False), (1.0, False), (2.0, False)]


def test_a_page_without_counters_is_no_growth_and_no_restart() -> None:
    assert Growth() == GrowthReader().read(EngineState(requests_running=1.0))


ALONE = [
    (kind, group)
    for kind, names in NAMES.items()
    for group in (
        *((name,) for name in (names.waiting, names.before_workers, names.running, names.kv_cache_usage) if name),
        *names.counts.values(),
    )
]


@pytest.mark.parametrize(("kind", "names"), ALONE)
def test_each_thing_that_is_read_is_a_state_by_itself(kind: str, names: tuple[Name, ...]) -> None:
    """A page may have one of them alone, such as a front end's whose first requests hang in its router: it is no page without names."""
    page = b""
    for each in names:
        label = (*each.only, b"")[0]
        page += b"%b{%b%b} 0.5\n" % (each.name.encode(), b'reason="' if label and b"=" not in label else b"", label)
    scan = PageScan(NAMES[kind])
    scan.feed(page)
    state = scan.finish()

    assert state is not None
    assert state != EngineState()


COUNTS = st.dictionaries(st.sampled_from([b"0", b"1", b"2"]), st.integers(0, 100).map(float))
STATES = st.builds(
    lambda counts, started: EngineState(counters={PREEMPTIONS: counts} if counts else {}, started_at_unix=started),
    COUNTS,
    st.sampled_from([None, 1000.0, 2000.0]),
)


@given(st.lists(STATES, max_size=10))
def test_growth_is_never_negative_and_never_more_than_the_engine_says_it_counted(states: list[EngineState]) -> None:
    reader = GrowthReader()
    grown = [reader.read(state).counters.get(PREEMPTIONS, 0.0) for state in states]
    counted = [sum(state.counters.get(PREEMPTIONS, {}).values()) for state in states]

    assert [growth for growth, count in zip(grown, counted, strict=True) if not 0 <= growth <= count] == []


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20).map(sorted))
def test_without_restarts_growth_is_the_difference_of_the_ends(counts: list[int]) -> None:
    reader = GrowthReader()
    total = sum(reader.read(state_of(count)).counters[PREEMPTIONS] for count in counts)

    assert counts[-1] - counts[0] == total
