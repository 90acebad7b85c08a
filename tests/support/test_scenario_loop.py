"""A connection that a test leaves open is reported in that test."""

import re
import subprocess
import sys
from pathlib import Path


CHECKOUT = Path(__file__).parents[2]
LEAVING = """\
import asyncio, socket

def test_leaves_a_socket_in_a_circle():
    class Held: ...
    held = Held()
    held.itself, held.socket = held, socket.socket()

def test_leaves_nothing(): ...

def test_fails_with_a_socket_in_its_frame():
    left = socket.socket()
    assert not left

def test_leaves_nothing_either(): ...
"""


def test_a_warning_belongs_to_the_test_that_caused_it(tmp_path: Path) -> None:
    (tmp_path / "test_toy.py").write_text(LEAVING)
    command = [sys.executable, "-m", "pytest", f"--rootdir={tmp_path}", "-c", str(CHECKOUT / "pyproject.toml")]

    run = subprocess.run(
        [*command, str(tmp_path), "-p", "tests.conftest", "--tb=no", "-p", "no:cacheprovider"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    told = re.findall(r"^(ERROR|FAILED) .*::(\w+)", run.stdout, re.MULTILINE)
    assert told == [
        ("ERROR", "test_leaves_a_socket_in_a_circle"),
        ("ERROR", "test_fails_with_a_socket_in_its_frame"),
        ("FAILED", "test_fails_with_a_socket_in_its_frame"),
    ], run.stdout + run.stderr
    assert "3 passed" in run.stdout
