"""Every lever that the serving literature names is a fix under the runbook of its phase, or a stated non-fix."""

import pytest

from sidecar.diagnosis.interventions import CHAPTERS, Intervention, chapters
from sidecar.diagnosis.levers import Lever, LoadLevel, QualityRisk


LEVERS = """
lever                 | a fix under                                       | a non-fix under
----------------------|---------------------------------------------------|----------------------------------------------
admission             | queue                                             |
batch_limits          | queue decode                               | prefill decode
cache_breakpoints     | prefill                                           | PrefixCacheCollapsed
chunked_prefill       | queue prefill decode                              | prefill first_token
disaggregation        | prefill decode                                    |
flash_attention       |                                                   | prefill
fp8_activations       | prefill                                           |
fp8_weights           | decode                                            |
gqa                   |                                                   | decode
kv_8_bits             | queue decode                                      |
model_cascade         | queue decode                                      |
pipeline_parallelism  | queue                                             | decode
prefix_caching        | prefill                                           | first_token decode
quantisation          | decode                                            | queue
routing               | queue prefill decode                              |
speculative_decoding  | decode                                            | queue prefill decode
tensor_parallelism    | prefill decode                                    |
"""
"""Phases in the order of a request. A ticket's runbook is named only where no phase states the same."""


def phases_that_say(lever: Lever, kind: str) -> list[str]:
    """The phases whose runbooks have this lever as a fix (`fixes`) or as a non-fix (`not_to_do`); else tickets that have it."""
    found = [name for name, one in chapters().items() if any(item.lever is lever for item in getattr(one, kind))]
    pages = [str(phase) for phase, name in CHAPTERS.items() if name in found]
    return pages or [name.removeprefix("LLM") for name in found]


def test_every_lever_is_a_fix_or_a_stated_non_fix() -> None:
    _, _, *rows = LEVERS.strip().splitlines()
    table = [[cell.strip() for cell in row.split("|")] for row in rows]
    said = [
        [lever.value, *(" ".join(phases_that_say(lever, kind)) for kind in ("fixes", "not_to_do"))] for lever in Lever
    ]

    assert table == sorted(said)
    assert [row for row in said if not row[1] and not row[2]] == []


FIXES = {fix.name: fix for one in chapters().values() for fix in one.fixes}
PULLED = [fix for fix in FIXES.values() if fix.lever is not None]


@pytest.mark.parametrize("fix", PULLED, ids=lambda fix: fix.name)
def test_a_lever_in_fewer_bits_or_of_another_model_has_its_answers_checked(fix: Intervention) -> None:
    changes_answers = {
        *(Lever.FP8_WEIGHTS, Lever.FP8_ACTIVATIONS, Lever.KV_8_BITS, Lever.QUANTISATION, Lever.MODEL_CASCADE),
    }

    assert (fix.quality_risk is QualityRisk.CHECK) == (fix.lever in changes_answers)
    assert (fix.after is not None and "check of the answers" in fix.after) == (fix.lever in changes_answers)


def test_levers_that_save_the_reading_of_weights_are_for_small_batches() -> None:
    """Speculative decoding and fewer bits of weights trade compute that a small batch has to spare."""
    low = {fix.lever for fix in PULLED if fix.load == LoadLevel.LOW}

    assert low == {Lever.SPECULATIVE_DECODING, Lever.FP8_WEIGHTS, Lever.QUANTISATION}


@pytest.mark.parametrize("key", ["conflicts", "synergies"])
def test_conflicts_and_synergies_are_mutual(key: str) -> None:
    pairs = {(fix.name, other) for fix in FIXES.values() for other in getattr(fix, key)}

    assert len(pairs) > 10
    assert {(other, name) for name, other in pairs} == pairs


def test_no_fix_is_good_with_what_it_excludes() -> None:
    assert [fix.name for fix in FIXES.values() if {*fix.conflicts} & {*fix.synergies}] == []
