"""`sidecar check` explains a good config: what listens, which source set what, lanes, objectives, series; eighty columns suffice."""

from pathlib import Path

import pytest

from sidecar.config.explain import explained
from sidecar.config.file import load
from sidecar.config.schema import MetricsConfig
from sidecar.config.series_count import series_in_use
from tests.support.configs import URL, few


GOOD = """\
engine: {url: "http://127.0.0.1:8000", models: [llama-70b]}
lanes:
  header: X-Lane
  api_keys: {nightly: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
  rules:
    - {lane: batch, api_keys: nightly, streaming: false}
    - {lane: code, headers: {x-team: [dev, tools*], authorization: Bearer CANARY}, max_tokens_at_least: 3}
objectives:
  batch:
    ttft: none
    prompt_buckets: {4k-16k: {e2e: {threshold_seconds: 400, target: 0.95}}, 64k+: {e2e: none}}
  code: {preset: none, prompt_buckets: {0-512: {ttft: {threshold_seconds: 2, target: 0.99}}}}
"""
SET = """\
Keys that are set, and by which source (a flag wins, then the environment, then
the file); all others have their default:
  engine.url: http://127.0.0.1:8000 (c.yml:1)
  engine.models: ["llama-70b"] (c.yml:1)
  proxy.via: on ($SIDECAR__PROXY__VIA)
  lanes.header: x-lane (c.yml:3)
  lanes.rules: a list of 2 (c.yml:5)
  lanes.api_keys: {"nightly": "***"} (c.yml:4)
  objectives.batch: a mapping of 2 (c.yml:9)
  objectives.batch.ttft: none ($SIDECAR__OBJECTIVES__BATCH__TTFT, over c.yml:10)
  objectives.code: a mapping of 2 (c.yml:12)
  log.level: info (--log.level, over $SIDECAR__LOG__LEVEL)
"""
WAYS = """\
A request's lane is the first that applies:
  the header x-lane, if it names a lane; with any other value: other
  batch      if streaming false and api_keys is nightly
  code       if header x-team is dev or tools* and header authorization is ***
             and max_tokens_at_least 3
  default    otherwise
"""
OBJECTIVES = """\
Objectives of each lane: seconds by prompt length, to be met by the target share
of its requests:
  batch (preset batch)
    objective  target  0-512  512-4k  4k-16k      16k-64k  64k+  unknown
    tpot       0.9     0.2    0.2     0.2         0.2      0.2   0.2
    e2e        0.9     300    300     400 (0.95)  400      -     300
  code (preset none)
    objective  target  0-512  512-4k  4k-16k  16k-64k  64k+  unknown
    ttft       0.99    2      -       -       -        -     -
  default (preset interactive)
    objective  target  0-512  512-4k  4k-16k  16k-64k  64k+  unknown
    ttft       0.95    1.5    1.5     6       24       48    1.5
    tpot       0.95    0.08   0.08    0.08    0.08     0.08  0.08
    e2e        0.95    30     30      35      53       77    30
    stall      0.99    2      2       2       2        2     2
  other      no objective, so it never pages
  The presets' tpot is that for 70 billion parameters, from the name llama-70b;
  docs/configuration.md has the sources of these values: reading speed, and
  limits of MLPerf.
"""


def test_a_good_config_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key that is set has its source and what that outranked; a secret is masked."""
    monkeypatch.chdir(tmp_path)
    Path("c.yml").write_text(GOOD)
    environment = {
        "SIDECAR__LOG__LEVEL": "debug",
        "SIDECAR__PROXY__VIA": "on",
        "SIDECAR__OBJECTIVES__BATCH__TTFT": "none",
    }
    said = explained(load("c.yml", {"log.level": "info"}, environment, series_in_use=few))

    parts = said.split("\n\n")
    assert parts[0] == "The config is valid."
    assert parts[1].splitlines() == [
        "engine     http://127.0.0.1:8000 (kind auto)",
        "traffic    :8900",
        "admin      :9901",
        "lanes      batch, code, default, other (default: default)",
        "buckets    0-512, 512-4k, 4k-16k, 16k-64k, 64k+, unknown (prompt tokens)",
        "labels     quantization=unknown, gpu_type=unknown",
    ]
    assert [f"{part}\n" for part in parts[2:5]] == [SET, WAYS, OBJECTIVES]
    assert " ".join(parts[5].split()).endswith(
        f" (limit {MetricsConfig().series_limit}) counted with 1 model; docs/metrics.md has the formula"
    )


@pytest.mark.parametrize(
    ("edges", "columns", "shown"),
    [
        ([512], 80, ["  lane  preset       objective  target  0-512  512+  unknown"]),
        ([512], 52, ["  chat (preset interactive)", "    objective  target  0-512  512+  unknown"]),
        (
            [10**n for n in range(1, 10)],
            80,
            ["  chat (preset interactive)", "    ttft       target 0.95: 0-10 1.5, 10-100 1.5,"],
        ),
    ],
    ids=["one table", "one of each lane", "sentences"],
)
def test_objectives_fit_the_terminal_whatever_their_number(
    edges: list[int], columns: int, shown: list[str], tmp_path: Path
) -> None:
    """One table where there is room; else one of each lane; else sentences."""
    file = tmp_path / "c.yml"
    file.write_text(f"engine: {{url: '{URL}'}}\nlanes: {{default: chat}}\nprompt_buckets: {{edges: {edges}}}\n")
    lines = explained(load(str(file), series_in_use=few), columns).splitlines()
    begins = next(at for at, line in enumerate(lines) if line.endswith("of its requests:") or line == "requests:") + 1
    found = lines[begins : begins + len(shown)]

    assert [line[: len(text)] for line, text in zip(found, shown, strict=True)] == shown
    assert [line for line in lines if len(line) > columns and str(file) not in line] == []


@pytest.mark.parametrize("profile", ["full", "lean"])
def test_a_lean_page_is_counted_beside_what_the_process_holds(tmp_path: Path, profile: str) -> None:
    file = tmp_path / "c.yml"
    file.write_text(f"engine: {{url: '{URL}'}}\nmetrics: {{profile: {profile}}}\n")
    config = load(str(file))
    said = explained(config)

    shown = f"metrics.profile: lean shows about {series_in_use(config, 'lean')} of them, and process_*"
    assert (shown in said) == (profile == "lean")
