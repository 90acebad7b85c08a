"""The place where proofs run on the wheel: the tree without its package, kept equal, and a Python that imports nothing else."""

import subprocess
from pathlib import Path

import pytest

from tools import on_the_wheel
from tools.on_the_wheel import copy_tree
from tools.only_compiled import OnlyCompiled


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package, a test, an ignored folder and an empty place."""
    for name in ("sidecar/app.py", "tests/test_app.py", "bench/old.py", ".cache/big"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    (tmp_path / ".gitignore").write_text("/.cache/\n")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    place = tmp_path / ".cache" / "on-the-wheel"
    (place / "venv").mkdir(parents=True)
    (place / "venv" / "kept").touch()
    monkeypatch.setattr(on_the_wheel, "CHECKOUT", tmp_path)
    monkeypatch.setattr(on_the_wheel, "PLACE", place)
    return tmp_path


def files_of(place: Path) -> dict[str, str]:
    """Path to text of each file of the place, without what the link to .cache shows."""
    return {
        str(path.relative_to(place)): path.read_text()
        for entry in place.iterdir()
        if not entry.is_symlink()
        for path in [entry, *entry.rglob("*")]
        if path.is_file()
    }


def test_the_place_holds_the_tree_without_its_package_and_follows_it(tree: Path) -> None:
    place = tree / ".cache" / "on-the-wheel"
    copy_tree()
    first = files_of(place)
    (tree / "bench/old.py").unlink()
    (tree / "tests/test_app.py").write_text("2\n")
    (place / "sidecar").mkdir()
    (place / "sidecar/app.py").write_text("1\n")
    copy_tree()

    kept = {".gitignore": "/.cache/\n", "venv/kept": ""}
    assert first == kept | {"tests/test_app.py": "1\n", "bench/old.py": "1\n"}
    assert files_of(place) == kept | {"tests/test_app.py": "2\n"}
    assert (place / ".cache/big").read_text() == "1\n"
    assert not (place / "sidecar").exists()


def test_a_python_of_the_place_imports_a_compiled_sidecar_and_no_other(tmp_path: Path) -> None:
    """As it does in each child process: where a test was started decides what Python finds first."""
    package = tmp_path / "sidecar"
    package.mkdir()
    (package / "__init__.py").touch()

    with pytest.raises(ImportError, match=r"proves the compiled wheel, and .*sidecar/__init__.py is pure Python"):
        OnlyCompiled.find_spec("sidecar", [str(tmp_path)])
    (package / "compiled__mypyc.cpython-311-x86_64-linux-gnu.so").touch()
    found = OnlyCompiled.find_spec("sidecar", [str(tmp_path)])
    assert found is not None
    assert found.origin == str(package / "__init__.py")
    assert OnlyCompiled.find_spec("json", [str(tmp_path)]) is None
