"""Contradictions between keys are found among the valid values, even if other keys are wrong."""

from pathlib import Path

import pytest

from sidecar.config.file import ConfigErrors, load
from sidecar.config.objectives import objectives_of
from tests.support.configs import URL, errors_of, errors_with


def test_one_error_never_hides_another(tmp_path: Path) -> None:
    """A contradiction between valid values is reported together with errors in other keys."""
    text = f"""\
engine: {{url: {URL}, knd: vllm}}
shutdown: {{lame_duck_seconds: 30}}
lanes:
  rules:
    - {{lane: a b, api_keys: [nightly]}}
    - {{lane: c}}
    - {{lane: d, streaming: true}}
    - {{lane: e, streaming: true, models: x}}
"""
    assert [error.split(": ")[0] for error in errors_of(tmp_path, text)] == [
        "engine.knd",
        "shutdown.lame_duck_seconds",
        "lanes.rules[0].lane",
        "lanes.rules[0].api_keys[0]",
        "lanes.rules[1]",
        "lanes.rules[3]",
    ]


def test_a_rule_without_a_condition_is_refused_with_its_place(tmp_path: Path) -> None:
    """It took all traffic, and every rule behind it was blamed. A condition that is null is none."""
    file = tmp_path / "c.yml"
    file.write_text(
        f"engine: {{url: {URL}}}\nlanes:\n  rules:\n    - {{lane: a}}\n    - {{lane: b, models: null}}\n    - {{lane: c, models: x}}\n"
    )

    with pytest.raises(ConfigErrors) as caught:
        load(str(file))

    words = "has no condition, so that it would take every request: lanes.default names the lane of the rest"
    assert caught.value.lines == (f"{file}:4:7: lanes.rules[0]: {words}", f"{file}:5:7: lanes.rules[1]: {words}")


def test_a_mistake_in_one_objective_does_not_hide_a_contradiction_in_another(tmp_path: Path) -> None:
    """Valid objectives are checked for contradictions even beside an invalid one."""
    said = "  interactive:\n    ttft: {threshold_seconds: 0}\n    prompt_buckets: {512-4k: {tpot: {threshold_seconds: 0.01}}}\n"

    assert errors_with(tmp_path, said) == [
        "objectives.interactive.ttft.threshold_seconds: must be a number above 0 and at most 3600, or with a unit: 500ms, 2s, 5m, 1h or 1m30s; it is 0",
        "objectives.interactive.prompt_buckets.512-4k.tpot.threshold_seconds: is below the 0.08 of 0-512: longer prompts cannot have less time",
    ]


def test_edges_that_are_wrong_blame_no_bucket(tmp_path: Path) -> None:
    """While the edges are wrong, the names of the buckets are not known."""
    said = "  interactive: {prompt_buckets: {0-7: {ttft: {threshold_seconds: 1}}}}\n"
    (only,) = errors_with(tmp_path, said, "prompt_buckets: {edges: [7, 5]}")

    assert only.startswith("prompt_buckets.edges: ")


def test_rules_that_are_wrong_blame_no_lane(tmp_path: Path) -> None:
    """Objectives may mean a lane that only a wrong rule would declare."""
    text = f'engine: {{url: "{URL}"}}\nlanes: {{rules: [{{lane: a b}}]}}\nobjectives: {{ab: {{preset: batch}}}}\n'

    assert [error.split(": ")[0] for error in errors_of(tmp_path, text)] == ["lanes.rules[0].lane"]


def test_the_engines_key_is_stated_once_and_never_shown(tmp_path: Path) -> None:
    key = "sk-secret"
    both = errors_of(tmp_path, f"engine: {{url: {URL}, api_key: {key}, api_key_file: /run/key}}\n")
    wrong = errors_of(tmp_path, f"engine: {{url: {URL}, api_key: '{key} and more'}}\n")

    assert both == ["engine.api_key: is set beside engine.api_key_file: which of the two is the engine's key?"]
    assert [error.split(": ")[:2] for error in wrong] == [["engine.api_key", "is not a key that a header can carry"]]
    assert key not in "".join((*both, *wrong))


def test_a_lean_page_has_no_histogram_to_be_native(tmp_path: Path) -> None:
    said = errors_of(
        tmp_path, f"engine: {{url: {URL}}}\nmetrics: {{profile: lean}}\nweb: {{native_histograms: only}}\n"
    )

    assert said == [
        "web.native_histograms: is only, and metrics.profile: lean shows no histogram: take one of them away"
    ]


def test_a_share_of_untraced_requests_needs_a_collector(tmp_path: Path) -> None:
    """Told beside a mistake in another key of the section; with a wrong collector, only the collector is told."""
    without = errors_of(tmp_path, f"engine: {{url: {URL}}}\nspans: {{receive: 1, export_untraced_ratio: 0.5}}\n")
    wrong = errors_of(tmp_path, f"engine: {{url: {URL}}}\nspans: {{export_url: c, export_untraced_ratio: 0.5}}\n")
    none = errors_of(tmp_path, f"engine: {{url: {URL}, knd: x}}\nspans: {{export_untraced_ratio: 0}}\n")

    assert [error.split(": ")[0] for error in (*without, *wrong, *none)] == [
        "spans.receive",
        "spans.export_untraced_ratio",
        "spans.export_url",
        "engine.knd",
    ]
    assert "has no use without spans.export_url: no span would be sent" in without[1]


def test_all_that_acts_on_traffic_is_refused_at_once_where_none_passes(tmp_path: Path) -> None:
    """With --no-proxy each key that could only act on traffic is an error at its place, whatever its value and whichever source set it."""
    file = tmp_path / "sidecar.yml"
    file.write_text(f"""\
engine: {{url: {URL}, kind: ollama, pool_idle_seconds: 1}}
proxy: {{max_in_flight: 1024, via: maybe}}
lanes:
  header: x-lane
  rules:
    - {{lane: docs, headers: {{x-a: b}}, models: [m]}}
objectives: {{docs: {{preset: batch, stall: {{threshold_seconds: 2, target: 0.9}}}}}}
log: {{headers: [x-team]}}
spans: {{receive: false}}
""")
    with pytest.raises(ConfigErrors) as caught:
        load(str(file), {"spans.without_proxy": True}, {"SIDECAR__PROXY__LISTEN_ADDRESS": ":8900"})
    answers = "models, max_tokens_at_least, max_tokens_at_most, prompt_tokens_from, prompt_tokens_below"
    no_use = "has no use with spans.without_proxy (--no-proxy)"
    said = [line.split(": ", 2)[1:] for line in caught.value.lines]

    assert said == [
        [
            "engine.kind",
            "is ollama, whose spans do not state requests: spans.without_proxy (--no-proxy) works with sglang, vllm",
        ],
        ["engine.pool_idle_seconds", f"{no_use}: it acts on traffic"],
        ["proxy.max_in_flight", f"{no_use}: it acts on traffic"],
        ["proxy.via", 'must be one of: off, on; it is "maybe"'],
        ["proxy.via", f"{no_use}: it acts on traffic"],
        ["lanes.header", f"{no_use}: it acts on traffic"],
        ["lanes.rules[0].headers", f"never holds with spans.without_proxy (--no-proxy): a span answers {answers}"],
        ["objectives.docs.stall", f"{no_use}: no span tells it"],
        ["log.headers", f"{no_use}: it acts on traffic"],
        ["spans.receive", "is false, and with spans.without_proxy (--no-proxy) spans are all that is known"],
        ["proxy.listen_address", f"{no_use}: it acts on traffic"],
    ]
    assert caught.value.lines[-1].startswith("$SIDECAR__PROXY__LISTEN_ADDRESS: ")


def test_a_spans_attribute_names_lanes_only_where_no_traffic_passes(tmp_path: Path) -> None:
    said = errors_of(tmp_path, f"engine: {{url: {URL}}}\nlanes: {{span_attribute: lane, names: [docs]}}\n")

    assert said == [
        "lanes.span_attribute: has no use without spans.without_proxy (--no-proxy): headers name the lane of what passes",
        "lanes.names: has no use without lanes.header: no request could reach these lanes",
    ]


def test_without_a_proxy_the_defaults_of_traffic_stand_in_no_ones_way() -> None:
    """The engine may have the port on which traffic would come, and no objective is kept that no span can judge."""
    config = load(None, {"engine.url": "http://127.0.0.1:8900", "spans.without_proxy": True}, {})
    (aims, *_) = objectives_of(config).by_lane["default"].values()

    assert (aims.ttft is None, aims.tpot is None, aims.e2e, aims.stall) == (False, False, None, None)
