"""Settings of the C heap, so that memory goes back to the system after a burst.

glibc keeps freed memory below the last block in use, and what it then takes for large it learns from the program: up to 32 MiB.
Here blocks of MAPPED_FROM_BYTES and more, for which no freed place is large enough, are mapped one by one. What smaller ones leave
behind each other is given back after a burst (`trim`). A block that is mapped alone costs a fault of the processor for each 4 KiB: with
64 KiB as the limit, as it was, requests with prompts of 600 B to 2 MB took a fifth more processor time. Knows glibc's `mallopt` (mallopt(3)); elsewhere it does nothing. It refuses to
know who allocates.
"""

import ctypes
from contextlib import suppress


_M_MMAP_THRESHOLD = -3
_M_TRIM_THRESHOLD = -1
MAPPED_FROM_BYTES = 1 << 20
"""Blocks of this size and more are mapped alone, and then go back when they are freed."""


def give_back_large_blocks() -> bool:
    """Have large blocks mapped one by one; returns False where the C library is not glibc."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        mapped = libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
        trimmed = libc.mallopt(_M_TRIM_THRESHOLD, 2 * MAPPED_FROM_BYTES)
        return bool(mapped and trimmed)
    return False


def trim() -> bool:
    """Give free pages within the heap back; returns whether there were any.

    Takes about a millisecond per 10 MiB that go back: 1 to 7 ms after most bursts, 131 ms once after one of 350 MiB. A thread
    is no way out, although Python's lock is free meanwhile: glibc holds the heap's own lock, and the loop waits for it at its
    next block (350 MiB: 37 ms late without a thread, 38 to 56 ms with one; all measured by hand on one machine). So the caller
    picks the instant (`burst.py`).
    """
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL("libc.so.6").malloc_trim(0))
    return False
