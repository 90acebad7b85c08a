"""The usual values that the demo ships are for its engine, and a sidecar takes them as any pod would."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from sidecar.commands.demo.demo import CONFIG
from sidecar.commands.demo.usual import BASELINE, LEARNED_BY, usual_file, variables
from sidecar.commands.simulator.http_face import VLLM_VERSION
from sidecar.commands.simulator.replica_presets import PRESETS
from sidecar.config.file import load
from sidecar.pod.usual.baseline import Key, checked
from tests.support.slo_harness import SloHarness


KEY = Key(
    engine="vllm",
    version=VLLM_VERSION,
    models=(PRESETS[LEARNED_BY].model,),
    quantization=PRESETS[LEARNED_BY].quantization,
    gpu_type=PRESETS[LEARNED_BY].gpu_type,
)
MOST_BYTES = 32_768


def test_this_version_takes_the_file_for_the_demos_engine_and_it_was_learned_in_calm() -> None:
    """After a change of a learner's values, or of the simulated engine, `make demo-numbers` writes it anew."""
    text = BASELINE.read_bytes()
    found = checked(text, KEY, SloHarness().slo.learners)

    assert (found.burning, found.provisional, len(text) < MOST_BYTES) == (False, False, True)


def test_only_the_preset_that_it_was_learned_with_is_given_it() -> None:
    assert {name: usual_file(name) for name in PRESETS if usual_file(name)} == {LEARNED_BY: BASELINE}


@pytest.mark.parametrize("usual", [None, Path("/a folder: with #odd 'name'/baseline.json")])
def test_the_sidecars_config_is_the_demos_and_the_file_alone(usual: Path | None) -> None:
    flags = {"engine.url": "http://127.0.0.1:1"}
    mine, shipped = load(str(CONFIG), flags, variables(usual)), load(str(CONFIG), flags, {})

    assert mine.baseline.file == ("" if usual is None else str(usual))
    assert replace(mine, baseline=shipped.baseline) == shipped
