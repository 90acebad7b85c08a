"""How often a byte stands in a text: at most so many times, or more often. On the compiled build this is at_most.c."""

import mmap
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidecar
from sidecar.classify import at_most
from sidecar.classify.at_most import has_at_most


@pytest.mark.parametrize("most", [0, 1, 2, 255, 256, 257, 1_000])
@pytest.mark.parametrize("between", [b"", b"x" * 100])
def test_the_last_one_that_is_allowed_is_told_from_the_first_one_that_is_not(most: int, between: bytes) -> None:
    text = between.join([b"{"] * most)

    assert has_at_most(most, b"{", text)
    assert has_at_most(most, b"{", bytearray(text + between))
    assert not has_at_most(most, b"{", text + b"{")
    assert not has_at_most(most, b"{", b"{" + between + text + between)


@given(st.lists(st.sampled_from([b"{", b"x", b"{" * 17, b"x" * 15, b"{" * 4096]), max_size=40), st.integers(0, 5000))
def test_it_is_what_counting_says(parts: list[bytes], most: int) -> None:
    text = b"".join(parts)

    assert has_at_most(most, b"{", text) == (text.count(b"{") <= most)
    assert has_at_most(most, b"{", bytearray(text)) == (text.count(b"{") <= most)


@pytest.mark.compiled
def test_compiled_it_is_the_twin_in_c() -> None:
    assert sidecar.IS_COMPILED
    assert at_most.__file__.endswith(".so")


BESIDE_NOTHING = f"""
import ctypes, mmap
from sidecar.classify.at_most import has_at_most
page = {mmap.PAGESIZE}
room = mmap.mmap(-1, 2 * page)
room.write(b"{{" * page)
address = ctypes.addressof(ctypes.c_char.from_buffer(room))
assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(address + page), page, 0) == 0
for size in range(200):
    text = (ctypes.c_char * size).from_address(address + page - size)
    assert has_at_most(size, b"{{", text) and (size == 0 or not has_at_most(size - 1, b"{{", text))
print("done")
"""


@pytest.mark.compiled
def test_it_reads_no_byte_behind_the_text() -> None:
    """The page behind each text may not be read: a process that does is ended by the kernel."""
    done = subprocess.run([sys.executable, "-c", BESIDE_NOTHING], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.compiled
@pytest.mark.parametrize("arguments", [(), (1, b"a"), (1, b"ab", b""), (1, b"", b""), (1, "a", b""), ("1", b"a", b"")])
def test_arguments_of_other_types_are_an_error_and_no_crash(arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        has_at_most(*arguments)  # type: ignore[arg-type]
