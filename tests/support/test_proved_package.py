"""A run of the tests is refused unless it imported the package that it is about."""

from pathlib import Path

import pytest

from tests.support.proved_package import wrong_package


@pytest.mark.parametrize(
    ("has_sources", "imported", "is_compiled", "said"),
    [
        (True, "tree/sidecar", False, None),
        (True, "venv/lib/sidecar", True, "about .*tree/sidecar, and .*venv/lib/sidecar was imported"),
        (False, "venv/lib/sidecar", True, None),
        (False, "venv/lib/sidecar", False, "about a compiled wheel, and .* runs in pure Python"),
        (False, "elsewhere/sidecar", True, "about the wheel in .*venv, and .*elsewhere/sidecar was imported"),
    ],
)
def test_the_sources_are_proved_beside_them_and_elsewhere_the_compiled_wheel(
    *, has_sources: bool, imported: str, is_compiled: bool, said: str | None, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    (tree / "sidecar" if has_sources else tree).mkdir(parents=True)

    wrong = wrong_package(tree, tmp_path / imported, is_compiled=is_compiled, prefix=str(tmp_path / "venv"))

    if said is None:
        assert wrong is None
    else:
        with pytest.raises(AssertionError, match=said):
            raise AssertionError(wrong)
