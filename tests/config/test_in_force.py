"""The config in force is shown whole, as a config that can be read again, with the source of each value and no secret."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from sidecar.config.explain import explained
from sidecar.config.file import load
from sidecar.config.in_force import as_yaml, rows
from sidecar.config.schema import KEYS, Config, EngineConfig, SpansConfig
from tests.support.configs import URL, few


FILE = f"""\
engine: {{url: "{URL}", models: [a, "b#c"], metrics_port: 8002}}
lanes:
  header: x-lane
  names: [night, gold]
  rules:
    - {{lane: batch, streaming: false, headers: {{x-team: [dev, "tools*"]}}}}
    - {{lane: code, paths: /v1/completions}}
objectives:
  batch:
    ttft: none
    blame_shares: {{queue: 0.5, prefill: 0.25, first_token: 0.25}}
    prompt_buckets: {{4k-16k: {{e2e: {{threshold_seconds: 400}}}}, 64k+: {{e2e: none}}}}
  night: {{preset: none}}
  gold:
log: {{headers: [x-team]}}
"""
SECRETS = f"""\
engine: {{url: "{URL}", api_key: CANARY}}
lanes:
  api_keys: {{nightly: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}}
  rules:
    - {{lane: batch, headers: {{Authorization: "Bearer CANARY", x-team: dev}}}}
"""


def test_the_page_is_the_config_again(tmp_path: Path) -> None:
    """Also where objectives are off, and where a lane is listed without a value."""
    file, page = tmp_path / "c.yml", tmp_path / "page.yml"
    file.write_text(FILE)
    config = load(str(file), series_in_use=few)
    page.write_text(as_yaml(config))
    again = load(str(page), series_in_use=few)
    gold, both = config.objectives["gold"], (config, again)

    assert [replace(of, objectives={}) for of in both] == [replace(config, objectives={})] * 2
    assert dict(again.objectives) == {**config.objectives, "gold": gold}


def test_each_value_stands_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yml").write_text(FILE)
    environment = {
        "SIDECAR__LOG__LEVEL": "debug",
        "SIDECAR__OBJECTIVES__BATCH__E2E__TARGET": "0.9",
        "SIDECAR_GPU_TYPE": "H100",
    }
    lines = as_yaml(load("c.yml", {"log.level": "info"}, environment, series_in_use=few)).splitlines()
    shown = {line.split(":")[0].strip(): line.partition("  # ")[2] for line in lines if not line.startswith("#")}

    assert {key: shown[key] for key in ("url", "level", "format", "gpu_type", "batch", "night", "rules")} == {
        "url": "c.yml:1",
        "level": "--log.level",
        "format": "default",
        "gpu_type": "$SIDECAR_GPU_TYPE",
        "batch": "c.yml:9, e2e.target $SIDECAR__OBJECTIVES__BATCH__E2E__TARGET",
        "night": "c.yml:13",
        "rules": "c.yml:5",
    }


def test_secrets_are_masked(tmp_path: Path) -> None:
    """Hashes of API keys, values of headers that authenticate, and in URLs user, password and query."""
    file = tmp_path / "c.yml"
    file.write_text(SECRETS)
    config = load(str(file), series_in_use=few)
    unchecked = Config(
        engine=EngineConfig(url=URL),
        spans=SpansConfig(forward_url="https://me:CANARY@c:4318/v1/traces?token=CANARY&a=CANARY"),
    )
    page = as_yaml(config) + as_yaml(unchecked) + "".join(row.value for row in rows(config))

    assert ["CANARY" in page, "9f86d" in page] == [False, False]
    assert '{"lane": "batch", "headers": {"authorization": "***", "x-team": ["dev"]}}' in page
    assert '"https://***@c:4318/v1/traces?token=***&a=***"' in page


def test_each_text_that_is_a_secret_by_its_type_is_masked() -> None:
    """A key that comes later needs no second list."""
    secrets = [key.split(".") for key, accepted in KEYS.items() if accepted.hidden]
    for section, name in secrets:
        config = Config(engine=EngineConfig(url=URL))
        page = as_yaml(replace(config, **{section: replace(getattr(config, section), **{name: "CANARY"})}))

        assert (name, "CANARY" in page, f'{name}: "***"' in page) == (name, False, True)
    assert ["engine", "api_key"] in secrets


@pytest.mark.parametrize(
    ("header", "masked"), [("x-team-token", True), ("x-goog-api-key", True), ("x-tenant", False), ("user-agent", False)]
)
def test_a_header_that_may_authenticate_by_its_name_is_masked(header: str, masked: bool, tmp_path: Path) -> None:
    """The admin listener has no password by default, and a team may keep a shared secret in a header of its own."""
    file = tmp_path / "c.yml"
    file.write_text(f"engine: {{url: '{URL}'}}\nlanes:\n  rules: [{{lane: batch, headers: {{{header}: CANARY}}}}]\n")
    config = load(str(file), series_in_use=few)
    pages = [as_yaml(config), "".join(row.value for row in rows(config)), explained(config)]

    assert ["CANARY" not in page for page in pages] == [masked] * 3


def test_a_file_of_any_name_makes_one_comment(tmp_path: Path) -> None:
    file = tmp_path / "a\nb: c.yml"
    file.write_text(FILE)
    page = tmp_path / "page.yml"
    page.write_text(as_yaml(load(str(file), series_in_use=few)))

    assert load(str(page), series_in_use=few).engine.models == ("a", "b#c")


def test_what_is_long_is_counted_in_a_row(tmp_path: Path) -> None:
    file = tmp_path / "c.yml"
    file.write_text(f"engine: {{url: '{URL}', models: [{', '.join('m' * 20 + str(n) for n in range(9))}]}}\n")

    assert [(row.key, row.value) for row in rows(load(str(file), series_in_use=few))] == [
        ("engine.url", URL),
        ("engine.models", "a list of 9"),
    ]
