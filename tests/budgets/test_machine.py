"""The kernel's statements about memory and files are read as they stand in containers of both kinds of control groups."""

import os
import resource
from pathlib import Path

import pytest

from sidecar.budgets.machine import memory_bytes, out_of_files, raise_files, this_machine


WHOLE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def kernel(root: Path, cgroup: str, **files: str) -> Path:
    """A root with `/proc/self/cgroup` and files below `/sys/fs/cgroup`; a double underscore stands for a slash."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_max", ".max").replace("_limit", ".limit")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "found"),
    [
        pytest.param("0::/\n", {"memory_max": f"{64 * MIB}\n"}, 64 * MIB, id="version 2, in a namespace of its own"),
        pytest.param(
            "0::/a/b\n", {"a__b__memory_max": "max\n", "a__memory_max": f"{32 * MIB}\n"}, 32 * MIB, id="above"
        ),
        pytest.param("0::/../../x\n", {"memory_max": f"{16 * MIB}\n"}, 16 * MIB, id="named from outside"),
        pytest.param("4:cpu,memory:/x\n", {"memory__memory_limit_in_bytes": f"{8 * MIB}\n"}, 8 * MIB, id="version 1"),
        pytest.param("4:memory:/\n", {"memory__memory_limit_in_bytes": f"{2**63 - 4096}\n"}, WHOLE, id="1, no limit"),
        pytest.param("0::/\n", {"memory_max": "max\n"}, WHOLE, id="2, no limit"),
    ],
)
def test_the_lowest_limit_on_the_way_up_holds(tmp_path: Path, cgroup: str, files: dict[str, str], found: int) -> None:
    """A group without a limit has that of the group above, at last that of the machine."""
    assert memory_bytes(kernel(tmp_path, cgroup, **files)) == found


def test_without_a_control_group_the_machine_is_the_limit(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path) == WHOLE


def test_the_soft_limit_of_files_rises_to_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hard limit that says nothing is taken for the kernel's own default."""
    limits = [(1024, resource.RLIM_INFINITY)]
    monkeypatch.setattr(resource, "getrlimit", lambda _which: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _which, new: limits.append(new))

    assert raise_files() == 1 << 20
    assert limits[-1] == (1 << 20, resource.RLIM_INFINITY)


def test_a_soft_limit_that_cannot_rise_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_which: int, _new: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", refused)

    assert raise_files() == 256


def test_files_that_ran_out_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int) -> int:
        raise OSError(24, "Too many open files")

    assert not out_of_files()
    monkeypatch.setattr(os, "dup", full)
    assert out_of_files()


def test_this_process_has_a_share_of_this_machine() -> None:
    share = this_machine()

    assert 0 < share.memory_bytes <= WHOLE
    assert share.files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
