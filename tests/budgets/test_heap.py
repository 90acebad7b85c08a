"""Large blocks go back to the system: glibc takes the setting, and nothing else is asked for it."""

import ctypes

import pytest

from sidecar.budgets import heap


def test_glibc_takes_both_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """mallopt(3) returns 1 for a setting that it took."""
    asked: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, number: int, value: int) -> int:
            asked.append((number, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Library())

    assert heap.give_back_large_blocks()
    assert asked == [(-3, heap.MAPPED_FROM_BYTES), (-1, 2 * heap.MAPPED_FROM_BYTES)]


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> object:
        raise OSError("libc.so.6: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)

    assert not heap.give_back_large_blocks()
