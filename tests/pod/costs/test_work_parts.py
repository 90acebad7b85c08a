"""Whether decodes or prompts are most of an engine's work is known by their usual seconds, and old work is forgotten."""

import pytest

from sidecar.pod.costs.work_parts import FADES_SECONDS, WorkParts


def test_an_engine_without_work_has_no_parts() -> None:
    assert WorkParts().decode_share() is None


def test_the_share_of_decodes_is_theirs_of_all_seconds() -> None:
    parts = WorkParts()
    parts.add(100.0, 0.01, 0.0)
    parts.add(100.1, 0.01, 0.06)

    assert parts.decode_share() == pytest.approx(0.25)


def test_work_of_long_ago_hardly_counts() -> None:
    parts = WorkParts()
    parts.add(100.0, 1.0, 0.0)
    parts.add(100.0 + 5 * FADES_SECONDS, 0.0, 1.0)

    share = parts.decode_share()

    assert share is not None
    assert share < 0.01


def test_the_work_of_another_process_is_forgotten() -> None:
    parts = WorkParts()
    parts.add(100.0, 1.0, 0.0)
    parts.forget()
    parts.add(100.1, 0.0, 1.0)

    assert parts.decode_share() == 0.0
