"""`make engines-news` says which strings of ours stand no longer in a copy of an engine's source."""

from pathlib import Path

import pytest

from sidecar.engines.kinds import KINDS
from tools.engines_news import main, strings_of


def copy_of(folder: Path, kind: str, *left_out: str) -> Path:
    """A copy of a source that has each string of this kind but those."""
    source = folder / "serve" / "server.py"
    source.parent.mkdir(parents=True)
    words = [word for word in strings_of(KINDS[kind]) if word not in left_out]
    source.write_text("".join(f'X = "{word}"\n' for word in words))
    return folder


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
