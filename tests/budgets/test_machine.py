"""The kernel's statements about memory and files are read as they stand in containers of both kinds of control groups."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.budgets.machine import memory_bytes, out_of_files, raise_files, this_machine
from tests.support.files import no_file_left


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


def test_files_that_ran_out_are_noticed() -> None:
    """The limit of this process is really lowered to the files that it has open."""
    assert not out_of_files()
    with no_file_left():
        assert out_of_files()
    assert not out_of_files()


def test_a_closed_standard_input_is_no_lack_of_files() -> None:
    """A supervisor may start the process without one."""
    said = "from sidecar.budgets.machine import out_of_files; print(out_of_files())"
    closed = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, said], capture_output=True, text=True, check=True
    )

    assert closed.stdout == "False\n"


@pytest.mark.parametrize(
    ("number", "out"), [(errno.EMFILE, True), (errno.ENFILE, True), (errno.EBADF, False), (errno.EACCES, False)]
)
def test_only_two_errors_tell_of_a_lack_of_files(monkeypatch: pytest.MonkeyPatch, number: int, out: bool) -> None:
    """The process has none left, or the machine has none."""

    def fails(*_arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fails)
        found = out_of_files()

    assert found is out


def test_this_process_has_a_share_of_this_machine() -> None:
    share = this_machine()

    assert 0 < share.memory_bytes <= WHOLE
    assert share.files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
