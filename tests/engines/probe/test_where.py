"""The address of an engine, on TCP or on a Unix socket, and the reason why a Unix socket cannot be reached."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.config.values import Address, parse_engine
from sidecar.engines.probe.unreached import unix_fault
from sidecar.engines.probe.where import LONGEST_PATH_BYTES, http_url, unix_path


NOT_ROOT = 65534
"""The user without rights, on Linux."""


@pytest.mark.parametrize(
    ("url", "path", "asked_under", "address"),
    [
        ("http://engine:8000/", "", "http://engine:8000", Address("engine", 8000)),
        ("unix:/run/engine.sock", "/run/engine.sock", "http://localhost", Address("localhost", 80)),
    ],
)
def test_an_engine_listens_on_tcp_or_on_a_unix_socket(url: str, path: str, asked_under: str, address: Address) -> None:
    """Over a Unix socket it is called localhost, because a request needs a Host and a path is none."""
    assert (unix_path(url), http_url(url), parse_engine(url)) == (path, asked_under, address)


@pytest.mark.parametrize(
    "url", ["unix:", "unix:engine.sock", "unix://run/engine.sock", "unix:/run/\0", "unix:/" + "x" * LONGEST_PATH_BYTES]
)
def test_a_path_that_no_socket_can_have_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"unix:|107 bytes"):
        parse_engine(url)


def test_the_reason_is_told_in_words(tmp_path: Path) -> None:
    """No file, no socket, or a socket: what is to be done differs."""
    nothing, file, path = tmp_path / "nothing.sock", tmp_path / "file.sock", tmp_path / "engine.sock"
    file.touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        faults = [unix_fault(str(one)) for one in (nothing, file, path)]

    assert [fault and fault.partition(" ")[0] for fault in faults] == ["there", str(file), None]


@contextmanager
def without_root() -> Iterator[None]:
    """Within it this process has no rights of root."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOT_ROOT, NOT_ROOT, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_socket_that_this_user_may_not_write_to_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is relative, because the folders above belong to the user who runs the tests. Root may write to every socket."""
    path = tmp_path / "engine.sock"
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o400)
        with without_root():
            fault = unix_fault(path.name)

    assert "may not write" in (fault or "")
