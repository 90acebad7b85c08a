"""`make engines-news` says which strings of ours stand no longer in a copy of an engine's source."""

from pathlib import Path

import pytest

from sidecar.engines.kinds import KINDS
from tools.engines_news import forms, gone_from, main, strings_of


def copy_of(folder: Path, kind: str, *left_out: str) -> Path:
    """A copy of a source that has each string of this kind but those."""
    source = folder / "serve" / "server.py"
    source.parent.mkdir(parents=True)
    words = [word for word in strings_of(KINDS[kind]) if word not in left_out]
    source.write_text("".join(f'X = "{word}"\n' for word in words))
    return folder


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("vllm", {"--enable-per-request-metrics", "queue_time_ms", "gen_ai.latency.time_in_queue", "vllm:num_requests_waiting"}),
        ("tensorrt_llm", {"X-TRTLLM-return-metrics", "trtllm.perf_metrics", "/perf_metrics", "perf_metrics_output_dir", "arrival_time"}),
        ("tgi", {"x-queue-time", "validation_time", "--otlp-endpoint"}),
        ("llama_cpp", {"prompt_ms", "llamacpp:requests_deferred", "LLAMA_ARG_PORT"}),
    ],
)  # fmt: skip
def test_the_strings_of_a_kind_are_those_that_its_file_is_built_on(kind: str, words: set[str]) -> None:
    """Fields that are decoded, names of spans, metrics, headers and pages, and flags."""
    assert words - strings_of(KINDS[kind]).keys() == set()


def test_no_word_of_ours_is_among_them() -> None:
    """Advice, notes, names of our own keys and of our dialects stand in no engine."""
    found = {word for kind in KINDS.values() for word in strings_of(kind)}

    assert {word for word in found if " " in word or word.startswith(("engine.", "openai_")) or word in KINDS} == set()
    assert {"server_timing", "python3", "poll_perf_metrics", "perf_metrics_dir"} & found == set()


def test_a_page_that_was_removed_is_news(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TensorRT-LLM removed it in July 2026. The fixtures followed the old source, so that every test passed."""
    copy = copy_of(tmp_path / "today", "tensorrt_llm", "/perf_metrics")

    assert main([f"tensorrt_llm={copy}"]) == 1

    told = capsys.readouterr().out.splitlines()
    line = strings_of(KINDS["tensorrt_llm"])["/perf_metrics"]
    assert told[0].startswith(
        f"TensorRT-LLM: 1 of {len(strings_of(KINDS['tensorrt_llm']))} strings stand in none of 1 files"
    )
    assert told[1] == f"  /perf_metrics  (sidecar/engines/tensorrt_llm.py:{line})"
    assert any("openai_server.py at 00057725" in each for each in told)


def test_a_source_that_has_all_of_them_is_no_news(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = [f"{kind}={copy_of(tmp_path / kind, kind)}" for kind in KINDS]

    assert main(copies) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if ": 0 of " not in line] == []


def test_documents_and_tests_of_the_engine_do_not_count(tmp_path: Path) -> None:
    """They tell of what was."""
    copy = copy_of(tmp_path, "tgi", "x-queue-time")
    for name in ("docs/api.py", "tests/test_api.rs", "CHANGELOG.md", "vendor.js.map"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x-queue-time")

    assert set(gone_from(copy, KINDS["tgi"])[0]) == {"x-queue-time"}


@pytest.mark.parametrize(
    ("word", "prefix", "written"),
    [
        ("--max-num-seqs", "vllm:", "max_num_seqs: int = 256"),
        ("--max-num-seqs", "vllm:", 'add_argument("--max-num-seqs")'),
        ("vllm:prefix_cache_hits_total", "vllm:", 'name="vllm:prefix_cache_hits"'),
        ("trtllm_num_requests_waiting", "trtllm_", 'prefix + "num_requests_waiting"'),
        ("trtllm_request_queue_time_seconds_sum", "trtllm_", '"request_queue_time_seconds"'),
        ("server-timing", "", 'SERVER_TIMING_HEADER = "Server-Timing"'),
    ],
)
def test_a_string_stands_in_the_forms_in_which_engines_write_it(word: str, prefix: str, written: str) -> None:
    assert any(form in written for form in forms(word, prefix))


def test_all_that_is_wrong_with_the_arguments_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("x")

    assert main(["vllm", "vlm=/", f"tgi={tmp_path / 'gone'}", f"ollama={tmp_path}"]) == 2

    told = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2][:20] for line in told] == [
        "must be KIND=FOLDER,",
        "no such kind; allowe",
        "no such folder",
        "no source in it; its",
    ]
